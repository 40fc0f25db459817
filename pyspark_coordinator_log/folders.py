"""The layout of a data folder, our server's or a Kafka broker's: shards, segments, indexes, and the identity of the log.

    DATA/meta.properties                    cluster.id
    DATA/cleaner-offset-checkpoint          Kafka: how far each log was compacted
    DATA/__consumer_offsets-7/              the state log of shard 7
        00000000000000041822.log            a segment; .index beside it if Kafka wrote it
        partition.metadata                  Kafka: the topic's id
        leader-epoch-checkpoint             Kafka: where each leader epoch began
        log-checkpoint                      ours: the durable and the compacted part
    DATA/__coordinator_events-7/            the event log of shard 7 (ours only)

Everything is opened read-only, by path, and may change meanwhile: segments appear, are compacted into new files of the same
name, and disappear. So a segment is identified by its inode as well, and plans refer to *offsets*; a position in a file is
a hint, valid as long as the file is the same.

The id of a log is the cluster's id, followed by the topic's id if there is one. A folder that was emptied and filled again
is another log, even though its shards and offsets look alike.
"""

import os
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from coordinator.journal.recovery import read_journal
from coordinator.log import checkpoint
from coordinator.log.batch import HEADER, HEADER_BYTES, MAGIC, PREFIX_BYTES
from coordinator.log.recovery import DamagedLog
from coordinator.log.segment import SUFFIX
from coordinator.world.disk import RealDisk
from coordinator.world.folder_lock import is_in_use
from pyspark_coordinator_log.batches import BadBatch, walk

STATE_TOPIC = "__consumer_offsets"
EVENT_TOPIC = "__coordinator_events"
SHARE_STATE_TOPIC = "__share_group_state"
UNKNOWN_CLUSTER = "unknown"

_PARTITION = re.compile(r"(.+)-([0-9]+)")
_DIGITS = 20
_WINDOW_BYTES = 1 << 20
SLACK = 1.25
"""A task may exceed the requested size by this factor, rather than leave a small rest to another task."""


class NoLog(Exception):
    """There is no log to read; the message names the missing folder or file."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One segment file, as it was when the folder was listed."""

    base_offset: int
    path: str
    size_bytes: int
    inode: int


@dataclass(frozen=True, slots=True)
class ShardFolder:
    """The folder of one partition."""

    topic: str
    shard: int
    path: str

    def segments(self) -> list[Segment]:
        """The segments, in order. Raises NoLog if the folder does not exist."""
        found = []
        try:
            with os.scandir(self.path) as entries:
                for entry in entries:
                    name = entry.name
                    if (
                        not name.endswith(SUFFIX)
                        or len(name) != _DIGITS + len(SUFFIX)
                        or not name[:_DIGITS].isdecimal()
                    ):
                        continue
                    try:
                        status = entry.stat()
                    except FileNotFoundError:
                        continue
                    found.append(Segment(int(name[:_DIGITS]), entry.path, status.st_size, status.st_ino))
        except FileNotFoundError as error:
            raise NoLog(f"{self.path} does not exist") from error
        return sorted(found, key=lambda segment: segment.base_offset)

    def server_checkpoint(self) -> checkpoint.Offsets | None:
        """The checkpoint that our server wrote; None in a Kafka folder."""
        content = _content(Path(self.path, checkpoint.NAME))
        return None if content is None else checkpoint.parse(content)

    def clean_offset(self) -> int:
        """Compaction may have removed records before this offset, but none after it."""
        noted = self.server_checkpoint()
        if noted is not None:
            return noted.clean_offset
        return _cleaner_offsets(Path(self.path).parent).get((self.topic, self.shard), 0)

    def epoch_of(self, offset: int) -> int | None:
        """The leader epoch of an offset, from Kafka's checkpoint; None if there is none."""
        found = None
        for epoch, start in _leader_epochs(Path(self.path)):
            if start <= offset:
                found = epoch
        return found


