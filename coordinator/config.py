"""Every setting there is: name, type, range, unit and reason; and the frozen values the parts of the server are given.

A setting has Kafka's name, type and default wherever Kafka has it, so what people know and paste keeps its meaning;
ours are dotted too and say so. One table (`SETTINGS`) says what may be set; the dataclasses
say what it is when nobody sets it; `config/default.yaml` is printed from both.

    built-in defaults  <  the file (--config)  <  the environment  <  --set key=value  <  a flag (--listen, --data-dir ...)

What is wrong is refused before anything is created: an unknown name, a wrong type, an impossible value, values that
contradict each other, and settings of Kafka features that are not here yet. Accepting those and doing nothing would be
the worse kindness: a person would believe that it is in force. A setting that can only have one value on a single node
(replication factors) is taken at that value and refused at any other. The file is read strictly: `"4"` is no number, a
key written twice is an error. Lower bounds of 0 on times and sizes are ours where Kafka would take a negative number.

The dataclasses of `groups` and `topics` live in those packages, which must not know this one.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from coordinator import variables
from coordinator.groups.settings import (
    CLASSIC,
    CONSUMER,
    EVENT_POLICIES,
    FENCING_POLICIES,
    MIGRATION_POLICIES,
    GroupsConfig,
)
from coordinator.places import SCHEMAS
from coordinator.topics.settings import TopicsConfig
from coordinator.transactions.settings import TransactionsConfig

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

_NAME = re.compile(r"[A-Za-z0-9._-]+")
TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class ConfigError(ValueError):
    """A setting that cannot be taken; one line: the key, the value, where it came from, what is allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerConfig:
    """An address that clients connect to. Port 0: any free port. `advertised_*` None (port 0 too): what was bound."""

    host: str = "127.0.0.1"
    port: int = 9092
    advertised_host: str | None = None
    advertised_port: int | None = None
    dialect: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkConfig:
    """Limits of the connections and of what arrives on them."""

    socket_request_max_bytes: int = 104_857_600
    limit_request_bytes: int = 8 << 20
    limit_request_elements: int = 20_000
    limit_memory_bytes: int = 256 << 20
    max_connections: int = 10_000
    max_connections_per_ip: int = 10_000
    max_connection_creation_rate: int = INT_MAX
    connections_max_idle_ms: int = 600_000
    limit_frame_time_ms: int = 30_000
    limit_requests_in_flight: int = 5
    limit_write_buffer_bytes: int = 256 << 10
    limit_write_time_ms: int = 30_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """The coordinators' logs: how many shards, how durable, how they roll, how long an answer may wait for the disk."""

    durability: str = "fsync"
    """Or "write"."""
    offsets_topic_num_partitions: int = 50
    offsets_topic_segment_bytes: int = 104_857_600
    offsets_commit_timeout_ms: int = 5_000
    transaction_state_log_num_partitions: int = 50
    transaction_state_log_segment_bytes: int = 104_857_600
    log_cleaner_backoff_ms: int = 15_000
    log_cleaner_delete_retention_ms: int = 86_400_000
    coordinator_events_segment_bytes: int = 33_554_432
    coordinator_events_retention_bytes: int = 268_435_456
    coordinator_events_retention_ms: int = 604_800_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminConfig:
    """The admin HTTP server and its limits."""

    host: str = "127.0.0.1"
    port: int = 9644
    admin_connections: int = 16
    admin_header_bytes: int = 8 << 10
    admin_body_bytes: int = 64 << 10
    admin_request_time_ms: int = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredTopic:
    """A topic that exists from the start: made when the server starts and it is not there."""

    name: str
    partitions: int
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """Everything the composition root needs. Frozen: nothing is reconfigured while it runs."""

    node_id: int = 1
    log_dir: str = "data"
    shutdown_time_ms: int = 5_000
    listeners: tuple[ListenerConfig, ...] = (ListenerConfig(),)
    admin: AdminConfig = field(default_factory=AdminConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    log: LogConfig = field(default_factory=LogConfig)
    groups: GroupsConfig = field(default_factory=GroupsConfig)
    topics: TopicsConfig = field(default_factory=TopicsConfig)
    transactions: TransactionsConfig = field(default_factory=TransactionsConfig)
    declared_topics: tuple[DeclaredTopic, ...] = ()


class Setting(NamedTuple):
    """One row of the table. `area` is the dataclass that holds it, under the name with underscores for dots."""

    name: str
    area: type
    parse: "Parser"
    unit: str
    reason: str

    @property
    def field_name(self) -> str:
        return self.name.replace(".", "_")

    @property
    def default(self) -> Any:
        return next(item.default for item in fields(self.area) if item.name == self.field_name)


class Parser(NamedTuple):
    """How a value is read: `read(value, is_text)` gives the value or None; `allowed` says in words what passes."""

    read: Callable[[Any, bool], Any]
    allowed: str


def integer(low: int, high: int) -> Parser:
    """A whole number; as text it is written in decimal digits. Booleans are not numbers here, whatever Python says."""

    def read(value: Any, is_text: bool) -> Any:
        if is_text and re.fullmatch(r"-?[0-9]{1,19}", value.strip()):
            value = int(value)
        return value if type(value) is int and low <= value <= high else None

    return Parser(read, f"a whole number from {low} to {high}")


def _read_boolean(value: Any, is_text: bool) -> Any:
    if is_text:
        return {"true": True, "false": False}.get(value.strip().lower())
    return value if isinstance(value, bool) else None


def choice(*options: str) -> Parser:
    """One word of several."""

    def read(value: Any, _is_text: bool) -> Any:
        return value if value in options else None

    return Parser(read, " or ".join(options))


def caseless(*options: str) -> Parser:
    """One word of several, in whatever case; kept in lower case."""

    def read(value: Any, _is_text: bool) -> Any:
        return value.lower() if isinstance(value, str) and value.lower() in options else None

    return Parser(read, " or ".join(options))


def _read_names(value: Any, _is_text: bool) -> Any:
    names = [name.strip() for name in value.split(",")] if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not names or len(set(map(str, names))) < len(names):
        return None
    return tuple(names) if all(isinstance(name, str) and _NAME.fullmatch(name) for name in names) else None


def _read_protocols(value: Any, is_text: bool) -> Any:
    """Classic groups cannot be switched off, as in Kafka."""
    names = _read_names(value, is_text)
    return names if names is not None and {CLASSIC} <= set(names) <= {CLASSIC, CONSUMER} else None


def _read_text(value: Any, _is_text: bool) -> Any:
    return value if isinstance(value, str) and value and value.isprintable() else None


BOOLEAN = Parser(_read_boolean, "true or false")
NAMES = Parser(_read_names, "names, all different, by comma")
PROTOCOLS = Parser(_read_protocols, "classic or classic,consumer; streams and share groups are not supported yet")
TEXT = Parser(_read_text, "a text that is not empty")
INT = integer(0, INT_MAX)
POSITIVE = integer(1, INT_MAX)
LONG = integer(0, LONG_MAX)
POSITIVE_LONG = integer(1, LONG_MAX)

# fmt: off
_TABLE: tuple[tuple[str, type, Parser, str, str], ...] = (
    ("node.id", ServerConfig, INT, "", "The id that clients see as the one broker of the cluster."),
    ("log.dir", ServerConfig, TEXT, "folder", "Everything that must survive a restart is below it."),
    ("shutdown.time.ms", ServerConfig, INT, "ms",
     "How long a stop waits for answers under way before it closes their connections (ours)."),

    ("durability", LogConfig, choice("fsync", "write"), "",
     "fsync: an acknowledged change survives loss of power. write: it survives any crash of the process (ours)."),
    ("offsets.topic.num.partitions", LogConfig, POSITIVE, "partitions",
     "Shards of the groups' log. A group lives in the one its name hashes to: do not change it over existing data."),
    ("offsets.topic.segment.bytes", LogConfig, POSITIVE, "bytes", "A segment of the groups' log rolls at this size."),
    ("offsets.commit.timeout.ms", LogConfig, POSITIVE, "ms",
     "An answer that waits longer for the disk becomes a retriable error; its change may still take effect."),
    ("transaction.state.log.num.partitions", LogConfig, POSITIVE, "partitions",
     "Shards of the transactions' log. An id lives in the one it hashes to: do not change it over existing data."),
    ("transaction.state.log.segment.bytes", LogConfig, POSITIVE, "bytes",
     "A segment of the transactions' log rolls at this size."),
    ("log.cleaner.backoff.ms", LogConfig, POSITIVE_LONG, "ms", "How often a log to compact is looked for."),
    ("log.cleaner.delete.retention.ms", LogConfig, LONG, "ms",
     "A deletion stays in a compacted log so long, for whoever reads the log along."),

    ("coordinator.events", GroupsConfig, choice(*EVENT_POLICIES), "",
     "What the event log beside the groups' log keeps. refused: all but accepted commits (ours)."),
    ("coordinator.events.segment.bytes", LogConfig, POSITIVE, "bytes",
     "A segment of the event log rolls at this size (ours)."),
    ("coordinator.events.retention.bytes", LogConfig, integer(-1, LONG_MAX), "bytes",
     "A shard's event log larger than this loses its oldest segments; -1 keeps them (ours)."),
    ("coordinator.events.retention.ms", LogConfig, integer(-1, LONG_MAX), "ms",
     "A segment of the event log older than this goes; -1 keeps it (ours)."),

    ("group.initial.rebalance.delay.ms", GroupsConfig, INT, "ms",
     "An empty group that gets its first member waits this long for more."),
    ("group.min.session.timeout.ms", GroupsConfig, INT, "ms", "A join with a shorter session timeout is refused."),
    ("group.max.session.timeout.ms", GroupsConfig, INT, "ms", "A join with a longer session timeout is refused."),
    ("group.new.member.join.timeout.ms", GroupsConfig, POSITIVE, "ms",
     "A new member that waits in its first join is given up after this (a constant in Kafka)."),
    ("group.max.size", GroupsConfig, POSITIVE, "members", "A member beyond it is refused: GROUP_MAX_SIZE_REACHED."),
    ("limit.groups", GroupsConfig, POSITIVE, "groups",
     "A group beyond it is not made: GROUP_MAX_SIZE_REACHED. Each costs a kilobyte or two (ours)."),
    ("limit.pending.members", GroupsConfig, POSITIVE, "members",
     "Ids that a group gave to members that have not joined; beyond it: GROUP_MAX_SIZE_REACHED (ours)."),
    ("group.classic.sanitize.owned.partitions", GroupsConfig, BOOLEAN, "",
     "Claims on partitions from an older generation are cleared before the leader sees them (ours)."),
    ("group.coordinator.rebalance.protocols", GroupsConfig, PROTOCOLS, "",
     "Kinds of groups that are served. Without consumer its heartbeats are refused: UNSUPPORTED_VERSION."),
    ("group.consumer.session.timeout.ms", GroupsConfig, POSITIVE, "ms",
     "A member of a consumer group that is silent so long is removed. May be set for one group, too."),
    ("group.consumer.min.session.timeout.ms", GroupsConfig, POSITIVE, "ms", "The least that may be set for a group."),
    ("group.consumer.max.session.timeout.ms", GroupsConfig, POSITIVE, "ms", "The most that may be set for a group."),
    ("group.consumer.heartbeat.interval.ms", GroupsConfig, POSITIVE, "ms",
     "How often members of a consumer group are told to be heard of. May be set for one group, too."),
    ("group.consumer.min.heartbeat.interval.ms", GroupsConfig, POSITIVE, "ms", "The least that may be set for a group."),
    ("group.consumer.max.heartbeat.interval.ms", GroupsConfig, POSITIVE, "ms", "The most that may be set for a group."),
    ("group.consumer.assignment.interval.ms", GroupsConfig, INT, "ms",
     "A target assignment stands at least so long, so that many joins make one rebalance. May be set for one group, too."),
    ("group.consumer.min.assignment.interval.ms", GroupsConfig, INT, "ms", "The least that may be set for a group."),
    ("group.consumer.max.assignment.interval.ms", GroupsConfig, INT, "ms", "The most that may be set for a group."),
    ("group.consumer.max.size", GroupsConfig, POSITIVE, "members",
     "A member beyond it is refused: GROUP_MAX_SIZE_REACHED."),
    ("group.consumer.assignors", GroupsConfig, NAMES, "",
     "What members may ask for, the default first. Others than uniform and range: entry points coordinator.assignors."),
    ("group.consumer.migration.policy", GroupsConfig, caseless(*MIGRATION_POLICIES), "",
     "Whether groups with members change between the classic and the consumer protocol."),
    ("group.consumer.regex.refresh.interval.ms", GroupsConfig, integer(10_000, INT_MAX), "ms",
     "Patterns are matched against the topics at least so often, and within a second or so after topics change."),
    ("group.consumer.fencing.policy", GroupsConfig, choice(*FENCING_POLICIES), "",
     "Which earlier epochs a member may commit with. May be set for one group, too (ours)."),
    ("fencing.require.ownership", GroupsConfig, BOOLEAN, "",
     "A commit at the member's epoch is refused for partitions that it does not own. May be set for one group, too (ours)."),
    ("fencing.require.member", GroupsConfig, BOOLEAN, "",
     "A commit in a transaction is refused if it names no member. May be set for one group, too (ours)."),
    ("offset.metadata.max.bytes", GroupsConfig, INT, "bytes", "The longest text a commit may carry per partition."),
    ("offsets.retention.minutes", GroupsConfig, POSITIVE, "minutes",
     "How long offsets that nobody subscribes to any more are kept."),
    ("offsets.retention.check.interval.ms", GroupsConfig, POSITIVE_LONG, "ms",
     "How often expired offsets are looked for."),

    ("transaction.version", TransactionsConfig, integer(0, 2), "",
     "The feature level that clients are told (KIP-890). 2: a new epoch at each end; 1: not; 0: log records of Kafka 3."),
    ("transaction.max.timeout.ms", TransactionsConfig, POSITIVE, "ms",
     "A producer that wants its transactions open for longer is refused."),
    ("transactional.id.expiration.ms", TransactionsConfig, POSITIVE, "ms",
     "A transactional id that nobody uses for so long is forgotten."),
    ("transaction.abort.timed.out.transaction.cleanup.interval.ms", TransactionsConfig, POSITIVE, "ms",
     "How often transactions are looked for that have been open for longer than their producer allows."),
    ("transaction.remove.expired.transaction.cleanup.interval.ms", TransactionsConfig, POSITIVE, "ms",
     "How often expired transactional ids are looked for."),
    ("transaction.partition.verification.enable", TransactionsConfig, BOOLEAN, "",
     "A write in a transaction is refused to a partition that was not added to it, so that none is left hanging."),

    ("num.partitions", TopicsConfig, POSITIVE, "partitions", "Partitions of a topic whose creator does not say."),
    ("auto.create.topics.enable", TopicsConfig, BOOLEAN, "", "A topic that a client asks for is made on the spot."),
    ("delete.topic.enable", TopicsConfig, BOOLEAN, "", "Whether DeleteTopics deletes."),
    ("limit.partitions", TopicsConfig, POSITIVE, "partitions",
     "Of all topics but the server's own; more are not made: POLICY_VIOLATION. Each costs memory, a written one files (ours)."),
    ("topic.partitions.max", TopicsConfig, POSITIVE, "partitions", "The most one CreateTopics may ask for (ours)."),
    ("message.max.bytes", TopicsConfig, INT, "bytes", "The largest record batch that a topic takes."),
    ("log.segment.bytes", TopicsConfig, integer(1 << 20, INT_MAX), "bytes", "A topic's segment rolls at this size."),
    ("log.roll.ms", TopicsConfig, POSITIVE_LONG, "ms", "A topic's segment rolls at this age."),
    ("log.retention.bytes", TopicsConfig, integer(-1, LONG_MAX), "bytes",
     "A partition larger than this loses its oldest segments; -1 keeps them."),
    ("log.retention.ms", TopicsConfig, integer(-1, LONG_MAX), "ms", "A segment older than this goes; -1 keeps it."),
    ("log.retention.check.interval.ms", TopicsConfig, POSITIVE_LONG, "ms", "How often topics are looked at for that."),
    ("log.cleanup.policy", TopicsConfig, choice("delete", "compact", "compact,delete", "delete,compact"), "",
     "What happens to old records: deleted by age and size, or the last of each key kept."),
    ("log.index.interval.bytes", TopicsConfig, INT, "bytes", "Log between two entries of a segment's index."),
    ("log.index.size.max.bytes", TopicsConfig, integer(4, INT_MAX), "bytes",
     "Told as segment.index.bytes of topics; an index lives in memory here, and no segment rolls for it."),
    ("log.message.timestamp.type", TopicsConfig, choice("CreateTime", "LogAppendTime"), "",
     "Whose clock dates a record: the producer's, or the server's."),
    ("log.message.timestamp.before.max.ms", TopicsConfig, LONG, "ms", "A record dated further back is refused."),
    ("log.message.timestamp.after.max.ms", TopicsConfig, LONG, "ms", "A record dated further ahead is refused."),
    ("compression.type", TopicsConfig, choice("producer"), "", "Batches are kept as their producer compressed them."),
    ("fetch.max.bytes", TopicsConfig, integer(1024, INT_MAX), "bytes",
     "Caps a Fetch answer, whatever its asker wants."),
    ("max.incremental.fetch.session.cache.slots", TopicsConfig, INT, "sessions",
     "Fetch sessions that are remembered; consumers beyond them name all their partitions each time."),
    ("producer.id.expiration.ms", TopicsConfig, POSITIVE, "ms", "A producer silent for so long is forgotten."),
    ("producer.id.block.size", TopicsConfig, POSITIVE, "ids", "Producer ids that one record on disk reserves (ours)."),

    ("socket.request.max.bytes", NetworkConfig, POSITIVE, "bytes", "A larger request closes its connection."),
    ("limit.request.bytes", NetworkConfig, POSITIVE, "bytes",
     "The same for all but Produce: the assignments of 3,000 members are about one MiB (ours)."),
    ("limit.request.elements", NetworkConfig, POSITIVE, "elements",
     "A request with more in all its arrays closes its connection: each costs its sender a byte, us a microsecond (ours)."),
    ("limit.memory.bytes", NetworkConfig, integer(1 << 20, LONG_MAX), "bytes",
     "Held for requests and answers over 64 KiB, of all connections. Beyond it such requests wait, fetches find none (ours)."),
    ("max.connections", NetworkConfig, INT, "connections",
     "A connection beyond it is closed at once. Kafka's default is no bound; memory has one."),
    ("max.connections.per.ip", NetworkConfig, INT, "connections",
     "The same per client address. Behind one container network all clients have one address: hence no less than all."),
    ("max.connection.creation.rate", NetworkConfig, POSITIVE, "connections per second",
     "A connection beyond it is closed at once; Kafka lets it wait. No bound as in Kafka: a test suite makes many."),
    ("connections.max.idle.ms", NetworkConfig, POSITIVE_LONG, "ms",
     "A connection that asks nothing so long is closed."),
    ("limit.frame.time.ms", NetworkConfig, POSITIVE, "ms",
     "A request that began to arrive must be whole by then, or a slow peer could hold its buffer for ever (ours)."),
    ("limit.requests.in.flight", NetworkConfig, POSITIVE, "requests",
     "Unanswered requests of one connection; beyond them reading from it pauses. Clients send 5 by default (ours)."),
    ("limit.write.buffer.bytes", NetworkConfig, POSITIVE, "bytes",
     "Answers that a peer has not read; beyond them reading from it pauses (ours)."),
    ("limit.write.time.ms", NetworkConfig, POSITIVE, "ms", "A peer whose buffer stays full so long is closed (ours)."),

    ("admin.connections", AdminConfig, POSITIVE, "connections", "HTTP connections at once; more are refused (ours)."),
    ("admin.header.bytes", AdminConfig, integer(256, 1 << 20), "bytes", "The largest head of an HTTP request (ours)."),
    ("admin.body.bytes", AdminConfig, INT, "bytes", "The largest body of an HTTP request (ours)."),
    ("admin.request.time.ms", AdminConfig, POSITIVE, "ms", "An HTTP request must be whole by then (ours)."),
)
# fmt: on

SETTINGS: dict[str, Setting] = {row[0]: Setting(*row) for row in _TABLE}

STRUCTURED = {
    "listeners": "[PLAINTEXT://]HOST:PORT, or a list of {address: HOST:PORT, advertise: HOST:PORT, dialect: NAME}",
    "admin.listener": "HOST:PORT",
    "topics": "a list of {name: NAME, partitions: NUMBER, configs: {key: value}}",
}
"""Settings with a shape of their own, and what they look like."""

ONLY_VALUE: dict[str, tuple[Any, str]] = {
    "offsets.topic.replication.factor": (1, "there is one node"),
    "default.replication.factor": (1, "there is one node"),
    "min.insync.replicas": (1, "there is one node"),
    "transaction.state.log.replication.factor": (1, "there is one node"),
    "transaction.state.log.min.isr": (1, "there is one node"),
    "offsets.topic.compression.codec": (0, "the groups' log is not compressed"),
    "group.coordinator.append.linger.ms": (-1, "what arrives in one turn of the loop is one batch"),
}
"""Settings of Kafka that can have but one value here."""

NOT_YET: dict[str, str] = {
    "group.streams.": "streams groups (KIP-1071)",
    "streams.": "streams groups (KIP-1071)",
    "group.share.": "share groups (KIP-932)",
    "share.": "share groups (KIP-932)",
    "errors.deadletterqueue.": "share groups (KIP-932)",
    "transaction.two.phase.commit.": "two-phase commit (KIP-939)",
    "ssl.": "TLS",
    "sasl.": "SASL",
    "listener.": "TLS and SASL",
    "security.": "TLS and SASL",
    "authorizer.": "access control",
    "super.users": "access control",
}
"""Settings of Kafka features that are not here yet, by the start of their names."""

INSTEAD: dict[str, str] = {
    "advertised.listeners": "`advertise:` of an entry of `listeners`, or --advertise",
    "broker.id": "node.id",
    "log.dirs": "log.dir (one folder)",
    "metadata.log.dir": "log.dir (one folder)",
    "log.retention.hours": "log.retention.ms",
    "log.retention.minutes": "log.retention.ms",
    "log.roll.hours": "log.roll.ms",
}


def load(
    file: Path | None = None,
    assignments: Sequence[str] = (),
    flags: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> ServerConfig:
    """The configuration of a file, environment variables, `--set` texts and flags (listen, advertise, admin, data_dir).

    Raises ConfigError.
    """
    environment = environment or {}
    values: dict[str, Any] = {}
    if file is not None:
        for key, value in read_file(file).items():
            values[key] = _checked(key, value, is_text=False, source=str(file))
    try:
        for variable, key, text in variables.assignments(environment, [*SETTINGS, *STRUCTURED, *ONLY_VALUE]):
            values[key] = _checked(key, text, is_text=True, source=variable)
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(str(error)) from error
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals:
            raise ConfigError(f"--set {shown(assignment)}: allowed: key=value")
        values[key.strip()] = _checked(key.strip(), text, is_text=True, source="--set")
    _apply_flags(values, variables.flags(environment), {flag: name for name, flag in variables.FLAGS.items()})
    _apply_flags(values, flags or {}, {})
    config = _build(values)
    _check_together(config)
    return config


def read_file(path: Path) -> dict[str, Any]:
    """The file's settings as YAML gives them. Raises ConfigError if it is not one flat mapping of names."""
    import yaml  # noqa: PLC0415 - costs as much as the rest of the start-up, and a bare start needs none

    # YAML's safe subset, by its parser in C where there is one; a key written twice is an error, not the last one wins.
    loader_class: Any = type("UniqueKeys", (getattr(yaml, "CSafeLoader", yaml.SafeLoader),), {})

    def mapping(loader: yaml.SafeLoader, node: yaml.MappingNode) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key = loader.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise ConfigError(f"{path}: key {shown(key)}: allowed: a setting's name")
            if key in found:
                raise ConfigError(f"{path}: {key} is written twice (line {key_node.start_mark.line + 1})")
            found[key] = loader.construct_object(value_node, deep=True)
        return found

    loader_class.add_constructor("tag:yaml.org,2002:map", mapping)
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), loader_class)  # noqa: S506 - it is a SafeLoader
    except OSError as error:
        raise ConfigError(f"--config {path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: not YAML: {' '.join(str(error).split())}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: allowed: a mapping of settings, `key: value` lines")
    return content


