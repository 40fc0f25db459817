"""Group histories made by the server's own core, with planted violations.

The clients of the group tests (`groups/consumer/consumer_world.py`) run a seeded random workload: they join and leave, and
commit with current and former epochs, and with partitions they lost or never owned. The log consists of the records and
events of the core. Then violations are planted, as a broken server would produce them: refused zombies become accepted, and
records assign a partition to a second member or put the epochs out of order.
"""

import random
from pathlib import Path
from typing import Any

from coordinator.groups.events import EVENT_KEYS
from coordinator.groups.kinds import Kind
from coordinator.groups.machine import RECORD_KEYS
from coordinator.groups.offsets.commit import commit
from coordinator.log.batch_builder import BatchBuilder
from coordinator.protocol.codec import Codec
from coordinator.protocol.errors import KafkaError
from coordinator.protocol.messages import (
    ClassicGroupGenerationKey,
    ClassicGroupGenerationValue,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    EventLogOpenedKey,
    EventLogOpenedValue,
    GroupMetadataKey,
    OffsetCommitRequest,
)
from coordinator.requests import offset_commit as commit_api
from coordinator.runtime.result import Record, Result
from coordinator.runtime.serde import Serde
from tests.groups.consumer.consumer_world import Classic, ConsumerHarness, Modern
from tests.groups.harness import SentRequest

_Topic = OffsetCommitRequest.OffsetCommitRequestTopic
_Partition = OffsetCommitRequest.OffsetCommitRequestPartition
_Assigned = ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions


START_MS = 1_760_000_000_000
BATCH_RECORDS = 7


