"""Whether a rule makes sense: the APIs that it is about, or a refusal that says what is allowed.

A rule names APIs, by name or glob, or none. Of those that it does not name one by one it is about all to which it can apply.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from coordinator.api.declaration import Api, Coordinator
from coordinator.api.payloads import has_field
from coordinator.groups.classic.states import State as ClassicState
from coordinator.groups.consumer.group import State as ConsumerState
from coordinator.groups.share.group import State as ShareState
from coordinator.groups.streams.group import State as StreamsState
from coordinator.protocol.errors import ErrorCode
from coordinator.rules import body
from coordinator.rules.elements import Named, has_partitions, named_by
from coordinator.rules.matching import names_test
from coordinator.rules.model import Match, Names, Rule
from coordinator.rules.responses import can_carry, errors_met, has_message, has_partition_errors

_GLOBS = ("api", *Named._fields, "client_id", "client_host", "listener", "principal", "group_state")
_COORDINATED = {"group", "transactional_id"}
STATES = sorted({state.value for kind in (ClassicState, ConsumerState, StreamsState, ShareState) for state in kind})
"""Kafka's names of the states of groups."""

Apis = Mapping[int, Api[Any]]


class RefusedRule(ValueError):
    """The rule is impossible; the text says why, and `allowed` what is possible."""

    def __init__(self, text: str, allowed: Iterable[str] = ()) -> None:
        super().__init__(text)
        self.text = text
        self.allowed = sorted(allowed)


class _Need(NamedTuple):
    """What an API must have so that a rule can be about it."""

    text: str
    """Completes "an API that ..."."""
    is_met: Callable[[Api[Any]], bool]
    allowed: Callable[[Api[Any]], list[str]] | None = None
    """What a single API would allow; None: which APIs meet it says more."""


def rule_apis(rule: Rule, apis: Apis) -> frozenset[str]:
    """The names of the APIs that the rule is about.

    Raises:
        RefusedRule: an unknown API, error, state or version, or a combination that no request can have
    """
    if rule.extent.in_progress and rule.action.needs_request:
        raise RefusedRule("in_progress: the API has these requests already, so only their answers can be acted on")
    chosen = _narrowed(rule.match, apis, [*_needs_of_match(rule.match), *_needs_of_action(rule)])
    for path, value in (rule.action.answer or {}).items():
        for api in chosen:
            _refuse_unless_one_fits(api, rule.match, f"{api.name}Response", path, partial(_is_value, value=value))
    return _with_values(rule.match, chosen)


def match_apis(match: Match, apis: Apis) -> frozenset[str]:
    """The names of the APIs that a recording is about. Raises RefusedRule as `rule_apis` does."""
    if match.nth is not None or match.per is not None:
        raise RefusedRule("a recording has every request that matches, so it has no nth and no per")
    return _with_values(match, _narrowed(match, apis, list(_needs_of_match(match))))


def error_code(name: str) -> ErrorCode:
    """The error of this name. Raises RefusedRule."""
    if name not in ErrorCode.__members__ or name == ErrorCode.NONE.name:
        raise RefusedRule(f"Kafka has no error {name}", (code.name for code in ErrorCode if code))
    return ErrorCode[name]


def _with_values(match: Match, chosen: list[Api[Any]]) -> frozenset[str]:
    """The names of the APIs. Raises RefusedRule: a field of a request can never be what `where` says."""
    for path, condition in (match.where or {}).items():
        for api in chosen:
            _refuse_unless_one_fits(api, match, f"{api.name}Request", path, partial(_is_condition, condition=condition))
    return frozenset(api.name for api in chosen)


def _refuse_unless_one_fits(
    api: Api[Any], match: Match, message: str, path: str, check: Callable[[body.FieldPath, int], None]
) -> None:
    """Raises RefusedRule if the check raises NoValue in every version that has the field."""
    way, reason = body.field_path(message, path), None
    for version in _versions(api, match):
        if way.is_in(version):
            try:
                check(way, version)
            except body.NoValue as error:
                reason = error
            else:
                return
    raise RefusedRule(f"{message}: {path}: {reason}")


def _is_value(way: body.FieldPath, version: int, value: Any) -> None:
    way.checked(value, version)


def _is_condition(way: body.FieldPath, version: int, condition: Any) -> None:
    kind = way.steps[-1].field.type
    is_plain = not kind.is_struct and (not kind.is_array or way.steps[-1].position is not None)
    for sign, wanted in body.compared(condition):
        if wanted is None:
            continue
        if not is_plain or kind.name in {"bytes", "records"}:
            raise body.NoValue("it can only be compared with null")
        if sign not in {"==", "!="} and type(wanted) is not int:
            raise body.NoValue(f"{wanted!r} is no number, so nothing is {sign} it")
        if kind.name == "uuid" and isinstance(wanted, str):
            continue
        way.checked(wanted, version)


def _has_path(api: Api[Any], match: Match, message: str, path: str) -> bool:
    """Whether the message has the field in some version that matches."""
    try:
        way = body.field_path(message, path)
    except body.NoField:
        return False
    return any(map(way.is_in, _versions(api, match)))


def _need_of_path(match: Match, kind: str, path: str) -> _Need:
    """`kind`: Request or Response."""

    def allowed(api: Api[Any]) -> list[str]:
        try:
            body.field_path(f"{api.name}{kind}", path)
        except body.NoField as error:
            return list(error.allowed)
        return []

    text = f"has the field {path} in its {kind.lower()}, as Kafka's definitions name it"
    return _Need(text, lambda api: _has_path(api, match, f"{api.name}{kind}", path), allowed)


