"""A source that is a folder: of a Kafka broker, of this server, or copies of their partition folders side by side.

Several brokers may lie side by side (or several `log.dirs` of one). Where a partition is there more than once, the copy that
goes furthest counts. What the folder says about topics is used as far as it goes: the metadata log with its latest snapshot
has all topics; without one there are only those whose partition folders are there.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from coordinator.groups.group_configs import RESOURCE_TYPE
from coordinator.log.batch import BatchHeader, CorruptBatch, split
from coordinator.operations.fork import ForkFailed
from coordinator.operations.fork.partition_range import read_range, start_offsets
from coordinator.operations.fork.source import OffsetRange, SourceTopic, SourceTopics, Visit
from coordinator.operations.json_values import parse_topic_id
from coordinator.operations.known_logs import (
    data_folder_problems,
    journaled_batches,
    known_logs,
    replay_batch,
    replay_metadata,
)
from coordinator.operations.log_folders import (
    BytesFile,
    LogFolder,
    NoLogFolder,
    Problem,
    SegmentFile,
    base_offset_of,
    find_log_folders,
)
from coordinator.topics import names
from coordinator.topics.registry import Registry

TORN_TAIL = "torn tail"
_METADATA = f"{names.CLUSTER_METADATA}-0"
_SNAPSHOT = re.compile(r"[0-9]{20}-[0-9]{10}\.checkpoint")
_TOPIC_ID = re.compile(r"^topic_id: *(\S+)", re.MULTILINE)
_NO_ID = bytes(16)


class FolderSource:
    """The files of one or several servers. All methods raise ForkFailed and OSError."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._folders: dict[str, dict[int, list[LogFolder]]] = {}
        """Topic -> partition -> its copies."""
        self._starts: dict[Path, Mapping[tuple[str, int], int]] = {}
        for folder in _log_folders(path):
            topic, index = folder.topic, int(folder.name.rpartition("-")[2])
            self._folders.setdefault(topic, {}).setdefault(index, []).append(folder)
        logs = {topic: self._folders.pop(topic, {}) for topic in (names.CONSUMER_OFFSETS, names.SHARE_GROUP_STATE)}
        self._registry = self._read_registry(self._folders.pop(names.CLUSTER_METADATA, {}).get(0, []))
        if not logs[names.CONSUMER_OFFSETS] and not self._registry.topics:
            raise ForkFailed(
                f"{path} has no folder {names.CONSUMER_OFFSETS}-N, nor has a folder in it: it is no copy of a Kafka server"
            )
        self._logs = {
            topic: {index: self._furthest(copies)[0] for index, copies in sorted(partitions.items())}
            for topic, partitions in logs.items()
        }

    def partition_count(self, topic: str) -> int | None:
        """What the metadata log says."""
        known = self._registry.topics.get(topic)
        return known.partitions if known is not None else None

    def partitions(self, topic: str) -> Mapping[int, int]:
        """The partitions of an internal topic with their sizes in bytes."""
        return {index: folder.size_bytes for index, folder in self._logs[topic].items()}

    def read(self, topic: str, index: int, visit: Visit, advance: Callable[[int], object]) -> None:
        """Visits the batches of a partition. A torn tail is left out: the server writes at this moment, or it was killed."""

        def each(segment: SegmentFile, header: BatchHeader, position: int) -> None:
            visit(segment.batch(position, header), 0, header, str(segment.path))

        for problem in self._logs[topic][index].walk(each, advance):
            _refuse(problem)

    def read_topics(self) -> SourceTopics:
        """The topics of the metadata log, or of the partition folders."""
        is_complete = bool(self._registry.topics)
        found = self._known_topics() if is_complete else self._topics_of_folders()
        configs = {
            name: overrides for (kind, name), overrides in self._registry.other_configs.items() if kind == RESOURCE_TYPE
        }
        return SourceTopics(
            topics={topic.name: topic for topic in found}, is_complete=is_complete, group_configs=configs
        )

    def close(self) -> None:
        """Nothing is open."""

    def _known_topics(self) -> Iterator[SourceTopic]:
        for topic in self._registry.topics.values():
            if topic.name not in names.INTERNAL:
                yield SourceTopic(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=topic.partitions,
                    configs=topic.configs,
                    ranges=self._ranges(topic.name),
                )

    def _topics_of_folders(self) -> Iterator[SourceTopic]:
        for name, partitions in sorted(self._folders.items()):
            if name not in names.INTERNAL and names.why_invalid(name) is None:
                ids = (_topic_id(copy) for copies in partitions.values() for copy in copies)
                yield SourceTopic(
                    name=name,
                    topic_id=next((each for each in ids if each is not None), None),
                    partitions=max(partitions) + 1,
                    ranges=self._ranges(name),
                )

    def _ranges(self, topic: str) -> dict[int, OffsetRange]:
        return {index: self._furthest(copies)[1] for index, copies in self._folders.get(topic, {}).items()}

    def _furthest(self, copies: list[LogFolder]) -> tuple[LogFolder, OffsetRange]:
        """The copy of a partition that goes furthest, and its offsets."""
        ranges = [(folder, read_range(folder, self._start_of(folder))) for folder in copies]
        return max(ranges, key=lambda each: each[1].end)

    def _start_of(self, folder: LogFolder) -> int | None:
        """Where the broker says that the log starts."""
        parent = folder.path.resolve().parent
        if parent not in self._starts:
            self._starts[parent] = start_offsets(parent)
        return self._starts[parent].get((folder.topic, int(folder.name.rpartition("-")[2])))

    def _read_registry(self, copies: list[LogFolder]) -> Registry:
        registry = Registry()
        if not copies:
            return registry
        folder, _ = self._furthest(copies)
        snapshot = max((path for path in folder.path.iterdir() if _SNAPSHOT.fullmatch(path.name)), default=None)
        if (
            snapshot is None
            and folder.segments
            and base_offset_of(folder.segments[0]) > 0
            and folder.checkpoint is None
        ):
            raise ForkFailed(
                f"{folder.path} begins at offset {base_offset_of(folder.segments[0])} and has no snapshot (*.checkpoint)"
            )
        if snapshot is not None:
            _replay_snapshot(snapshot, registry)
        # The log may begin before the snapshot. What it repeats changes nothing, because it ends as the log does.
        for problem in replay_metadata(folder, registry, _unreadable):
            _refuse(problem)
        return registry


