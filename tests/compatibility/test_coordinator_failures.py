"""The coordinator is killed, or the leader dies, at every point of a rebalance; clients that follow the protocol
recover.

These are the points where a client-side assignment may get lost: (1) while members join, (2) after the members are
known and before the leader's assignment, (3) after the assignment is stored and before all members have it, (4) in
Stable. Each is tested in a group's first generation and in one that already has a previous state.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from coordinator.protocol.subscription import Assignment, Subscription, encode_assignment, encode_subscription
from tests.compatibility.members import CLIENTS, Client, Program, shared, wait_for_all
from tests.support.protocol_client import ProtocolMember, described, wait_for_correct_group
from tests.support.server_process import ServerProcess
from tests.support.waiting import wait_until
from tests.support.wire import Connection

PARTITIONS = 6
Join = Callable[..., ProtocolMember]


@pytest.fixture
def killed(coordinator_process: Callable[..., ServerProcess]) -> ServerProcess:
    """A server that this test may kill."""
    return coordinator_process()


@pytest.fixture
def join(killed: ServerProcess) -> Iterator[Join]:
    """Creates members of group g on that server; `hold` is the step at which a member is to stop."""
    with ExitStack() as stack:

        def join(name: str, hold: str | None = None, session_ms: int = 10_000) -> ProtocolMember:
            member = ProtocolMember(killed.bootstrap, "g", name, PARTITIONS, session_ms)
            if hold is not None:
                member.hold(hold)
            stack.callback(member.die)
            return member.start()

        yield join


@pytest.fixture(params=["first generation", "a group with a past"])
def past(request: pytest.FixtureRequest, killed: ServerProcess, join: Join) -> list[ProtocolMember]:
    """The members that the group already has."""
    if request.param == "first generation":
        return []
    members = [join("old-1"), join("old-2")]
    wait_for_correct_group(killed.bootstrap, members)
    return members


def wait_for_state(server: ServerProcess, *states: str) -> None:
    wait_until(lambda: described(server.bootstrap, "g")["state"] in states, f"the group to be {states}")


def hold_all(members: list[ProtocolMember], step: str) -> None:
    for member in members:
        member.hold(step)


def test_killed_while_members_join(killed: ServerProcess, join: Join) -> None:
    """(1) One member's join is parked, the other has not rejoined: the parked join is lost with the process."""
    old = join("old", hold="synced")
    old.reached("synced")
    new = join("new")
    wait_for_state(killed, "PreparingRebalance")
    killed.restart(kill=True)
    old.go_on()
    wait_for_correct_group(killed.bootstrap, [old, new])


def test_killed_before_the_leader_assigns(killed: ServerProcess, join: Join, past: list[ProtocolMember]) -> None:
    """(2) The members know their generation, none has an assignment. They lose their connections and join again, which
    forms a new generation with a number of its own.
    """
    hold_all(past, "joined")
    new = [join("new-1", hold="joined"), *([] if past else [join("new-2", hold="joined")])]
    members = past + new
    if past:
        for member in members:
            member.reached("joined")
    else:
        members[0].reached("joined")
    wait_for_state(killed, "CompletingRebalance", "PreparingRebalance")
    known = {member.generation for member in members}
    killed.restart(kill=True)
    for member in members:
        member.go_on()
    wait_for_correct_group(killed.bootstrap, members)
    assert min(member.generation for member in members) > max(known)


def test_killed_before_all_have_the_assignment(killed: ServerProcess, join: Join, past: list[ProtocolMember]) -> None:
    """(3) The assignment is stored: a member that has not received it gets it after the restart, in the same generation."""
    hold_all(past, "joined")
    members = [*past, join("new-1", hold="joined")]
    for member in members:
        member.reached("joined")
    leader = next(member for member in members if member.leads)
    leader.go_on()
    wait_for_state(killed, "Stable")
    generation = leader.generation
    killed.restart(kill=True)
    for member in members:
        member.go_on()
    wait_for_correct_group(killed.bootstrap, members)
    assert {member.generation for member in members} == {generation}


def test_killed_in_stable(killed: ServerProcess, join: Join) -> None:
    """(4) No request was in progress: all members continue in the same generation with the same partitions."""
    members = [join("a"), join("b"), join("c")]
    wait_for_correct_group(killed.bootstrap, members)
    before = [(member.generation, member.assignment, member.joins) for member in members]
    for _ in range(2):
        killed.restart(kill=True)
        wait_for_correct_group(killed.bootstrap, members)
    assert [(member.generation, member.assignment, member.joins) for member in members] == before