def _is_coordinated(api: Api[Any], match: Match) -> bool:
    """Whether the API goes to the coordinators that the match names: of groups, of transactional ids, or both."""
    named = {field for field in _COORDINATED if getattr(match, field) is not None} or _COORDINATED
    return api.coordinator is Coordinator.FOUND or (api.coordinator is not None and api.coordinator.value in named)


def _needs_of_match(match: Match) -> Iterator[_Need]:
    if match.version is not None:
        first, last = (match.version, match.version) if isinstance(match.version, int) else match.version
        if first > last:
            raise RefusedRule(f"version: {first} is above {last}")
        text = f"has version {first}" if first == last else f"has a version from {first} to {last}"
        yield _Need(text, lambda api: bool(_versions(api, match)))
    for field in _GLOBS:
        _refuse_open_bracket(field, getattr(match, field))
    for path, condition in (match.where or {}).items():
        for _, wanted in body.compared(condition):
            _refuse_open_bracket(path, wanted if isinstance(wanted, str) else None)
        yield _need_of_path(match, "Request", path)
    for field in Named._fields:
        if getattr(match, field) is not None:
            yield _need_of_name(field)
    if match.role is not None:
        yield _Need("names a group and a member", lambda api: {"group", "member_id"} <= named_by(api))
    if match.group_state is not None:
        test = names_test(match.group_state)
        if test is None or not any(test(state) for state in STATES):
            raise RefusedRule(f"group_state: no group is ever {_listed(match.group_state)}", STATES)
        yield _need_of_name("group")
    if match.per == "member":
        yield _need_of_name("member_id")
    if match.per == "group":
        yield _Need("names a group or transactional id", lambda api: bool(_COORDINATED & named_by(api)))


def _refuse_open_bracket(field: str, names: Names | None) -> None:
    """Raises RefusedRule: fnmatch takes a "[" that nothing closes for itself, which nobody means."""
    for name in (names,) if isinstance(names, str) else names or ():
        if "[" in re.sub(r"\[!?\]?[^\]]*\]", "", name):
            raise RefusedRule(f'{field}: nothing closes a "[" of {name}; the character itself is [[]')


def _need_of_name(field: str) -> _Need:
    return _Need(f"names a {field}", lambda api: field in named_by(api))


def _needs_of_action(rule: Rule) -> Iterator[_Need]:
    action, match = rule.action, rule.match
    if action.error is not None:
        code = error_code(action.error)
        forced = "" if action.force else ", and clients meet it there (`force` overrides this)"
        yield _Need(
            f"can answer {code.name}{forced}",
            lambda api: (
                (action.force or code in errors_met(api))
                and any(can_carry(api, version, code) for version in _versions(api, match))
            ),
            lambda api: [each.name for each in errors_met(api)],
        )
    if action.message is not None:
        yield _Need(
            "answers a message beside the error",
            lambda api: any(has_message(api, version) for version in _versions(api, match)),
        )
    for path in action.answer or ():
        yield _need_of_path(match, "Response", path)
    if action.partitions is not None:
        yield _Need(
            "answers partitions one by one",
            lambda api: (
                (has_partitions(api) or api.places.patch is not None)
                and any(has_partition_errors(api, version) for version in _versions(api, match))
            ),
        )
    if action.throttle_ms is not None:
        yield _Need(
            "answers a throttle time",
            lambda api: any(has_field(api.name, version, "throttle_time_ms") for version in _versions(api, match)),
        )
    if action.coordinator is not None:
        yield _Need("goes to the coordinator of what the rule names", lambda api: _is_coordinated(api, match))


def _versions(api: Api[Any], match: Match) -> range:
    """The versions of the API that match."""
    first, last = api.versions
    if match.version is not None:
        lowest, highest = (match.version, match.version) if isinstance(match.version, int) else match.version
        first, last = max(first, lowest), min(last, highest)
    return range(first, last + 1)


def _narrowed(match: Match, apis: Apis, needs: list[_Need]) -> list[Api[Any]]:
    """The APIs that meet all needs. One that is named must; of those that a glob names, one must."""
    chosen = _chosen(match, apis)
    named = {match.api} if isinstance(match.api, str) else set(match.api or ())
    for need in needs:
        refused = [api.name for api in chosen if not need.is_met(api)]
        if named & set(refused) or len(refused) == len(chosen):
            wrong = sorted(named & set(refused)) or refused if named else ["a rule for all APIs"]
            allowed = _allowed(need, apis, wrong)
            raise RefusedRule(f"{_listed(wrong)}: it takes an API that {need.text}", allowed)
        chosen = [api for api in chosen if need.is_met(api)]
    return chosen


def _allowed(need: _Need, apis: Apis, wrong: list[str]) -> list[str]:
    """What the API that was named would allow, or the APIs that meet the need."""
    only = [api for api in apis.values() if [api.name] == wrong]
    if need.allowed is not None and only:
        return need.allowed(only[0])
    return [api.name for api in apis.values() if need.is_met(api)]


def _chosen(match: Match, apis: Apis) -> list[Api[Any]]:
    if match.api is None:
        return list(apis.values())
    for name in (match.api,) if isinstance(match.api, str) else match.api:
        test = names_test(name)
        if test is None or not any(test(api.name) for api in apis.values()):
            raise RefusedRule(f"api: there is no API {name}", (api.name for api in apis.values()))
    test = names_test(match.api)
    return [api for api in apis.values() if test is not None and test(api.name)]


def _listed(names: Names | list[str]) -> str:
    return names if isinstance(names, str) else ", ".join(names)