def shown(value: Any) -> str:
    """A value for an error message: one line, not too long."""
    text = value if isinstance(value, str) and value and value.isprintable() and " " not in value else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _refuse(key: str, value: Any, source: str, allowed: str) -> NoReturn:
    raise ConfigError(f"{key} = {shown(value)} ({source}): allowed: {allowed}")


def _checked(key: str, value: Any, *, is_text: bool, source: str) -> Any:
    setting = SETTINGS.get(key)
    if setting is not None:
        parsed = setting.parse.read(value, is_text)
        if parsed is None:
            _refuse(key, value, source, f"{setting.parse.allowed}{f' ({setting.unit})' if setting.unit else ''}")
        return parsed
    if key in STRUCTURED:
        if key != "admin.listener" and is_text and value.lstrip()[:1] in {"[", "{"}:
            value = _flow(key, value, source)
        return _STRUCTURED_READERS[key](value, source)
    _refuse_unknown(key, value, is_text, source)
    return None


def _refuse_unknown(key: str, value: Any, is_text: bool, source: str) -> None:
    """Raises, unless the setting can only have this value here."""
    if key in ONLY_VALUE:
        only, why = ONLY_VALUE[key]
        if type(value) in {int, str} and value == (str(only) if is_text else only):
            return
        _refuse(key, value, source, f"{only}, because {why}")
    for prefix, feature in NOT_YET.items():
        if key.startswith(prefix):
            raise ConfigError(f"{key} = {shown(value)} ({source}): {feature}: not supported yet; remove the setting")
    if key in INSTEAD:
        raise ConfigError(f"{key} = {shown(value)} ({source}): not a setting here; use {INSTEAD[key]}")
    import difflib  # noqa: PLC0415 - most starts need none

    known = [*SETTINGS, *STRUCTURED]
    close = difflib.get_close_matches(key.replace("_", ".").lower(), known, n=1, cutoff=0.75)
    hint = f"; did you mean {close[0]}?" if close else "; `coordinator config list` shows every setting"
    raise ConfigError(f"{shown(key)} = {shown(value)} ({source}): no such setting{hint}")


