"""Hostile clients beside an honest one: the server closes their connections and serves the honest client all the time.

The honest client is a group member that sends heartbeats continuously; each one must be answered without an error. The tests
count the responses that it gets while the others do their worst, and never assert how fast they come. Limits are small, so
that no test waits long. That no connection is closed too early is tested in tests/network.
"""

import contextlib
import random
import resource
import socket
import sys
import time

import pytest

from coordinator.log.batch_builder import BatchBuilder
from coordinator.network.log_once import LINES_PER_MINUTE_MAX
from tests.hostile.honest_member import MIB, HonestMember, metric, resident_bytes
from tests.support.background import Background
from tests.support.record_batch import Batch
from tests.support.server_process import ServerProcess
from tests.support.waiting import WITHIN_S, wait_until
from tests.support.wire import Connection, ConnectionClosed, encode, frame

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads the server's memory from /proc")

FRAME_BYTES_MAX = MIB
PRODUCE_BYTES_MAX = 2 * MIB
ELEMENTS_MAX = 1_000
LIMITS = {
    "socket.request.max.bytes": PRODUCE_BYTES_MAX,
    "limit.request.bytes": FRAME_BYTES_MAX,
    "limit.request.elements": ELEMENTS_MAX,
    "connections.max.idle.ms": 5_000,
    "limit.frame.time.ms": 4_000,
    "limit.write.time.ms": 4_000,
}
TCP_REPAIR = 19
"""A socket closed in this mode (Linux, privileged) closes without notifying its peer."""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with ServerProcess(tmp_path_factory.mktemp("server"), settings=LIMITS) as server:
        yield server


@pytest.fixture
def honest(server):
    with HonestMember(server.bootstrap) as member:
        member.is_served()
        yield member
        member.is_served()


def closed(server: ServerProcess, reason: str) -> float:
    return metric(server, f'coordinator_connections_closed_total{{reason="{reason}"}}')