@dataclass(frozen=True, slots=True)
class DataFolder:
    """A folder with shards, or the folder of a single shard."""

    path: str
    shards: Mapping[int, ShardFolder]
    topic: str

    def log_id(self) -> str:
        """The id of the log (see above). The event log has that of the state log beside it."""
        cluster = _properties(Path(self.path, "meta.properties")).get("cluster.id", UNKNOWN_CLUSTER)
        for shard in sorted(self.shards):
            state = Path(self.path, f"{STATE_TOPIC}-{shard}", "partition.metadata")
            topic_id = _properties(state, separator=":").get("topic_id")
            if topic_id is not None:
                return f"{cluster}/{topic_id}"
        return cluster


def open_folder(path: str, topic: str) -> DataFolder:
    """The shards of a topic in a data folder. Raises NoLog, which lists the logs that are there."""
    plain = path.removeprefix("file://")
    folder = Path(plain)
    if not folder.is_dir():
        raise NoLog(f"{path} is not a folder")
    match = _PARTITION.fullmatch(folder.resolve().name)
    _refuse_unsettled(folder.resolve().parent if match else folder)
    if match and any(map(_is_segment, folder.iterdir())):
        if match[1] != topic:
            sibling = folder.resolve().parent / f"{topic}-{match[2]}"
            if {match[1], topic} != {STATE_TOPIC, EVENT_TOPIC} or not sibling.is_dir():
                raise NoLog(f"{path} is a log of {match[1]}, not of {topic}")
            folder = sibling
        shard = int(match[2])
        return DataFolder(str(folder.resolve().parent), {shard: ShardFolder(topic, shard, str(folder))}, topic)
    shards = {}
    others = set()
    for child in folder.iterdir():
        found = _PARTITION.fullmatch(child.name)
        if found and child.is_dir():
            if found[1] == topic:
                shards[int(found[2])] = ShardFolder(topic, int(found[2]), str(child))
            else:
                others.add(found[1])
    if not shards:
        there = f"; it has logs of {', '.join(sorted(others)[:5])}" if others else ""
        why = ", so the server writes no events" if topic == EVENT_TOPIC and STATE_TOPIC in others else ""
        raise NoLog(f"{path} has no folder {topic}-N{there}{why}")
    return DataFolder(str(folder), dict(sorted(shards.items())), topic)


def _refuse_unsettled(folder: Path) -> None:
    """Raises NoLog if the last batches may be only in the journal of a server that was killed."""
    try:
        is_unsettled = not is_in_use(str(folder)) and any(read_journal(RealDisk(), str(folder)).batches.values())
    except DamagedLog as error:
        raise NoLog(f"{error}; run: coordinator log repair {folder}") from error
    if is_unsettled:
        raise NoLog(f"{folder} has the journal of a server that was killed; run: coordinator log settle {folder}")


@contextmanager
def opened(path: str) -> Iterator[int]:
    """A file opened for reading, as a descriptor."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _is_segment(path: Path) -> bool:
    return path.suffix == SUFFIX and len(path.stem) == _DIGITS and path.stem.isdecimal()


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _properties(path: Path, separator: str = "=") -> dict[str, str]:
    content = _content(path)
    if content is None:
        return {}
    lines = (line.partition(separator) for line in content.decode(errors="replace").splitlines() if line[:1] != "#")
    return {key.strip(): value.strip() for key, _, value in lines}


def _cleaner_offsets(folder: Path) -> dict[tuple[str, int], int]:
    """Kafka's cleaner checkpoint: version, count, then `topic partition offset` per line."""
    found = {}
    for line in (_content(folder / "cleaner-offset-checkpoint") or b"").decode(errors="replace").splitlines()[2:]:
        words = line.split()
        if len(words) == 3 and words[1].isdecimal() and words[2].isdecimal():
            found[words[0], int(words[1])] = int(words[2])
    return found


