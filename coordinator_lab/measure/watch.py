"""The CPU time in which `coordinator watch` reads the commits of 10,000 groups from a server, over the network.

    python -m coordinator_lab.measure watch [--commits 1000000]

The groups commit in turn, one partition in a request. The first watcher writes the events; the second one, with the same
folder, reads the log again and has no events to write. No TLS, and all on loopback.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

from coordinator.protocol.messages import OffsetCommitRequest
from coordinator_lab.bench.footprint import TOPIC, create_topic, rss_mib, running, running_server
from coordinator_lab.bench.load import connected, cpu_seconds

GROUPS = 10_000
AT_ONCE = 500
LOOK_S = 0.2


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m coordinator_lab.measure watch")
    parser.add_argument("--commits", type=int, default=1_000_000)
    commits = parser.parse_args(arguments).commits
    with (
        tempfile.TemporaryDirectory() as folder,
        running_server(f"{folder}/server", "coordinator.events=none") as (port, _process, _admin),
    ):
        asyncio.run(commit(port, commits))
        for name in ("with a new folder", "after a restart"):
            start_s, read_s, mib = watch(port, f"{folder}/watch")
            millions = f"{read_s / commits * 1e6:.1f} CPU-s for a million commits, {commits / read_s:,.0f} commits/s"
            print(f"{name}: start {start_s:.1f} CPU-s, then {millions}, {mib:.0f} MiB", flush=True)
        events = sum(file.stat().st_size for file in Path(folder).glob("watch/__coordinator_events-*/*.log"))
        print(f"events: {events / commits:.0f} bytes for each commit")


async def commit(port: int, commits: int) -> None:
    """Commits offsets as the members of many groups do: batches of the log have records of many groups."""
    client = await connected("127.0.0.1", port)
    await create_topic(client)
    for first in range(0, commits, AT_ONCE):
        numbers = range(first, min(first + AT_ONCE, commits))
        for answer in await asyncio.gather(*(client.send(commit_request(number), 8) for number in numbers)):
            if answer.topics[0].partitions[0].error_code:
                raise SystemExit(f"watch: a commit was refused: {answer}")
    client.close()


def commit_request(number: int) -> OffsetCommitRequest:
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(committed_offset=number, committed_metadata="")
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])
    return OffsetCommitRequest(group_id=f"watched-{number % GROUPS}", generation_id_or_member_epoch=-1, topics=[topic])


def watch(port: int, folder: str) -> tuple[float, float, float]:
    """CPU-seconds of a start and of reading the log, and the memory after that."""
    with running(("watch", f"127.0.0.1:{port}", "--admin", "127.0.0.1:0", "--data-dir", folder)) as (ready, process):
        start_s = cpu_seconds(process.pid)
        while not has_read(ready["admin"]):
            time.sleep(LOOK_S)
        read_s, mib = cpu_seconds(process.pid) - start_s, rss_mib(process.pid)
        process.terminate()
        process.wait()
    return start_s, read_s, mib


def has_read(admin: str) -> bool:
    """Whether the watcher has read all of the log."""
    try:
        with urlopen(f"{admin}/health/ready", timeout=60):  # noqa: S310 - on loopback
            return True
    except HTTPError:
        return False
