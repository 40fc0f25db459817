"""A shard with its event log, on a simulated disk on which a single log can fail."""

from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any

from coordinator.groups.events import EVENT_KEYS
from coordinator.groups.machine import RECORD_KEYS
from coordinator.groups.offsets.commit import commit
from coordinator.groups.settings import GroupsConfig
from coordinator.journal.slot import PREFIX
from coordinator.log.batch import key_values, read_header
from coordinator.log.journaled_log import JournaledLog
from coordinator.log.log import LogSettings
from coordinator.protocol.codec import Codec
from coordinator.protocol.messages import OffsetCommitRequest
from coordinator.runtime.event_log import EventLog, ServerRun
from coordinator.runtime.serde import Serde
from coordinator.runtime.shard import Status
from coordinator_lab.simulation.disk import SimulatedDisk
from tests.runtime.shard_world import STATE, ReplyTarget, ShardWorld
from tests.support.journal import open_log

EVENTS = "data/__coordinator_events-0"


class PickyDisk(SimulatedDisk):
    """`errors`: part of a path -> the number of the error that each write to such a file raises."""

    def __init__(self):
        super().__init__()
        self.errors = {}

    def open(self, path):
        return PickyFile(self, path, super().open(path))

    def check(self, path):
        for part, number in self.errors.items():
            if part in path:
                raise OSError(number, f"injected into {path}")


class PickyFile:
    def __init__(self, disk, path, file):
        self._disk, self._path, self._file = disk, path, file

    def append(self, data):
        self._disk.check(self._path)
        self._file.append(data)

    def __getattr__(self, name):
        return getattr(self._file, name)


class EventWorld(ShardWorld):
    """`events()` reads the event log, `state()` the groups' log. The fast path is not plugged in unless a subclass does so."""

    encoders: Mapping[type, Any] = MappingProxyType({})
    bulk_replayers = None

    def __init__(
        self,
        durability="fsync",
        policy="all",
        event_segment_bytes=1 << 30,
        event_retention_bytes=None,
        topics=None,
        **world,
    ):
        self.policy = policy
        self.event_settings = LogSettings(
            segment_bytes=event_segment_bytes,
            segment_ms=None,
            retention_ms=None,
            retention_bytes=event_retention_bytes,
        )
        self.runs = 0
        world.setdefault("config", GroupsConfig(coordinator_events=policy))
        super().__init__(durability, PickyDisk(), topics=topics, **world)

    def use_new_disk(self):
        self.disk = PickyDisk()
        self.disk.make_folder("data")
        self.disk.sync_folder(".")

    def open(self):
        self.runs += 1
        self.open_journal()
        log = open_log(self.disk, STATE, self.log_settings(), self.recovered)
        event_log = open_log(self.disk, EVENTS, self.event_settings, self.recovered, is_best_effort=True)
        self.written = []
        run = ServerRun(run_id=f"run-{self.runs}", node_id=1, policy=self.policy, is_complete=self.policy == "all")
        self.serde = Serde(Codec.of(None), EVENT_KEYS)
        self.event_log = EventLog(
            0,
            event_log,
            self.serde,
            self.clock,
            run,
            make_writer=self.journal.writer,
            on_written=self.written.append,
            encoders=self.encoders,
        )
        self.shard = self.make_shard(log, events=self.event_log, bulk_replayers=self.bulk_replayers)
        self.journal.begin()
        self.shard.load()

    def commit(self, *offsets, member_id="", generation=-1, group="g"):
        """Commits these offsets to partitions 0, 1 ...; returns the reply target."""
        topic = OffsetCommitRequest.OffsetCommitRequestTopic("t", b"t" * 16)
        topic.partitions = [
            OffsetCommitRequest.OffsetCommitRequestPartition(index, offset, -1, "")
            for index, offset in enumerate(offsets)
        ]
        target = ReplyTarget(OffsetCommitRequest(group, generation, member_id, topics=[topic]))
        self.shard.submit(commit, target)
        return target

    def stop(self):
        """Stops as the server does."""
        self.shard.stop()
        self.settle()
        if self.shard.status is not Status.FAILED:
            self.event_log.finish(self.shard.offset_durable)
        self.settle()
        self.journal.stop()
        for log in (self.shard.log, self.event_log.log):
            with suppress(OSError):
                if log.failed is None:
                    log.close()
            log.close_files()
        self.journal.settle()
        self.journal.close()

    def lose(self, *, state=1 << 62, events=1 << 62):
        """The process dies, and leaves the logs up to these offsets, as a version without a journal may after a power cut."""
        kept = [(STATE, whole_batches(self.shard.log, state)), (EVENTS, whole_batches(self.event_log.log, events))]

        def leave():
            self.disk.kill()
            for name in self.disk.list("data"):
                if name.startswith(PREFIX):
                    self.disk.remove(f"data/{name}")
            for folder, batches in kept:
                for name in self.disk.list(folder):
                    self.disk.remove(f"{folder}/{name}")
                log = JournaledLog.open(self.disk, folder, LogSettings())
                for batch in batches:
                    header = read_header(batch)
                    log.append(batch, header.record_count, header.max_timestamp)
                log.sync()
                log.close()

        self.restart(leave)

    def event_records(self):
        """Every event as a record, oldest first."""
        return [record for batch in self._batches() for _, record in batch]

    def batches(self):
        """The events of each batch: (offset, kind, value)."""
        return [
            [(offset, record.key.NAME.removesuffix("Key"), record.value) for offset, record in batch]
            for batch in self._batches()
        ]

    def _batches(self):
        return [
            [(offset, self.serde.decode(key, value)) for offset, key, value in key_values(buffer, position, header)]
            for buffer, position, header in self.event_log.log.batches()
        ]

    def events(self):
        return [event for batch in self.batches() for event in batch]

    def kinds(self):
        return [kind for _, kind, _ in self.events()]

    def events_of(self, kind):
        return [value for _, each, value in self.events() if each == kind]

    def state(self):
        """The records of the groups' log, in order."""
        serde = Serde(Codec.of(None), RECORD_KEYS)
        return [
            serde.decode(key, value)
            for buffer, position, header in self.shard.log.batches()
            for _, key, value in key_values(buffer, position, header)
        ]


def whole_batches(log, end_offset):
    """The batches of a log that end at this offset or before it."""
    found = [(buffer[at : at + header.size_bytes], header) for buffer, at, header in log.batches()]
    return [batch for batch, header in found if header.next_offset <= end_offset]


def committed_offsets(value):
    return [each.committed_offset for topic in value.topics for each in topic.partitions]
