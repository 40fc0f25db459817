"""Assigns ranges of the log to tasks: large segments are split, small ones are packed together.

A split is at the beginning of a batch, and both sides refer to it as an offset, so that no record is read twice. Kafka's
sparse index says where batches begin. Our server writes no index; there, planning walks from header to header, which reads
the segments once more. It does so only for logs that are not large, because a large log has enough segments to split at.
Searching for a batch in the middle of a file (magic, plausible header, correct checksum) would need neither, but would be
unsafe: a client can put an entire batch with a correct checksum into the metadata of a commit, and it would be trusted.

With indexes, planning reads directories and a few bytes of each index, regardless of the size of the log.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from pyspark_coordinator_log.columns import HISTORY
from pyspark_coordinator_log.folders import EVENT_TOPIC, SLACK, DataFolder, NoLog, cuts, open_folder, walked_cuts
from pyspark_coordinator_log.options import LARGE_LOG_BYTES, LARGE_SPLIT_BYTES, SPLIT_BYTES, BadOption, Options
from pyspark_coordinator_log.reading import Range

WALKED_BYTES_MAX = 1024 * 1024 * 1024
"""How much to walk in segments without an index: about a second of planning."""


def folders(options: Options) -> list[DataFolder]:
    """The folders of a view, restricted to the requested shards. Raises NoLog and BadOption.

    Without an event log (events are off, or it is Kafka's) the view `history` is the state alone.
    """
    found: list[DataFolder] = []
    for topic in options.topics:
        try:
            folder = open_folder(options.path, topic)
        except NoLog:
            if options.view == HISTORY and topic == EVENT_TOPIC and found:
                continue
            raise
        if options.shards is not None:
            chosen = {shard: folder.shards[shard] for shard in sorted(options.shards & set(folder.shards))}
            if not chosen and options.groups is None:
                raise BadOption(
                    f"{options.path} has none of the shards {_listed(options.shards)} of {topic}; it has"
                    f" {_listed(folder.shards)}"
                )
            folder = DataFolder(folder.path, chosen, topic)
        found.append(folder)
    return found


def _listed(numbers: Iterable[int]) -> str:
    ordered = sorted(numbers)
    return ", ".join(map(str, ordered[:10])) + (", ..." if len(ordered) > 10 else "")


def log_id(options: Options, found: Sequence[DataFolder]) -> str:
    """The id of the log."""
    return options.log_id if options.log_id is not None else found[0].log_id()


def tasks(options: Options) -> list[tuple[Range, ...]]:
    """Returns the ranges that each task reads, for the log as it is now."""
    found = folders(options)
    identity = log_id(options, found)
    listed = [(folder, shard, shard.segments()) for folder in found for shard in folder.shards.values()]
    share = split_bytes(options, sum(segment.size_bytes for *_, segments in listed for segment in segments))
    wholes: list[Range] = []
    for folder, shard, segments in listed:
        is_state = folder.topic != EVENT_TOPIC
        for index, segment in enumerate(segments):
            if not segment.size_bytes:
                continue
            is_last = index == len(segments) - 1
            whole = Range(
                folder=shard,
                log_id=identity,
                is_state=is_state,
                offset_from=segment.base_offset,
                offset_to=None if is_last else segments[index + 1].base_offset,
                segment=segment,
                start=0,
                end=segment.size_bytes,
                first_offset=None,
                is_growing=is_last,
                is_last=is_last,
            )
            wholes.append(whole)
    return split(wholes, share)


def split_bytes(options: Options, total_bytes: int) -> int:
    """A task's share of the log."""
    if options.split_bytes is not None:
        return options.split_bytes
    return LARGE_SPLIT_BYTES if total_bytes > LARGE_LOG_BYTES else SPLIT_BYTES


def split(wholes: Sequence[Range], share: int) -> list[tuple[Range, ...]]:
    """Distributes ranges over tasks of about `share` bytes."""
    found = [cuts(whole.segment, share, whole.start, whole.end) for whole in wholes]
    uncut = [index for index, whole in enumerate(wholes) if whole.size_bytes > share * SLACK and not found[index]]
    if sum(wholes[index].size_bytes for index in uncut) <= WALKED_BYTES_MAX:
        for index in uncut:
            found[index] = walked_cuts(wholes[index].segment, share, wholes[index].start, wholes[index].end)
    parts = [part for whole, edges in zip(wholes, found, strict=True) for part in _parts(whole, edges)]
    return list(_packed(parts, share))


def _parts(whole: Range, cut_at: Sequence[tuple[int, int]]) -> Iterator[Range]:
    edges = [(whole.start, whole.offset_from), *cut_at, (whole.end, whole.offset_to)]
    for (start, offset_from), (end, offset_to) in pairwise(edges):
        assert offset_from is not None
        yield replace(
            whole,
            offset_from=offset_from,
            offset_to=offset_to,
            start=start,
            end=end,
            first_offset=whole.first_offset if start == whole.start else offset_from,
            is_last=whole.is_last and end == whole.end,
        )


def _packed(ranges: Sequence[Range], share: int) -> Iterator[tuple[Range, ...]]:
    """Packs ranges in order, combining small ones until they fill a share."""
    together: list[Range] = []
    size = 0
    for part in ranges:
        if together and size + part.size_bytes > share * SLACK:
            yield tuple(together)
            together, size = [], 0
        together.append(part)
        size += part.size_bytes
    if together:
        yield tuple(together)
