"""`coordinator log dump`: prints the records of a log folder or a data folder, one per line, in the order of the log.

Records of internal topics are shown as messages, those of other topics as text. Records of a transaction have the id and
epoch of their producer, as its marker does. Problems are printed on stderr, and the dump continues with the next file.
"""

import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from coordinator.log.batch import (
    COMPRESSION_NAMES,
    BatchHeader,
    CorruptBatch,
    OversizeBatch,
    UnsupportedCompression,
    decode_records,
)
from coordinator.log.record import LogRecord
from coordinator.operations.json_values import bytes_as_json
from coordinator.operations.known_logs import data_folder_of, journaled_batches
from coordinator.operations.log_folders import UNREADABLE, LogFolder, Problem, SegmentFile, find_log_folders
from coordinator.operations.log_records import ShownRecord, kind_of, record_decoder, show_control
from coordinator.protocol.codec import DecodeError

Write = Callable[[dict[str, Any]], None]


def run(path: Path, *, as_json: bool, kind: str | None = None) -> int:
    """Prints the records. Returns 0 if all could be read, else 1. Raises NoLogFolder and OSError.

    `kind` is one of log_records.KINDS. By default the name of the folder determines it.
    """
    intact = True

    def report(problem: Problem) -> None:
        nonlocal intact
        intact = False
        print(problem, file=sys.stderr)

    for folder in find_log_folders(path, journaled=journaled_batches(data_folder_of(path))):
        dump(folder, _print_json if as_json else _print_line, report, kind)
    return 0 if intact else 1


def dump(folder: LogFolder, write: Write, report: Callable[[Problem], None], kind: str | None = None) -> None:
    """Calls `write` for each record of a folder, and `report` for each problem."""
    show = record_decoder(kind or kind_of(folder.topic))

    def visit(segment: SegmentFile, header: BatchHeader, position: int) -> None:
        batch = _batch(folder, segment, header, position)
        try:
            records = decode_records(segment.batch(position, header), 0, header)
        except (UnsupportedCompression, OversizeBatch) as error:
            write({**batch, "offset": header.base_offset, "type": f"not shown: {error}"})
            return
        except CorruptBatch as error:
            report(_unreadable(segment, position, header.base_offset, error))
            return
        for record in records:
            try:
                shown = show_control(record) if header.is_control else show(record)
            except DecodeError as error:
                report(_unreadable(segment, position, record.offset, error))
                shown = ShownRecord("unreadable", bytes_as_json(record.key), bytes_as_json(record.value))
            write(_row(batch, record, shown))

    for problem in folder.walk(visit):
        report(problem)


def _unreadable(segment: SegmentFile, position: int, offset: int, error: Exception) -> Problem:
    return Problem(
        kind=UNREADABLE,
        file=str(segment.path),
        position=position,
        last_good_offset=offset - 1,
        reason=f"offset {offset}: {error}",
    )


def _batch(folder: LogFolder, segment: SegmentFile, header: BatchHeader, position: int) -> dict[str, Any]:
    batch: dict[str, Any] = {"log": folder.name, "file": segment.path.name, "position": position}
    batch["batch"] = {
        "base_offset": header.base_offset,
        "records": header.record_count,
        "leader_epoch": header.leader_epoch,
        "compression": COMPRESSION_NAMES[header.compression] if header.compression < len(COMPRESSION_NAMES) else "?",
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "transactional": header.is_transactional,
        "control": header.is_control,
    }
    return batch


def _row(batch: dict[str, Any], record: LogRecord, shown: ShownRecord) -> dict[str, Any]:
    return {
        **batch,
        "offset": record.offset,
        "timestamp_ms": record.timestamp,
        "type": shown.type,
        "key": shown.key,
        "value": shown.value,
        "headers": [{"name": name, "value": bytes_as_json(value)} for name, value in record.headers],
    }


def _print_json(row: dict[str, Any]) -> None:
    print(json.dumps(row, separators=(",", ":")))


def _print_line(row: dict[str, Any]) -> None:
    words = [row["log"], str(row["offset"])]
    if "timestamp_ms" in row:
        words.append(_time(row["timestamp_ms"]))
    if row["type"]:
        words.append(row["type"].replace(" ", "-") if "key" in row else row["type"])
    if row["batch"]["transactional"]:
        words.append(f"producer={row['batch']['producer_id']}/{row['batch']['producer_epoch']}")
    if "key" in row:
        words += [
            f"key={_compact(row['key'])}",
            "tombstone" if row["value"] is None else f"value={_compact(row['value'])}",
        ]
    if row.get("headers"):
        words.append(f"headers={_compact(row['headers'])}")
    print(" ".join(words))


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _time(timestamp_ms: int) -> str:
    """A timestamp as ISO 8601 in UTC, or as a number if it is outside the calendar."""
    try:
        return (
            datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        )
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)
