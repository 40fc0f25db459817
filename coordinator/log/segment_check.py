"""Compares the segments in a log's folder with what should be there: the list of segments and the data folder's catalog."""

from collections.abc import Sequence
from itertools import pairwise

from coordinator.log import segment_list
from coordinator.log.catalog import KnownLog, find_contradiction
from coordinator.log.checkpoint import Offsets
from coordinator.log.recovery import DamagedLog, why_begins_late
from coordinator.log.segment import Segment, segment_name
from coordinator.log.segment_list import UNKNOWN, Entry, Found, find_mismatch
from coordinator.world.disk import Disk


def entries_of(segments: Sequence[Segment]) -> list[Entry]:
    """What the list says of these segments, of which the last one is active. Raises OSError."""
    closed = [Entry(segment.base_offset, segment.size_bytes, segment.first_checksum()) for segment in segments[:-1]]
    return [*closed, Entry(segments[-1].base_offset, UNKNOWN, UNKNOWN)]


def check_segments(
    disk: Disk, folder: str, segments: Sequence[Segment], offsets: Offsets, durable_offset: int, known: KnownLog | None
) -> list[Entry]:
    """Returns the list of segments, without those before the start offset. Raises OSError, and DamagedLog for a mismatch.

    `offsets` are those of the checkpoint. Every record before `durable_offset` must be there. `known` is what the catalog has
    about the log.
    """
    content = segment_list.read(disk, folder)
    reason = segment_list.why_unusable(folder, content)
    if content is None or reason:
        raise DamagedLog(f"{folder}/{segment_list.NAME}", 0, -1, reason)
    entries = content.entries
    found = {segment.base_offset: Found(segment.size_bytes, segment.first_checksum()) for segment in segments}
    mismatch = find_mismatch(entries, found, offsets.start_offset, durable_offset)
    if mismatch is not None:
        path = f"{folder}/{segment_name(mismatch.base_offset)}"
        raise DamagedLog(path, mismatch.position, mismatch.base_offset - 1, mismatch.reason)
    if known is not None:
        name, reason = find_contradiction(known, offsets.start_offset, found)
        if reason:
            raise DamagedLog(f"{folder}/{name}", 0, known.base_offset - 1, reason)
    _check_unlisted(segments, entries, offsets.dense_offset)
    return segment_list.without_deleted(entries, offsets.start_offset)


def _check_unlisted(segments: Sequence[Segment], entries: Sequence[Entry], dense_from: int) -> None:
    """Raises DamagedLog if a segment that the list does not have does not begin where the one before it ends."""
    listed = {entry.base_offset for entry in entries}
    for before, segment in pairwise(segments):
        if segment.base_offset not in listed:
            check_follows(before, segment, dense_from)


def check_follows(before: Segment, segment: Segment, dense_from: int) -> None:
    """Raises DamagedLog if a segment does not begin where the one before it ends; OSError."""
    end_offset = before.base_offset
    for _, header in before.walk(0):
        end_offset = header.next_offset
    before.close_if_unheld()
    reason = why_begins_late(segment.base_offset, end_offset, dense_from)
    if reason:
        raise DamagedLog(segment.path, 0, end_offset - 1, reason)
