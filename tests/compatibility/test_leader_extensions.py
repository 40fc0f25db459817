"""Plain clients of six libraries in a group whose leader resyncs, and of three in one whose leader cannot assign."""

from collections.abc import Callable, Iterator

import pytest

from coordinator.groups.classic.leader_extensions import FAILURES
from coordinator.protocol.errors import ErrorCode
from tests.compatibility.extending_leader import ExtendingLeader
from tests.compatibility.members import CLIENTS, Client, Program
from tests.support.server_process import ServerProcess

ERRORS = {
    "java": sorted(FAILURES),
    "kafka_python": sorted(FAILURES),
    "confluent": [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.TOPIC_AUTHORIZATION_FAILED],
    "franz_go": [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.TOPIC_AUTHORIZATION_FAILED],
}
"""Those that retry do so after a second or more."""
PROTOCOLS = ("range", "RoundRobinAssigner")
"""kafkajs has names of its own."""
Start = Callable[[Client, ServerProcess], Program]


@pytest.fixture
def lead(server: ServerProcess, fresh: Callable[[str], str]) -> Iterator[Callable[[str], ExtendingLeader]]:
    leaders: list[ExtendingLeader] = []

    def lead(topic: str) -> ExtendingLeader:
        leaders.append(ExtendingLeader(server.bootstrap, fresh("g"), topic, PROTOCOLS))
        leaders[-1].join()
        return leaders[-1]

    yield lead
    for leader in leaders:
        leader.link.close()


def test_a_plain_follower_gets_its_resynced_assignment_and_nobody_else_notices(
    client: Client,
    server: ServerProcess,
    start: Start,
    make_topic: Callable[..., str],
    lead: Callable[[str], ExtendingLeader],
) -> None:
    topic = make_topic(server, 4)
    leader = lead(topic)
    first, second = members = [start(client, server) for _ in range(2)]
    joins = [
        member.begin_to_join(leader.group, [topic], name=name)
        for member, name in zip(members, ("first", "second"), strict=True)
    ]
    leader.gather("first", "second")
    leader.sync({"first": [0, 1], "second": [2, 3]})
    for member, join in zip(members, joins, strict=True):
        member.wait_for_result(join)
        member.wait_until(lambda member=member: len(member.owned) == 2, "its partitions")
    generation, undisturbed = leader.generation, second.rebalances()

    assert leader.sync({"first": [0], "leader": [1], "second": [2, 3]}, resync=1)["resynced"] == 1
    first.wait_until(lambda: first.owned == {(topic, 0)}, "less")
    assert second.rebalances() == undisturbed

    first.call("produce", topic=topic, partition=1, values=["after"])
    undisturbed = first.rebalances()
    assert leader.sync({"first": [0], "second": [1, 2, 3]}, resync=2)["resynced"] == 2
    second.wait_until(lambda: second.owned == {(topic, 1), (topic, 2), (topic, 3)}, "more")
    second.wait_until(lambda: "after" in second.values(), "the record of its new partition")
    assert first.rebalances() == undisturbed
    second.call("commit")
    assert leader.beat() == 0
    leader.join()
    assert leader.generation == generation + 1, "no other rebalance in between"


RAISES, RETRIES = ["java", "kafka_python"], ["confluent", "franz_go"]
"""What clients do with an error of SyncGroup that they do not know: their poll raises it, or they retry after a pause."""


@pytest.mark.parametrize("name", [pytest.param("java", marks=pytest.mark.java), "kafka_python", *RETRIES])
def test_a_leader_that_cannot_assign_ends_the_round_for_plain_clients_until_it_can(
    name: str,
    server: ServerProcess,
    start: Start,
    make_topic: Callable[..., str],
    lead: Callable[[str], ExtendingLeader],
) -> None:
    """Each allowed error once. Java and kafka-python raise one exception for each, and their next poll joins again."""
    topic = make_topic(server, 2)
    leader = lead(topic)
    member = start(CLIENTS[name], server)
    joining = member.begin_to_join(leader.group, [topic], name="member", report_errors=True)
    leader.gather("member")
    for error in ERRORS[name]:
        assert leader.fail(error, "no metadata")["error_message"] == "no metadata"
        leader.wait_for_rebalance()
        leader.join()
    leader.gather("member")
    leader.sync({"member": [0, 1]})
    member.wait_for_result(joining)
    member.wait_until(lambda: len(member.owned) == 2, "its partitions")
    reported = [event for event in member.events if event["event"] == "error"]
    assert len(reported) == (len(ERRORS[name]) if name in RAISES else 0)