class SimulatedHistory(ConsumerHarness):
    """A shard that keeps all its events, including those of refused requests."""

    def __init__(self, seed: int, **config: Any) -> None:
        self.times: list[int] = []
        """When each record was written."""
        super().__init__({"t": 12, "u": 5}, group_consumer_assignment_interval_ms=0, **config)
        self.now_ms = START_MS
        opened = EventLogOpenedValue(state_offset=0, time_ms=self.now_ms, run_id="run", policy="all", cause="start")
        self.events.append(Record(EventLogOpenedKey(), opened))
        self.chance = random.Random(seed)
        self.statics = random.Random(f"statics {seed}")
        self.clients: list[Any] = []
        self.old: list[tuple[str, str, int, tuple[Any, ...]]] = []
        """Earlier states: (group, member, epoch, partitions)."""
        self.names = 0

    def _apply(self, result: Any) -> None:
        super()._apply(result)
        self.times += [self.now_ms] * (len(self.records) - len(self.times))

    def send(self, group_id: str, member_id: str, epoch: int, partitions: Any, version: int = 9) -> None:
        """Sends a commit as the API passes it on: every topic with name and id."""
        by_topic: dict[str, list[int]] = {}
        for name, partition in partitions:
            by_topic.setdefault(name, []).append(partition)
        request = OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=epoch,
            member_id=member_id,
            topics=[
                _Topic(name, self.id_of(name), [_Partition(each, 7, -1, "") for each in which])
                for name, which in by_topic.items()
            ],
        )
        context = SentRequest(commit_api.API, version, "client", "/127.0.0.1", "")
        try:
            result = commit(self.groups, request, context, self.now_ms)
        except KafkaError as error:
            result = Result(facts=error.facts)
        self._apply(result)

    # --- the workload -------------------------------------------------------------------------------------------------

    def run_workload(self, steps: int) -> "SimulatedHistory":
        for _ in range(4):
            self.add_member()
        for _ in range(steps):
            self.step()
        return self

    def add_member(self) -> None:
        self.names += 1
        topics = self.chance.choice((("t",), ("t", "u"), ("u",)))
        if self.chance.random() < 0.75:
            group = self.chance.choice(("g", "h"))
            instance = f"i{self.names}" if self.statics.random() < 0.5 else None
            self.clients.append(Modern(self, f"m{self.names}", group=group, topics=topics, instance=instance))
        else:
            self.clients.append(Classic(self, group="c", topics=topics, cooperative=True))

    def step(self) -> None:
        chance, client = self.chance.random(), self.chance.choice(self.clients)
        if chance < 0.5:
            if isinstance(client, Modern) and client.instance and client.is_in and self.statics.random() < 0.1:
                self.restart_static(client)
            before = self.snapshot(client)
            client.beat()
            if before is not None:
                self.old.append(before)
                del self.old[:-12]
        elif chance < 0.75:
            self.commits(client)
        elif chance < 0.85:
            self.advance(self.chance.choice((10, 200, 700)))
        elif chance < 0.87 and len(self.clients) < 9:
            self.add_member()
        elif chance < 0.89 and len(self.clients) > 3:
            if client.is_in:
                client.leave()
            self.clients.remove(client)
        elif chance < 0.915:
            self.advance(46_000)
        elif chance < 0.95:
            client.topics = self.chance.choice((("t",), ("t", "u"), ("u",)))
            if isinstance(client, Modern):
                client.says_all = True
            elif client.what == "heartbeat":
                client.what = "join"
        elif chance < 0.97:
            self.send("simple", "", -1, [("t", 0)])
        else:
            self.send(
                client.group, client.id or "nobody", self.chance.randrange(0, 9), [("t", self.chance.randrange(6))]
            )

    def restart_static(self, client: Modern) -> None:
        """It leaves for a while and returns, under its member id or as a new process."""
        self.beat(client.group, client.id, -2, instance=client.instance)
        client.forget()
        if self.statics.random() < 0.5:
            self.names += 1
            client.id = f"m{self.names}"

    @staticmethod
    def snapshot(client: Any) -> tuple[str, str, int, tuple[Any, ...]] | None:
        if not client.owned or not client.id:
            return None
        epoch = client.epoch if isinstance(client, Modern) else client.generation
        return client.group, client.id, epoch, tuple(sorted(client.owned))

    def commits(self, client: Any) -> None:
        now = self.snapshot(client)
        chance = self.chance.random()
        if now is not None and chance < 0.4:
            self.send(*now)
        elif self.old and chance < 0.85:
            group, member, epoch, partitions = self.chance.choice(self.old)
            some = self.chance.sample(partitions, self.chance.randrange(1, len(partitions) + 1))
            self.send(group, member, epoch, some)
        elif now is not None:
            self.send(*now[:3], [("t", self.chance.randrange(6))])

    # --- violations ---------------------------------------------------------------------------------------------------

    def accept_refused_commit(self, index: int) -> None:
        """Changes the event at this offset to an accepted commit."""
        value = self.events[index].value
        value.error_code = 0
        for topic in value.topics:
            for partition in topic.partitions:
                partition.error_code = 0

    def assign_to_second_member(self) -> int | None:
        """Assigns a partition to a member while another one owns it, if any does; returns the record's offset."""
        for group_id in sorted(group.group_id for group in self.groups.of_kind(Kind.CONSUMER)):
            group = self.groups.by_id[group_id]
            for owner in sorted(group.members):
                for topic_id, held in group.members[owner].assigned.items():
                    for other in sorted(group.members):
                        member = group.members[other]
                        if other != owner and held and member.member_epoch > 0:
                            partition = min(held)
                            assigned = [_Assigned(topic_id, [partition], [member.member_epoch])]
                            self._forge(group_id, other, member.member_epoch, member.revocation_epoch, assigned)
                            return len(self.records) - 1
        return None

    def plant_second_owner(self) -> int:
        """Runs the workload until a second owner can be assigned; returns the record's offset."""
        while (offset := self.assign_to_second_member()) is None:
            self.run_workload(10)
        return offset

    def put_epoch_ahead(self) -> int | None:
        """Puts a member's epoch ahead of its group's; returns the record's offset."""
        for group_id in sorted(group.group_id for group in self.groups.of_kind(Kind.CONSUMER)):
            group = self.groups.by_id[group_id]
            for member_id in sorted(group.members):
                self._forge(group_id, member_id, group.group_epoch + 5, 0, [])
                return len(self.records) - 1
        return None

    def repeat_generation(self) -> int:
        """Gives the last generation of the classic group out again, to a stranger; returns the record's offset."""
        last = next(
            record.value
            for record in reversed(self.records)
            if isinstance(record.key, GroupMetadataKey)
            and record.key.group == "c"
            and record.value
            and record.value.members
        )
        member = ClassicGroupGenerationValue.MemberMetadata(member_id="stranger")
        value = ClassicGroupGenerationValue(
            "consumer", last.generation, last.protocol, "stranger", self.now_ms, [member]
        )
        self.records.append(Record(ClassicGroupGenerationKey("c"), value))
        self.times.append(self.now_ms)
        return len(self.records) - 1

    def _forge(self, group_id: str, member_id: str, epoch: int, lost: int, assigned: list[Any]) -> None:
        value = ConsumerGroupCurrentMemberAssignmentValue(epoch, epoch - 1, 0, assigned, [], lost)
        self.records.append(Record(ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id), value))
        self.times.append(self.now_ms)

    # --- the log ------------------------------------------------------------------------------------------------------

    def write(self, folder: Path, shard: int = 0) -> Path:
        """Writes the log into a data folder. As in the server, batches end with events."""
        write_log(folder / f"__consumer_offsets-{shard}", encoded(self.records, RECORD_KEYS), self.times)
        event_times = [record.value.time_ms for record in self.events]
        write_log(folder / f"__coordinator_events-{shard}", encoded(self.events, EVENT_KEYS), event_times)
        return folder


def encoded(records: list[Any], keys: tuple[str, ...]) -> list[tuple[bytes, bytes | None]]:
    serde = Serde(Codec.of(), keys)
    return [serde.encode(record) for record in records]


def write_log(folder: Path, records: list[tuple[bytes, bytes | None]], times: list[int], *, first: int = 0) -> None:
    """Appends records to the only segment of a folder; records with the same time share a batch."""
    folder.mkdir(parents=True, exist_ok=True)
    batch = BatchBuilder()
    with (folder / f"{0:020d}.log").open("ab") as file:
        for index, (key, value) in enumerate(records):
            batch.add(key, value)
            if index + 1 == len(records) or times[index + 1] != times[index] or batch.count == BATCH_RECORDS:
                file.write(batch.build(first + index + 1 - batch.count, times[index]))
                batch.clear()
