"""Acknowledged writes survive: repeated `kill -9` under load, and a full disk.

The load consists of clients that wait for each step before the next: committers of increasing offsets, and idempotent
producers that retry a batch until it is acknowledged. An offset may therefore be one step ahead of what its committer
knows, never behind, and each value is in its log once and in order. A kill comes after a number of acknowledgements, in the
middle of whatever is running, during the start that follows, or during a stop. The environment variable
COORDINATOR_TEST_KILLS sets the number of kills (default 8; more than 50 need pytest's option --timeout=0).
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import pytest

from tests.support.record_batch import Batch, read_batches
from tests.support.server_process import ServerProcess
from tests.support.waiting import WITHIN_S, wait_until
from tests.support.wire import Connection, ConnectionClosed

KILLS = int(os.environ.get("COORDINATOR_TEST_KILLS", "8"))
NONE, COORDINATOR_LOADS, COORDINATOR_NOT_AVAILABLE, STORAGE_ERROR = 0, 14, 15, 56
PAUSE_S = 0.02  # pause of a client that was refused, or whose server is dead
TOPIC = "orders"
BUSY_REQUESTS = 1_000


class Load:
    """A thread that performs one step after another, across restarts of the server."""

    def __init__(self, server: ServerProcess, name: str):
        self.server = server
        self.name = name
        self.acknowledged = 0
        """Steps known to be done."""
        self.over = False
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self.over = True
        self._thread.join(WITHIN_S)
        assert not self._thread.is_alive()

    def step(self, link: Connection) -> bool:
        """Tries the next step. Returns whether it was acknowledged."""
        raise NotImplementedError

    def check(self, link: Connection, at_least: int) -> None:
        """Fails unless all acknowledged steps are there, and no more than were tried."""
        raise NotImplementedError

    def _run(self) -> None:
        try:
            while not self.over:
                with (
                    contextlib.suppress(ConnectionClosed, OSError),
                    Connection(self.server.bootstrap, self.name) as link,
                ):
                    while not self.over:
                        if self.step(link):
                            self.acknowledged += 1
                        else:
                            time.sleep(PAUSE_S)
                time.sleep(PAUSE_S)
        except BaseException as error:
            self.failure = error


class Committer(Load):
    """Commits offsets 1, 2, 3 ... for its own group."""

    def step(self, link):
        return commit(link, self.name, self.acknowledged + 1) == NONE

    def check(self, link, at_least):
        assert at_least <= committed(link, self.name) <= self.acknowledged + 1


class Producer(Load):
    """Writes consecutive numbers, three per batch, to its own partition."""

    def __init__(self, server: ServerProcess, partition: int):
        super().__init__(server, f"producer-{partition}")
        self.partition = partition
        self.read = 0
        """Values seen in the log, in their places."""
        with Connection(server.bootstrap) as link:
            given = link.call("InitProducerId", 1, transactional_id=None, transaction_timeout_ms=60_000)
        assert given["error_code"] == NONE
        self.identity = {"producer_id": given["producer_id"], "producer_epoch": given["producer_epoch"]}

    def value(self, number: int) -> bytes:
        return f"{self.name} {number} ".encode().ljust(1_000, b".")

    def step(self, link):
        first = 3 * self.acknowledged
        batch = Batch(values=[self.value(first + each) for each in range(3)], base_sequence=first, **self.identity)
        answer = produce(link, self.partition, batch)
        assert answer["error_code"] != NONE or answer["base_offset"] in {first, -1}, answer
        return answer["error_code"] == NONE

    def check(self, link, at_least):
        """Continues where the last check ended."""
        while True:
            tried = self.acknowledged + 1
            values = read(link, self.partition, self.read)
            for value in values:
                assert value == self.value(self.read)
                self.read += 1
            if not values:
                assert 3 * at_least <= self.read <= 3 * tried
                return


def commit(link: Connection, group: str, offset: int, metadata: str = "") -> int:
    partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": metadata}
    answer = link.call("OffsetCommit", 8, group_id=group, topics=[{"name": TOPIC, "partitions": [partition]}])
    return answer["topics"][0]["partitions"][0]["error_code"]


def committed(link: Connection, group: str) -> int:
    topics = [{"name": TOPIC, "partition_indexes": [0]}]

    def fetched():
        answer = link.call("OffsetFetch", 5, group_id=group, topics=topics)
        assert answer["error_code"] in {NONE, COORDINATOR_LOADS}
        return answer["topics"] if answer["error_code"] == NONE else None

    return wait_until(fetched, "the coordinator to load")[0]["partitions"][0]["committed_offset"]


def produce(link: Connection, partition: int, batch: Batch):
    data = [{"index": partition, "records": batch.encode()}]
    answer = link.call("Produce", 8, acks=-1, timeout_ms=30_000, topic_data=[{"name": TOPIC, "partition_data": data}])
    return answer["responses"][0]["partition_responses"][0]


def read(link: Connection, partition: int, offset: int) -> list[bytes]:
    """The next values from this offset on, at which a batch begins."""
    asked = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    topics = [{"topic": TOPIC, "partitions": [asked]}]
    answer = link.call("Fetch", 11, max_bytes=1 << 20, max_wait_ms=0, topics=topics)["responses"][0]["partitions"][0]
    assert answer["error_code"] == NONE
    return [value for batch in read_batches(answer["records"] or b"") for value in batch.values]


def test_acknowledged_commits_and_records_survive_every_kill(tmp_path):
    chance = random.Random(KILLS)
    # Small segments and a cleaner that is always running, so that kills also hit rolls and compactions.
    small = {"log.segment.bytes": 1 << 20, "offsets.topic.segment.bytes": 1 << 16, "log.cleaner.backoff.ms": 100}
    with ServerProcess(tmp_path, settings=small) as server:
        loads = [Committer(server, f"group-{number}") for number in range(3)] + [
            Producer(server, number) for number in range(2)
        ]
        for load in loads:
            load.start()
        try:
            kills = 0
            while kills < KILLS:
                _acknowledge(loads, chance.randrange(1, 300))
                kills += _kill(server, chance)
                sure = [load.acknowledged for load in loads]
                server.settings["durability"] = chance.choice(["fsync", "write"])
                server.start()
                with Connection(server.bootstrap) as link:
                    for load, at_least in zip(loads, sure, strict=True):
                        load.check(link, at_least)
        finally:
            for load in loads:
                load.stop()
        assert [load.failure for load in loads] == [None] * len(loads)
        with Connection(server.bootstrap) as link:
            for load in loads:
                if isinstance(load, Producer):
                    load.read = 0
                load.check(link, load.acknowledged)
        assert server.log.count("Traceback") == server.log.count("event=partition_failed") == 0


def _kill(server: ServerProcess, chance: random.Random) -> int:
    """Kills the server, perhaps while it stops, and perhaps again while it starts; returns the number of kills."""
    start_s = server.ready["startup_ms"] / 1000
    if chance.random() < 0.3:
        server.stop_and_kill(chance.uniform(0, 0.1))
    else:
        server.kill()
    kills = 1
    while chance.random() < 0.4:
        server.start_and_kill(chance.uniform(0.1, 1.2) * start_s)
        kills += 1
    return kills


def _acknowledge(loads: list[Load], count: int) -> None:
    """Waits until this many more steps are acknowledged."""
    wanted = sum(load.acknowledged for load in loads) + count

    def done():
        assert [load.failure for load in loads] == [None] * len(loads)
        return sum(load.acknowledged for load in loads) >= wanted

    wait_until(done, f"{count} acknowledgements")


@pytest.fixture
def small_disk(tmp_path):
    """A server whose data folder is a separate file system of 4 MiB."""
    server = ServerProcess(tmp_path)
    server.data_dir.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(server.data_dir)]
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("mounting a small disk takes Linux and root")
    if (done := subprocess.run(mounting, capture_output=True, text=True, check=False)).returncode:
        pytest.skip(f"no small disk here: {done.stderr.strip()}")
    try:
        with server:
            yield server
    finally:
        subprocess.run(["umount", str(server.data_dir)], check=True)


def health(server: ServerProcess) -> tuple[int, dict]:
    try:
        with urllib.request.urlopen(f"{server.admin}/health/ready", timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_a_full_disk_refuses_writes_answers_reads_and_forgets_nothing(small_disk):
    """A server that starts while the disk is full must not lose anything either."""
    server, kept, values = small_disk, 0, []

    def commit_next(link):
        nonlocal kept
        error = commit(link, "g", kept + 1, "m" * 4_000)
        kept += error == NONE
        return error

    def produce_next(link):
        value = f"value {len(values)} ".encode().ljust(4_000, b".")
        error = produce(link, 0, Batch(values=[value]))["error_code"]
        if error == NONE:
            values.append(value)
        return error

    def is_refused(step, link):
        """Whether the error is that of a full disk."""
        return next(filter(None, (step(link) for _ in range(100))))

    def keeps_all(link):
        return committed(link, "g") == kept and read(link, 0, 0) == values

    filler = server.data_dir / "filler"
    with Connection(server.bootstrap) as link:
        assert commit_next(link) == produce_next(link) == NONE
        with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(4_096))
        assert is_refused(commit_next, link) == COORDINATOR_NOT_AVAILABLE
        assert is_refused(produce_next, link) == STORAGE_ERROR
        assert keeps_all(link)
        status, said = health(server)
        assert status == 503
        assert "disk is full" in said["reasons"][0]
        with urllib.request.urlopen(f"{server.admin}/health/live", timeout=30) as answer:
            assert answer.status == 200
    server.restart(kill=True)
    with Connection(server.bootstrap) as link:
        assert keeps_all(link)
        assert is_refused(commit_next, link) == COORDINATOR_NOT_AVAILABLE
        assert is_refused(produce_next, link) == STORAGE_ERROR
        status, said = health(server)
        assert status == 503
        assert any(reason.startswith(f"{TOPIC}-0 is full") for reason in said["reasons"]), said
        filler.unlink()
        wait_until(lambda: health(server)[0] == 200, "space to be noticed though nobody writes")

        def commits():
            error = commit_next(link)
            assert error in {NONE, COORDINATOR_LOADS, COORDINATOR_NOT_AVAILABLE}
            return error == NONE

        wait_until(commits, "the group's log to take commits again")
        assert produce_next(link) == NONE
        assert health(server)[0] == 200
    server.restart(kill=True)
    with Connection(server.bootstrap) as link:
        assert keeps_all(link)


def test_a_server_that_was_stopped_reads_the_heartbeats_it_missed_before_it_judges_sessions(coordinator_process):
    """SIGSTOP for longer than the session timeout; meanwhile the member's heartbeat lies in the socket.

    The server is busy when it stops, or it would be waiting for its sockets and read them first anyway.
    """
    server = coordinator_process(settings={"group.min.session.timeout.ms": 100, "limit.requests.in.flight": 1_000})
    asked = {"group_id": "g", "session_timeout_ms": 3_000, "rebalance_timeout_ms": 5_000, "protocol_type": "consumer"}
    asked["protocols"] = [{"name": "range", "metadata": b""}]
    with Connection(server.bootstrap) as link, Connection(server.bootstrap, "busy") as busy:
        joined = link.call("JoinGroup", 3, **asked, member_id="")
        member = {name: joined[name] for name in ("generation_id", "member_id")} | {"group_id": "g"}
        assert link.call("SyncGroup", 3, **member, assignments=[])["error_code"] == NONE
        for _ in range(BUSY_REQUESTS):
            busy.send("ApiVersions", 3, {})
        busy.receive()
        os.kill(server.pid, signal.SIGSTOP)
        try:
            link.send("Heartbeat", 4, member)
            time.sleep(4)  # the pause under test
        finally:
            os.kill(server.pid, signal.SIGCONT)
        assert link.receive()["error_code"] == NONE
