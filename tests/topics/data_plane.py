"""A data plane on a simulated disk, whose syncs and timers happen when the test says so."""

from random import Random
from struct import pack
from uuid import UUID

from google_crc32c import value as crc32c

from coordinator.journal.journal import WRITE_BEHIND_MS
from coordinator.log.catalog import NO_CATALOG
from coordinator.log.codecs import ZSTD, compress
from coordinator.log.record import varint
from coordinator.protocol.messages import (
    CreateTopicsRequest,
    DeleteTopicsRequest,
    FetchRequest,
    ListOffsetsRequest,
    ProduceRequest,
)
from coordinator.runtime.result import Marker
from coordinator.topics.config import TopicsConfig
from coordinator.topics.create import create_topics
from coordinator.topics.delete import delete_topics
from coordinator.topics.fetch import Fetch
from coordinator.topics.list_offsets import list_offsets
from coordinator.topics.produce import produce
from coordinator.topics.topics import METADATA_FOLDER, Topics
from coordinator_lab.simulation.clock import ManualClock
from coordinator_lab.simulation.disk import SimulatedDisk
from tests.support.journal import open_journal

FOLDER = "/data"
NOW_MS = 1_700_000_000_000


class SeededEntropy:
    """Ids that repeat from run to run."""

    def __init__(self, seed=0):
        self._random = Random(seed)

    def uuid(self):
        return str(UUID(bytes=self._random.randbytes(16), version=4))

    def bytes(self, count):
        return self._random.randbytes(count)


class Timer:
    """A scheduled callback."""

    def __init__(self, due_ms, callback):
        self.due_ms = due_ms
        self.callback = callback
        self.cancelled = False

    def cancel(self):
        self.cancelled = True


class Coordinator:
    """A fake coordinator of every transaction: confirms unless `refuses` says otherwise, at once unless `waits` is set."""

    def __init__(self):
        self.asked = []
        self.refuses = {}
        self.waits = False
        self._waiting = []

    def __call__(self, transactional_id, producer, partitions, adds, done, *, abortable):
        self.asked.append((transactional_id, producer, {topic: list(ids) for topic, ids in partitions.items()}, adds))
        places = {(topic, index) for topic, indexes in partitions.items() for index in indexes}
        self._waiting.append(lambda: done({place: self.refuses[place] for place in places if place in self.refuses}))
        if not self.waits:
            self.answer()

    def answer(self):
        """Answers all open questions."""
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            done()