def test_killed_again_and_again(killed: ServerProcess, join: Join) -> None:
    """Wherever the kills fall, generations only grow and the group ends in a correct state."""
    members = [join(name) for name in "abc"]
    for pause_s in (0.0, 0.05, 0.1, 0.15, 0.02):
        time.sleep(pause_s)  # the kill comes at a different moment each time
        killed.restart(kill=True)
    wait_for_correct_group(killed.bootstrap, members)
    members.append(join("d"))
    killed.restart(kill=True)
    wait_for_correct_group(killed.bootstrap, members)


def test_a_leader_that_dies_between_join_and_sync_is_replaced(
    killed: ServerProcess, join: Join, past: list[ProtocolMember]
) -> None:
    """The others wait for its assignment until the timeout, rejoin, and one of them becomes leader."""
    hold_all(past, "joined")
    first = join("new-1", hold="joined", session_ms=1500)
    first.reached("joined")
    second = join("new-2", hold="joined", session_ms=1500)
    if not past:
        first.go_on()
    members = [*past, first, second]
    leader = leader_of(members)
    leader.die()
    rest = [member for member in members if member is not leader]
    for member in rest:
        member.go_on()
    wait_for_correct_group(killed.bootstrap, rest)


def leader_of(members: list[ProtocolMember]) -> ProtocolMember:
    """The member held between join and sync as leader."""

    def standing() -> ProtocolMember | None:
        return next((member for member in members if member.leads and member._at == "joined"), None)

    return wait_until(standing, "somebody to lead")


@pytest.mark.parametrize("name", ["kafka_python", "aiokafka"])
def test_real_clients_outlive_a_kill_while_they_join(
    name: str, killed: ServerProcess, start: Callable[[Client, ServerProcess], Program], make_topic: Callable[..., str]
) -> None:
    topic = make_topic(killed, PARTITIONS)
    members = [start(CLIENTS[name], killed) for _ in range(3)]
    members[0].join("g", [topic], name="a")
    members[0].wait_until(lambda: bool(members[0].owned), "its partitions")
    for member, who in zip(members[1:], "bc", strict=True):
        member.begin_to_join("g", [topic], name=who)
    wait_for_state(killed, "PreparingRebalance", "CompletingRebalance")
    killed.restart(kill=True)
    wait_for_all(members, lambda: shared(members, {(topic, p) for p in range(PARTITIONS)}), "all to share")


@pytest.mark.parametrize("name", ["confluent", "aiokafka", pytest.param("java", marks=pytest.mark.java)])
def test_real_clients_get_a_new_generation_after_a_kill_before_the_leader_assigns(
    name: str, killed: ServerProcess, start: Callable[[Client, ServerProcess], Program], make_topic: Callable[..., str]
) -> None:
    """Real followers join again when the server is back, which aborts the round; its number is not given out again."""
    topic = make_topic(killed, PARTITIONS)
    metadata = encode_subscription(Subscription((topic,), None, {}, -1, None, 1))
    join: dict[str, Any] = {
        "group_id": "g", "session_timeout_ms": 60_000, "rebalance_timeout_ms": 60_000, "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": metadata}],
    }  # fmt: skip
    with Connection(killed.bootstrap) as link:
        leader = link.call("JoinGroup", 3, **join)["member_id"]
        sync = {"group_id": "g", "generation_id": 1, "member_id": leader}
        assert link.call("SyncGroup", 3, **sync, assignments=[])["error_code"] == 0
        follower = start(CLIENTS[name], killed)
        follower.begin_to_join("g", [topic], name="follower")
        wait_for_state(killed, "PreparingRebalance")
        assert link.call("JoinGroup", 3, **join, member_id=leader)["generation_id"] == 2
    killed.restart(kill=True)
    wait_for_state(killed, "CompletingRebalance", "PreparingRebalance")
    wait_for_state(killed, "PreparingRebalance")
    with Connection(killed.bootstrap) as link:
        joined = link.call("JoinGroup", 3, **join, member_id=leader)
        assert (joined["error_code"], joined["generation_id"], joined["leader"]) == (0, 3, leader)
        (other,) = (each["member_id"] for each in joined["members"] if each["member_id"] != leader)
        everything = encode_assignment(Assignment({topic: tuple(range(PARTITIONS))}, None, 1))
        sync = {"group_id": "g", "generation_id": 3, "member_id": leader}
        given = [{"member_id": other, "assignment": everything}]
        assert link.call("SyncGroup", 3, **sync, assignments=given)["error_code"] == 0
        follower.wait_until(lambda: len(follower.owned) == PARTITIONS, "all partitions")