def _leader_epochs(folder: Path) -> list[tuple[int, int]]:
    """Kafka's leader epoch checkpoint: version, count, then `epoch start-offset` per line."""
    found = []
    for line in (_content(folder / "leader-epoch-checkpoint") or b"").decode(errors="replace").splitlines()[2:]:
        words = line.split()
        if len(words) == 2 and words[0].isdecimal() and words[1].isdecimal():
            found.append((int(words[0]), int(words[1])))
    return found


def cuts(segment: Segment, split_bytes: int, start: int, end: int) -> list[tuple[int, int]]:
    """Where to split `[start, end)` of a segment into parts of about `split_bytes`: (position, offset) of batches.

    Uses Kafka's sparse index; without one the result is empty. An index that does not match its segment (a crash may leave one
    behind) is ignored: the batch it points to must exist.
    """
    goals = _goals(split_bytes, start, end)
    if not goals:
        return []
    try:
        content = np.memmap(segment.path[: -len(SUFFIX)] + ".index", dtype=">i4", mode="r")
    except (FileNotFoundError, ValueError):
        return []
    entries = content[: len(content) // 2 * 2].reshape(-1, 2)
    positions = entries[:, 1]
    # The index of the active segment is preallocated; its unused part is zero.
    used = bisect_right(range(1, len(entries)), 0, key=lambda index: int(positions[index]) == 0)
    found: list[tuple[int, int]] = []
    with Path(segment.path).open("rb", buffering=0) as file:
        for goal in goals:
            index = bisect_right(range(used), goal, key=lambda index: int(positions[index])) - 1
            if index < 0:
                continue
            position = int(positions[index])
            if position <= (found[-1][0] if found else start) or position >= end:
                continue
            offset = _offset_at(file.fileno(), position, segment)
            if offset is None or offset > segment.base_offset + int(entries[index, 0]):
                return []
            found.append((position, offset))
    return found


def walked_cuts(segment: Segment, split_bytes: int, start: int, end: int) -> list[tuple[int, int]]:
    """As `cuts`, without an index: walks from batch to batch. A batch must begin at `start`.

    This reads the segment. Nothing is split after a damaged batch; the task that reads it reports the damage.
    """
    found: list[tuple[int, int]] = []
    position = start
    with Path(segment.path).open("rb", buffering=0) as file:
        for goal in _goals(split_bytes, start, end):
            while position < goal:
                content = os.pread(file.fileno(), min(_WINDOW_BYTES, end - position), position)
                try:
                    begins, reached = walk(content, len(content))
                except BadBatch:
                    return found
                at = bisect_left(begins, goal - position)
                if at < len(begins):
                    reached = begins[at]
                elif not reached:
                    # The batch claims to be larger than the window.
                    reached = int.from_bytes(content[8:12], signed=True) + PREFIX_BYTES
                    if len(content) < HEADER_BYTES or position + reached >= end:
                        return found
                position += reached
            offset = _offset_at(file.fileno(), position, segment)
            if offset is None:
                return found
            if position > (found[-1][0] if found else start):
                found.append((position, offset))
    return found


def _goals(split_bytes: int, start: int, end: int) -> list[int]:
    """The ideal split points, if batches began everywhere."""
    if end - start <= split_bytes * SLACK:
        return []
    parts = -(-(end - start) // split_bytes)
    return [start + (end - start) * part // parts for part in range(1, parts)]


def _offset_at(descriptor: int, position: int, segment: Segment) -> int | None:
    """The base offset of the batch at a position; None if no plausible header is there."""
    content = os.pread(descriptor, HEADER_BYTES, position)
    if len(content) < HEADER_BYTES:
        return None
    base_offset, length, _, magic, *_ = HEADER.unpack(content)
    whole = position + length + PREFIX_BYTES <= segment.size_bytes
    fits = magic == MAGIC and length >= HEADER_BYTES - PREFIX_BYTES and whole and base_offset >= segment.base_offset
    return int(base_offset) if fits else None
