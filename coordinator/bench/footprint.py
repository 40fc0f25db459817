"""What a server costs while it does little: start-up, memory, idle CPU, and how fast it is back after `kill -9`."""

import asyncio
import json
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from coordinator.bench.load import ask, cpu_seconds
from coordinator.protocol.codec import Codec
from coordinator.protocol.messages import CreateTopicsRequest, OffsetCommitRequest, OffsetFetchRequest

TOPIC = "bench-footprint"
PARTITIONS = 100
IDLE_S = 5.0


@dataclass(frozen=True, slots=True)
class Footprint:
    """Times in milliseconds from exec, memory in MiB (VmRSS), CPU in milliseconds per second."""

    start_ms: float
    rss_idle_mib: float
    idle_cpu_ms: float
    offsets: int
    rss_offsets_mib: float
    restart_ms: float
    """From exec until an offset committed before the kill is answered."""


class _Server:
    def __init__(self, folder: str) -> None:
        command = [sys.executable, "-m", "coordinator", "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
        command += ["--data-dir", folder, "--set", "durability=write"]
        self.began = time.perf_counter()
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)  # noqa: S603
        assert self.process.stdout is not None
        self.port = int(json.loads(self.process.stdout.readline())["bootstrap"].rpartition(":")[2])

    def since_start_ms(self) -> float:
        return (time.perf_counter() - self.began) * 1e3

    def rss_mib(self) -> float:
        for line in Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        raise SystemExit("bench: the server is gone")

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


async def _commit(port: int, count: int) -> None:
    """Commits `count` offsets, a hundred per group, as simple consumers do."""
    codec = Codec.of(None)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    topic = CreateTopicsRequest.CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1)
    await ask(codec, reader, writer, "CreateTopics", 7, CreateTopicsRequest(topics=[topic], timeout_ms=5_000))
    partition = OffsetCommitRequest.OffsetCommitRequestPartition
    partitions = [partition(partition_index=p, committed_offset=p, committed_metadata="") for p in range(PARTITIONS)]
    named = OffsetCommitRequest.OffsetCommitRequestTopic(name=TOPIC, partitions=partitions)
    for group in range(count // PARTITIONS):
        request = OffsetCommitRequest(group_id=f"bench-{group}", generation_id_or_member_epoch=-1, topics=[named])
        answer = await ask(codec, reader, writer, "OffsetCommit", 8, request)
        if any(p.error_code for t in answer.topics for p in t.partitions):
            raise SystemExit(f"bench: a commit was refused: {answer}")
    writer.close()
    await writer.wait_closed()


async def _fetch(port: int) -> None:
    codec = Codec.of(None)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    topic = OffsetFetchRequest.OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[7])
    request = OffsetFetchRequest(group_id="bench-0", topics=[topic])
    answer = await ask(codec, reader, writer, "OffsetFetch", 7, request)
    writer.close()
    await writer.wait_closed()
    if answer.topics[0].partitions[0].committed_offset != 7:
        raise SystemExit(f"bench: an acknowledged offset is gone: {answer}")


def ready_ms(folder: str) -> float:
    """From exec until a server on this data folder is ready."""
    server = _Server(folder)
    try:
        return server.since_start_ms()
    finally:
        server.kill()


def measure(offsets: int) -> Footprint:
    """Starts a server on an empty folder, looks at it, fills it, kills it, and starts it again."""
    with TemporaryDirectory() as folder:
        server = _Server(folder)
        try:
            start_ms = server.since_start_ms()
            before = cpu_seconds(server.process.pid)
            time.sleep(IDLE_S)
            idle_cpu_ms = (cpu_seconds(server.process.pid) - before) / IDLE_S * 1e3
            rss_idle_mib = server.rss_mib()
            asyncio.run(_commit(server.port, offsets))
            rss_offsets_mib = server.rss_mib()
        finally:
            server.kill()
        server = _Server(folder)
        try:
            asyncio.run(_fetch(server.port))
            restart_ms = server.since_start_ms()
        finally:
            server.kill()
    return Footprint(start_ms, rss_idle_mib, idle_cpu_ms, offsets, rss_offsets_mib, restart_ms)
