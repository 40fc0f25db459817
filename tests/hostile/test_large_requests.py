"""The largest requests keep nobody waiting until they are done: they are handled in slices, over many turns of the loop.

A heartbeat is sent behind each on another connection, over and over until the request is answered. `make test
ARGS="tests/hostile/test_large_requests.py -s"` prints the CPU time of the longest turn, by the server's own histogram, and how
much the server used at most until a heartbeat's answer. The second figure grows on a busy machine, where the client is late.
"""

import sys
import time
from urllib.request import urlopen

import pytest

from coordinator_lab.bench.load import cpu_clock
from tests.support.background import Background
from tests.support.server_process import ServerProcess
from tests.support.wire import Connection

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the clock of another process is Linux's")

TURNS_MIN = 2
"""A slice has at most `sliced_work.SLICE_PIECES` pieces, so even a fast machine needs several turns."""
NAMES = 19_900
"""The elements of a request, just below `limit.request.elements`."""
WIDE = {"wide": 10_000, "also-wide": 9_000}
ALL_OFFSETS = {"group_id": "big", "topics": None}


def topic_names(turn, count):
    return [f"topic-{turn}-{number}" for number in range(count)]


def topics(turn, count):
    return [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in topic_names(turn, count)]


def names(kind):
    return [f"{kind}-{number}" for number in range(NAMES)]


def configs(kind, named, key, value):
    entry = {"name": key, "config_operation": 0, "value": value}
    return [{"resource_type": kind, "resource_name": name, "configs": [entry]} for name in named]


def offsets():
    """An offset of each of 19,000 partitions."""

    def partition(index):
        return {"partition_index": index, "committed_offset": index, "committed_metadata": ""}

    return [{"name": name, "partitions": [partition(index) for index in range(count)]} for name, count in WIDE.items()]


def one_by_one():
    """The same for 9,500 partitions, each of which has its topic to itself."""
    return [topic | {"partitions": [each]} for topic in offsets() for each in topic["partitions"][::2]]


def committed():
    """The partitions of these offsets."""
    return [
        {"name": name, "partitions": [{"partition_index": index} for index in range(count)]}
        for name, count in WIDE.items()
    ]


COMMIT = {"group_id": "other", "generation_id_or_member_epoch": -1}
TRANSACTION = {"transactional_id": "t", "producer_id": 0, "producer_epoch": 0}
NOWHERE = [{"name": "nowhere", "partitions": [{"partition_index": index} for index in range(19_000)]}]
REQUESTS = [
    ("OffsetFetch", 8, lambda _: {"groups": [ALL_OFFSETS] * 30}),
    ("OffsetFetch", 8, lambda _: {"groups": [{"group_id": name, "topics": []} for name in names("group")]}),
    ("DescribeGroups", 5, lambda _: {"groups": names("group")}),
    ("ConsumerGroupDescribe", 1, lambda _: {"group_ids": names("group")}),
    ("DeleteGroups", 2, lambda _: {"groups_names": names("group")}),
    ("DescribeTransactions", 0, lambda _: {"transactional_ids": names("transaction")}),
    ("DescribeTopicPartitions", 0, lambda _: {"topics": [{"name": name} for name in names("topic")]}),
    ("FindCoordinator", 4, lambda _: {"key_type": 0, "coordinator_keys": names("group")}),
    ("CreateTopics", 7, lambda turn: {"topics": topics(turn, 5_000), "validate_only": True, "timeout_ms": 9_000}),
    ("CreateTopics", 7, lambda turn: {"topics": topics(turn, 2_000), "timeout_ms": 9_000}),
    (
        "IncrementalAlterConfigs",
        1,
        lambda _: {"resources": configs(32, names("group")[:9_900], "consumer.session.timeout.ms", "50000")},
    ),
    (
        "IncrementalAlterConfigs",
        1,
        lambda turn: {"resources": configs(2, topic_names(turn, 2_000), "retention.ms", "1000000")},
    ),
    (
        "DeleteTopics",
        6,
        lambda turn: {"topics": [{"name": name} for name in topic_names(turn, 2_000)], "timeout_ms": 9_000},
    ),
    ("OffsetCommit", 8, lambda _: COMMIT | {"topics": offsets()}),
    ("OffsetCommit", 8, lambda _: COMMIT | {"topics": one_by_one()}),
    ("OffsetCommit", 2, lambda _: COMMIT | {"topics": offsets(), "retention_time_ms": 60_000}),
    ("OffsetDelete", 0, lambda _: {"group_id": "big", "topics": NOWHERE}),
    ("TxnOffsetCommit", 5, lambda _: COMMIT | TRANSACTION | {"topics": offsets()}),
    ("OffsetDelete", 0, lambda _: {"group_id": "big", "topics": committed()}),
]
"""The values may depend on whether a request is sent for the first (0) or the second time: topics are deleted once."""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with ServerProcess(tmp_path_factory.mktemp("server"), settings={"durability": "write"}) as server:
        client = Connection(server.bootstrap)
        for name, count in WIDE.items():
            made = {"name": name, "num_partitions": count, "replication_factor": 1}
            assert not client.call("CreateTopics", 7, topics=[made], timeout_ms=9_000)["topics"][0]["error_code"]
        client.call("OffsetCommit", 8, group_id="big", generation_id_or_member_epoch=-1, topics=offsets())
        producer = client.call("InitProducerId", 4, transactional_id="t", transaction_timeout_ms=600_000)
        assert (producer["producer_id"], producer["producer_epoch"]) == (0, 0)
        client.close()
        yield server


