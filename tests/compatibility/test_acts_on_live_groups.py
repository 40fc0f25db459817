"""Real clients in a server whose administrator acts: they find their way back, and stopped time expires nobody."""

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

from tests.compatibility.members import CLIENTS, Client, Program, shared
from tests.support.admin_client import act, scrape, view
from tests.support.server_process import ServerProcess
from tests.support.waiting import wait_until

PARTITIONS = 4
SETTINGS = {
    "admin.control.enable": True,
    "offsets.topic.num.partitions": 1,
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.heartbeat.interval.ms": 100,
    "group.consumer.min.heartbeat.interval.ms": 50,
    "group.consumer.assignment.interval.ms": 0,
}
Start = Callable[[Client, ServerProcess], Program]
CLIENTS_AND_PROTOCOLS = [
    ("confluent", "classic"),
    ("confluent", "consumer"),
    pytest.param("java", "consumer", marks=pytest.mark.java),
]


def live_group(
    server: ServerProcess, start: Start, topic: str, library: str, protocol: str, group: str, size: int
) -> list[Program]:
    """Members of a library that share the partitions of a topic."""
    how: dict[str, Any] = {"protocol": "consumer"} if protocol == "consumer" else {"session_timeout_ms": 45_000}
    members = [start(CLIENTS[library], server) for _ in range(size)]
    for number, member in enumerate(members):
        member.join(group, [topic], name=f"{group}-{number}", heartbeat_ms=100, **how)
    settle(members, topic)
    return members


def settle(members: list[Program], topic: str) -> None:
    partitions = {(topic, partition) for partition in range(PARTITIONS)}
    wait_until(lambda: shared(members, partitions), lambda: "\n".join(map(str, members)), 60)


def ids(server: ServerProcess, group: str) -> list[str]:
    return [each["member_id"] for each in view(server, f"/v1/groups/{group}?until=state:Stable")["members"]]


@pytest.mark.parametrize(("library", "protocol"), CLIENTS_AND_PROTOCOLS)
def test_live_members_come_back_after_every_act(
    library: str, protocol: str, coordinator_process: Callable[..., ServerProcess], start: Start, make_topic: Any
) -> None:
    server = coordinator_process(settings=SETTINGS)
    topic = make_topic(server, PARTITIONS)
    members = live_group(server, start, topic, library, protocol, "live", 2)
    for how in ("evict", "expire-session"):
        before = ids(server, "live")
        act(server, f"/v1/groups/live/members/{quote(before[0], safe='')}/{how}")
        wait_until(lambda: view(server, "/v1/groups/live")["member_count"] == 2, lambda: "the member to come back")
        settle(members, topic)
        assert protocol == "consumer" or before[0] not in ids(server, "live")
    for path, body in (("bump-epoch", {}), ("reload", {"for_ms": 300})):
        before = ids(server, "live")
        act(server, f"/v1/groups/live/{path}", **body)
        shown = view(server, "/v1/groups/live?until=state:Stable,members:2&timeout_ms=60000")
        settle(members, topic)
        assert shown["reached"]
    values = [f"after-{partition}" for partition in range(PARTITIONS)]
    for partition, value in enumerate(values):
        members[0].call("produce", topic=topic, values=[value], partition=partition)
    wait_until(lambda: set(values) <= {each for member in members for each in member.values()}, lambda: "the records")


@pytest.mark.parametrize(
    ("library", "protocol"),
    [
        *CLIENTS_AND_PROTOCOLS[:2],
        pytest.param("java", "consumer", marks=(pytest.mark.java, pytest.mark.thorough)),
    ],
)
def test_in_stopped_time_a_dead_member_expires_at_once_and_live_ones_never(
    library: str, protocol: str, coordinator_process: Callable[..., ServerProcess], start: Start, make_topic: Any
) -> None:
    """Its session of 45 s ends in milliseconds; the members of the other group beat on, by their own clocks."""
    server = coordinator_process(settings=SETTINGS)
    topics = [make_topic(server, PARTITIONS, name) for name in ("one", "two")]
    dead, live = (
        live_group(server, start, topic, library, protocol, group, 2)
        for topic, group in zip(topics, ("dead", "live"), strict=True)
    )
    act(server, "/v1/clock", mode="manual")
    dead[0].kill()
    dead[1].kill()
    rebalances = [member.rebalances() for member in live]
    for _ in range(5):
        act(server, "/v1/clock", advance_ms=9_000)
        beats = heartbeats(server)
        wait_until(lambda: heartbeats(server) >= beats + 4 * len(live), lambda: "heartbeats of the live group")  # noqa: B023
    fired = [each for each in act(server, "/v1/clock", advance_ms=100)["fired"] if each.get("group")]
    assert view(server, "/v1/groups/dead")["member_count"] == 0
    assert "live" not in {each["group"] for each in fired}
    assert view(server, "/v1/groups/live")["member_count"] == 2
    assert [member.rebalances() for member in live] == rebalances
    act(server, "/v1/clock", mode="real")
    settle(live, topics[1])


def heartbeats(server: ServerProcess) -> int:
    """Heartbeats of both protocols that the server has answered."""
    metrics = scrape(server)["coordinator_requests_total"]
    return int(sum(count for labels, count in metrics.items() if any("Heartbeat" in label for label in labels)))
