"""Members of the consumer protocol (KIP-848), by the two libraries that implement it, with classic members beside them.

The server decides the assignment, so tests wait for the callbacks of the library. All callbacks carry the time of one
clock, by which the tests assert that no partition had two owners at any time, not only at the end.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from coordinator.protocol.errors import ErrorCode
from tests.compatibility.members import CLIENTS, Client, Program
from tests.compatibility.shared_groups import (
    PARTITIONS,
    SETTINGS,
    all_of,
    assert_disjoint,
    describe,
    listed,
    pass_records,
    wait_to_share,
)
from tests.support.server_process import ServerProcess
from tests.support.wire import Connection

Start = Callable[[Client, ServerProcess], Program]
MakeTopic = Callable[..., str]
Fresh = Callable[[str], str]


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server whose consumer groups react quickly."""
    with ServerProcess(tmp_path_factory.mktemp("consumer-protocol"), settings=SETTINGS) as server:
        yield server


@pytest.fixture(params=["confluent", pytest.param("java", marks=pytest.mark.java)])
def modern(request: pytest.FixtureRequest) -> Client:
    return CLIENTS[request.param]


def join(member: Program, group: str, topic: str, name: str, **how: Any) -> Program:
    member.join(group, [topic], name=name, protocol="consumer", **how)
    return member


def form(start: Start, client: Client, server: ServerProcess, group: str, topic: str, names: str) -> list[Program]:
    members: list[Program] = []
    for name in names:
        members.append(join(start(client, server), group, topic, name))
        wait_to_share(server, members, all_of(topic))
    return members


def test_a_group_forms_grows_and_shrinks_and_every_record_is_read_once(
    modern: Client, quick: ServerProcess, start: Start, make_topic: MakeTopic, fresh: Fresh
) -> None:
    topic, group = make_topic(quick, PARTITIONS), fresh("group")
    first, second = members = form(start, modern, quick, group, topic, "ab")
    pass_records(first, members, topic, "two")
    third = join(start(modern, quick), group, topic, "c")
    members = [first, second, third]
    wait_to_share(quick, members, all_of(topic))
    assert {len(member.owned) for member in members} == {2}
    taken = [
        partition
        for member in (first, second)
        for event in member.partitions_of_events("revoked", "lost")
        for partition in event
    ]
    assert len(taken) == 3 + 2, "only what moves is taken"
    pass_records(first, members, topic, "three")
    third.call("leave")
    wait_to_share(quick, [first, second], all_of(topic))
    pass_records(first, [first, second], topic, "left")
    assert_disjoint(members)
    second.kill()
    first.wait_until(lambda: first.owned == all_of(topic), "what the killed one had")
    pass_records(first, [first], topic, "one")


def test_a_pattern_matches_topics_created_later(
    modern: Client, quick: ServerProcess, start: Start, make_topic: MakeTopic, fresh: Fresh
) -> None:
    prefix, group = fresh("many"), fresh("group")
    early = make_topic(quick, PARTITIONS, f"{prefix}-early")
    make_topic(quick, PARTITIONS, "other")
    members = [join(start(modern, quick), group, f"^{prefix}.*", name) for name in "ab"]
    wait_to_share(quick, members, all_of(early))
    late = make_topic(quick, PARTITIONS, f"{prefix}-late")
    wait_to_share(quick, members, all_of(early, late))
    assert_disjoint(members)


def test_a_static_member_that_restarts_causes_no_rebalance(
    modern: Client, quick: ServerProcess, start: Start, make_topic: MakeTopic, fresh: Fresh
) -> None:
    topic, group = make_topic(quick, PARTITIONS), fresh("group")
    first = join(start(modern, quick), group, topic, "a", instance="i-a")
    second = join(start(modern, quick), group, topic, "b", instance="i-b")
    wait_to_share(quick, [first, second], all_of(topic))
    had, before, epoch = set(second.owned), first.rebalances(), describe(quick, group)["epoch"]
    second.call("leave")
    again = join(start(modern, quick), group, topic, "b", instance="i-b")
    again.wait_until(lambda: again.owned == had, "the partitions of the process before it")
    again.call("produce", topic=topic, values=["x"], partition=min(had)[1])
    again.wait_until(lambda: again.values() == ["x"], "a record")
    assert (first.rebalances(), describe(quick, group)["epoch"]) == (before, epoch)


