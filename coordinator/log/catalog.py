"""The catalog of a data folder: which logs have records, so that a start notices when one is missing, emptied or foreign.

    0                                                  version
    x1yZ2nQGS_mE4bIq5yQZ0A                             the cluster's id
    orders-3 0f8b.. -1 41900 41822 9c3e0a17            folder, topic id, start offset, end offset, active segment
    a41d8cd9                                           checksum of the lines before

A start writes the file, and so do a stop and, while the server runs, a timer whenever a log has got its first records or a
new segment. The offsets are those that were durable then. They are lower bounds, like those of a log's own checkpoint, which is
lost together with its folder. The active segment has its base offset and the checksum of its first batch. A topic that was
deleted and created again has another id, so that the records of the old one are not missed.

The version is 1 while the folder has a journal (coordinator/journal), without which the logs may be incomplete, and otherwise
0. So versions of this server that know no journal refuse the folder after a crash, and accept it after an orderly stop.

A data folder without a catalog (of Kafka or of an earlier version) is opened without it. Kafka's
`recovery-point-offset-checkpoint` and `log-start-offset-checkpoint` have similar offsets, which are not compared with the logs.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from coordinator.log import checkpoint
from coordinator.log.segment import segment_name
from coordinator.log.segment_list import UNKNOWN, Found, sealed, unsealed, write_durably
from coordinator.world.disk import Disk

NAME = "log-catalog"
VERSION, VERSION_WITH_JOURNAL = b"0", b"1"
NO_ID = "-"
"""For logs whose topic is never deleted."""


class KnownLog(NamedTuple):
    """A log that has durable records."""

    folder: str
    """The name of its folder."""
    topic_id: str
    """In hexadecimal, or NO_ID."""
    start_offset: int
    """As in the log's checkpoint: -1 if it was never set."""
    end_offset: int
    """Every record before it was durable."""
    base_offset: int
    """Of the active segment."""
    checksum: int
    """Of the first batch of the active segment; UNKNOWN if it had none."""


class Catalog(NamedTuple):
    """The content of the file."""

    cluster_id: str
    logs: dict[str, KnownLog]
    """By the name of the folder."""
    has_journal: bool = False
    """Whether the folder must have a journal."""

    def known(self, folder: str, topic_id: str = NO_ID) -> KnownLog | None:
        """The log in this folder, unless it was the log of another topic."""
        log = self.logs.get(folder)
        return log if log is not None and log.topic_id == topic_id else None


NO_CATALOG = Catalog("", {})


def find_contradiction(known: KnownLog, start_offset: int, found: Mapping[int, Found]) -> tuple[str, str]:
    """The name of a file that contradicts the catalog, and why; empty if there is none.

    `start_offset` is that of the log's checkpoint. Only the last segment is compared: others may have been compacted since.
    """
    if known.start_offset > start_offset:
        return checkpoint.NAME, f"it says that the log starts at offset {start_offset} instead of {known.start_offset}"
    last = max(found, default=UNKNOWN)
    if last == known.base_offset and known.checksum not in {UNKNOWN, found[last].checksum}:
        return segment_name(known.base_offset), "the file does not begin with the batch that was written there"
    return "", ""


def encode(catalog: Catalog) -> bytes:
    """The content of the file."""
    version = VERSION_WITH_JOURNAL if catalog.has_journal else VERSION
    return sealed([version, catalog.cluster_id.encode(), *map(_line, catalog.logs.values())])


def _line(log: KnownLog) -> bytes:
    checksum = "-" if log.checksum == UNKNOWN else f"{log.checksum:08x}"
    fields = (log.folder, log.topic_id, log.start_offset, log.end_offset, log.base_offset, checksum)
    return " ".join(map(str, fields)).encode()


def decode(content: bytes) -> Catalog | None:
    """The catalog; None if the file is damaged or its version is unknown."""
    lines = unsealed(content)
    if lines is None or len(lines) < 2 or lines[0] not in {VERSION, VERSION_WITH_JOURNAL}:
        return None
    try:
        logs: Iterable[KnownLog] = (_known(line.decode()) for line in lines[2:])
        return Catalog(lines[1].decode(), {log.folder: log for log in logs}, lines[0] == VERSION_WITH_JOURNAL)
    except ValueError:
        return None


def _known(line: str) -> KnownLog:
    """Raises ValueError."""
    folder, topic_id, start, end, base, checksum = line.split()
    return KnownLog(
        folder, topic_id, int(start), int(end), int(base), UNKNOWN if checksum == "-" else int(checksum, 16)
    )


def read(disk: Disk, data_folder: str) -> Catalog | None:
    """The catalog of a data folder, NO_CATALOG if there is none; None if it is damaged. Raises OSError."""
    path = f"{data_folder}/{NAME}"
    return decode(disk.read(path)) if disk.exists(path) else NO_CATALOG


def write(disk: Disk, data_folder: str, catalog: Catalog) -> None:
    """Replaces the catalog at once and durably. Raises OSError; then the old one is there."""
    write_durably(disk, data_folder, NAME, encode(catalog))
