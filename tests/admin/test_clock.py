"""The clock of the protocol over admin HTTP: sessions, transactions and retention pass in milliseconds."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.admin.acting_world import SETTINGS, commit, member
from tests.support.admin_client import act, ask, view
from tests.support.group_members import KINDS, NONE, UNKNOWN_MEMBER_ID, Classic, Consumer
from tests.support.server_process import ServerProcess
from tests.support.wire import Connection

CLOCK = "/v1/clock"
DAY_MS = 24 * 3_600_000


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("clock"), settings=SETTINGS).start() as server:
        yield server


@pytest.fixture
def server(running: ServerProcess) -> Iterator[ServerProcess]:
    """A server whose clock stands still."""
    act(running, CLOCK, mode="manual")
    yield running
    act(running, CLOCK, mode="real")


def advance(server: ServerProcess, ms: int) -> Any:
    return act(server, CLOCK, advance_ms=ms)


@pytest.mark.parametrize("kind", KINDS)
def test_a_session_of_45_s_ends_at_its_millisecond_and_only_for_those_who_were_silent(
    server: ServerProcess, closing: ExitStack, kind: Any
) -> None:
    silent, alive = (member(server, kind, f"{kind.kind}-{name}", closing) for name in ("silent", "alive"))
    advance(server, 44_999)
    assert alive.beat() == NONE
    fired = advance(server, 1)["fired"]
    assert [(each["group"], each["member"]) for each in fired if "group" in each] == [(silent.group, silent.id)]
    assert (silent.beat(), alive.beat()) == (UNKNOWN_MEMBER_ID, NONE)


def test_while_time_stands_nothing_expires_and_every_request_is_answered(
    server: ServerProcess, closing: ExitStack
) -> None:
    short = member(server, Classic, "short", closing, session_timeout_ms=6_000)
    before = view(server, CLOCK)
    time.sleep(0.05)
    now = view(server, CLOCK)
    assert (now["monotonic_ms"], now["wall_ms"]) == (before["monotonic_ms"], before["wall_ms"])
    assert short.beat() == NONE


def test_advance_to_next_stops_at_the_next_timer_that_really_fires(server: ServerProcess, closing: ExitStack) -> None:
    """A heartbeat has put the session off, so its first deadline is none."""
    early = member(server, Classic, "early", closing, session_timeout_ms=6_000)
    advance(server, 5_000)
    assert early.beat() == NONE
    now = view(server, CLOCK)
    assert now["next_timer_ms"] is not None
    fired: list[Any] = []
    while not any(each.get("group") == "early" for each in fired):
        due = view(server, CLOCK)["next_timer_ms"]
        answer = act(server, CLOCK, advance_to="next")
        fired = answer["fired"]
        assert fired, "nothing fired at the next timer"
        assert {each["at_ms"] for each in fired} == {due} == {answer["monotonic_ms"]}
    assert fired[-1]["at_ms"] == now["monotonic_ms"] + 6_000


def test_what_a_timer_causes_has_happened_when_the_call_returns(server: ServerProcess, closing: ExitStack) -> None:
    """A transaction times out: it is decided, its markers are written, and it is complete."""
    connection = closing.enter_context(Connection(server.bootstrap))
    made = connection.call("InitProducerId", 4, transactional_id="late", transaction_timeout_ms=60_000)
    connection.call(
        "AddPartitionsToTxn", 3, v3_and_below_transactional_id="late", v3_and_below_producer_id=made["producer_id"],
        v3_and_below_producer_epoch=made["producer_epoch"], v3_and_below_topics=[{"name": "t", "partitions": [0, 1]}],
    )  # fmt: skip
    advance(server, 60_000)
    assert view(server, "/v1/transactions/late")["state"] == "Ongoing"
    advance(server, 10_000)
    assert view(server, "/v1/transactions/late")["state"] == "CompleteAbort"


def test_an_answer_that_an_advance_causes_has_left_when_it_returns(server: ServerProcess, closing: ExitStack) -> None:
    """The rebalance timeout forms a generation: the parked join is answered."""
    waits = member(server, Classic, "waits", closing, session_timeout_ms=300_000)
    other = Classic(server, "waits", "other", session_timeout_ms=300_000)
    closing.callback(other.connection.close)
    other.send_join()
    advance(server, 60_000)
    other.connection.socket.setblocking(False)
    assert other.connection.socket.recv(4)
    assert waits.beat() == UNKNOWN_MEMBER_ID


def test_a_week_passes_with_every_check_of_retention_and_others_are_served_meanwhile(
    server: ServerProcess, closing: ExitStack
) -> None:
    commit(server, "old", "t")
    passed = advance(server, 8 * DAY_MS)
    assert passed["fired_count"] > 2_000
    assert len(passed["fired"]) == 1_000
    assert ask(server, "GET", "/v1/groups/old")[0] == 404
    fresh = member(server, Consumer, "fresh", closing)
    assert fresh.beat() == NONE


def test_back_in_real_mode_nobody_expires_and_time_has_not_jumped(server: ServerProcess, closing: ExitStack) -> None:
    survivor = member(server, Classic, "survivor", closing, session_timeout_ms=45_000)
    advance(server, 44_000)
    stopped = view(server, CLOCK)
    running = act(server, CLOCK, mode="real")
    again = act(server, CLOCK, mode="manual")
    assert running["mode"] == "real"
    assert stopped["monotonic_ms"] <= running["monotonic_ms"] <= again["monotonic_ms"] < stopped["monotonic_ms"] + 1_000
    assert survivor.beat() == NONE


def test_the_wall_clock_can_be_set_without_a_timer_firing(server: ServerProcess, closing: ExitStack) -> None:
    stays = member(server, Classic, "wall", closing, session_timeout_ms=6_000)
    before = view(server, CLOCK)
    changed = act(server, CLOCK, wall_ms=before["wall_ms"] + DAY_MS)
    assert (changed["wall_ms"], changed["monotonic_ms"]) == (before["wall_ms"] + DAY_MS, before["monotonic_ms"])
    assert stays.beat() == NONE
    assert view(server, "/v1/groups/wall")["member_count"] == 1


def test_bad_changes_are_refused_with_what_is_allowed(running: ServerProcess) -> None:
    assert ask(running, "POST", CLOCK, {"advance_ms": 1})[0] == 409
    assert ask(running, "POST", CLOCK, {"advance_to": "next"})[0] == 409
    names = ["advance_ms", "advance_to", "mode", "wall_ms"]
    for body in ({}, {"mode": "real", "advance_ms": 1}):
        status, answer = ask(running, "POST", CLOCK, body)
        assert (status, answer["allowed"]) == (422, names)
    for body in ({"mode": "fast"}, {"advance_ms": -1}, {"advance_ms": 32 * DAY_MS}, {"wall_ms": -1}):
        assert ask(running, "POST", CLOCK, body)[0] == 422
