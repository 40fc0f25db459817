"""Members that read the same records of 1 KiB as a share group and as a consumer group, and what records in flight weigh.

    python -m coordinator_lab.bench.share PLAN      PLAN is JSON (`SharePlan`); prints one JSON line (`ShareOutcome`)

Each round has a new group that reads the whole topic once. Its members are connected and assigned before the measurement, which
ends when the last record is acknowledged or committed. A member has one request in progress, as Java's clients have:

    share       ShareFetch of 500 records, which accepts those of the one before it (KafkaShareConsumer with its defaults)
    commits     Fetch of 500 records, then OffsetCommit (KafkaConsumer with commitSync after each poll)
    rarely      Fetch of 1 MiB, and OffsetCommit every five seconds and at the end (KafkaConsumer with its defaults)

Responses are decoded, and a share member counts what it acquires.
"""

import asyncio
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import uvloop

from coordinator.client.asynchronous import Client
from coordinator.protocol.messages import (
    FetchRequest,
    IncrementalAlterConfigsRequest,
    MetadataRequest,
    OffsetCommitRequest,
    ProduceRequest,
    ShareFetchRequest,
    ShareGroupHeartbeatRequest,
)
from coordinator_lab.bench import data
from coordinator_lab.bench.consumer import Member, Owners, converge, create_topics, end_offsets
from coordinator_lab.bench.footprint import rss_mib, running_server
from coordinator_lab.bench.load import connected, cpu_seconds, wait_until_serving

SHARE, COMMITS, RARELY = "share", "commits", "rarely"
MEMBERS = 10
RECORDS = 60_000
"""How many the topic has, all of its partitions together."""
FETCHED = 500
"""Records of a request: max.poll.records."""
COMMIT_EVERY_S = 5.0
IN_FLIGHT = 100_000
_LOCKS_MAX = 10_000
"""The most records of a partition that a broker lets be in flight."""
_ACCEPT = 1
_GROUP_RESOURCE, _SET = 32, 0
_WAIT_MS, _SHORT_WAIT_MS = 500, 50
_READY_WITHIN_S = 60.0


@dataclass(frozen=True, slots=True)
class ShareRow:
    """A row of the table."""

    name: str
    kind: str
    partitions: int


SHARE_ROWS = (
    ShareRow("share group of 10 members, 10 partitions", SHARE, 10),
    ShareRow("share group of 10 members, 2 partitions", SHARE, 2),
    ShareRow("beside a share group: 10 consumers, 500 records a commit", COMMITS, 10),
    ShareRow("beside a share group: 10 consumers, a commit every 5 s", RARELY, 10),
)


@dataclass(frozen=True, slots=True)
class SharePlan:
    """A measurement. `kind`: SHARE, COMMITS or RARELY."""

    host: str
    port: int
    kind: str
    partitions: int
    warm_up_s: float
    seconds: float
    server_pid: int
    members: int = MEMBERS
    records: int = RECORDS


@dataclass(frozen=True, slots=True)
class ShareOutcome:
    """The records that members got and settled, how long that took, and the CPU time of the server."""

    records: int
    seconds: float
    server_cpu_s: float


class Left:
    """How many records a group has not settled yet, and how many of each partition none of its members has got."""

    def __init__(self, ends: Mapping[int, int]) -> None:
        self.records = sum(ends.values())
        self.of_partition = dict(ends)
        self.all_settled = asyncio.Event()

    def settle(self, records: int) -> None:
        self.records -= records
        if self.records < 0:
            raise SystemExit("share: a record was settled twice")
        if not self.records:
            self.all_settled.set()


def _count(ranges: Sequence[tuple[int, int]]) -> int:
    return sum(last - first + 1 for first, last in ranges)