class DataPlane:
    """A data plane with its disk, clock, timers and a worker that syncs when `sync` is called (or at once)."""

    def __init__(self, *, late=False, durability="fsync", disk=None, **config):
        self.disk = disk or SimulatedDisk()
        self.clock = ManualClock(NOW_MS)
        self.entropy = SeededEntropy()
        self.facts = []
        self.deleted = []
        self.late = late
        self.coordinator = Coordinator()
        self._durability = durability
        self._config = TopicsConfig(**config)
        if disk is None:
            self.disk.make_folder(FOLDER)
            self.disk.sync_folder("/")
        self.open()

    def open(self, catalog=NO_CATALOG):
        self.timers = []
        self.jobs = []
        self.journal, recovered = open_journal(
            self.disk,
            FOLDER,
            durability=self._durability,
            run_in_thread=self._run,
            soon=self._soon,
            schedule=self._schedule,
        )
        self.topics = Topics(
            self.disk,
            FOLDER,
            self._config,
            node_id=1,
            durability=self._durability,
            clock=self.clock,
            entropy=self.entropy,
            run_in_thread=self._run,
            schedule=self._schedule,
            protocol_schedule=self._schedule,
            on_fact=self.facts.append,
            make_metadata_writer=self.journal.writer,
            catalog=catalog,
            metadata_journaled=recovered.batches.get(METADATA_FOLDER, ()),
        )
        self.journal.begin()
        self.topics.on_topics_deleted = self.deleted.extend
        return self

    def killed(self, catalog=NO_CATALOG):
        """The same data after the process was killed and started again, with this catalog."""
        self.disk.kill()
        return self.open(catalog)

    def crashed(self, seed=0):
        """The same data after a power failure."""
        self.disk.crash(Random(seed))
        return self.open()

    def _run(self, function, done):
        self.jobs.append((function, done))
        if not self.late:
            self.sync()

    def _soon(self, callback):
        self._run(callback, lambda _: None)

    def sync(self):
        """Runs the jobs of the worker, and those that follow from them."""
        while self.jobs:
            function, done = self.jobs.pop(0)
            try:
                outcome = function()
            except OSError as error:
                outcome = error
            done(outcome)

    def _schedule(self, delay_ms, callback):
        timer = Timer(self.clock.monotonic_ms() + delay_ms, callback)
        self.timers.append(timer)
        return timer

    def advance(self, duration_ms):
        """Advances the clock and fires the timers that are due."""
        self.clock.advance(duration_ms)
        for timer in [timer for timer in self.timers if timer.due_ms <= self.clock.monotonic_ms()]:
            self.timers.remove(timer)
            if not timer.cancelled:
                timer.callback()

    def fill_disk(self):
        """The disk is full. The journal still has room for this topic, and then notices that segments have none."""
        self.disk.capacity_bytes = 0
        self.create("the-disk-is-full")
        self.advance(WRITE_BEHIND_MS)

    # --- requests -----------------------------------------------------------------------------------------------------

    def create(self, name, partitions=1, configs=(), validate_only=False, **fields):
        """The answer for one topic, or None while it is under way."""
        answers = []
        topic = CreateTopicsRequest.CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=fields.pop("replication_factor", 1),
            configs=[
                CreateTopicsRequest.CreatableTopicConfig(name=key, value=value) for key, value in dict(configs).items()
            ],
            **fields,
        )
        create_topics(self.topics, CreateTopicsRequest(topics=[topic], validate_only=validate_only), answers.append)
        return answers[0].topics[0] if answers else None

    def delete(self, name):
        answers = []
        delete_topics(self.topics, DeleteTopicsRequest(topic_names=[name]), 5, answers.append)
        return answers[0].responses[0] if answers else None

    def produce_many(self, batches, acks=-1, version=9, transactional_id=None):
        """`{(topic, partition): bytes}` -> list that will hold the answer."""
        request = ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=1000)
        for (name, index), data in batches.items():
            partition = ProduceRequest.PartitionProduceData(index=index, records=data)
            request.topic_data.append(ProduceRequest.TopicProduceData(name=name, partition_data=[partition]))
        answers = []
        self.waits = False
        produce(
            self.topics,
            request,
            version,
            self.coordinator,
            lambda response, failed: answers.append((response, failed)),
            self._run_in_slices,
            self._wait,
        )
        return answers

    def _run_in_slices(self, pieces):
        self.pieces = sum(1 for _ in pieces)

    def _wait(self):
        self.waits = True

    def produce(self, data, topic="t", partition=0, **options):
        """The answer for one partition, or None while it is under way."""
        answers = self.produce_many({(topic, partition): data}, **options)
        return answers[0][0].responses[0].partition_responses[0] if answers else None

    def fetch_later(self, partitions, version=12, max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, run=None, **fields):
        """`[(topic, partition, offset)]` or with more fields as dict -> (Fetch, list that will hold the answer)."""
        request = FetchRequest(max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=max_bytes, **fields)
        for topic, index, offset, *more in partitions:
            asked = FetchRequest.FetchPartition(
                partition=index, fetch_offset=offset, **{"partition_max_bytes": 1 << 20, **(more[0] if more else {})}
            )
            key = "topic_id" if isinstance(topic, bytes) else "topic"
            request.topics.append(FetchRequest.FetchTopic(**{key: topic}, partitions=[asked]))
        answers = []
        return Fetch(self.topics, request, version, answers.append, run or self._run_in_slices), answers

    def fetch(self, topic="t", partition=0, offset=0, **options):
        """The response for one partition, without waiting."""
        _, answers = self.fetch_later([(topic, partition, offset)], **{"max_wait_ms": 0, **options})
        return answers[0].responses[0].partitions[0]

    def offset_at(self, timestamp, topic="t", partition=0, version=11, epoch=-1, isolation=0):
        asked = ListOffsetsRequest.ListOffsetsPartition(
            partition_index=partition, timestamp=timestamp, current_leader_epoch=epoch
        )
        topics = [ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[asked])]
        request = ListOffsetsRequest(isolation_level=isolation, topics=topics)
        answers = []
        list_offsets(self.topics, request, version, answers.append, self._run_in_slices, lambda: False)
        return answers[0].topics[0].partitions[0]

    def end(self, commit=True, topic="t", partition=0, producer_id=7, epoch=0, coordinator_epoch=0, version=1):
        """Writes a marker; the name of its error, or None while it is under way."""
        errors = []
        marker = Marker(producer_id, epoch, commit, coordinator_epoch, version)
        self.topics.write_marker(topic, partition, marker, errors.append)
        return errors[0].name if errors else None

    def producer_id(self):
        given = []
        self.topics.next_producer_id(lambda error, producer_id: given.append((error, producer_id)))
        return given[0][1] if given else None


def batch(
    *values,
    producer_id=-1,
    epoch=-1,
    sequence=-1,
    timestamp=NOW_MS,
    attributes=0,
    base_offset=0,
    key=b"k",
    magic=2,
    count=None,
    delta=None,
    is_garbled=False,
):
    """A producer's batch, byte by byte, one record per value. `is_garbled`: the records are not what their codec makes."""
    values = values or (b"v",)
    records = b""
    for index, value in enumerate(values):
        body = b"\0" + varint(0) + varint(index)
        body += varint(-1) if key is None else varint(len(key)) + key
        body += varint(len(value)) + value + varint(0)
        records += varint(len(body)) + body
    if 0 < attributes & 7 <= ZSTD and not is_garbled:
        records = compress(attributes & 7, records)
    sealed = (
        pack(
            ">hiqqqhii",
            attributes,
            len(values) - 1 if delta is None else delta,
            timestamp,
            timestamp,
            producer_id,
            epoch,
            sequence,
            len(values) if count is None else count,
        )
        + records
    )
    return pack(">qiibI", base_offset, len(sealed) + 9, -1, magic, crc32c(sealed)) + sealed
