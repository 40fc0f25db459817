"""A shard on a simulated disk, with a worker, a clock and a loop that the test moves by hand."""

from coordinator.groups.machine import RECORD_KEYS, GroupMachine
from coordinator.groups.offsets.commit import commit
from coordinator.groups.offsets.fetch import fetch
from coordinator.groups.settings import GroupsConfig
from coordinator.journal.journal import WRITE_BEHIND_MS
from coordinator.log.log import LogSettings
from coordinator.protocol.codec import Codec
from coordinator.protocol.messages import OffsetCommitRequest, OffsetFetchRequest
from coordinator.protocol.releases import AS_NEWEST
from coordinator.runtime.result import NO_LINK
from coordinator.runtime.serde import Serde
from coordinator.runtime.shard import Shard
from coordinator_lab.simulation.clock import ManualClock
from coordinator_lab.simulation.disk import SimulatedDisk
from tests.support.catalog import Catalog
from tests.support.journal import FILE_BYTES, open_journal, open_log

STATE = "data/__consumer_offsets-0"
TOPIC_ID = b"t" * 16


class ReplyTarget:
    """An exchange that keeps its replies: messages, or the KafkaError that refused it."""

    api_version = 8
    client_id = "test"
    client_host = "/127.0.0.1"
    link = NO_LINK
    dialect = None
    behaviours = AS_NEWEST
    fresh_id = "00000000-0000-4000-8000-000000000000"
    writes = True

    def __init__(self, request):
        self.request = request
        self.answers = []

    def may_describe(self, _name):
        return True

    def encode(self, message):
        return message

    def refusal(self, error):
        return error

    def wait(self):
        pass

    def send(self, payload):
        self.answers.append(payload)


class ShardWorld:
    """`turn()` ends a turn of the loop; `finish_syncs()` runs the jobs of the worker."""

    def __init__(
        self,
        durability="fsync",
        disk=None,
        segment_bytes=1 << 30,
        topics=None,
        *,
        catalog=None,
        clock=None,
        config=None,
        index=0,
        journal_file_bytes=FILE_BYTES,
    ):
        self.segment_bytes = segment_bytes
        self.disk = disk or SimulatedDisk()
        self.disk.make_folder("data")
        self.disk.sync_folder(".")
        self.clock = clock or ManualClock()
        self.config = config or GroupsConfig()
        self.index = index
        self.soon = []
        self.jobs = []
        self.timers = []
        self.facts = []
        self.durability = durability
        self.journal_file_bytes = journal_file_bytes
        self.catalog = catalog or Catalog({"t": 16} if topics is None else topics, {"t": TOPIC_ID})
        self.open()

    def open(self):
        self.open_journal()
        self.shard = self.make_shard(open_log(self.disk, STATE, self.log_settings(), self.recovered))
        self.journal.begin()
        self.shard.load()

    def open_journal(self):
        self.journal, self.recovered = open_journal(
            self.disk,
            "data",
            durability=self.durability,
            run_in_thread=self.run,
            soon=self.soon.append,
            schedule=self.schedule,
            file_bytes=self.journal_file_bytes,
        )

    def make_shard(self, log, **options):
        return Shard(
            self.index,
            log,
            lambda: GroupMachine(self.config, self.catalog),
            Serde(Codec.of(None), RECORD_KEYS),
            self.clock,
            make_writer=self.journal.writer,
            soon=self.soon.append,
            at_turn_end=self.journal.at_turn_end,
            schedule=self.schedule,
            protocol_schedule=self.schedule,
            on_timer=lambda index, key: None,
            commit_timeout_ms=5_000,
            on_fact=lambda index, fact: self.facts.append(fact),
            on_durable=lambda index: None,
            **options,
        )

    def log_settings(self):
        return LogSettings(segment_bytes=self.segment_bytes, segment_ms=None, retention_ms=None)

    def run(self, function, done):
        self.jobs.append((function, done))

    def schedule(self, delay_ms, callback):
        timer = [self.clock.monotonic_ms() + delay_ms, callback]
        self.timers.append(timer)
        return Cancel(self.timers, timer)

    def advance(self, delay_ms):
        """Moves the clock from one timer to the next, as a loop that is never late."""
        target = self.clock.monotonic_ms() + delay_ms
        while self.timers and (timer := min(self.timers, key=lambda t: t[0]))[0] <= target:
            self.clock.advance(max(0, timer[0] - self.clock.monotonic_ms()))
            self.timers.remove(timer)
            timer[1]()
        self.clock.advance(target - self.clock.monotonic_ms())

    def turn(self):
        callbacks, self.soon[:] = list(self.soon), []
        for callback in callbacks:
            callback()

    def finish_syncs(self):
        jobs, self.jobs[:] = list(self.jobs), []
        for function, done in jobs:
            try:
                outcome = function()
            except OSError as error:
                outcome = error
            done(outcome)

    def settle(self):
        while self.soon or self.jobs:
            self.turn()
            self.finish_syncs()

    def write_behind(self):
        """The journal writes to the segments what it has made durable."""
        self.advance(WRITE_BEHIND_MS)

    def fill_disk(self):
        """The disk is full. The journal notices when it writes earlier commits to the segments, and accepts no more."""
        assert self.shard.log.is_behind
        self.disk.capacity_bytes = 0
        self.write_behind()

    def restart(self, how):
        how()
        self.soon.clear()
        self.jobs.clear()
        self.timers.clear()
        self.open()


class Cancel:
    def __init__(self, timers, timer):
        self.timers, self.timer = timers, timer

    def cancel(self):
        if self.timer in self.timers:
            self.timers.remove(self.timer)


def commit_request(offset, group="g"):
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=""
    )
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        topics=[OffsetCommitRequest.OffsetCommitRequestTopic(name="t", partitions=[partition])],
    )


def send_commit(world, offset, group="g"):
    target = ReplyTarget(commit_request(offset, group))
    world.shard.submit(commit, target)
    return target


def send_fetch(world, group="g"):
    topic = OffsetFetchRequest.OffsetFetchRequestTopic(name="t", partition_indexes=[0])
    target = ReplyTarget(OffsetFetchRequest(group_id=group, topics=[topic]))
    target.api_version, target.writes = 5, False
    world.shard.submit(fetch, target)
    return target


def committed(world, group="g"):
    target = send_fetch(world, group)
    world.settle()
    return target.answers[0].topics[0].partitions[0].committed_offset


def is_success(target):
    return [p.error_code for t in target.answers[0].topics for p in t.partitions] == [0]
