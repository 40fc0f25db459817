"""Plays the stories to an earlier release of Kafka, and notes what it answers.

A request has the version of its story, or the newest that the release has if that is older; fields that this version lacks are
left out, and topics are named where it has no topic ids. The answer of the story loses the fields that this version lacks, so
only what the release answers otherwise needs to be kept. Lists are sorted, since their order is often that of a hash map. A
story is played if the release has all the APIs that it uses.
"""

import json
import re
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from typing import Any

from coordinator.protocol.releases import Release
from tests.scenarios.conversation import QUIET_S, Broker, Conversation
from tests.scenarios.notation import Made, StoryError, Word, one_line, parse
from tests.scenarios.story import Step, Story
from tests.support.wire import ANSWER_WITHIN_S, Connection, Values, covers, definition, fields_of, snake

REQUEST = re.compile(r"\w+(?: sends|:) (\w+)(?: v(-?\d+))?(?: (0x)?|$)")
BATCHED_SINCE = {"FindCoordinator": 4, "OffsetFetch": 8}
"""The first version with several keys or groups; the answers of earlier ones are shown as those of this one."""
REMADE_IN = {"AddPartitionsToTxn": 4, "DeleteTopics": 6}
"""The first version that has other fields; its requests cannot be sent in earlier ones."""
NOT_PLAYED = {
    # The administration of a cluster and the errors of Fetch: here they are those of 4.4 in every release.
    "acls_without_authorizer", "alter_configs", "alter_group_configs", "alter_replica_log_dirs", "broker_configs",
    "create_partitions", "create_topics", "delete_topics", "describe_configs", "elect_leaders", "fetch_out_of_range",
    "fetch_sessions", "list_config_resources", "partition_reassignments",
    # Here transactional batches are verified in every release.
    "txn_add_partitions", "txn_delete_records", "txn_describe_producers", "txn_produce_first_protocol",
    "txn_produce_odd_batches", "txn_produce_pipelined", "txn_produce_second_protocol",
    "txn_readers_of_committed_records",
    # A request is repeated, and each time the producer has another epoch.
    "txn_taken_over", "txn_times_out",
    # Several ids that no topic has: by name they are one.
    "commit_by_topic_id", "txn_offset_commit_checks",
}  # fmt: skip
"""Stories that are not played to earlier releases."""
WITHOUT_TASK_OFFSETS = {"acceptable_recovery_lag_legacy": 0, "task_offset_interval_ms": 0}
"""These fields of StreamsGroupHeartbeat 0, wherever there is no such thing (to 4.3)."""
ENDS = "(no answer gave what this step needs)"
"""The last answer of a story that cannot go on."""
NOTHING = "(nothing is held back)"
Answers = dict[int, str]
"""The position of a step in its story -> what the server answered."""


def is_for(story: Story, release: Release) -> bool:
    """Whether a broker of the release, with the common settings, has what the story asks for."""
    left_out = story.is_timed or story.path.stem in NOT_PLAYED
    if left_out or story.only or story.settings or story.restarts:
        return False
    requests = [match.groups() for step in story.steps if (match := REQUEST.match(step.text))]
    return all(_has(release, api, int(version or 0), body) for api, version, body in requests)


def _has(release: Release, api: str, version: int, body: str) -> bool:
    if api in ("frame", "bytes", "ApiVersions", *release.refused) or body:
        return False
    served = release.range_of(api, newest(api))
    return (
        served is not None
        and served[1] >= newest(api)[0]
        and not (version >= REMADE_IN.get(api, version + 1) > served[1])
    )


def newest(api: str) -> tuple[int, int]:
    """The versions of an API in Kafka 4.4."""
    first, _, last = definition(f"{api}Request")["validVersions"].partition("-")
    return int(first), int(last or first)


def version_in(release: Release, api: str, version: int) -> int:
    """The version in which a request of a story is sent. One that 4.4 lacks stays."""
    served = release.range_of(api, newest(api))
    assert served is not None
    return min(version, served[1]) if version <= newest(api)[1] else version


def of_version(name: str, version: int, values: Values) -> Values:
    """The fields of a message that this version has."""
    schema = definition(name)
    common = {each["name"]: each["fields"] for each in schema.get("commonStructs", [])}
    return _of_version(values, schema["fields"], common, version)


def _of_version(values: Values, fields: list[dict[str, Any]], common: Mapping[str, Any], version: int) -> Values:
    kinds = {snake(each["name"]): each for each in fields}
    found = {}
    for name, kind in kinds.items():
        if name in values and covers(kind["versions"], version):
            value, inner = values[name], fields_of(kind["type"], kind, common)
            if inner and isinstance(value, list):
                found[name] = [_of_version(each, inner, common, version) for each in value]
            else:
                found[name] = _of_version(value, inner, common, version) if inner and isinstance(value, dict) else value
    return found


