"""What Prometheus scrapes from a server in simulated time, as the input of promtool: a storm, zombies, a calm day.

The storm is that of examples/rebalance_storm.py. In each recording the server has 500 calm groups, which are deployed once in
four hours, and whose members commit every ten minutes.
"""

import asyncio
import importlib.util
from pathlib import Path
from random import Random
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from coordinator.admin.metrics import Collector
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    SyncGroupRequest,
)
from coordinator_lab.simulation.wire import ClientProtocol
from tests.support.recorded_storm import PROGRAM

CALM_GROUPS = 500
CALM_DAY_S = 4 * 3600
SESSION_MS = 1_800_000


class Recording:
    """A server with calm groups, and its metrics every `every_s` of simulated time."""

    def __init__(self, folder: Path, every_s: int) -> None:
        spec: Any = importlib.util.spec_from_file_location("rebalance_storm", PROGRAM)
        self.storm_program = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.storm_program)
        (folder / "data").mkdir(parents=True)
        self.storm = self.storm_program.Storm(folder)
        self.every_s = every_s
        self.scrapes: list[dict[str, float]] = []

    @property
    def series(self) -> list[dict[str, str]]:
        """All scrapes in the notation of promtool."""
        names = dict.fromkeys(name for scrape in self.scrapes for name in scrape)
        return [
            {"series": name, "values": " ".join(_written(scrape.get(name)) for scrape in self.scrapes)}
            for name in names
        ]

    def last(self, name: str) -> float:
        """The sum of the samples with this name in the last scrape."""
        return sum(value for series, value in self.scrapes[-1].items() if series.startswith(f"{name}{{"))

    def run(self, *happens: Any, seconds: int) -> None:
        """Runs the server, its calm groups, and what else happens, for so long."""
        loop = self.storm.loop
        loop.set_exception_handler(lambda _, context: self.storm.failed("exception", str(context)))
        try:
            loop.run_until_complete(self._run(happens, seconds))
        finally:
            loop.close()
        assert self.storm.errors == []

    async def _run(self, happens: Any, seconds: int) -> None:
        server = await self.storm.serve()
        calm = [self.storm.loop.create_task(self._calm_group(number)) for number in range(CALM_GROUPS)]
        others = [self.storm.loop.create_task(each(self)) for each in happens]
        await self._scrape(server, seconds)
        for task in (*calm, *others):
            task.cancel()
        ends = await asyncio.gather(*calm, *others, return_exceptions=True)
        assert [each for each in ends if isinstance(each, Exception)] == []  # a CancelledError is none
        await server.stop()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _scrape(self, server: Any, seconds: int) -> None:
        registry = CollectorRegistry()
        registry.register(Collector(server))
        for _ in range(seconds // self.every_s):
            text = generate_latest(registry).decode()
            self.scrapes.append(
                {
                    _series(sample): sample.value
                    for family in text_string_to_metric_families(text)
                    for sample in family.samples
                }
            )
            await asyncio.sleep(self.every_s)

    async def connect(self, client_id: str, host: str) -> ClientProtocol:
        _, protocol = await self.storm.network.connect(
            lambda: ClientProtocol(client_id, self.storm.failed), *self.storm_program.ADDRESS, host
        )
        return protocol

    async def _calm_group(self, number: int) -> None:
        """A group with one member, which works, is replaced once, and works again."""
        random, group = Random(f"calm {number}"), f"calm-{number}"
        await asyncio.sleep(random.uniform(0, 30))
        client = await self.connect(group, f"10.1.{number // 250}.{number % 250}")
        deployed_s = self.storm.loop.time() + random.uniform(0, CALM_DAY_S)
        while True:
            member_id, generation = await _join(client, group)
            while self.storm.loop.time() < deployed_s:
                await asyncio.sleep(600)
                assert await commit(client, group, generation, member_id) == ErrorCode.NONE
                assert (await client.send(HeartbeatRequest(group, generation, member_id, None), 4)).error_code == 0
            deployed_s = float("inf")
            leaving = [LeaveGroupRequest.MemberIdentity(member_id, None, "deployment")]
            await client.send(LeaveGroupRequest(group_id=group, members=leaving), 5)
            await asyncio.sleep(10)


def record(folder: Path, *happens: Any, seconds: int, every_s: int = 15) -> Recording:
    """A recording of so many seconds, in which these happen beside the calm groups."""
    recording = Recording(folder, every_s)
    recording.run(*happens, seconds=seconds)
    return recording


async def _join(client: ClientProtocol, group: str) -> tuple[str, int]:
    protocols = [JoinGroupRequest.JoinGroupRequestProtocol("range", b"")]
    joining = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=60_000,
        protocol_type="any",
        protocols=protocols,
    )
    first = await client.send(joining, 9)
    joining.member_id = first.member_id
    joined = await client.send(joining, 9)
    assert joined.error_code == ErrorCode.NONE
    synced = await client.send(
        SyncGroupRequest(
            group_id=group,
            generation_id=joined.generation_id,
            member_id=first.member_id,
            protocol_type="any",
            protocol_name="range",
            assignments=[SyncGroupRequest.SyncGroupRequestAssignment(first.member_id, b"")],
        ),
        5,
    )
    assert synced.error_code == ErrorCode.NONE
    return first.member_id, joined.generation_id


async def commit(client: ClientProtocol, group: str, generation: int, member_id: str) -> int:
    """Commits an offset; returns the error code."""
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(0, 7, -1, "")
    topics = [OffsetCommitRequest.OffsetCommitRequestTopic(name="order-events", partitions=[partition])]
    request = OffsetCommitRequest(
        group_id=group, generation_id_or_member_epoch=generation, member_id=member_id, topics=topics
    )
    response = await client.send(request, 8)
    code: int = response.topics[0].partitions[0].error_code
    return code


async def storm(recording: Recording) -> None:
    """The five minutes of examples/rebalance_storm.py."""
    await recording.storm.happen()


async def zombies(recording: Recording) -> None:
    """Four consumers that were replaced commit every five seconds, for a minute."""
    clients = [await recording.connect("zombie", f"10.2.0.{number}") for number in range(4)]
    await asyncio.sleep(300)
    for _ in range(12):
        for number, client in enumerate(clients):
            assert await commit(client, f"calm-{number}", 1, "replaced") == ErrorCode.UNKNOWN_MEMBER_ID
        await asyncio.sleep(5)


async def rolling_restart(recording: Recording) -> None:
    """Five members of one group are replaced one after the other."""
    make = recording.storm_program.Application
    applications = [make(recording.storm, f"orders-{number}", f"10.0.1.{number}", 1, 0.5) for number in range(5)]
    for application in applications:
        application.start()
    await asyncio.sleep(1800)
    for application in applications:
        await application.leave()
        await asyncio.sleep(10)
        application.start()
        await asyncio.sleep(20)
    await asyncio.sleep(1800)
    for application in applications:
        await application.leave()


def _series(sample: Any) -> str:
    labels = ", ".join(f'{name}="{value}"' for name, value in sample.labels.items())
    return f"{sample.name}{{{labels}}}"


def _written(value: float | None) -> str:
    return "_" if value is None else repr(value)
