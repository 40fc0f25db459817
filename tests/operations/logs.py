"""Data folders with a little content, and the commands on them."""

from pathlib import Path

import pytest

from coordinator import cli
from coordinator.log.batch import LogRecord
from coordinator.log.checkpoint import Offsets
from coordinator.protocol.codec import Codec
from coordinator.protocol.messages import OffsetCommitKey, OffsetCommitValue
from coordinator.runtime.result import Record
from coordinator.runtime.serde import Serde

NOW_MS = 1_700_000_000_000


SERDE = Serde(Codec.of(), ("OffsetCommitKey", "GroupMetadataKey", "ClassicGroupGenerationKey"))


def commit(offset: int, group: str = "g", value: int | None = 42) -> LogRecord:
    key = OffsetCommitKey(group=group, topic="t", partition=0)
    message = None if value is None else OffsetCommitValue(offset=value, metadata="m", commit_timestamp=NOW_MS)
    return LogRecord(offset, NOW_MS, *SERDE.encode(Record(key, message, 3)))


def text(offset: int, value: str = "v") -> LogRecord:
    return LogRecord(offset, NOW_MS, b"k", value.encode(), (("h", b"\xff"),))


def write(folder: Path, *batches: bytes, base_offset: int = 0) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{base_offset:020d}.log"
    path.write_bytes(b"".join(batches))
    return path


def checkpoint(folder: Path, offset: int) -> None:
    """Writes the checkpoint of a server that has synced everything before the offset, without gaps."""
    (folder / "log-checkpoint").write_bytes(Offsets(start_offset=0, recovery_offset=offset).line())


def content(folder: Path) -> dict[Path, tuple[bytes, int]]:
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = cli.main(["log", *map(str, arguments)])
    printed = capsys.readouterr()
    return code, printed.out, printed.err
