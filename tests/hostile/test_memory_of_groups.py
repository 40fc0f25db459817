"""Clients that fill groups: a server keeps a bounded memory for them, and serves the members of other groups.

The limits are small, so that a few megabytes exceed them.
"""

import sys
from pathlib import Path

import pytest

from tests.hostile.honest_member import HonestMember, metric, resident_bytes
from tests.support.server_process import ServerProcess
from tests.support.wire import Connection

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads the server's memory from /proc")

MIB = 1024 * 1024
GROUP_BYTES_MAX = 2 * MIB
GROUPS_BYTES_MAX = 8 * MIB
SETTINGS = {
    "limit.group.bytes": GROUP_BYTES_MAX,
    "limit.groups.bytes": GROUPS_BYTES_MAX,
    "group.initial.rebalance.delay.ms": 100,
    "offsets.topic.num.partitions": 2,
}
NONE, FULL, LATER, FAILED, MEMBER_ID_REQUIRED = 0, 81, 15, -1, 79
HELD_BYTES_MAX = GROUPS_BYTES_MAX + 2 * GROUP_BYTES_MAX
"""What the coordinator makes of the members' data may exceed the limit once."""
SENT_AT_ONCE_BYTES = 60 * 400 * 1024
"""Requests that lie in the buffers of their connections at the same time, when the server is slower than its clients."""
GROWN_BYTES_MAX = 6 * GROUPS_BYTES_MAX + SENT_AT_ONCE_BYTES
"""The count is an estimate, and requests that are under way and the records in which they go to the log come on top."""

RESIDENT_BYTES_MAX = 100 * MIB


@pytest.fixture
def server(coordinator_process):
    return coordinator_process(settings=SETTINGS)


@pytest.fixture
def honest(server):
    with HonestMember(server.bootstrap) as member:
        member.is_served()
        before = resident_bytes(server)
        yield member
        member.is_served()
        assert resident_bytes(server) - before < GROWN_BYTES_MAX
        assert metric(server, "coordinator_groups_held_bytes") <= HELD_BYTES_MAX


def joining(group: str, metadata_bytes: int, member_id: str = "") -> dict:
    protocols = [{"name": "range", "metadata": b"x" * metadata_bytes}]
    wanted = {"group_id": group, "session_timeout_ms": 6_000, "rebalance_timeout_ms": 6_000, "member_id": member_id}
    return wanted | {"protocol_type": "consumer", "protocols": protocols}


def handshake(link: Connection, group: str, metadata_bytes: int) -> dict:
    """Joins with the member id that the group hands out. The response comes when the generation is formed."""
    answer = link.call("JoinGroup", 4, **joining(group, metadata_bytes))
    return link.call("JoinGroup", 4, **joining(group, metadata_bytes, answer["member_id"]))


def largest_file(server: ServerProcess) -> int:
    folders = Path(server.data_dir).glob("__consumer_offsets-*")
    return max(path.stat().st_size for folder in folders for path in folder.glob("*.log"))


def refused(server: ServerProcess, setting: str) -> float:
    return metric(server, f'coordinator_groups_too_large_total{{setting="{setting}"}}')


def test_members_cannot_make_one_group_hold_more_than_its_limit(server, honest):
    """60 members with 400 KiB of metadata each join one group: it keeps those that fit, and so does its record."""
    before = refused(server, "limit.group.bytes")
    links = [Connection(server.bootstrap, "greedy") for _ in range(60)]
    ids = [link.call("JoinGroup", 4, **joining("one", 400 * 1024))["member_id"] for link in links]
    for link, member_id in zip(links, ids, strict=True):
        link.send("JoinGroup", 4, joining("one", 400 * 1024, member_id))
    answers = [link.receive()["error_code"] for link in links]
    assert answers.count(FULL) == 56
    assert refused(server, "limit.group.bytes") - before == 56
    assert largest_file(server) < 3 * GROUP_BYTES_MAX
    for link in links:
        link.close()


def test_clients_cannot_make_all_groups_hold_more_than_their_limit(server, honest):
    """New members are asked to try again; a group with small members rebalances as always, and a commit needs no room."""
    with Connection(server.bootstrap, "small") as small:
        member = handshake(small, "small", 50)
        answers = set()
        with Connection(server.bootstrap, "greedy") as link:
            for number in range(60):
                group = f"group-{number}"
                topics = [f"{number}-{index:0200d}" for index in range(3_000)]
                beat = {"group_id": group, "member_id": "m", "member_epoch": 0, "rebalance_timeout_ms": 6_000}
                beat |= {"subscribed_topic_names": topics, "topic_partitions": []}
                answers.add(link.call("ConsumerGroupHeartbeat", 1, **beat)["error_code"])
        assert answers == {NONE, LATER}
        assert fill(server, 20_000) == LATER
        assert fill(server, 10) == LATER
        again = small.call("JoinGroup", 4, **joining("small", 300, member["member_id"]))
        assert again["error_code"] == NONE
        identity = {
            "group_id": "small",
            "generation_id": again["generation_id"],
            "member_id": member["member_id"],
        }
        assignments = [{"member_id": member["member_id"], "assignment": b"a" * 200}]
        assert small.call("SyncGroup", 3, **identity, assignments=assignments)["assignment"] == b"a" * 200


def fill(server: ServerProcess, name_chars: int) -> int:
    """Creates groups with names of this length until there is no room; returns the error."""
    with Connection(server.bootstrap, "new") as link:
        for number in range(1_000):
            group = f"{number}".rjust(name_chars, "-")
            error = link.call("JoinGroup", 4, **joining(group, 50))["error_code"]
            if error != MEMBER_ID_REQUIRED:
                return error
    return NONE


def test_a_leader_cannot_make_its_group_hold_more_by_assignments(server, honest):
    with Connection(server.bootstrap, "leader") as link:
        member = handshake(link, "assigned", 50)
        identity = {"group_id": "assigned", "member_id": member["member_id"], "generation_id": member["generation_id"]}
        assignments = [{"member_id": member["member_id"], "assignment": b"a" * GROUP_BYTES_MAX}]
        assert link.call("SyncGroup", 3, **identity, assignments=assignments)["error_code"] == FAILED
        assert link.call("JoinGroup", 4, **joining("assigned", 50, member["member_id"]))["error_code"] == NONE


def test_ids_that_are_handed_out_are_bounded_in_bytes(server, honest):
    """A client id of 32 KB is part of each id."""
    with Connection(server.bootstrap, "c" * 32_000) as link:
        answers = [link.call("JoinGroup", 4, **joining("pending", 50))["error_code"] for _ in range(100)]
    assert FULL in answers or LATER in answers
    assert metric(server, "coordinator_groups_held_bytes") <= HELD_BYTES_MAX


def test_a_restart_needs_no_more_memory_than_the_limits_allow(server):
    with Connection(server.bootstrap, "greedy") as link:
        for number in range(10):
            group = f"group-{number}"
            assert link.call("JoinGroup", 3, **joining(group, 900 * 1024))["error_code"] in {NONE, LATER}
    server.kill()
    server.start()
    assert GROUP_BYTES_MAX < metric(server, "coordinator_groups_held_bytes") <= HELD_BYTES_MAX
    assert resident_bytes(server) < RESIDENT_BYTES_MAX
