"""The resident memory of a server while classic groups come and go: its slope shows what a deleted group leaves behind."""

import asyncio
import time
from dataclasses import dataclass
from itertools import count
from statistics import linear_regression
from tempfile import TemporaryDirectory

from coordinator.protocol.messages import DeleteGroupsRequest, OffsetCommitRequest
from coordinator_lab.bench.footprint import TOPIC, create_topic, rss_mib, running_server
from coordinator_lab.bench.load import connected
from coordinator_lab.bench.rebalance import RANGE, Member

CONNECTIONS = 8
SAMPLE_S = 1.0


@dataclass(frozen=True, slots=True)
class Soak:
    """Resident memory in MiB. The slopes are of the second half, when caches have filled."""

    groups: int
    rss_begin_mib: float
    rss_end_mib: float
    slope_per_minute: float
    slope_per_1000_groups: float


async def _live(port: int, names: "count[int]") -> None:
    """Lets one group after the other live: a member joins, commits and leaves, and the group is deleted."""
    client = await connected("127.0.0.1", port)
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    named = OffsetCommitRequest.OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])
    member = Member("127.0.0.1", port, RANGE)
    await member.connect()
    try:
        for number in names:
            member.group_id, member.member_id = f"soak-{number}", ""
            await member.join()
            commit = OffsetCommitRequest(member.group_id, member.generation, member.member_id, topics=[named])
            await client.send(commit, 9)
            await member.leave()
            answer = await client.send(DeleteGroupsRequest(groups_names=[member.group_id]), 2)
            if answer.results[0].error_code:
                raise SystemExit(f"bench: a group was not deleted: {answer}")
    finally:
        client.close()
        member.close()


async def _soak(port: int, pid: int, minutes: float) -> Soak:
    client = await connected("127.0.0.1", port)
    await create_topic(client)
    client.close()
    names = count()
    groups = [asyncio.ensure_future(_live(port, names)) for _ in range(CONNECTIONS)]
    samples: list[tuple[float, int, float]] = []
    """Minutes since the begin, groups, MiB."""
    begin = time.monotonic()
    while not samples or samples[-1][0] < minutes:
        await asyncio.wait(groups, timeout=SAMPLE_S, return_when=asyncio.FIRST_EXCEPTION)
        for ended in (each for each in groups if each.done()):
            ended.result()
        samples.append(((time.monotonic() - begin) / 60, next(names), rss_mib(pid)))
    for each in groups:
        each.cancel()
    await asyncio.gather(*groups, return_exceptions=True)
    tail = samples[len(samples) // 2 :]
    times, numbers, mib = zip(*tail, strict=True)
    return Soak(
        groups=numbers[-1],
        rss_begin_mib=samples[0][2],
        rss_end_mib=mib[-1],
        slope_per_minute=linear_regression(times, mib).slope,
        slope_per_1000_groups=linear_regression(numbers, mib).slope * 1_000,
    )


def measure_soak(minutes: float) -> Soak:
    """Lets groups come and go on a new server for so many minutes."""
    settings = ("durability=write", "group.initial.rebalance.delay.ms=0")
    with TemporaryDirectory() as folder, running_server(folder, *settings) as (port, process, _):
        return asyncio.run(_soak(port, process.pid, minutes))
