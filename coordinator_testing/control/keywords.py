"""Keyword arguments as the Structs of rules/model.py."""

from collections.abc import Collection, Mapping
from typing import Any, Literal, TypedDict, TypeVar

import msgspec
from msgspec.structs import fields

from coordinator.rules.model import Action, Extent, Match, RecordingRequest, Rule
from coordinator_testing.control.errors import ControlRefused

T = TypeVar("T")
IMPOSSIBLE = 422


class MatchKeywords(TypedDict, total=False):
    """The requests of a rule or a recording: they match every keyword. Texts are globs."""

    api: str | Collection[str]
    """Kafka's name of the API, such as Heartbeat, or several."""
    version: int | tuple[int, int]
    """A version of the API, or the first and the last."""
    group: str
    topic: str
    transactional_id: str
    member_id: str
    instance_id: str
    client_id: str
    client_host: str
    listener: str
    """HOST:PORT as advertised."""
    role: Literal["leader", "follower"]
    group_state: str | Collection[str]
    principal: str
    """Who the client is, such as User:alice."""
    where: Mapping[str, Any]
    """Conditions on fields of the request, by Kafka's names: {"MemberEpoch": {">": 3}, "Topics[].Name": "orders"}."""
    nth: int
    """Acts from the nth match on."""
    per: Literal["member", "connection", "group"]
    """Counts `nth` and `times` for each of them separately."""


class FaultKeywords(MatchKeywords, total=False):
    """A fault rule: the requests that it matches, the steps of its action, and how many times it acts."""

    error: str
    """Answers with this error, such as ILLEGAL_GENERATION; the request has no effect."""
    message: str
    """The text beside the error, where the API has one."""
    partitions: Collection[int]
    """Only these partitions get the error."""
    force: bool
    """Answers the error even if clients never get it from this API."""
    lose: Literal["request", "answer"]
    """Closes the connection before the server handles the request, or instead of the answer."""
    answer: Mapping[str, Any]
    """Fields of the response by Kafka's names, which replace what the server would have said."""
    instead: bool
    """With `answer`: the server does not handle the request, and nothing else is in the response."""
    delay_ms: int
    when: Literal["before", "after"]
    """Delays the handling of the request, or its answer."""
    hold: Literal["request", "answer"]
    """Parks the request or its answer until it is released."""
    flip_bits: int
    """Flips this many bits of the answer."""
    size: int
    """The size that the answer says it has."""
    cut_after: int
    """Closes the connection after this number of bytes of the answer."""
    bytes_per_s: int
    """The rate at which the answer leaves."""
    observe: Literal[True]
    """Only counts; the rules after it act."""
    close: Literal[True]
    """Closes the connection after the answer."""
    throttle_ms: int
    coordinator: Literal["moved", "loading", "unavailable"]
    """Every API of the group answers as if its coordinator were elsewhere, or loading."""
    times: int
    """How many times the rule acts. Default: once."""
    until: Literal["cleared"]
    for_ms: int
    """How long the rule stays active, in ms of the server's clock."""
    probability: float
    seed: int
    """Acts on a match with this probability; the same seed makes the same choices."""
    in_progress: bool
    """Acts also on the answers to requests that wait in the server already."""


def rule(scope: str | None, keywords: Mapping[str, Any]) -> Rule:
    """The rule that keywords describe. Raises ControlRefused if there can be no such rule, and TypeError."""
    parts = {part: _of(part, keywords) for part in (Match, Action, Extent)}
    _refuse_others("fault", keywords, parts.values())
    return _struct({"match": parts[Match], "action": parts[Action], "extent": parts[Extent], **_scoped(scope)}, Rule)


def recording(scope: str | None, limit: int | None, keywords: Mapping[str, Any]) -> RecordingRequest:
    """The recording that keywords describe. Raises as `rule` does."""
    match = _of(Match, keywords)
    _refuse_others("record", keywords, [match])
    limited = {} if limit is None else {"limit": limit}
    return _struct({"match": match, **limited, **_scoped(scope)}, RecordingRequest)


def _of(part: type, keywords: Mapping[str, Any]) -> dict[str, Any]:
    names = {field.name for field in fields(part)}
    return {name: value for name, value in keywords.items() if name in names and value is not None}


def _refuse_others(function: str, keywords: Mapping[str, Any], parts: Collection[Mapping[str, Any]]) -> None:
    for name, value in keywords.items():
        if value is not None and not any(name in part for part in parts):
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")


def _scoped(scope: str | None) -> dict[str, str]:
    return {} if scope is None else {"scope": scope}


def _struct(content: dict[str, Any], kind: type[T]) -> T:
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        raise ControlRefused(IMPOSSIBLE, str(error)) from None