@cache
def shortened(answer: str, api: str, version: int) -> str:
    """The answer of a story as this version of the API has it, in one line and with its lists sorted."""
    if not answer.startswith("{"):
        return answer
    fields = parse(answer)
    if api == "StreamsGroupHeartbeat" and version == 0:
        fields |= WITHOUT_TASK_OFFSETS
    if "groups" in fields or "coordinators" in fields:
        version = max(version, BATCHED_SINCE.get(api, 0))
    return one_line(_spelled(of_version(f"{api}Response", version, fields)))


def in_one_line(answer: str) -> str:
    """The answer of a server in the same form."""
    return one_line(_spelled(parse(answer))) if answer.startswith("{") else answer


def _spelled(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _spelled(item) for key, item in value.items()}
    if isinstance(value, list):
        return sorted(map(_spelled, value), key=one_line)
    if isinstance(value, Word | Made):
        return value.text
    return "0x" + value.hex() if isinstance(value, bytes) else json.dumps(value, ensure_ascii=False)


class EarlierConnection(Connection):
    """Sends the requests of stories in versions that the release has."""

    def __init__(self, bootstrap: str, client_id: str | None, release: Release, topics: Mapping[bytes, str]) -> None:
        super().__init__(bootstrap, client_id)
        self._release = release
        self._topics = topics
        """Topic id -> name."""
        self._alone: dict[int, str] = {}
        """Correlation id -> the group or key that a request asks for alone, and not in a list as the story does."""

    def send(self, api: str, version: int, values: Values, surplus: bytes = b"") -> None:
        given, version = version, version_in(self._release, api, version)
        if version < given:
            values = self._named(values)
        if version < BATCHED_SINCE.get(api, 0) <= given:
            (*_, asked) = values.get("groups") or values.get("coordinator_keys") or [""]
            values = values | (asked if isinstance(asked, dict) else {"key": asked})
            self._alone[self._sent + 1] = values.get("group_id", asked)
        super().send(api, version, of_version(f"{api}Request", version, values), surplus)

    def _named(self, value: Any) -> Any:
        """The same with a name for each topic that has an id alone."""
        if isinstance(value, list):
            return [self._named(each) for each in value]
        if not isinstance(value, dict):
            return value
        found = {key: self._named(item) for key, item in value.items()}
        if "topic_id" in value and not value.get("name"):
            found["name"] = found["topic"] = self._topics.get(value["topic_id"], "no topic")
        return found

    def receive(self, within_s: float = ANSWER_WITHIN_S) -> Values:
        api, _, correlation_id = self.unanswered[0]
        answer = super().receive(within_s)
        if correlation_id not in self._alone:
            return answer
        asked = self._alone.pop(correlation_id)
        if api == "OffsetFetch":
            return {"groups": [{"group_id": asked, **answer}]}
        return {"coordinators": [{"key": asked, **answer}]}


class EarlierConversation(Conversation):
    """One run of one story against a server that is the release."""

    def __init__(
        self, story: Story, broker: Broker, release: Release, expected: Answers, quiet_s: float = QUIET_S
    ) -> None:
        super().__init__(story, broker)
        self.quiet_s = quiet_s
        self._release = release
        self._expected = expected
        self._topics: dict[bytes, str] = {}

    def connect(self, client_id: str | None, _dialect: str | None = None) -> Connection:
        return EarlierConnection(self.broker.bootstrap, client_id, self._release, self._topics)

    def learn_topic(self, link: Connection, name: str) -> None:
        super().learn_topic(link, name)
        self._topics[self.symbols[f"<{name}>"]] = self.real[name]

    def play(self) -> Answers:
        """The answers to the steps of this story that are not as the story has them."""
        otherwise: Answers = {}
        with ExitStack() as stack:
            stack.callback(self.hang_up)
            self.prepare()
            for position, step in enumerate(self.story.steps):
                expected = self._expected.get(position) if step.path == self.story.path else None
                try:
                    said, as_in_story = self._play(step, expected)
                except (StoryError, KeyError):
                    return otherwise | {position: ENDS}
                if said != as_in_story and step.path == self.story.path:
                    otherwise[position] = said
        return otherwise

    def _play(self, step: Step, expected: str | None) -> tuple[str, str]:
        """The answer to a step, and that of the story; empty if there is none. `expected`: what was noted instead."""
        hearing = re.fullmatch(r"(\w+) (?:gets(, unordered)?|waits)", step.text)
        if hearing and not self.actors[hearing[1]].unanswered:
            return NOTHING, step.answer or ""
        if hearing:
            api, version, _ = self.actors[hearing[1]].unanswered[0]
        elif step.answer and (request := REQUEST.match(step.text)):
            api, version = request[1], version_in(self._release, request[1], int(request[2]))
        else:
            return self.perform(step, False) or "", step.answer or ""
        as_in_story = shortened(step.answer, api, version) if step.answer else "waits"
        wanted = as_in_story if expected is None else expected
        if hearing:
            return self.hear(hearing[1], wanted == "waits", bool(hearing[2])), as_in_story
        return self.perform(replace(step, answer=wanted), False) or "", as_in_story

    def hear(self, name: str, may_wait: bool, unordered: bool) -> str:
        said = super().hear(name, may_wait, unordered)
        return "waits" if said.startswith("(no answer") else in_one_line(said)
