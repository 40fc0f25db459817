"""The settings of a journal that several workers share (docs/scale-out.md). Kafka has those between brokers only."""

from dataclasses import dataclass, field
from typing import Any

from coordinator.config.parsers import MAYBE_TEXT, POSITIVE, SECRET, TEXT, Parser, choice, integer
from coordinator.config.security import PLAIN, PLAINTEXT, SCRAM_SHA_256, SCRAM_SHA_512, SECURITY_PROTOCOLS

LOGINS = (PLAIN, SCRAM_SHA_256, SCRAM_SHA_512)
"""The mechanisms by which a worker can authenticate."""


def _read_login(value: Any, _is_text: bool) -> Any:
    return value if value in ("", *LOGINS) else None


WORKERS_MAX = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedConfig:
    """Where the journal is, and which part of the data plane this server has."""

    journal: str = field(default="", repr=False)
    """The engine's address, which may have a password; empty: embedded, in the data folder."""
    journal_cluster: str = "coordinator"
    journal_replication: str = "required"
    journal_append_timeout_ms: int = 5_000
    journal_beat_timeout_ms: int = 3_000
    journal_snapshot_bytes: int = 512 * 1024
    data_plane: str = "local"
    workers: int = 0
    """Processes on this machine; 0: this one, without a supervisor."""
    workers_listener_port: int = 0
    inter_broker_listener_name: str = ""
    security_inter_broker_protocol: str = PLAINTEXT
    sasl_mechanism_inter_broker_protocol: str = ""


# fmt: off
ROWS: tuple[tuple[str, type, Parser, str, str], ...] = (
    ("journal", SharedConfig, SECRET, "",
     "Where commits and groups become durable. Nothing: in the data folder, for one server. postgresql://USER@HOST/DATABASE:"
     " in a PostgreSQL database that several workers share (docs/scale-out.md). kafka://HOST:PORT,HOST:PORT: in topics of a"
     " Kafka-compatible cluster."),
    ("journal.cluster", SharedConfig, TEXT, "",
     "The name of this cluster in the database or among the topics. Clusters of different names share that and nothing else."),
    ("journal.replication", SharedConfig, choice("required", "optional"), "",
     "required: the server refuses a database without a synchronous standby, and topics that are not on three brokers, with"
     " which acknowledged commits would be lost. optional: one database or broker is enough, as in tests."),
    ("journal.append.timeout.ms", SharedConfig, POSITIVE, "milliseconds",
     "If the database does not answer for this long, the outcome is unknown: the worker gives up the shards concerned, and"
     " their clients try again."),
    ("journal.beat.timeout.ms", SharedConfig, integer(1_000, 60_000), "milliseconds",
     "A worker that does not reach the database for this long is dead: others take its shards. All workers need the same one."),
    ("journal.snapshot.bytes", SharedConfig, integer(65_536, 1 << 30), "bytes",
     "A shard's log gets a new snapshot when this much was appended after the last snapshot, and more than its size. So a"
     " worker that takes the shard over replays at most this much and twice the compacted log."),
    ("workers", SharedConfig, integer(0, WORKERS_MAX), "",
     "Processes that share the data folder of this machine, for its cores (docs/scale-out.md). 0: one process, which shares"
     " nothing. Not together with an engine."),
    ("workers.listener.port", SharedConfig, integer(0, 65_535), "",
     "The first of the ports at which each worker of this machine is reached by itself: for the first listener as many ports as"
     " there are workers, then for the next one. 0: any free ports."),
    ("data.plane", SharedConfig, choice("local", "none"), "",
     "Where the records of topics are. local: on this server's disk; it must be the only worker then. none: nowhere;"
     " topics exist and groups commit their offsets, but their partitions have no leader. Only with an engine."),
    ("inter.broker.listener.name", SharedConfig, MAYBE_TEXT, "",
     "The listener at which workers ask each other about transactions. Nothing: the only one; of several the one that is named"
     " as security.inter.broker.protocol says. Only with an engine."),
    ("security.inter.broker.protocol", SharedConfig, choice(*SECURITY_PROTOCOLS), "",
     "The name of that listener, if inter.broker.listener.name is not set and there are several. Only with an engine."),
    ("sasl.mechanism.inter.broker.protocol", SharedConfig, Parser(_read_login, f"{', '.join(LOGINS)} or nothing"), "",
     "The SASL mechanism by which workers authenticate at that listener. User and password are in"
     " listener.name.<name>.<mechanism>.sasl.jaas.config, as in Kafka. Nothing: the only enabled one. Kafka's default is"
     " GSSAPI, which this server does not have."),
)
# fmt: on
