"""The footprint of a server: start-up time, memory, idle CPU, and the time of a restart after `kill -9`."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from coordinator.client.asynchronous import Client
from coordinator.protocol.messages import (
    ApiVersionsRequest,
    CreateTopicsRequest,
    FindCoordinatorRequest,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
)
from coordinator_lab.bench.load import connected, cpu_seconds, loop_cpu_ms
from coordinator_lab.bench.rebalance import RANGE, Member

TOPIC = "bench-footprint"
PARTITIONS = 100
IDLE_S = 5.0
SETTLE_S = 0.2


@dataclass(frozen=True, slots=True)
class ConnectionFootprint:
    """Start-up times in milliseconds since exec, memory in MiB (VmRSS), idle CPU in milliseconds per second."""

    start_ms: float
    start_cpu_ms: float
    first_group_ms: float
    """The additional CPU time of the first group after the start, compared with the second."""
    rss_idle_mib: float
    idle_cpu_ms: float
    rss_connections_mib: float
    rss_members_mib: float
    """With as many members of one group, each with its own connection."""


@dataclass(frozen=True, slots=True)
class OffsetFootprint:
    """The cost of many committed offsets."""

    rss_mib: float
    bytes_each: float
    """The RSS that the commits add, per offset. It includes their groups, each of which has a hundred offsets."""
    restart_ms: float
    """The time from exec to the response with an offset that was committed before the kill."""
    replayed_per_s: float
    """Offset commits in the log, per second of CPU time that a start takes in addition to a start without data."""


@contextmanager
def running_server(
    folder: str, *settings: str, arguments: Sequence[str] = ()
) -> Iterator[tuple[int, "subprocess.Popen[str]", str]]:
    """Starts a server with this data folder on free ports, and kills it in the end.

    The values are its port, its process and the URL of its admin pages.
    """
    words = ["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--data-dir", folder]
    words += [word for setting in settings for word in ("--set", setting)]
    with running((*words, *arguments)) as (ready, process):
        yield int(ready["bootstrap"].rpartition(":")[2]), process, ready["admin"]


@contextmanager
def running(arguments: Sequence[str]) -> Iterator[tuple[dict[str, str], "subprocess.Popen[str]"]]:
    """Starts a command that serves, and kills it in the end. The values are what it prints when it is ready, and its process.

    Python may cache its bytecode, as for an installed package, even if the environment forbids that.
    """
    command = [sys.executable, "-m", "coordinator", *arguments]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen(  # noqa: S603
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise SystemExit("bench: the server did not start")
        yield json.loads(line), process
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def rss_mib(pid: int) -> float:
    """The resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise SystemExit("bench: the server has exited")


async def create_topic(client: Client) -> None:
    """Creates `TOPIC`."""
    topic = CreateTopicsRequest.CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1)
    await client.send(CreateTopicsRequest(topics=[topic], timeout_ms=5_000), 7)


async def _commit(port: int, count: int) -> None:
    """Commits `count` offsets, a hundred per group, without members."""
    client = await connected("127.0.0.1", port)
    await create_topic(client)
    partition = OffsetCommitRequest.OffsetCommitRequestPartition
    partitions = [partition(partition_index=p, committed_offset=p, committed_metadata="") for p in range(PARTITIONS)]
    named = OffsetCommitRequest.OffsetCommitRequestTopic(name=TOPIC, partitions=partitions)
    for group in range(count // PARTITIONS):
        request = OffsetCommitRequest(group_id=f"bench-{group}", generation_id_or_member_epoch=-1, topics=[named])
        answer = await client.send(request, 8)
        if any(p.error_code for t in answer.topics for p in t.partitions):
            raise SystemExit(f"bench: a commit was refused: {answer}")
    client.close()


async def _fetch(port: int) -> None:
    client = await connected("127.0.0.1", port)
    topic = OffsetFetchRequest.OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[7])
    request = OffsetFetchRequest(group_id="bench-0", topics=[topic])
    answer = await client.send(request, 7)
    client.close()
    if answer.topics[0].partitions[0].committed_offset != 7:
        raise SystemExit(f"bench: a committed offset is missing: {answer}")


def start_up_ms(folder: str) -> tuple[float, float]:
    """The wall-clock and CPU time in milliseconds from exec until a server with this data folder is ready."""
    began = time.perf_counter()
    with running_server(folder) as (_, process, _):
        return (time.perf_counter() - began) * 1e3, cpu_seconds(process.pid) * 1e3