def _flow(key: str, text: str, source: str) -> Any:
    import yaml  # noqa: PLC0415 - only when such a value is given

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        _refuse(key, text, source, STRUCTURED[key])


def address(key: str, value: Any, source: str, *, lowest_port: int = 0) -> tuple[str, int]:
    """Host and port of "host:port" (IPv6 in brackets). Raises ConfigError."""
    text = value.removeprefix("PLAINTEXT://") if isinstance(value, str) else ""
    match = re.fullmatch(r"(\[[0-9a-fA-F:.%a-z]+\]|[^\s:/\[\]]+):([0-9]{1,5})", text)
    if match is None or not lowest_port <= int(match[2]) <= 65535:
        _refuse(key, value, source, f"HOST:PORT with a port from {lowest_port} to 65535")
    return match[1].strip("[]"), int(match[2])


def _read_listeners(value: Any, source: str) -> tuple[ListenerConfig, ...]:
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",")]
    if not isinstance(value, list) or not value:
        _refuse("listeners", value, source, STRUCTURED["listeners"])
    return tuple(_read_listener(entry, source) for entry in value)


def _read_listener(entry: Any, source: str) -> ListenerConfig:
    if isinstance(entry, str):
        entry = {"address": entry}
    if not isinstance(entry, dict) or "address" not in entry or entry.keys() - {"address", "advertise", "dialect"}:
        _refuse("listeners", entry, source, STRUCTURED["listeners"])
    dialect = entry.get("dialect")
    if dialect is not None and dialect not in (known := dialects()):
        _refuse("listeners: dialect", dialect, source, " or ".join(known))
    host, port = address("listeners: address", entry["address"], source)
    advertised: tuple[str | None, int | None] = (None, None)
    if entry.get("advertise") is not None:
        advertised = address("listeners: advertise", entry["advertise"], source)
    return ListenerConfig(
        host=host, port=port, advertised_host=advertised[0], advertised_port=advertised[1], dialect=dialect
    )