@pytest.mark.parametrize(
    ("api", "version", "values"), REQUESTS, ids=[f"{api}-{n}" for n, (api, *_) in enumerate(REQUESTS)]
)
def test_a_heartbeat_waits_for_a_slice_of_a_large_request_and_not_for_all_of_it(server, api, version, values):
    taken, longest_s = turns_of(server, api, version, values(0))
    held_ms, total_ms, size = held(server, api, version, values(1))
    print(
        f"{api}: {taken} turns of at most {longest_s} s; held for {held_ms:.0f} ms of {total_ms:.0f}; {size} bytes of response"
    )
    assert size > 1_000
    assert taken >= TURNS_MIN


def turns_of(server, api, version, values):
    """The turns that a request takes when nobody else asks anything, and a bound of their CPU time (s)."""
    before, connection = measured_turns(server), Connection(server.bootstrap)
    connection.send(api, version, values)
    connection.receive_bytes(60)
    connection.close()
    taken = {bound: count - before[bound] for bound, count in measured_turns(server).items()}
    return taken["+Inf"], next(bound for bound, count in taken.items() if count == taken["+Inf"])


def measured_turns(server):
    """The turns so far that had more to do than a few requests: bound of their CPU time -> how many were shorter."""
    with urlopen(f"{server.admin}/metrics") as response:
        lines = response.read().decode().splitlines()
    buckets = [line for line in lines if line.startswith("coordinator_loop_turn_cpu_seconds_bucket")]
    return {line.split('"')[1]: int(float(line.split()[1])) for line in buckets}


def held(server, api, version, values):
    """The CPU time (ms) used while a heartbeat waited at most, and while the request was handled; the response's size."""
    clock, sizes = cpu_clock(server.pid), []
    large, small = Connection(server.bootstrap), Connection(server.bootstrap)
    beat = {"group_id": "nobody", "generation_id": 1, "member_id": "m"}
    small.call("Heartbeat", 4, **beat)
    began = time.clock_gettime(clock)

    def ask():
        large.send(api, version, values)
        sizes.append(len(large.receive_bytes(60)))

    thread = Background(ask)
    worst = 0.0
    while True:
        is_last = not thread.is_running
        asked = time.clock_gettime(clock)
        small.call("Heartbeat", 4, **beat)
        worst = max(worst, time.clock_gettime(clock) - asked)
        if is_last:
            break
    large.close()
    small.close()
    return worst * 1e3, (time.clock_gettime(clock) - began) * 1e3, sum(sizes)
