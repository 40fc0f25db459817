"""Writes the data folder of a fork: the logs of groups, the metadata log, and partitions that have offsets but no records.

A partition gets the offsets of the source: it begins and ends where the source's does. What lies between is one batch without
records, such as a compaction leaves. So every committed offset is as valid as it was, lag is what it was, and a consumer passes
over the gap to the record that is produced next.
"""

from collections.abc import Mapping

from coordinator.log.batch import HEADER_BYTES, MAGIC, PREFIX_BYTES, BatchHeader
from coordinator.log.batch_builder import BatchBuilder, reduce_batch
from coordinator.log.checkpoint import Checkpoint
from coordinator.log.log import Log, LogSettings
from coordinator.operations.fork.source import OffsetRange
from coordinator.protocol.java import positive_hash
from coordinator.protocol.messages import Message
from coordinator.server.data_folder import shard_folder
from coordinator.topics import metadata_records, names
from coordinator.topics.placements import on_one
from coordinator.topics.registry import Topic, creation
from coordinator.world.disk import Disk

_BATCH_BYTES = 256 << 10
_BATCH_RECORDS = 2000
_GAP_MAX = (1 << 31) - 1
"""The offsets that one batch may span."""


class _BatchedLog:
    """A log that is written once, in batches."""

    def __init__(self, disk: Disk, folder: str, settings: LogSettings, now_ms: int) -> None:
        self._log = Log.open(disk, folder, settings)
        self._builder = BatchBuilder()
        self._now_ms = now_ms

    def add(self, key: bytes | None, value: bytes) -> None:
        builder = self._builder
        builder.add(key, value)
        if builder.count >= _BATCH_RECORDS or builder.size_bytes >= _BATCH_BYTES:
            self._flush()

    def _flush(self) -> None:
        builder, log = self._builder, self._log
        if builder.count:
            log.append(builder.build(log.end_offset, self._now_ms), builder.count, self._now_ms)
            log.close_files()  # there may be thousands of logs
            builder.clear()

    def close(self) -> None:
        """Makes everything durable."""
        self._flush()
        self._log.close()


class ForkedFolder:
    """A data folder that is made from scratch. Methods raise OSError. `close` makes all of it durable."""

    def __init__(
        self, disk: Disk, folder: str, *, partitions: Mapping[str, int], segment_bytes: int, node_id: int, now_ms: int
    ) -> None:
        """`partitions`: how many `__consumer_offsets` and `__share_group_state` have."""
        self._disk = disk
        self._folder = folder
        self._partitions = partitions
        self._settings = LogSettings(segment_bytes=segment_bytes, segment_ms=None, retention_ms=None)
        self._node_id = node_id
        self._now_ms = now_ms
        self._shards: dict[tuple[str, int], _BatchedLog] = {}
        self._metadata = self._open(names.CLUSTER_METADATA, 0)

    def _open(self, topic: str, index: int) -> _BatchedLog:
        return _BatchedLog(self._disk, shard_folder(self._folder, topic, index), self._settings, self._now_ms)

    def add_record(self, topic: str, belongs_to: str, key: bytes, value: bytes) -> None:
        """Writes a record to the partition of an internal topic in which the group, or the share partition, is here."""
        index = positive_hash(belongs_to) % self._partitions[topic]
        log = self._shards.get((topic, index))
        if log is None:
            log = self._shards[topic, index] = self._open(topic, index)
        log.add(key, value)

    def add_topic(self, topic: Topic, ranges: Mapping[int, OffsetRange]) -> None:
        """Creates a topic. Partitions that are not in `ranges` begin at 0."""
        for message in creation(topic, on_one(self._node_id)):
            self.add_metadata(message)
        for index, (start, end) in ranges.items():
            if end > 0:
                self._add_partition(shard_folder(self._folder, topic.name, index), start, end)

    def add_metadata(self, message: Message) -> None:
        """Writes a record of the metadata log."""
        self._metadata.add(None, metadata_records.encode(message))

    def _add_partition(self, folder: str, start: int, end: int) -> None:
        self._disk.make_folder(folder)
        checkpoint = Checkpoint(self._disk, folder)
        checkpoint.write(start_offset=start)
        checkpoint.sync()
        checkpoint.close()
        log = Log.open(self._disk, folder, LogSettings())
        while log.end_offset < end:
            count = min(end - log.end_offset, _GAP_MAX)
            log.append(_gap(log.end_offset, count, self._now_ms), count, self._now_ms)
        log.close()

    def close(self) -> None:
        """Makes everything durable."""
        for log in (*self._shards.values(), self._metadata):
            log.close()
        self._disk.sync_folder(self._folder)


def _gap(base_offset: int, count: int, now_ms: int) -> bytes:
    """A batch without records that spans `count` offsets."""
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=HEADER_BYTES - PREFIX_BYTES,
        leader_epoch=0,
        magic=MAGIC,
        crc=0,
        attributes=0,
        last_offset_delta=count - 1,
        base_timestamp=now_ms,
        max_timestamp=now_ms,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=0,
    )
    return reduce_batch(header, (), None)