class ShareMember:
    """A member of a share group, with a connection for its requests to the coordinator and to the leader."""

    def __init__(self, group_id: str, topic: str, topic_id: bytes) -> None:
        self._group_id = group_id
        self._topic = topic
        self._topic_id = topic_id
        self._member_id = str(uuid4())
        self._session_epoch = 0
        self._member_epoch = 0
        self.partitions: list[int] = []

    async def join(self, host: str, port: int) -> None:
        self.client = await connected(host, port)
        await self.beat([self._topic])

    async def beat(self, topics: Sequence[str] | None = None) -> None:
        request = ShareGroupHeartbeatRequest(
            self._group_id, self._member_id, self._member_epoch, None, None if topics is None else list(topics)
        )
        answer = await self.client.send(request, 1)
        if answer.error_code:
            raise SystemExit(f"share: ShareGroupHeartbeat returned error {answer.error_code}: {answer.error_message}")
        self._member_epoch = answer.member_epoch
        if answer.assignment is not None:
            self.partitions = [index for topic in answer.assignment.topic_partitions for index in topic.partitions]

    async def fetch(
        self, accepted: dict[int, list[tuple[int, int]]], records_max: int, wait_ms: int = _WAIT_MS
    ) -> dict[int, list[tuple[int, int]]]:
        """Accepts ranges of offsets, and acquires others."""
        acknowledged, partition = ShareFetchRequest.AcknowledgementBatch, ShareFetchRequest.FetchPartition
        named = self.partitions if not self._session_epoch else accepted
        topic = ShareFetchRequest.FetchTopic(
            self._topic_id,
            [partition(index, [acknowledged(*each, [_ACCEPT]) for each in accepted.get(index, ())]) for index in named],
        )
        request = ShareFetchRequest(
            self._group_id, self._member_id, self._session_epoch, wait_ms, 1, 50 << 20, records_max, records_max,
            topics=[topic] if named else [],
        )  # fmt: skip
        answer = await self.client.send(request, 1)
        parts = [each for topic in answer.responses for each in topic.partitions]
        errors = [code for each in parts for code in (each.error_code, each.acknowledge_error_code) if code]
        if answer.error_code or errors:
            raise SystemExit(f"share: ShareFetch returned error {answer.error_code or errors[0]}")
        self._session_epoch += 1
        return {
            each.partition_index: [(got.first_offset, got.last_offset) for got in each.acquired_records]
            for each in parts
            if each.acquired_records
        }

    async def read(self, left: Left) -> None:
        """Reads and accepts until it is cancelled."""
        held: dict[int, list[tuple[int, int]]] = {}
        while True:
            # A response with acknowledgements waits for records: nobody waits for those that do not come.
            has_more = any(left.of_partition[index] for index in self.partitions)
            settled, held = held, await self.fetch(held, FETCHED, _SHORT_WAIT_MS if has_more else 0)
            for index, ranges in held.items():
                left.of_partition[index] -= _count(ranges)
            left.settle(sum(map(_count, settled.values())))
            if not has_more and not held:
                return

    async def leave(self) -> None:
        self._member_epoch = -1
        await self.beat()
        self.client.close()


