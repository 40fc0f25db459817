"""Six real clients, one suite: what their users see of our server, with members that are really killed."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from coordinator.groups.classic.owned_partitions import claimed_generation
from coordinator.protocol.subscription import Subscription, parse_subscription
from tests.compatibility.members import CLIENTS, Client, Program, shared, wait_for_all
from tests.support.server_process import ServerProcess
from tests.support.wire import Connection

Start = Callable[[Client, ServerProcess], Program]
MakeTopic = Callable[..., str]
Fresh = Callable[[str], str]
SHORT = {"session_timeout_ms": 1500, "heartbeat_ms": 300}


def partitions_of(topic: str, count: int) -> set[tuple[str, int]]:
    return {(topic, partition) for partition in range(count)}


def numbered(count: int, prefix: str = "v") -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


def form_group(
    start: Start, client: Client, server: ServerProcess, group: str, topic: str, names: str, **how
) -> list[Program]:
    """Starts members one after the other; each has its partitions before the next joins."""
    members: list[Program] = []
    for name in names:
        member = start(client, server)
        instance = {"instance": f"i-{name}"} if how.get("static") else {}
        member.join(
            group, [topic], name=name, **{key: value for key, value in how.items() if key != "static"}, **instance
        )
        members.append(member)
        wait_for_all(members, lambda: shared(members, partitions_of(topic, 6)), f"{len(members)} members to share")
    return members


def member_ids(server: ServerProcess, group: str) -> dict[str, str]:
    """Member id by client id, as the server describes the group."""
    with Connection(server.bootstrap) as link:
        (described,) = link.call("DescribeGroups", 5, groups=[group])["groups"]
    assert described["group_state"] == "Stable", described
    return {member["client_id"]: member["member_id"] for member in described["members"]}


def generation(server: ServerProcess, group: str, member_id: str) -> int:
    """The group's generation: the one for which the member's heartbeat is accepted."""
    with Connection(server.bootstrap) as link:
        for candidate in range(1, 100):
            beat = {"group_id": group, "generation_id": candidate, "member_id": member_id}
            if link.call("Heartbeat", 4, **beat, group_instance_id=None)["error_code"] == 0:
                return candidate
    raise AssertionError("no generation is right")


def test_members_share_the_partitions_and_read_every_record_once(
    client: Client, server: ServerProcess, start: Start, make_topic: MakeTopic, fresh: Fresh
) -> None:
    topic = make_topic(server, 6)
    members = form_group(start, client, server, fresh("group"), topic, "abc")
    values = numbered(60)
    for partition in range(6):
        members[0].call("produce", topic=topic, values=values[partition::6], partition=partition)
    wait_for_all(members, lambda: sum(len(member.values()) for member in members) >= 60, "all records")
    assert sorted(value for member in members for value in member.values()) == sorted(values)


def test_an_eager_rebalance_takes_everything_before_it_gives(
    client: Client, server: ServerProcess, start: Start, make_topic: MakeTopic, fresh: Fresh
) -> None:
    topic = make_topic(server, 6)
    first, second = form_group(start, client, server, fresh("group"), topic, "ab", assignors="roundrobin")
    assert set(first.partitions_of_events("revoked", "lost")[-1]) == partitions_of(topic, 6)
    assert len(first.owned) == len(second.owned) == 3


def test_a_cooperative_rebalance_revokes_only_the_partitions_that_move(
    client: Client, server: ServerProcess, start: Start, make_topic: MakeTopic, fresh: Fresh
) -> None:
    if not client.cooperative:
        pytest.skip(f"{client.name} has no cooperative assignor")
    topic = make_topic(server, 6)
    first, second = form_group(start, client, server, fresh("group"), topic, "ab", assignors="cooperative-sticky")
    taken = {partition for event in first.partitions_of_events("revoked", "lost") for partition in event}
    assert taken == second.owned
    assert len(taken) == 3
    (claim,) = (each for each in claimed(server, first.group) if each.owned)
    assert {(topic, partition) for partition in claim.owned[topic]} == first.owned
    from_old_client = replace(claim, version=1, generation_id=-1)
    generation = claim.generation_id if client.has_sticky_generation else None
    assert claimed_generation(from_old_client, "cooperative-sticky") == generation


def claimed(server: ServerProcess, group: str) -> list[Subscription]:
    """The subscriptions with which the members joined the current generation."""
    with Connection(server.bootstrap) as link:
        (described,) = link.call("DescribeGroups", 5, groups=[group])["groups"]
    return [parse_subscription(each["member_metadata"]) for each in described["members"]]


def test_a_static_member_that_restarts_within_its_session_causes_no_rebalance(
    client: Client, server: ServerProcess, start: Start, make_topic: MakeTopic, fresh: Fresh
) -> None:
    if not client.static:
        pytest.skip(f"{client.name} has no static members")
    topic, group = make_topic(server, 6), fresh("group")
    first, second = form_group(start, client, server, group, topic, "ab", static=True)
    before, had = first.rebalances(), set(second.owned)
    second.kill()
    again = start(client, server)
    again.join(group, [topic], name="b", instance="i-b")
    again.wait_until(lambda: bool(again.owned), "its partitions")
    assert again.owned == had
    again.call("produce", topic=topic, values=["x"], partition=min(had)[1])
    again.wait_until(lambda: again.values() == ["x"], "a record")
    assert first.rebalances() == before


def test_a_static_leader_that_restarts_within_its_session_causes_no_rebalance(
    client: Client, server: ServerProcess, start: Start, make_topic: MakeTopic, fresh: Fresh
) -> None:
    if not client.static:
        pytest.skip(f"{client.name} has no static members")
    topic, group = make_topic(server, 6), fresh("group")
    first, second = form_group(start, client, server, group, topic, "ab", static=True)
    before, had = second.rebalances(), set(first.owned)
    first.kill()
    again = start(client, server)
    again.join(group, [topic], name="a", instance="i-a")
    again.wait_until(lambda: again.owned == had, "its partitions")
    second.call("produce", topic=topic, values=["x"], partition=min(second.owned)[1])
    second.wait_until(lambda: second.values() == ["x"], "a record")
    assert second.rebalances() == before


def test_a_new_member_resumes_where_the_last_one_committed(
    client: Client, server: ServerProcess, start: Start, make_topic: MakeTopic, fresh: Fresh
) -> None:
    topic, group = make_topic(server, 1), fresh("group")
    first = start(client, server)
    first.call("produce", topic=topic, values=numbered(10), idempotent=True)
    first.join(group, [topic], name="a")
    first.wait_until(lambda: len(first.values()) == 10, "ten records")
    first.call("commit_at", offsets=[[topic, 0, 7]])
    assert first.call("committed", partitions=[[topic, 0]]) == [7]
    first.call("leave")
    second = start(client, server)
    second.join(group, [topic], name="b")
    second.wait_until(lambda: len(second.values()) == 3, "the rest")
    assert second.values() == ["v7", "v8", "v9"]
    second.call("commit")
    assert second.call("committed", partitions=[[topic, 0]]) == [10]
    second.call("seek", topic=topic, partition=0, offset=2)
    second.wait_until(lambda: len(second.values()) >= 11, "records from where it sought")
    assert second.values()[3:] == numbered(10)[2:]


def test_others_take_over_from_a_member_that_was_killed(
    client: Client, server: ServerProcess, start: Start, make_topic: MakeTopic, fresh: Fresh
) -> None:
    topic = make_topic(server, 6)
    first, second = form_group(start, client, server, fresh("group"), topic, "ab", **SHORT)
    second.kill()
    first.wait_until(lambda: first.owned == partitions_of(topic, 6), "all partitions")


def test_a_group_outlives_kill_9_of_its_server(
    client: Client, coordinator_process, start: Start, make_topic: MakeTopic, fresh: Fresh
) -> None:
    """Everything acknowledged is still there, and members keep ids, generation and partitions: the server causes no
    rebalance. (A client that gives up by itself rereads what it has not committed.)
    """
    server = coordinator_process()
    topic, group = make_topic(server, 6), fresh("group")
    first, second = form_group(start, client, server, group, topic, "ab", session_timeout_ms=20_000)
    outsider = start(client, server)
    for partition in range(6):
        outsider.call(
            "produce", topic=topic, values=numbered(5, f"p{partition}-"), partition=partition, idempotent=True
        )
    wait_for_all([first, second], lambda: len(first.values()) == len(second.values()) == 15, "all records")
    committed = sorted(first.owned)
    first.call("commit_at", offsets=[[*partition, 4] for partition in committed])
    ids, undisturbed = member_ids(server, group), first.rebalances() + second.rebalances()
    epoch = generation(server, group, ids["a"])

    server.restart(kill=True)

    for partition in range(6):
        outsider.call("produce", topic=topic, values=numbered(5, f"q{partition}-"), partition=partition)
    everything = sorted(
        value for prefix in "pq" for partition in range(6) for value in numbered(5, f"{prefix}{partition}-")
    )
    wait_for_all(
        [first, second],
        lambda: sorted({*first.values(), *second.values()}) == everything,
        "records after the restart",
    )
    assert first.call("committed", partitions=[list(partition) for partition in committed]) == [4] * 3
    if not client.patient and first.rebalances() + second.rebalances() > undisturbed:
        return
    assert member_ids(server, group) == ids
    assert generation(server, group, ids["a"]) == epoch
    first.call("commit")
    assert first.rebalances() + second.rebalances() == undisturbed
    assert sorted([*first.values(), *second.values()]) == everything


def test_admins_see_and_mend_groups(
    client: Client, server: ServerProcess, start: Start, make_topic: MakeTopic, fresh: Fresh
) -> None:
    topic, group = make_topic(server, 1), fresh("group")
    where = [[topic, 0]]
    member, admin = start(client, server), start(client, server)
    admin.call("produce", topic=topic, values=numbered(10))
    member.join(group, [topic], name="a")
    member.wait_until(lambda: len(member.values()) == 10, "ten records")
    member.call("commit_at", offsets=[[topic, 0, 6]])
    assert group in admin.call("list_groups")
    described = admin.call("describe_group", group=group)
    assert described["state"].upper() == "STABLE"
    assert described["members"] == ["a"]
    (end,), (committed,) = (
        admin.call("end_offsets", partitions=where),
        admin.call("group_offsets", group=group, partitions=where),
    )
    assert end - committed == 4, "the lag"
    member.call("leave")
    if "alter_offsets" in client.admin:
        admin.call("alter_offsets", group=group, offsets=[[topic, 0, 2]])
        assert admin.call("group_offsets", group=group, partitions=where) == [2]
    if "delete_group" in client.admin:
        admin.call("delete_group", group=group)
        assert admin.call("group_offsets", group=group, partitions=where) == [None]
        assert group not in admin.call("list_groups")


@pytest.mark.java
@pytest.mark.parametrize("assignor", ["range", pytest.param("roundrobin", marks=pytest.mark.thorough)])
def test_members_of_all_libraries_share_one_group(
    assignor: str, server: ServerProcess, start: Start, make_topic: MakeTopic, fresh: Fresh
) -> None:
    topic, group = make_topic(server, 12), fresh("group")
    members = [start(client, server) for client in CLIENTS.values()]
    for member in members:
        member.join(group, [topic], name=member.client.name, assignors=assignor)
    wait_for_all(members, lambda: shared(members, partitions_of(topic, 12)), "all six to share")
    assert {len(member.owned) for member in members} == {2}
    for partition in range(12):
        members[partition % 6].call("produce", topic=topic, values=numbered(3, f"p{partition}-"), partition=partition)
    wait_for_all(members, lambda: sum(len(member.values()) for member in members) == 36, "all records")
    members.pop().call("leave")
    wait_for_all(members, lambda: shared(members, partitions_of(topic, 12)), "the others to take over")
