"""`coordinator log check`: verifies that logs are intact and that all records can be decoded.

It verifies all checksums and the order of offsets across batches and files, and decodes the key and value of each record. It
distinguishes a torn tail, which the server would cut when it starts; damage, with which it would not start; and records that
cannot be decoded. Each problem has a file, a position and the last good offset. If the compression of a batch is not
supported, its checksum is verified and its records are only counted.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coordinator.log.batch import BatchHeader, CorruptBatch, OversizeBatch, UnsupportedCompression, decode_records
from coordinator.operations.json_values import table
from coordinator.operations.known_logs import data_folder_of, data_folder_problems, journaled_batches, known_logs
from coordinator.operations.log_folders import UNREADABLE, LogFolder, Problem, SegmentFile, find_log_folders
from coordinator.operations.log_records import kind_of, record_decoder, show_control
from coordinator.operations.progress import Advance, progress
from coordinator.protocol.codec import DecodeError


@dataclass(slots=True)
class CheckedLog:
    """The result for the folder of one partition."""

    folder: LogFolder
    segments: int = 0
    size_bytes: int = 0
    batches: int = 0
    records: int = 0
    first_offset: int | None = None
    next_offset: int | None = None
    unknown: int = 0
    """Records whose type or version has no definition."""
    compressed: int = 0
    """Batches whose compression is not supported, or that have too many records."""
    missing: list[tuple[int, int]] = field(default_factory=list)
    """Ranges (from, to) of state offsets for which events may be missing, as the event log reports them."""
    undone: list[tuple[int, int]] = field(default_factory=list)
    """Ranges (from, to) of offsets of events that did not take effect, as the event log reports them."""
    problems: list[Problem] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        """The worst kind of problem, or "good"."""
        kinds = {problem.kind for problem in self.problems}
        return next((kind for kind in ("damage", UNREADABLE, "torn tail") if kind in kinds), "good")

    def as_json(self) -> dict[str, Any]:
        """The result as a JSON value."""
        return {
            "folder": str(self.folder.path),
            "verdict": self.verdict,
            "segments": self.segments,
            "size_bytes": self.size_bytes,
            "batches": self.batches,
            "records": self.records,
            "first_offset": self.first_offset,
            "next_offset": self.next_offset,
            "records_of_unknown_type": self.unknown,
            "batches_not_looked_into": self.compressed,
            "events_missing": [list(each) for each in self.missing],
            "events_undone": [list(each) for each in self.undone],
            "unfinished_files": self.unfinished,
            "problems": [problem.as_json() for problem in self.problems],
        }


def check(folders: Iterable[LogFolder], advance: Advance = lambda _: None) -> Iterator[CheckedLog]:
    """Checks each folder. Calls `advance` with the number of bytes that it has read."""
    for folder in folders:
        yield _check_one(folder, advance)


def _check_one(folder: LogFolder, advance: Advance) -> CheckedLog:
    checked = CheckedLog(folder, len(folder.segments), folder.size_bytes, unfinished=folder.unfinished)
    show = record_decoder(kind_of(folder.topic))

    def visit(segment: SegmentFile, header: BatchHeader, position: int) -> None:
        checked.batches += 1
        checked.records += header.record_count
        if checked.first_offset is None:
            checked.first_offset = header.base_offset
        checked.next_offset = header.next_offset
        read = show_control if header.is_control else show
        offset = header.base_offset - 1
        try:
            for record in decode_records(segment.batch(position, header), 0, header):
                offset = record.offset
                shown = read(record)
                checked.unknown += " unknown " in f" {shown.type} "
                if shown.type == "EventLogOpened":
                    _note_opening(checked, offset, shown.value)
        except (UnsupportedCompression, OversizeBatch):
            checked.compressed += 1
        except (CorruptBatch, DecodeError) as error:
            checked.problems.append(
                Problem(
                    kind=UNREADABLE,
                    file=str(segment.path),
                    position=position,
                    last_good_offset=offset - 1 if isinstance(error, DecodeError) else header.base_offset - 1,
                    reason=f"offset {offset}: {error}" if isinstance(error, DecodeError) else str(error),
                )
            )

    checked.problems += folder.walk(visit, advance)
    return checked


def _note_opening(checked: CheckedLog, offset: int, opened: dict[str, Any]) -> None:
    """Notes what an event log reports about earlier events each time it is opened."""
    covered = max(opened["covered_state_offset"], 0)
    if covered < opened["state_offset"]:
        checked.missing.append((covered, opened["state_offset"]))
    if opened["undone_from_offset"] >= 0:
        checked.undone.append((opened["undone_from_offset"], offset))


def run(path: Path, *, as_json: bool) -> int:
    """Prints the results. Returns 0 if there is no problem, else 1. Raises NoLogFolder and OSError."""
    data_folder = data_folder_of(path)
    folders = find_log_folders(path, known_logs(data_folder), journaled_batches(data_folder))
    others = list(data_folder_problems(data_folder))
    with progress("checking", sum(folder.size_bytes for folder in folders)) as advance:
        logs = list(check(folders, advance))
    if as_json:
        shown = {
            "path": str(path),
            "problems": [problem.as_json() for problem in others],
            "logs": [log.as_json() for log in logs],
        }
        print(json.dumps(shown, indent=2))
    else:
        for problem in others:
            print(problem)
        _print(logs)
    return 1 if others or any(log.problems for log in logs) else 0


def _print(logs: list[CheckedLog]) -> None:
    held = [log for log in logs if log.size_bytes or log.problems]
    header = ("LOG", "SEGMENTS", "BYTES", "BATCHES", "RECORDS", "FIRST", "NEXT", "VERDICT")
    rows: list[tuple[Any, ...]] = [
        (
            log.folder.name,
            log.segments,
            log.size_bytes,
            log.batches,
            log.records,
            log.first_offset,
            log.next_offset,
            log.verdict,
        )
        for log in held
    ]
    if rows:
        print(table(header, rows))
    for log in logs:
        for problem in log.problems:
            print(problem)
        if log.unknown:
            print(f"{log.folder.path}: {log.unknown} records have an unknown type or version")
        if log.compressed:
            print(f"{log.folder.path}: the records of {log.compressed} compressed batches were not decoded")
        for first, end in log.missing:
            print(f"{log.folder.path}: events may be missing for the state offsets {first} to {end - 1}")
        for first, end in log.undone:
            print(f"{log.folder.path}: the events {first} to {end - 1} did not take effect")
        if log.unfinished:
            print(f"{log.folder.path}: unfinished compaction ({', '.join(log.unfinished)}); the next start finishes it")
    bad = sum(1 for log in logs if log.problems)
    records = sum(log.records for log in logs)
    empty = len(logs) - len(held)
    verdict = f"{bad} with problems" if bad else "no problems"
    print(f"{len(logs)} logs ({empty} empty), {records} records: {verdict}")