def dialects() -> list[str]:
    """The names of all dialects: the folders of definitions that there are."""
    return sorted(path.name for path in (SCHEMAS / "dialects").iterdir() if path.is_dir())


def _read_topics(value: Any, source: str) -> tuple[DeclaredTopic, ...]:
    if not isinstance(value, list):
        _refuse("topics", value, source, STRUCTURED["topics"])
    topics = tuple(_read_topic(entry, source) for entry in value)
    for name in (names := [topic.name for topic in topics]):
        if names.count(name) > 1:
            raise ConfigError(f"topics ({source}): {name} is declared twice")
    return topics


def _read_topic(entry: Any, source: str) -> DeclaredTopic:
    if not isinstance(entry, dict) or "name" not in entry or entry.keys() - {"name", "partitions", "configs"}:
        _refuse("topics", entry, source, STRUCTURED["topics"])
    name, partitions, configs = entry["name"], entry.get("partitions", 1), entry.get("configs") or {}
    if not isinstance(name, str) or not TOPIC_NAME.fullmatch(name) or name in {".", ".."} or name.startswith("__"):
        _refuse("topics: name", name, source, "1 to 249 of a-z A-Z 0-9 . _ -, not . or .. and not starting with __")
    if POSITIVE.read(partitions, False) is None:
        _refuse(f"topics: partitions of {name}", partitions, source, POSITIVE.allowed)
    if not isinstance(configs, dict) or not all(isinstance(key, str) for key in configs):
        _refuse(f"topics: configs of {name}", configs, source, "{key: value}")
    return DeclaredTopic(name=name, partitions=partitions, configs={key: _as_kafka(configs[key]) for key in configs})