class Consumer:
    """A member of a consumer group that reads its partitions one after another."""

    def __init__(self, member: Member, topic: str, partitions: Sequence[int], *, rarely: bool) -> None:
        self._member = member
        self._topic = topic
        self._offsets = dict.fromkeys(partitions, 0)
        self._bytes_max = data.READ_BYTES if rarely else (FETCHED // data.RECORDS) * len(batch())
        self._commit_every_s = COMMIT_EVERY_S if rarely else 0.0

    async def read(self, left: Left, ends: dict[int, int]) -> None:
        """Reads up to these ends, and commits."""
        committed_s, not_committed = time.monotonic(), 0
        for index, end in ends.items():
            while index in self._offsets and self._offsets[index] < end:
                got = await self._fetch(index)
                self._offsets[index] += got
                not_committed += got
                if time.monotonic() - committed_s >= self._commit_every_s:
                    await self._commit()
                    left.settle(not_committed)
                    committed_s, not_committed = time.monotonic(), 0
        if not_committed:
            await self._commit()
            left.settle(not_committed)

    async def _fetch(self, index: int) -> int:
        wanted = FetchRequest.FetchPartition(
            partition=index, fetch_offset=self._offsets[index], partition_max_bytes=self._bytes_max
        )
        request = FetchRequest(
            max_wait_ms=_WAIT_MS, min_bytes=1, max_bytes=50 << 20, session_epoch=-1,
            topics=[FetchRequest.FetchTopic(topic=self._topic, partitions=[wanted])],
        )  # fmt: skip
        (part,) = (await self._member.client.send(request, 12)).responses[0].partitions
        if part.error_code:
            raise SystemExit(f"share: Fetch returned error {part.error_code}")
        return len(part.records or b"") // len(batch()) * data.RECORDS

    async def _commit(self) -> None:
        committed = OffsetCommitRequest.OffsetCommitRequestPartition
        topic = OffsetCommitRequest.OffsetCommitRequestTopic(
            name=self._topic, partitions=[committed(index, offset) for index, offset in self._offsets.items()]
        )
        request = OffsetCommitRequest(self._member.group_id, self._member.epoch, self._member.member_id, topics=[topic])
        errors = [each.error_code for each in (await self._member.client.send(request, 9)).topics[0].partitions]
        if any(errors):
            raise SystemExit(f"share: OffsetCommit returned errors {errors}")


class Bench:
    """The topic, and groups that read it."""

    def __init__(self, plan: SharePlan) -> None:
        self.plan = plan
        self.topic = f"bench-share-{plan.partitions}-{plan.records}"
        self.topic_id = bytes(16)
        self.ends: dict[int, int] = {}

    async def prepare(self) -> None:
        """Writes the records, unless an earlier run has."""
        plan = self.plan
        await wait_until_serving(plan.host, plan.port)
        client = await connected(plan.host, plan.port)
        await create_topics(client, {self.topic: plan.partitions})
        self.ends = await end_offsets(client, self.topic, plan.partitions)
        for index, end in self.ends.items():
            for _ in range(end, plan.records // plan.partitions, data.RECORDS):
                await produce(client, self.topic, index, batch())
        self.ends = await end_offsets(client, self.topic, plan.partitions)
        found = await client.send(MetadataRequest([MetadataRequest.MetadataRequestTopic(name=self.topic)]), 12)
        self.topic_id = found.topics[0].topic_id
        client.close()

    async def share_group(self) -> list[ShareMember]:
        """Members that have been assigned partitions, of a new group that reads from the beginning."""
        plan, group_id = self.plan, f"bench-{uuid4()}"
        members = [ShareMember(group_id, self.topic, self.topic_id) for _ in range(plan.members)]
        client = await connected(plan.host, plan.port)
        entry = IncrementalAlterConfigsRequest.AlterableConfig("share.auto.offset.reset", _SET, "earliest")
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource(_GROUP_RESOURCE, group_id, [entry])
        if (await client.send(IncrementalAlterConfigsRequest([resource]), 1)).responses[0].error_code:
            raise SystemExit("share: the group could not be configured")
        client.close()
        for member in members:
            await member.join(plan.host, plan.port)
        deadline = time.monotonic() + _READY_WITHIN_S
        while {index for each in members for index in each.partitions} != set(self.ends):
            if time.monotonic() > deadline:
                raise SystemExit("share: not every partition was assigned")
            await asyncio.sleep(0.1)
            for member in members:
                await member.beat()
        return members

    async def share_round(self) -> ShareOutcome:
        """A share group reads the topic."""
        members = await self.share_group()
        left = Left(self.ends)
        found = await self._measured([member.read(left) for member in members], left)
        for member in members:
            await member.leave()
        return found

    async def consumer_round(self) -> ShareOutcome:
        """A consumer group reads the topic."""
        plan, group_id, owners = self.plan, f"bench-{uuid4()}", Owners()
        members = [Member(group_id, [self.topic], owners) for _ in range(plan.members)]
        for member in members:
            await member.connect(plan.host, plan.port)
            await member.join()
        await converge(members, owners, plan.partitions)
        left = Left(self.ends)
        consumers = [
            Consumer(each, self.topic, sorted(index for _, index in each.owned), rarely=plan.kind == RARELY)
            for each in members
        ]
        found = await self._measured([consumer.read(left, self.ends) for consumer in consumers], left)
        for member in members:
            await member.leave()
            member.client.close()
        return found

    async def _measured(self, reads: Sequence[Any], left: Left) -> ShareOutcome:
        cpu_s, began_s, records = cpu_seconds(self.plan.server_pid), time.perf_counter(), left.records
        tasks = [asyncio.ensure_future(read) for read in reads]
        settled = asyncio.ensure_future(left.all_settled.wait())
        await asyncio.wait([settled, *tasks], return_when=asyncio.FIRST_EXCEPTION, timeout=0)
        while not settled.done():
            done, _ = await asyncio.wait([settled, *(each for each in tasks if not each.done())],
                                         return_when=asyncio.FIRST_COMPLETED)  # fmt: skip
            for each in done:
                each.result()
        found = ShareOutcome(records, time.perf_counter() - began_s, cpu_seconds(self.plan.server_pid) - cpu_s)
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return found


@cache
def batch() -> bytes:
    """The batch that the topic has over and over: 100 records of 1 KiB."""
    return data.batch()


async def produce(client: Client, topic: str, index: int, records: bytes) -> None:
    """Appends a batch."""
    part = ProduceRequest.PartitionProduceData(index=index, records=records)
    named = ProduceRequest.TopicProduceData(name=topic, partition_data=[part])
    answer = await client.send(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[named]), 9)
    error = answer.responses[0].partition_responses[0].error_code
    if error:
        raise SystemExit(f"share: Produce returned error {error}")


async def run(plan: SharePlan) -> ShareOutcome:
    """Lets groups read the topic until that took long enough."""
    bench = Bench(plan)
    await bench.prepare()
    one_round = bench.share_round if plan.kind == SHARE else bench.consumer_round
    warm_s = 0.0
    while warm_s < plan.warm_up_s:
        warm_s += (await one_round()).seconds
    found = ShareOutcome(0, 0.0, 0.0)
    while found.seconds < plan.seconds:
        more = await one_round()
        found = ShareOutcome(
            found.records + more.records, found.seconds + more.seconds, found.server_cpu_s + more.server_cpu_s
        )
    return found


@dataclass(frozen=True, slots=True)
class InFlight:
    """The memory of the server that records in flight take, in bytes for each of them."""

    acquired_bytes: float
    """As they are fetched, 500 at a time."""
    alternating_bytes: float
    """When every second one is accepted, so that no two neighbours share a state."""


def measure_in_flight() -> InFlight:
    """Acquires records and keeps them, then accepts every second one."""
    names = ("group.share.max.partition.max.record.locks", "group.share.partition.max.record.locks")
    lock = "group.share.record.lock.duration.ms=60000"  # on a busy machine the locks must not end meanwhile
    settings = ("durability=write", lock, *(f"{name}={_LOCKS_MAX}" for name in names))
    with TemporaryDirectory() as folder, running_server(folder, *settings) as (port, process, _):
        partitions = IN_FLIGHT // _LOCKS_MAX
        plan = SharePlan("127.0.0.1", port, SHARE, partitions, 0, 0, process.pid, partitions, IN_FLIGHT)
        return asyncio.run(_in_flight(Bench(plan)))


async def _in_flight(bench: Bench) -> InFlight:
    pid = bench.plan.server_pid
    await bench.prepare()
    await bench.share_round()  # the buffers of responses stay with the process
    members = await bench.share_group()
    await asyncio.gather(*(member.fetch({}, 1) for member in members))
    before = rss_mib(pid)
    held = [await _hold(member) for member in members]
    acquired = rss_mib(pid)
    for member, ranges in zip(members, held, strict=True):
        every_second = {
            index: [(offset, offset) for first, last in each for offset in range(first, last + 1, 2)]
            for index, each in ranges.items()
        }
        await member.fetch(every_second, 0)
    alternating = rss_mib(pid)
    return InFlight(*((each - before) * (1 << 20) / IN_FLIGHT for each in (acquired, alternating)))


async def _hold(member: ShareMember) -> dict[int, list[tuple[int, int]]]:
    """Acquires until there are no more records."""
    held: dict[int, list[tuple[int, int]]] = {}
    while got := await member.fetch({}, FETCHED):
        for index, ranges in got.items():
            held.setdefault(index, []).extend(ranges)
    return held


if __name__ == "__main__":
    print(json.dumps(asdict(uvloop.run(run(SharePlan(**json.loads(sys.argv[1])))))))  # noqa: T201
