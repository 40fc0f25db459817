"""Commands of the client without I/O: what they request, how they wait and retry, and which errors they raise."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import fields

from coordinator.rules.model import Action, Extent, Match
from coordinator_testing.control import (
    Control,
    ControlOff,
    ControlRefused,
    ControlUnreachable,
    NotReached,
    faults,
    keywords,
    recordings,
    steps,
)
from coordinator_testing.control.clock import ClockCommands
from coordinator_testing.control.faults import FaultCommands
from coordinator_testing.control.groups import GroupCommands
from coordinator_testing.control.recordings import RecordingCommands
from coordinator_testing.control.session import ControlCommands, base_url
from coordinator_testing.control.steps import HttpAnswer, HttpRequest, Pause

STABLE = {"group_id": "g", "state": "Stable", "reached": True}
EMPTY = STABLE | {"state": "Empty", "reached": False}
RULE = {"action": {"error": "ILLEGAL_GENERATION"}}
STATUS = {"id": "f1", "rule": RULE, "matched": 3, "acted": 2, "held": 0, "active": False}


class Script:
    """Performs commands with answers that are known beforehand, and keeps what was requested."""

    def __init__(self, *answers: tuple[int, Any] | Exception) -> None:
        self.answers = list(answers)
        self.requests: list[HttpRequest] = []
        self.pauses = 0

    def run(self, command):
        try:
            step = next(command)
            while True:
                if isinstance(step, Pause):
                    self.pauses += 1
                    step = command.send(None)
                    continue
                self.requests.append(step)
                answer = self.answers.pop(0)
                step = command.throw(answer) if isinstance(answer, Exception) else command.send(_encoded(*answer))
        except StopIteration as end:
            return end.value

    @property
    def urls(self) -> Sequence[str]:
        return [f"{each.method} {each.path}" for each in self.requests]

    def body(self, number: int = 0) -> Any:
        content = self.requests[number].body
        assert content is not None
        return json.loads(content)


def _encoded(status: int, body: Any) -> HttpAnswer:
    return HttpAnswer(status, body if isinstance(body, bytes) else json.dumps(body).encode())


class Named(Script):
    def __init__(self, *answers: Any) -> None:
        super().__init__(*answers)
        self.id = "a/b c"


class Group(Named, GroupCommands):
    """A scripted group."""


class Fault(Named, FaultCommands):
    """A scripted fault."""


class Recording(Named, RecordingCommands):
    """A scripted recording."""


class Whole(Script, ControlCommands):
    """A scripted client."""

    def __init__(self, *answers: Any, scope: str | None = "s", made_manual: bool = False) -> None:
        Script.__init__(self, *answers)
        ControlCommands.__init__(self, "localhost:1", scope)
        self.clock = ClockCommands()
        self.clock.made_manual = made_manual


# --- keywords -----------------------------------------------------------------------------------------------------------


def test_every_field_of_a_rule_has_its_keyword():
    named = {field.name for part in (Match, Action, Extent) for field in fields(part)}
    assert keywords.FaultKeywords.__annotations__.keys() | keywords.MatchKeywords.__annotations__.keys() == named
    assert keywords.MatchKeywords.__annotations__.keys() == {field.name for field in fields(Match)}


def test_keywords_become_match_action_and_extent():
    rule = {
        "api": ["Heartbeat", "OffsetCommit"],
        "group": "g*",
        "version": (3, 4),
        "delay_ms": 10,
        "when": "after",
        "times": 2,
    }
    script = Script((201, STATUS))
    assert script.run(faults.add("mine", rule)).id == "f1"
    assert script.body() == {
        "match": {"api": ["Heartbeat", "OffsetCommit"], "group": "g*", "version": [3, 4]},
        "action": {"delay_ms": 10, "when": "after"},
        "extent": {"times": 2},
        "scope": "mine",
    }
    assert script.urls == ["POST /v1/faults"]
    assert script.requests[0].options(steps.ANSWERED_WITHIN_S)["headers"] == {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({"api": "Heartbeat"}, "at least one of"),
        ({"error": "X", "lose": "answer"}, "cannot be combined"),
        ({"error": "X", "when": "after"}, "when belongs to delay_ms"),
        ({"delay_ms": -1}, "action.delay_ms"),
        ({"lose": "both"}, "action.lose"),
        ({"close": True, "nth": 0}, "match.nth"),
        ({"close": True, "until": "tomorrow"}, "extent.until"),
    ],
)
def test_a_rule_that_cannot_be_is_refused_before_it_is_sent(rule, words):
    with pytest.raises(ControlRefused, match=words.replace(".", r"\.")) as refused:
        keywords.rule("s", rule)
    assert refused.value.status == 422


def test_an_unknown_keyword_is_a_type_error():
    with pytest.raises(TypeError, match=r"fault\(\) got an unexpected keyword argument 'grup'"):
        keywords.rule("s", {"grup": "g", "close": True})
    with pytest.raises(TypeError, match=r"record\(\) got an unexpected keyword argument 'error'"):
        keywords.recording("s", None, {"error": "X"})


# --- errors -------------------------------------------------------------------------------------------------------------


def test_a_refusal_has_status_text_and_what_is_allowed():
    group = Group((409, {"detail": "the group has no members", "allowed": ["a", "b"]}))
    with pytest.raises(ControlRefused) as refused:
        group.rebalance("why")
    assert (refused.value.status, refused.value.text, refused.value.allowed) == (
        409,
        "the group has no members",
        ("a", "b"),
    )
    assert str(refused.value) == "the group has no members (allowed: a, b)"


def test_the_refusal_of_an_older_server_has_its_text_in_another_field():
    with pytest.raises(ControlRefused, match="no such group"):
        Group((404, {"error": "no such group"})).describe()


def test_a_server_whose_control_is_off_says_which_setting_turns_it_on():
    with pytest.raises(ControlOff, match=r"admin\.control\.enable"):
        Group((403, {"detail": "set admin.control.enable=true"})).bump_epoch()


@pytest.mark.parametrize(
    "answer", [(404, b"<html>"), (200, b"<html>"), (502, b""), (200, b"[]"), (404, b"{}"), (500, b"\xff")]
)
def test_something_else_at_the_address_is_not_taken_for_the_server(answer):
    with pytest.raises(ControlUnreachable, match="this server"):
        Group(answer).describe()


@pytest.mark.parametrize(
    "address", ["", "http://", "ftp://x:1", "http://x:1/path", "x:1/path", "nowhere", "x:y", "x:99999"]
)
def test_an_address_that_is_none_is_refused(address):
    with pytest.raises(ValueError, match="must be http://HOST:PORT or HOST:PORT"):
        base_url(address)


def test_an_address_may_leave_out_the_scheme():
    assert base_url("localhost:9644") == base_url("http://localhost:9644/") == "http://localhost:9644"
    assert base_url("https://h:1") == "https://h:1"


def test_a_server_that_is_not_there_is_unreachable():
    control = Control("127.0.0.1:1")
    with pytest.raises(ControlUnreachable, match=r"http://127\.0\.0\.1:1"):
        control.groups()
    control.disconnect()


# --- waiting ------------------------------------------------------------------------------------------------------------


def test_a_command_is_repeated_while_the_coordinator_is_not_available():
    group = Group(
        *[(503, {"detail": "COORDINATOR_LOAD_IN_PROGRESS: try again"})] * 3,
        (200, {"topic": "t", "shard": 3, "refused": 1}),
    )
    assert group.reload(for_ms=5).shard == 3
    assert group.pauses == 3
    assert group.body(3) == {"for_ms": 5}
    assert group.urls[3] == "POST /v1/groups/a%2Fb%20c/reload"


def test_a_command_gives_up_when_its_time_is_over():
    with pytest.raises(ControlRefused, match="try again"):
        Group((503, {"detail": "try again"})).rebalance("why", timeout_s=-1)


def test_a_wait_asks_again_until_the_group_is_there_and_as_wanted():
    group = Group((404, {"detail": "no such group"}), (200, EMPTY), (200, STABLE))
    assert group.wait(state="Stable", members=3, timeout_s=60) == STABLE
    assert {each.query["until"] for each in group.requests} == {"state:Stable,members:3"}
    assert all(0 < int(each.query["timeout_ms"]) <= steps.LONG_POLL_MS for each in group.requests)
    assert all(each.options(steps.ANSWERED_WITHIN_S)["timeout"] > each.waits_ms / 1000 for each in group.requests)


def test_a_wait_in_vain_says_what_was_seen_last():
    with pytest.raises(NotReached, match=r'state:Stable of group a/b c was not reached in 0 s; last seen: .*"Empty"'):
        Group((200, EMPTY)).wait(state="Stable", timeout_s=0)
    with pytest.raises(TimeoutError, match="no such group"):
        Group((404, {"detail": "no such group"})).wait(state="Stable", timeout_s=0)


def test_a_wait_for_a_fault_ends_when_all_that_is_wanted_is_reached():
    fault = Fault((200, STATUS | {"reached": True}), (200, STATUS | {"held": 1, "reached": True}))
    assert fault.wait(acted=2, held=1).held == 1
    assert fault.requests[0].query["until"] == "acted:2"
    with pytest.raises(TypeError, match="needs acted, matched or held"):
        fault.wait()


ENTRY = {
    "number": 1, "time_ms": 1, "answered_ms": 2, "api": "Fetch", "version": 4, "correlation_id": 7, "client_id": "c",
    "client_host": "127.0.0.1", "connection": 1, "listener": "h:1", "request": {}, "response": {},
    "outcome": "answered", "fault": None,
}  # fmt: skip


def test_a_wait_for_a_recording_returns_all_entries():
    pages = [{"entries": rows, "next": 2, "dropped": 0} for rows in ([], [ENTRY], [ENTRY], [ENTRY | {"number": 2}], [])]
    recording = Recording(*[(200, page) for page in pages])
    assert [each.number for each in recording.wait(2)] == [1, 2]
    assert [each.query["after"] for each in recording.requests] == [1, 1, 0, 2, 2]


def test_a_wait_for_an_entry_reads_what_is_pending_again_and_sees_only_what_is_certain():
    def page(*outcomes):
        rows = [ENTRY | {"number": number, "outcome": outcome} for number, outcome in outcomes]
        return 200, {"entries": rows, "next": rows[-1]["number"] if rows else 0, "dropped": 0}

    pages = [((1, "lost"), (2, "pending"), (3, "lost")), (), ((2, "answered"), (3, "lost")), ()]
    recording = Recording(*[page(*each) for each in pages])
    assert [each.number for each in recording.wait(lambda entry: entry.outcome == "answered")] == [2]
    assert [each.query["after"] for each in recording.requests] == [0, 3, 1, 3]
    with pytest.raises(NotReached, match="no such entry in recording"):
        Recording(page((1, "pending")), page()).wait(lambda _: True, timeout_s=0)


@pytest.mark.parametrize(("scope", "query"), [("s", {"scope": "s"}), (None, {"all": "true"})])
@pytest.mark.parametrize("kind", [faults, recordings])
def test_clearing_without_a_scope_says_that_it_means_all(kind, scope, query):
    script = Script((200, {"cleared": 2}))
    assert script.run(kind.clear_all(scope)) == 2
    assert script.requests[0].query == query


def test_lists_are_read_page_by_page():
    whole = Whole((200, {"groups": [{"group_id": "a"}], "next": "a"}), (200, {"groups": [{"group_id": "b"}]}))
    assert whole.groups() == [{"group_id": "a"}, {"group_id": "b"}]
    assert whole.requests[1].query == {"after": "a"}


# --- leaving ------------------------------------------------------------------------------------------------------------

CLOCK = {"mode": "real", "wall_ms": 1, "monotonic_ms": 1, "timers": 0, "next_timer_ms": None}


def test_leaving_clears_the_scope():
    whole = Whole((200, {"cleared": 2}), (200, {"cleared": 0}))
    whole.run(whole.leave())
    assert whole.urls == ["DELETE /v1/faults", "DELETE /v1/recordings"]
    assert [each.query for each in whole.requests] == [{"scope": "s"}] * 2


def test_leaving_sets_a_manual_clock_back_even_if_nothing_else_works():
    whole = Whole((500, {"detail": "a bug"}), (200, CLOCK), made_manual=True)
    with pytest.raises(ControlRefused, match="a bug"):
        whole.run(whole.leave())
    assert (whole.urls[-1], whole.body(1)) == ("POST /v1/clock", {"mode": "real"})


def test_leaving_a_server_whose_control_is_off_is_no_error():
    whole = Whole((403, {"detail": "set admin.control.enable=true"}))
    whole.run(whole.leave())


def test_a_client_without_a_scope_clears_nothing_when_it_leaves():
    whole = Whole(scope=None)
    whole.run(whole.leave())
    assert whole.requests == []


def test_clients_have_a_scope_of_their_own_unless_they_name_one():
    first, second = ControlCommands("h:1"), ControlCommands("h:1")
    assert first.scope
    assert first.scope != second.scope