def _as_kafka(value: Any) -> str:
    """A topic config's value as the text that Kafka's own tools would send."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _read_admin_listener(value: Any, source: str) -> tuple[str, int]:
    return address("admin.listener", value, source)


_STRUCTURED_READERS: dict[str, Callable[[Any, str], Any]] = {
    "listeners": _read_listeners,
    "admin.listener": _read_admin_listener,
    "topics": _read_topics,
}


def _apply_flags(values: dict[str, Any], flags: Mapping[str, str], names: Mapping[str, str]) -> None:
    """--listen and --advertise are about the first listener. `names`: what a flag is called if it is none."""
    source = {flag: names.get(flag, f"--{flag.replace('_', '-')}") for flag in flags}
    if "data_dir" in flags:
        values["log.dir"] = _checked("log.dir", flags["data_dir"], is_text=True, source=source["data_dir"])
    if "admin" in flags:
        values["admin.listener"] = address("admin.listener", flags["admin"], source["admin"])
    if "listen" not in flags and "advertise" not in flags:
        return
    first, *others = values.get("listeners", (ListenerConfig(),))
    host, port, advertised = first.host, first.port, (first.advertised_host, first.advertised_port)
    if "listen" in flags:
        host, port = address("listeners", flags["listen"], source["listen"])
    if "advertise" in flags:
        advertised = address("listeners", flags["advertise"], source["advertise"])
    changed = ListenerConfig(
        host=host, port=port, advertised_host=advertised[0], advertised_port=advertised[1], dialect=first.dialect
    )
    values["listeners"] = (changed, *others)


def _build(values: Mapping[str, Any]) -> ServerConfig:
    def area(kind: type) -> dict[str, Any]:
        return {
            setting.field_name: values[name]
            for name, setting in SETTINGS.items()
            if setting.area is kind and name in values
        }

    admin = area(AdminConfig)
    if "admin.listener" in values:
        admin["host"], admin["port"] = values["admin.listener"]
    return ServerConfig(
        **area(ServerConfig),
        listeners=values.get("listeners", (ListenerConfig(),)),
        admin=AdminConfig(**admin),
        network=NetworkConfig(**area(NetworkConfig)),
        log=LogConfig(**area(LogConfig)),
        groups=GroupsConfig(**area(GroupsConfig)),
        topics=TopicsConfig(**area(TopicsConfig)),
        transactions=TransactionsConfig(**area(TransactionsConfig)),
        declared_topics=values.get("topics", ()),
    )


def _check_together(config: ServerConfig) -> None:
    """Values that are fine alone and impossible together."""
    groups = config.groups
    _at_most(
        ("group.min.session.timeout.ms", groups.group_min_session_timeout_ms),
        ("group.max.session.timeout.ms", groups.group_max_session_timeout_ms),
    )
    for what in ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms"):
        names = (f"group.consumer.{bound}{what}" for bound in ("min.", "", "max."))
        low, own, high = ((name, value_of(config, name)) for name in names)
        _at_most(low, own)
        _at_most(own, high)
    _less_than(
        ("group.consumer.heartbeat.interval.ms", groups.group_consumer_heartbeat_interval_ms),
        ("group.consumer.session.timeout.ms", groups.group_consumer_session_timeout_ms),
    )
    for listener in config.listeners:
        if listener.host in {"0.0.0.0", "::"} and listener.advertised_host is None:  # noqa: S104 - it is what we refuse
            raise ConfigError(
                f"listeners = {listener.host}:{listener.port}: clients cannot connect to that address; "
                "allowed: with `advertise: HOST:PORT` (or --advertise), the address that they should use"
            )
        if listener.advertised_host in {"0.0.0.0", "::"}:  # noqa: S104 - it is what we refuse
            raise ConfigError(
                f"advertise = {listener.advertised_host}:{listener.advertised_port}: "
                "allowed: an address that clients can connect to"
            )
    taken = [(listener.host, listener.port) for listener in config.listeners] + [(config.admin.host, config.admin.port)]
    for host, port in taken:
        if port and taken.count((host, port)) > 1:
            raise ConfigError(f"listeners and admin.listener: {host}:{port} is used twice; allowed: an address each")


def _at_most(small: tuple[str, int], large: tuple[str, int]) -> None:
    if small[1] > large[1]:
        raise ConfigError(f"{small[0]} = {small[1]}: allowed: at most {large[0]} ({large[1]})")


def _less_than(small: tuple[str, int], large: tuple[str, int]) -> None:
    if small[1] >= large[1]:
        raise ConfigError(f"{small[0]} = {small[1]}: allowed: less than {large[0]} ({large[1]})")


def value_of(config: ServerConfig, name: str) -> Any:
    """What a setting of the table is in this configuration."""
    setting = SETTINGS[name]
    areas: Iterable[Any] = (
        config, config.admin, config.network, config.log, config.groups, config.topics, config.transactions,
    )  # fmt: skip
    return getattr(next(area for area in areas if type(area) is setting.area), setting.field_name)


def as_yaml(config: ServerConfig) -> str:
    """The configuration as a file that `load` reads back, each setting with its reason, unit and what is allowed."""
    lines = [
        "# Every setting, at its default; Kafka's own names and defaults where Kafka has the setting.",
        "# Printed by `coordinator config defaults`.",
        "",
        "# Where clients connect. dialect: kip-792 speaks that proposal's own JoinGroup v8 on its listener.",
        "listeners:",
    ]
    for listener in config.listeners:
        lines.append(f"  - address: {_yaml_scalar(joined(listener.host, listener.port))}")
        if listener.advertised_host is not None and listener.advertised_port is not None:
            lines.append(f"    advertise: {_yaml_scalar(joined(listener.advertised_host, listener.advertised_port))}")
        if listener.dialect is not None:
            lines.append(f"    dialect: {listener.dialect}")
    lines += [
        "",
        "# Admin HTTP: metrics, health, groups. There is no password on it.",
        f"admin.listener: {_yaml_scalar(joined(config.admin.host, config.admin.port))}",
    ]
    for name, setting in SETTINGS.items():
        allowed = ", ".join(filter(None, (setting.parse.allowed, setting.unit)))
        lines += [
            "",
            f"# {setting.reason}",
            f"# Allowed: {allowed}.",
            f"{name}: {_yaml_scalar(value_of(config, name))}",
        ]
    lines += ["", "# Topics that exist from the start: {name, partitions, configs}."]
    lines.append("topics:" if config.declared_topics else "topics: []")
    for topic in config.declared_topics:
        lines += [f"  - name: {topic.name}", f"    partitions: {topic.partitions}"]
        if topic.configs:
            lines.append("    configs:")
            lines += [f"      {key}: {_yaml_scalar(value)}" for key, value in topic.configs.items()]
    return "\n".join(lines) + "\n"


def joined(host: str, port: int) -> str:
    """ "host:port", IPv6 in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _yaml_scalar(value: bool | int | str | tuple[str, ...]) -> str:
    if isinstance(value, tuple):
        return ",".join(value)
    if not isinstance(value, str):
        return str(value).lower()
    plain = re.fullmatch(r"[A-Za-z][A-Za-z0-9_./-]*|[A-Za-z0-9.-]+\.[A-Za-z0-9.-]+:[0-9]+", value)
    ambiguous = value.lower() in {"true", "false", "yes", "no", "on", "off", "null", "y", "n"}
    return value if plain and not ambiguous else "'" + value.replace("'", "''") + "'"