def test_a_group_outlives_kill_9_of_its_server(
    modern: Client, coordinator_process: Callable[..., ServerProcess], start: Start, make_topic: MakeTopic, fresh: Fresh
) -> None:
    """Members keep ids, epochs and partitions, and committed offsets remain: no group rebalances."""
    server = coordinator_process(settings=SETTINGS | {"group.consumer.session.timeout.ms": 20_000})
    topic, group = make_topic(server, PARTITIONS), fresh("group")
    members = form(start, modern, server, group, topic, "ab")
    pass_records(members[0], members, topic, "before")
    known, undisturbed = describe(server, group), [member.rebalances() for member in members]
    assert known["state"] == "Stable"
    mine = [list(partition) for partition in sorted(members[0].owned)]

    server.restart(kill=True)

    assert describe(server, group) == known
    assert members[0].call("committed", partitions=mine) == [2] * 3
    pass_records(start(modern, server), members, topic, "after")
    assert members[0].call("committed", partitions=mine) == [4] * 3
    assert describe(server, group) == known
    assert [member.rebalances() for member in members] == undisturbed


@pytest.mark.java
def test_a_static_member_that_subscribes_again_keeps_its_epochs(
    quick: ServerProcess, start: Start, make_topic: MakeTopic, fresh: Fresh
) -> None:
    """Java's unsubscribe and subscribe leave temporarily and return under the member id: old epochs stay refused."""
    topic, group = make_topic(quick, PARTITIONS), fresh("group")
    static = join(start(CLIENTS["java"], quick), group, topic, "a", instance="i")
    wait_to_share(quick, [static], all_of(topic))
    before = describe(quick, group)["members"]["a"]
    other = join(start(CLIENTS["java"], quick), group, topic, "b")
    wait_to_share(quick, [static, other], all_of(topic))
    lost = other.owned.copy()
    other.call("leave")
    wait_to_share(quick, [static], all_of(topic))

    def zombies() -> set[int]:
        with Connection(quick.bootstrap) as link:
            partitions = [{"partition_index": partition, "committed_offset": 0} for _, partition in lost]
            who = {"member_id": before["member_id"], "generation_id_or_member_epoch": before["member_epoch"]}
            answer = link.call(
                "OffsetCommit", 9, group_id=group, **who, topics=[{"name": topic, "partitions": partitions}]
            )
        return {each["error_code"] for each in answer["topics"][0]["partitions"]}

    stale = {int(ErrorCode.STALE_MEMBER_EPOCH)}
    assert zombies() == stale
    epoch = describe(quick, group)["epoch"]
    static.call("resubscribe")
    wait_to_share(quick, [static], all_of(topic))
    after = describe(quick, group)
    assert (after["epoch"], after["members"]["a"]["member_id"]) == (epoch, before["member_id"])
    assert zombies() == stale
    static.call("commit")


def test_a_static_member_and_its_server_may_be_away_together(
    modern: Client, coordinator_process: Callable[..., ServerProcess], start: Start, make_topic: MakeTopic, fresh: Fresh
) -> None:
    """The member's successor gets its partitions and continues from the last commit, without a rebalance."""
    server = coordinator_process(settings=SETTINGS | {"group.consumer.session.timeout.ms": 20_000})
    topic, group = make_topic(server, PARTITIONS), fresh("group")
    first = join(start(modern, server), group, topic, "a", instance="i-a")
    second = join(start(modern, server), group, topic, "b", instance="i-b")
    wait_to_share(server, [first, second], all_of(topic))
    pass_records(first, [first, second], topic, "before")
    had, undisturbed, epoch = set(second.owned), first.rebalances(), describe(server, group)["epoch"]
    second.call("leave")
    server.kill()
    second.kill()

    server.start()
    again = join(start(modern, server), group, topic, "b", instance="i-b")

    again.wait_until(lambda: again.owned == had, "the partitions of the process before it")
    pass_records(again, [first, again], topic, "after")
    assert (first.rebalances(), describe(server, group)["epoch"]) == (undisturbed, epoch)


@pytest.mark.parametrize(
    "modern",
    ["confluent", pytest.param("java", marks=(pytest.mark.java, pytest.mark.thorough))],
    indirect=True,
)
def test_a_member_killed_together_with_its_server_is_succeeded_by_its_next_process(
    modern: Client, coordinator_process: Callable[..., ServerProcess], start: Start, make_topic: MakeTopic, fresh: Fresh
) -> None:
    """Both by SIGKILL. The library then forgets its member id, so the group waits for the old member for the length of
    a session. The others keep their partitions meanwhile; no committed record is read twice, and none is skipped.
    """
    server = coordinator_process(settings=SETTINGS)
    topic, group = make_topic(server, PARTITIONS), fresh("group")
    first, second = form(start, modern, server, group, topic, "ab")
    pass_records(first, [first, second], topic, "before")
    kept = set(first.owned)
    server.kill()
    second.kill()

    server.start()
    again = join(start(modern, server), group, topic, "c")

    wait_to_share(server, [first, again], all_of(topic))
    assert kept & first.owned
    assert not [partition for event in first.partitions_of_events("lost") for partition in event], (
        "no member was given up but the dead one"
    )
    pass_records(first, [first, again], topic, "after")
    assert not [value for value in again.values() if value.startswith("before")]
    assert_disjoint([first, again])


