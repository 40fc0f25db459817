"""`coordinator log check`: is every byte of these logs what was written, and does every record mean something?

It verifies every checksum, the order of offsets over batches and files, and decodes every record's key and value. What
a start would cut (a torn tail), what it would refuse (damage) and records that are not what they claim to be are told
apart, each with file, position and last good offset. Records compressed in a way that this project does not read are
counted; their batches' checksums are verified all the same.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coordinator.log.batch import BatchHeader, CorruptBatch, UnsupportedCompression, decode_records
from coordinator.operations.json_values import table
from coordinator.operations.log_folders import LogFolder, Problem, SegmentFile, find_log_folders
from coordinator.operations.log_records import kind_of, show_control, shower
from coordinator.operations.progress import Advance, progress
from coordinator.protocol.codec import DecodeError


@dataclass(slots=True)
class CheckedLog:
    """What one partition's folder holds."""

    folder: LogFolder
    segments: int = 0
    size_bytes: int = 0
    batches: int = 0
    records: int = 0
    first_offset: int | None = None
    next_offset: int | None = None
    unknown: int = 0
    """Records of a type or version without a definition."""
    compressed: int = 0
    """Batches whose records cannot be looked into here."""
    missing: list[tuple[int, int]] = field(default_factory=list)
    """State offsets from, to: what was decided between may lack its events. Told by the event log itself."""
    undone: list[tuple[int, int]] = field(default_factory=list)
    """Offsets from, to: events that never came true. Told by the event log itself."""
    problems: list[Problem] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        """In a word or two: the worst that was found."""
        kinds = {problem.kind for problem in self.problems}
        return next((kind for kind in ("damage", "unreadable record", "torn tail") if kind in kinds), "good")

    def as_plain(self) -> dict[str, Any]:
        """For JSON."""
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
            "problems": [
                {
                    "kind": problem.kind,
                    "file": problem.file,
                    "position": problem.position,
                    "last_good_offset": problem.last_good_offset,
                    "reason": problem.reason,
                }
                for problem in self.problems
            ],
        }


def check(folders: Iterable[LogFolder], advance: Advance = lambda _: None) -> Iterator[CheckedLog]:
    """Looks through each folder; `advance` is told the bytes done."""
    for folder in folders:
        yield _check_one(folder, advance)


def _check_one(folder: LogFolder, advance: Advance) -> CheckedLog:
    checked = CheckedLog(folder, len(folder.segments), folder.size_bytes, unfinished=folder.unfinished)
    show = shower(kind_of(folder.topic))

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
        except UnsupportedCompression:
            checked.compressed += 1
        except (CorruptBatch, DecodeError) as error:
            checked.problems.append(
                Problem(
                    kind="unreadable record",
                    file=str(segment.path),
                    position=position,
                    last_good_offset=offset - 1 if isinstance(error, DecodeError) else header.base_offset - 1,
                    reason=f"offset {offset}: {error}" if isinstance(error, DecodeError) else str(error),
                )
            )

    checked.problems += folder.walk(visit, advance)
    return checked


def _note_opening(checked: CheckedLog, offset: int, opened: dict[str, Any]) -> None:
    """What an event log says at its opening of what is before it."""
    covered = max(opened["covered_state_offset"], 0)
    if covered < opened["state_offset"]:
        checked.missing.append((covered, opened["state_offset"]))
    if opened["undone_from_offset"] >= 0:
        checked.undone.append((opened["undone_from_offset"], offset))


def run(path: Path, *, as_json: bool) -> int:
    """Prints what was found; 0 if all is good, 1 if anything is not. Raises NoLogFolder and OSError."""
    folders = find_log_folders(path)
    with progress("checking", sum(folder.size_bytes for folder in folders)) as advance:
        logs = list(check(folders, advance))
    if as_json:
        print(json.dumps({"path": str(path), "logs": [log.as_plain() for log in logs]}, indent=2))
    else:
        _print(logs)
    return 1 if any(log.problems for log in logs) else 0


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
            print(f"{log.folder.path}: {log.unknown} records of a type or version that is not known here")
        if log.compressed:
            print(f"{log.folder.path}: {log.compressed} compressed batches were verified, not looked into")
        for first, end in log.missing:
            print(f"{log.folder.path}: events may be missing of what was decided at state offsets {first} to {end - 1}")
        for first, end in log.undone:
            print(f"{log.folder.path}: the events {first} to {end - 1} never came true")
        if log.unfinished:
            print(f"{log.folder.path}: an unfinished compaction ({', '.join(log.unfinished)}); the next start ends it")
    bad = sum(1 for log in logs if log.problems)
    records = sum(log.records for log in logs)
    empty = len(logs) - len(held)
    verdict = f"{bad} not good" if bad else "all good"
    print(f"{len(logs)} logs ({empty} empty), {records} records: {verdict}")