def dial(server: ServerProcess, source: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection((server.host, server.port), timeout=WITHIN_S, source_address=(source, 0))


def is_served(link: socket.socket) -> bool:
    """Whether a complete request gets a response instead of a closed connection."""
    try:
        link.sendall(frame("ApiVersions", 0, b"", 1, "c"))
        return bool(link.recv(MIB))
    except ConnectionError:
        return False


def is_ended(link: socket.socket) -> bool:
    """Returns once the server has closed the connection, ignoring responses before that. Raises TimeoutError if it does not."""
    try:
        while link.recv(MIB):
            pass
    except ConnectionError:
        return True
    return True


def produce(link: Connection, value_bytes: int, count: int) -> None:
    data = [{"index": 0, "records": Batch(values=[bytes(value_bytes)]).encode()}]
    for _ in range(count):
        answer = link.call(
            "Produce", 8, acks=1, timeout_ms=30_000, topic_data=[{"name": "events", "partition_data": data}]
        )
        assert answer["responses"][0]["partition_responses"][0]["error_code"] == 0


def test_a_reader_that_never_reads_costs_a_bounded_memory_and_is_closed_in_time(server, honest):
    """It requests 800 MiB of records and then thousands of further responses.

    The server only ever builds the few responses of 8 MiB that may be in flight, with a copy or two.
    """
    with Connection(server.bootstrap) as link:
        produce(link, MIB // 2, 16)
    asked_bytes = 50 * MIB
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": asked_bytes}
    values = {"max_bytes": asked_bytes, "max_wait_ms": 0, "topics": [{"topic": "events", "partitions": [partition]}]}
    fetch = frame("Fetch", 11, encode("FetchRequest", 11, values), 1, "greedy")
    metadata = frame("Metadata", 8, encode("MetadataRequest", 8, {"topics": None}), 2, "greedy")
    before, ended = resident_bytes(server), closed(server, "answers not read in time")
    peak = before
    with dial(server) as greedy:
        greedy.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            greedy.sendall(fetch * 100 + metadata * 20_000)
        while closed(server, "answers not read in time") == ended:
            peak = max(peak, resident_bytes(server))
            honest.is_served()
    assert (peak - before) // MIB < 200


def test_vanished_and_stalled_clients_are_closed_and_active_ones_are_not(server, honest):
    ended = closed(server, "idle")
    with dial(server) as vanished, dial(server) as still, dial(server) as awake:
        assert is_served(vanished)
        assert is_served(still)
        with contextlib.suppress(OSError):  # without the privilege it is one more stalled client
            vanished.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)
            vanished.close()
        wait_until(lambda: is_served(awake) and closed(server, "idle") == ended + 2)
        assert is_ended(still)
        assert is_served(awake)


def test_a_byte_now_and_then_does_not_keep_a_connection(server, honest):
    """Single bytes do not count as activity; the whole frame must arrive in time."""
    ended = closed(server, "frame not whole in time")
    request = frame("ApiVersions", 0, b"", 1, "a name of some length")
    with dial(server) as slow, contextlib.suppress(ConnectionError):
        for byte in request:
            slow.sendall(bytes([byte]))
            time.sleep(0.2)  # the slowness under test
            if closed(server, "frame not whole in time") > ended:
                break
    assert closed(server, "frame not whole in time") == ended + 1


def test_garbage_closes_only_its_own_connection(server, honest):
    chance = random.Random(9092)
    whole = frame("Heartbeat", 4, encode("HeartbeatRequest", 4, {"group_id": "g", "member_id": "m"}), 1, "c")
    samples = [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"\xff" * 64]
    samples += [chance.randbytes(4).rjust(5, b"\x7f") + chance.randbytes(200) for _ in range(20)]
    samples += [(200).to_bytes(4, "big") + chance.randbytes(200) for _ in range(40)]
    samples += [whole[:4] + chance.randbytes(4) + whole[8:] for _ in range(20)]
    for sample in samples:
        with dial(server) as link:
            link.sendall(sample)
            assert is_ended(link), sample
    assert server.log.count("Traceback") == 0


def test_a_frame_of_the_largest_size_is_answered_and_a_byte_more_ends_the_connection(server, honest):
    def commit(surplus: int) -> bytes:
        """A commit whose group id and metadata fill the frame."""
        partitions = [{"partition_index": index, "committed_metadata": "m" * 30_000} for index in range(34)]
        empty = {"group_id": "", "topics": [{"name": "events", "partitions": partitions}]}
        size = len(frame("OffsetCommit", 7, encode("OffsetCommitRequest", 7, empty), 1, "test")) - 4
        assert FRAME_BYTES_MAX - 32_000 < size < FRAME_BYTES_MAX
        return encode("OffsetCommitRequest", 7, empty | {"group_id": "g" * (FRAME_BYTES_MAX - size + surplus)})

    with Connection(server.bootstrap) as link:
        link.send_body("OffsetCommit", 7, commit(0))
        assert len(link.receive()["topics"][0]["partitions"]) == 34
        ended = closed(server, "frame too large or malformed")
        with pytest.raises(ConnectionClosed):
            link.send_body("OffsetCommit", 7, commit(1))
            link.receive()
        wait_until(lambda: closed(server, "frame too large or malformed") == ended + 1)


def test_a_produce_may_be_larger_than_other_requests_up_to_its_own_limit(server, honest):
    data = [{"index": 0, "records": Batch(values=[bytes(100)]).encode()}]
    body = encode("ProduceRequest", 8, {"acks": 1, "topic_data": [{"name": "orders", "partition_data": data}]})
    padding = bytes(
        PRODUCE_BYTES_MAX - len(frame("Produce", 8, body, 1, "test")) + 4
    )  # bytes behind a request are ignored
    with Connection(server.bootstrap) as link:
        link.send_body("Produce", 8, body + padding)
        assert link.receive()["responses"][0]["partition_responses"][0]["error_code"] == 0
        ended = closed(server, "frame too large or malformed")
        with pytest.raises(ConnectionClosed):
            link.send_body("Produce", 8, body + padding + b"\0")
            link.receive()
        wait_until(lambda: closed(server, "frame too large or malformed") == ended + 1)


def test_a_request_of_the_most_elements_is_answered_and_one_more_ends_the_connection(server, honest):
    def fetch_offsets(partitions: int) -> bytes:
        topics = [{"name": "events", "partition_indexes": list(range(partitions))}]
        return encode("OffsetFetchRequest", 5, {"group_id": "g", "topics": topics})

    with Connection(server.bootstrap) as link:
        link.send_body("OffsetFetch", 5, fetch_offsets(ELEMENTS_MAX - 1))  # the topic is one
        assert len(link.receive()["topics"][0]["partitions"]) == ELEMENTS_MAX - 1
        with pytest.raises(ConnectionClosed):
            link.send_body("OffsetFetch", 5, fetch_offsets(ELEMENTS_MAX))
            link.receive()


def test_a_client_that_sends_thousands_of_requests_at_once_lets_others_be_served_in_between(server, honest):
    """Without turns its requests were all handled before the first heartbeat behind them."""
    count = 5_000
    body = encode("MetadataRequest", 9, {"topics": [{"name": f"missing-{number}"} for number in range(20)]})
    flood = b"".join(frame("Metadata", 9, body, number, "flooder") for number in range(count))
    with Connection(server.bootstrap) as link:
        sender = Background(link.send_bytes, flood)
        served = []
        for number in range(count):
            assert int.from_bytes(link.receive_bytes()[:4]) == number
            served.append(honest.answers)
        sender.finish()
    assert served[-1] - served[0] >= 5
    assert len(set(served)) >= 5


def test_a_produce_whose_records_are_looked_into_elsewhere_is_not_overtaken(server, honest):
    topic = {"name": "compacted", "num_partitions": 1, "replication_factor": 1}
    topic["configs"] = [{"name": "cleanup.policy", "value": "compact"}]
    builder = BatchBuilder()
    for _ in range(10_000):
        builder.add(b"key", b"value")
    with Connection(server.bootstrap) as link:
        assert link.call("CreateTopics", 5, topics=[topic], timeout_ms=30_000)["topics"][0]["error_code"] == 0
        small = BatchBuilder()
        small.add(b"key", b"value")
        for records in (builder.build(0, 1), small.build(0, 1), Batch(values=[b"no key"]).encode()):
            data = [{"name": "compacted", "partition_data": [{"index": 0, "records": records}]}]
            link.send("Produce", 8, {"acks": -1, "timeout_ms": 30_000, "topic_data": data})
        found = [link.receive()["responses"][0]["partition_responses"][0] for _ in range(3)]
    assert [(part["base_offset"], part["error_code"]) for part in found] == [(0, 0), (10_000, 0), (-1, 87)]


def fetch_of(partition_bytes: int, max_wait_ms: int = 0) -> dict:
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": partition_bytes}
    topics = [{"topic": "events", "partitions": [partition]}]
    return {"max_bytes": partition_bytes, "max_wait_ms": max_wait_ms, "min_bytes": 1, "topics": topics}


def test_many_stalled_readers_stay_within_the_memory_limit_and_small_requests_work(coordinator_process):
    """40 clients request 8 MiB each with a limit of 16 MiB. Requests that wait for memory are served once they are closed."""
    server = coordinator_process(settings={"limit.memory.bytes": 16 * MIB, "limit.write.time.ms": 6_000})
    greed = frame("Fetch", 11, encode("FetchRequest", 11, fetch_of(50 * MIB)), 1, "greedy")
    with HonestMember(server.bootstrap) as honest, contextlib.ExitStack() as links:
        link = links.enter_context(Connection(server.bootstrap))
        produce(link, MIB // 2, 16)
        before = resident_bytes(server)
        for _ in range(40):
            links.enter_context(dial(server)).sendall(greed)
        wait_until(lambda: metric(server, "coordinator_memory_held_bytes") >= 16 * MIB)
        honest.is_served()
        assert (resident_bytes(server) - before) // MIB < 100
        answer = link.call("Fetch", 11, **fetch_of(MIB))
        assert answer["responses"][0]["partitions"][0]["error_code"] == 0
        assert not answer["responses"][0]["partitions"][0]["records"]
        produce(link, MIB // 2, 1)  # waits until memory is available
        assert closed(server, "answers not read in time") > 0
        wait_until(lambda: metric(server, "coordinator_memory_held_bytes") == 0)
        answer = link.call("Fetch", 11, **fetch_of(MIB))
        assert len(answer["responses"][0]["partitions"][0]["records"]) > MIB // 2
        honest.is_served()


def test_connections_up_to_the_limits_are_served_and_the_next_is_closed(coordinator_process):
    server = coordinator_process(settings={"max.connections": 5, "max.connections.per.ip": 4})
    with HonestMember(server.bootstrap) as honest, contextlib.ExitStack() as links:
        own = [links.enter_context(dial(server)) for _ in range(3)]
        assert all(map(is_served, own))
        assert not is_served(links.enter_context(dial(server)))  # the fifth of this address
        other = links.enter_context(dial(server, "127.0.0.2"))
        assert is_served(other)
        assert not is_served(links.enter_context(dial(server, "127.0.0.3")))  # the sixth of all
        honest.is_served()
        assert all(map(is_served, [*own, other]))
        own[0].close()
        wait_until(lambda: metric(server, 'coordinator_connections_closed_total{reason="peer"}') >= 1)
        assert is_served(links.enter_context(dial(server)))


def test_thousands_of_idle_connections_use_little_memory_and_delay_no_request(coordinator_process):
    """5,000 connections, or as many as this process may open."""
    count = min(5_000, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2 - 100)
    server = coordinator_process()
    with HonestMember(server.bootstrap) as honest, contextlib.ExitStack() as links:
        honest.is_served()
        before = resident_bytes(server)
        for _ in range(count):
            links.enter_context(dial(server))
        wait_until(lambda: connections(server) == count + 1)
        honest.is_served()
        assert (resident_bytes(server) - before) / count < 20_000
        links.close()
        wait_until(lambda: connections(server) == 1)


def connections(server: ServerProcess) -> float:
    return metric(server, 'coordinator_connections{listener="0"}')


def test_names_of_clients_neither_forge_nor_flood_the_log(coordinator_process):
    server = coordinator_process()
    forging = 'x"\ntime=2026-01-01T00:00:00.000Z level=error event=forged \x1b[2J'
    for name in [forging, *(f"{number}-{'中' * 10_900}" for number in range(300))]:
        with dial(server) as link:
            link.sendall(frame("ApiVersions", 0, b"", 1, name) + frame("Heartbeat", 99, b"", 2, name))
            assert is_ended(link)
    server.terminate()
    lines = server.log.splitlines()
    assert all(line.startswith("time=") and line.isprintable() for line in lines)
    (forged,) = [line for line in lines if "event=forged" in line]
    assert r'client="x\"\ntime=2026-01-01T00:00:00.000Z level=error event=forged \x1b[2J" host=' in forged
    # The names may come in two minutes of the server's clock.
    assert sum("event=connection_closed" in line for line in lines) <= 2 * LINES_PER_MINUTE_MAX
    assert len(server.log.encode()) < 600_000