def test_a_new_member_resumes_where_the_last_one_committed(
    modern: Client, quick: ServerProcess, start: Start, make_topic: MakeTopic, fresh: Fresh
) -> None:
    topic, group = make_topic(quick, 1), fresh("group")
    first = start(modern, quick)
    first.call("produce", topic=topic, values=[f"v{number}" for number in range(10)])
    join(first, group, topic, "a")
    first.wait_until(lambda: len(first.values()) == 10, "ten records")
    first.call("commit_at", offsets=[[topic, 0, 7]])
    assert first.call("committed", partitions=[[topic, 0]]) == [7]
    first.call("leave")
    second = join(start(modern, quick), group, topic, "b")
    second.wait_until(lambda: len(second.values()) == 3, "the rest")
    assert second.values() == ["v7", "v8", "v9"]
    second.call("commit")
    assert second.call("committed", partitions=[[topic, 0]]) == [10]


@pytest.mark.parametrize(
    ("library", "assignor"),
    [
        # Its cooperative-sticky stores user data of its own in assignments; such groups cannot be upgraded,
        # here or in Kafka.
        ("confluent", "range"),
        pytest.param("java", "range", marks=(pytest.mark.java, pytest.mark.thorough)),
        pytest.param("java", "cooperative-sticky", marks=pytest.mark.java),
    ],
)
def test_a_group_migrates_there_and_back_under_its_live_members(
    library: str, assignor: str, quick: ServerProcess, start: Start, make_topic: MakeTopic, fresh: Fresh
) -> None:
    """Two classic members are replaced one by one by members of the consumer protocol, and these by classic ones."""
    modern, topic, group = CLIENTS[library], make_topic(quick, PARTITIONS), fresh("group")
    programs = [start(modern, quick) for _ in range(3)]
    producer, old, other = programs
    classic = {"assignors": assignor, "heartbeat_ms": 250}

    def change(leaving: Program, members: list[Program], kind: str, name: str) -> None:
        """A new member joins, then one leaves; records arrive in between and afterwards."""
        members.append(start(modern, quick))
        programs.append(members[-1])
        if kind == "consumer":
            join(members[-1], group, topic, name)
        else:
            members[-1].join(group, [topic], name=name, **classic)
        wait_to_share(quick, members, all_of(topic))
        pass_records(producer, members, topic, f"{name}-came")
        members.remove(leaving)
        leaving.call("leave")
        wait_to_share(quick, members, all_of(topic))
        pass_records(producer, members, topic, f"{name}-stays")

    members = [old, other]
    for number, member in enumerate(members):
        member.join(group, [topic], name=f"old-{number}", **classic)
    wait_to_share(quick, members, all_of(topic))
    pass_records(producer, members, topic, "classic")
    assert listed(quick, group)["group_type"] == "classic"
    change(old, members, "consumer", "new-0")
    assert listed(quick, group)["group_type"] == "consumer"
    assert {member["member_type"] for member in describe(quick, group)["members"].values()} == {0, 1}
    change(other, members, "consumer", "new-1")
    first, second = members
    change(first, members, "classic", "back-0")
    assert listed(quick, group)["group_type"] == "consumer"
    change(second, members, "classic", "back-1")
    assert listed(quick, group)["group_type"] == "classic"
    assert_disjoint(programs)


@pytest.mark.java
def test_both_protocols_and_all_libraries_share_one_group(
    quick: ServerProcess, start: Start, make_topic: MakeTopic, fresh: Fresh
) -> None:
    """Two classic members of other libraries stay while members of the consumer protocol join, and one of them leaves."""
    topic, group = make_topic(quick, PARTITIONS), fresh("group")
    members: list[Program] = []
    for library in ("kafka_python", "aiokafka", "confluent", "java"):
        members.append(start(CLIENTS[library], quick))
        protocol = {"protocol": "consumer"} if library in ("confluent", "java") else {"heartbeat_ms": 250}
        members[-1].join(group, [topic], name=library, **protocol)
        wait_to_share(quick, members, all_of(topic))
    pass_records(members[2], members, topic, "all")
    everybody = list(members)
    members.pop(2).call("leave")
    wait_to_share(quick, members, all_of(topic))
    pass_records(members[0], members, topic, "three")
    assert listed(quick, group)["group_type"] == "consumer"
    members.pop().call("leave")
    wait_to_share(quick, members, all_of(topic))
    pass_records(members[0], members, topic, "classic")
    assert listed(quick, group)["group_type"] == "classic"
    assert_disjoint(everybody)
