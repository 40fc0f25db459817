"""The settings of a journal that several workers share (docs/scale-out.md). None of them is Kafka's."""

from dataclasses import dataclass, field

from coordinator.config.parsers import POSITIVE, SECRET, TEXT, Parser, choice, integer


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedConfig:
    """Where the journal is, and which part of the data plane this server has."""

    journal: str = field(default="", repr=False)
    """The engine's address, which may have a password; empty: embedded, in the data folder."""
    journal_cluster: str = "coordinator"
    journal_replication: str = "required"
    journal_append_timeout_ms: int = 5_000
    journal_beat_timeout_ms: int = 3_000
    data_plane: str = "local"


# fmt: off
ROWS: tuple[tuple[str, type, Parser, str, str], ...] = (
    ("journal", SharedConfig, SECRET, "",
     "Where commits and groups become durable. Nothing: in the data folder, for one server. postgresql://USER@HOST/DATABASE:"
     " in a PostgreSQL database that several workers share (docs/scale-out.md)."),
    ("journal.cluster", SharedConfig, TEXT, "",
     "The name of this cluster in the database. Clusters of different names share the database and nothing else."),
    ("journal.replication", SharedConfig, choice("required", "optional"), "",
     "required: the server refuses a database without a synchronous standby, with which acknowledged commits would be lost."
     " optional: one database is enough, as in tests."),
    ("journal.append.timeout.ms", SharedConfig, POSITIVE, "milliseconds",
     "If the database does not answer for this long, the outcome is unknown: the worker gives up the shards concerned, and"
     " their clients try again."),
    ("journal.beat.timeout.ms", SharedConfig, integer(1_000, 60_000), "milliseconds",
     "A worker that does not reach the database for this long is dead: others take its shards. All workers need the same one."),
    ("data.plane", SharedConfig, choice("local", "none"), "",
     "Where the records of topics are. local: on this server's disk; it must be the only worker then. none: nowhere;"
     " topics exist and groups commit their offsets, but their partitions have no leader. Only for a shared journal."),
)
# fmt: on
