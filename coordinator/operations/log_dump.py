"""`coordinator log dump`: every record of a log folder or a data folder, one line each, in the order of the log.

Internal topics are shown as the messages they hold, other topics as text; of a transaction's records the producer, id and
epoch, by which they find their marker. What is wrong is said on stderr where it is met, and the dump goes on with the next
file.
"""

import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from coordinator.log.batch import COMPRESSION_NAMES, BatchHeader, CorruptBatch, UnsupportedCompression, decode_records
from coordinator.log.record import LogRecord
from coordinator.operations.json_values import bytes_as_plain
from coordinator.operations.log_folders import LogFolder, Problem, SegmentFile, find_log_folders
from coordinator.operations.log_records import ShownRecord, kind_of, show_control, shower
from coordinator.protocol.codec import DecodeError

Write = Callable[[dict[str, Any]], None]


def run(path: Path, *, as_json: bool, kind: str | None = None) -> int:
    """Prints the records; 0 if all could be read, 1 if not. `kind`: of log_records.KINDS, else by the folder's name.

    Raises NoLogFolder and OSError.
    """
    whole = True

    def report(problem: Problem) -> None:
        nonlocal whole
        whole = False
        print(problem, file=sys.stderr)

    for folder in find_log_folders(path):
        dump(folder, _print_json if as_json else _print_line, report, kind)
    return 0 if whole else 1


def dump(folder: LogFolder, write: Write, report: Callable[[Problem], None], kind: str | None = None) -> None:
    """Hands every record of a folder to `write` and whatever is wrong to `report`."""
    show = shower(kind or kind_of(folder.topic))

    def visit(segment: SegmentFile, header: BatchHeader, position: int) -> None:
        batch = _batch(folder, segment, header, position)
        try:
            records = decode_records(segment.batch(position, header), 0, header)
        except UnsupportedCompression as error:
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
                shown = ShownRecord("unreadable", bytes_as_plain(record.key), bytes_as_plain(record.value))
            write(_row(batch, record, shown))

    for problem in folder.walk(visit):
        report(problem)


def _unreadable(segment: SegmentFile, position: int, offset: int, error: Exception) -> Problem:
    return Problem(
        kind="unreadable record",
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
        "headers": [{"name": name, "value": bytes_as_plain(value)} for name, value in record.headers],
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
    """ISO 8601 in UTC; the number itself where a calendar has no such day."""
    try:
        return (
            datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        )
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)
