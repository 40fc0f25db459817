"""The largest requests keep nobody waiting until they are done: they are handled in slices, over many turns of the loop.

A heartbeat is sent behind each on another connection, over and over until the request is answered. How much CPU time the server
uses at most until a heartbeat's answer, which others on the machine do not lengthen, is printed by `make test
ARGS="tests/hostile/test_large_requests.py -s"`.
"""

import sys
import threading
import time
from urllib.request import urlopen

import pytest

from coordinator.bench.load import cpu_clock
from tests.support.server_process import ServerProcess
from tests.support.wire import Connection

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the clock of another process is Linux's")

TURNS_MIN = 2
"""A slice has at most `sliced_work.SLICE_PIECES` pieces, so even a fast machine needs several turns."""
NAMES = 19_900
"""The elements of a request, just below `limit.request.elements`."""
WIDE = {"wide": 10_000, "also-wide": 9_000}
ALL_OFFSETS = {"group_id": "big", "topics": None}


def topics(count):
    return [{"name": f"topic-{number}", "num_partitions": 1, "replication_factor": 1} for number in range(count)]


def names(kind):
    return [f"{kind}-{number}" for number in range(NAMES)]


def configs(kind, name, count, key, value):
    entry = {"name": key, "config_operation": 0, "value": value}
    return [{"resource_type": kind, "resource_name": f"{name}-{number}", "configs": [entry]} for number in range(count)]


def offsets():
    def partition(index):
        return {"partition_index": index, "committed_offset": index, "committed_metadata": ""}

    return [{"name": name, "partitions": [partition(index) for index in range(count)]} for name, count in WIDE.items()]


REQUESTS = [
    ("OffsetFetch", 8, lambda: {"groups": [ALL_OFFSETS] * 30}),
    ("OffsetFetch", 8, lambda: {"groups": [{"group_id": name, "topics": []} for name in names("group")]}),
    ("DescribeGroups", 5, lambda: {"groups": names("group")}),
    ("ConsumerGroupDescribe", 1, lambda: {"group_ids": names("group")}),
    ("DeleteGroups", 2, lambda: {"groups_names": names("group")}),
    ("DescribeTransactions", 0, lambda: {"transactional_ids": names("transaction")}),
    ("DescribeTopicPartitions", 0, lambda: {"topics": [{"name": name} for name in names("topic")]}),
    ("FindCoordinator", 4, lambda: {"key_type": 0, "coordinator_keys": names("group")}),
    ("CreateTopics", 7, lambda: {"topics": topics(5_000), "validate_only": True, "timeout_ms": 9_000}),
    ("CreateTopics", 7, lambda: {"topics": topics(2_000), "timeout_ms": 9_000}),
    (
        "IncrementalAlterConfigs",
        1,
        lambda: {"resources": configs(32, "group", 9_900, "consumer.session.timeout.ms", "50000")},
    ),
    ("IncrementalAlterConfigs", 1, lambda: {"resources": configs(2, "topic", 2_000, "retention.ms", "1000000")}),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with ServerProcess(tmp_path_factory.mktemp("server"), settings={"durability": "write"}) as server:
        client = Connection(server.bootstrap)
        for name, count in WIDE.items():
            made = {"name": name, "num_partitions": count, "replication_factor": 1}
            assert not client.call("CreateTopics", 7, topics=[made], timeout_ms=9_000)["topics"][0]["error_code"]
        client.call("OffsetCommit", 8, group_id="big", generation_id_or_member_epoch=-1, topics=offsets())
        client.close()
        yield server


@pytest.mark.parametrize(
    ("api", "version", "values"), REQUESTS, ids=[f"{api}-{n}" for n, (api, *_) in enumerate(REQUESTS)]
)
def test_a_heartbeat_waits_for_a_slice_of_a_large_request_and_not_for_all_of_it(server, api, version, values):
    taken = turns_of(server, api, version, values())
    held_ms, total_ms, size = held(server, api, version, values())
    print(f"{api}: {taken} turns; held for {held_ms:.0f} ms of {total_ms:.0f}; {size} bytes of response")
    assert size > 1_000
    assert taken >= TURNS_MIN


def turns_of(server, api, version, values):
    """The turns that a request takes when nobody else asks anything."""
    before, connection = measured_turns(server), Connection(server.bootstrap)
    connection.send(api, version, values)
    connection.receive_bytes(60)
    connection.close()
    return measured_turns(server) - before


def measured_turns(server):
    """The turns so far that had more to do than a few requests."""
    with urlopen(f"{server.admin}/metrics") as response:
        lines = response.read().decode().splitlines()
    return next(
        int(float(line.split()[1])) for line in lines if line.startswith("coordinator_loop_turn_cpu_seconds_count")
    )


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

    thread = threading.Thread(target=ask)
    thread.start()
    worst = 0.0
    while True:
        is_last = not thread.is_alive()
        asked = time.clock_gettime(clock)
        small.call("Heartbeat", 4, **beat)
        worst = max(worst, time.clock_gettime(clock) - asked)
        if is_last:
            break
    large.close()
    small.close()
    return worst * 1e3, (time.clock_gettime(clock) - began) * 1e3, sum(sizes)