async def _connect(port: int, count: int) -> list[asyncio.StreamWriter]:
    return [(await asyncio.open_connection("127.0.0.1", port))[1] for _ in range(count)]


async def _with_connections(port: int, pid: int, count: int) -> float:
    """The RSS with `count` open connections that have sent no request."""
    writers = await _connect(port, count)
    await asyncio.sleep(SETTLE_S)
    with_connections_mib = rss_mib(pid)
    for writer in writers:
        writer.close()
    return with_connections_mib


async def _with_members(port: int, pid: int, count: int) -> float:
    """The RSS with a stable group of `count` members."""
    members = [Member("127.0.0.1", port, RANGE) for _ in range(count)]
    for member in members:
        await member.connect()
    await asyncio.gather(*(member.join() for member in members))
    return rss_mib(pid)


async def _group(port: int, group_id: str) -> None:
    """Sends what a consumer sends in its life: it finds its group, joins, commits and leaves."""
    client = await connected("127.0.0.1", port)
    topic = OffsetFetchRequest.OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])
    fetch = OffsetFetchRequest(groups=[OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group_id, topics=[topic])])
    await client.send(ApiVersionsRequest(), 2)
    await client.send(MetadataRequest(topics=[]), 12)
    await client.send(FindCoordinatorRequest(coordinator_keys=[group_id]), 4)
    member = Member("127.0.0.1", port, RANGE, group_id)
    await member.connect()
    await member.join()
    await client.send(fetch, 8)
    await member.heartbeat()
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    named = OffsetCommitRequest.OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])
    commit = OffsetCommitRequest(group_id, member.generation, member.member_id, topics=[named])
    await client.send(commit, 9)
    await member.leave()
    client.close()


def _first_group_ms(port: int, pid: int) -> float:
    costs = []
    for group_id in ("bench-first", "bench-second"):
        before = loop_cpu_ms(pid)
        asyncio.run(_group(port, group_id))
        costs.append(loop_cpu_ms(pid) - before)
    return costs[0] - costs[1]


def measure_connections(count: int) -> ConnectionFootprint:
    """Measures a server without data, with connections, and with a group."""
    with TemporaryDirectory() as folder, running_server(folder) as (port, _, _):
        asyncio.run(_group(port, "bench-cached"))  # the first start on a machine has to read and compile more
    with TemporaryDirectory() as folder:
        began = time.perf_counter()
        with running_server(folder, "durability=write", "group.initial.rebalance.delay.ms=1000") as (port, process, _):
            start_ms, start_cpu_ms = (time.perf_counter() - began) * 1e3, cpu_seconds(process.pid) * 1e3
            before = cpu_seconds(process.pid)
            time.sleep(IDLE_S)  # the server is measured while it is idle
            idle_cpu_ms = (cpu_seconds(process.pid) - before) / IDLE_S * 1e3
            rss_idle_mib = rss_mib(process.pid)
            first_group_ms = _first_group_ms(port, process.pid)
            rss_connections_mib = asyncio.run(_with_connections(port, process.pid, count))
            rss_members_mib = asyncio.run(_with_members(port, process.pid, count))
    return ConnectionFootprint(
        start_ms, start_cpu_ms, first_group_ms, rss_idle_mib, idle_cpu_ms, rss_connections_mib, rss_members_mib
    )


def measure_offsets(count: int) -> OffsetFootprint:
    """Commits offsets to a server, kills it and starts it again."""
    with TemporaryDirectory() as folder:
        with running_server(folder, "durability=write") as (port, process, _):
            empty_cpu_s, empty_mib = cpu_seconds(process.pid), rss_mib(process.pid)
            asyncio.run(_commit(port, count))
            filled_mib = rss_mib(process.pid)
        began = time.perf_counter()
        with running_server(folder, "durability=write") as (port, process, _):
            load_cpu_s = max(0.01, cpu_seconds(process.pid) - empty_cpu_s)
            asyncio.run(_fetch(port))
            restart_ms = (time.perf_counter() - began) * 1e3
    return OffsetFootprint(filled_mib, (filled_mib - empty_mib) * (1 << 20) / count, restart_ms, count / load_cpu_s)