def _replay_snapshot(path: Path, registry: Registry) -> None:
    """Replays a snapshot of Kafka's metadata: a file of batches that make the topics as they were."""
    content = path.read_bytes()
    segment = SegmentFile(path, 0, BytesFile(content))
    try:
        batches = split(content)
    except CorruptBatch as error:
        raise ForkFailed(f"{path}: {error}") from error
    for position, header in batches:
        replay_batch(segment, header, position, registry, _unreadable)


def _unreadable(segment: SegmentFile, header: BatchHeader, error: Exception) -> None:
    raise ForkFailed(f"{segment.path}: a record of the batch at offset {header.base_offset}: {error}") from error


def _refuse(problem: Problem) -> None:
    if problem.kind != TORN_TAIL:
        raise ForkFailed(str(problem))


def _log_folders(path: Path) -> Iterator[LogFolder]:
    """The partition folders in `path`, or in the folders in it; or `path` itself."""
    if _is_partition(path) and not _has_partitions(path):
        yield from find_log_folders(path, journaled=journaled_batches(path.resolve().parent))
        return
    parents = [path] if _has_partitions(path) else sorted(filter(_has_partitions, filter(Path.is_dir, path.iterdir())))
    for parent in parents:
        for problem in data_folder_problems(parent):
            raise ForkFailed(str(problem))
        try:
            yield from find_log_folders(parent, known_logs(parent), journaled_batches(parent))
        except NoLogFolder as error:
            raise ForkFailed(str(error)) from error


def _is_partition(path: Path) -> bool:
    return re.fullmatch(rf"{names.CONSUMER_OFFSETS}-[0-9]+", path.resolve().name) is not None


def _has_partitions(path: Path) -> bool:
    return any(each.is_dir() and (_is_partition(each) or each.name == _METADATA) for each in path.iterdir())


def _topic_id(folder: LogFolder) -> bytes | None:
    """The id in `partition.metadata`, which Kafka has in every partition folder."""
    path = folder.path / "partition.metadata"
    found = _TOPIC_ID.search(path.read_text("utf-8", "replace")) if path.is_file() else None
    topic_id = parse_topic_id(found[1]) if found is not None else None
    return topic_id if topic_id != _NO_ID else None
