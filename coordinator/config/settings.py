"""Every setting there is: name, type, range, unit and reason; and the frozen values the parts of the server are given.

A setting has Kafka's name, type and default wherever Kafka has it, so what people know and paste keeps its meaning;
ours are dotted too and say so. One table (`SETTINGS`) says what may be set; the dataclasses say what it is when nobody
sets it. Those of `groups`, `topics` and `transactions` live in those packages, which must not know this one.

A setting that can only have one value on a single node (replication factors) is taken at that value and refused at any
other (`ONLY_VALUE`). Lower bounds of 0 on times and sizes are ours where Kafka would take a negative number.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from coordinator.groups.settings import (
    CLASSIC,
    CONSUMER,
    EVENT_POLICIES,
    FENCING_POLICIES,
    MIGRATION_POLICIES,
    STICKY,
    STREAMS,
    STREAMS_FENCING_POLICIES,
    GroupsConfig,
)
from coordinator.topics.config import TopicsConfig
from coordinator.transactions.settings import TransactionsConfig

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

_NAME = re.compile(r"[A-Za-z0-9._-]+")


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
    return names if names is not None and {CLASSIC} <= set(names) <= {CLASSIC, CONSUMER, STREAMS} else None


def _read_tags(value: Any, is_text: bool) -> Any:
    is_nothing = (isinstance(value, str) and not value.strip()) or value in ([], ())
    return () if is_nothing else _read_names(value, is_text)


def _read_assignors(value: Any, is_text: bool) -> Any:
    names = _read_names(value, is_text)
    return names if names is not None and set(names) <= {STICKY} else None


def _read_text(value: Any, _is_text: bool) -> Any:
    return value if isinstance(value, str) and value and value.isprintable() else None


BOOLEAN = Parser(_read_boolean, "true or false")
NAMES = Parser(_read_names, "names, all different, by comma")
PROTOCOLS = Parser(
    _read_protocols, "classic, and any of consumer and streams, by comma; share groups are not supported yet"
)
ASSIGNORS = Parser(_read_assignors, STICKY)
TAGS = Parser(_read_tags, "names, all different, by comma, or nothing")
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
     "Kinds of groups that are served. Heartbeats of a kind that is not among them are refused: UNSUPPORTED_VERSION."),
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
    ("group.streams.session.timeout.ms", GroupsConfig, POSITIVE, "ms",
     "A member of a streams group that is silent so long is removed. May be set for one group, too."),
    ("group.streams.min.session.timeout.ms", GroupsConfig, POSITIVE, "ms", "The least that may be set for a group."),
    ("group.streams.max.session.timeout.ms", GroupsConfig, POSITIVE, "ms", "The most that may be set for a group."),
    ("group.streams.heartbeat.interval.ms", GroupsConfig, POSITIVE, "ms",
     "How often members of a streams group are told to be heard of. May be set for one group, too."),
    ("group.streams.min.heartbeat.interval.ms", GroupsConfig, POSITIVE, "ms", "The least that may be set for a group."),
    ("group.streams.max.heartbeat.interval.ms", GroupsConfig, POSITIVE, "ms", "The most that may be set for a group."),
    ("group.streams.assignment.interval.ms", GroupsConfig, INT, "ms",
     "A target assignment stands at least so long, so that many joins make one rebalance. May be set for one group, too."),
    ("group.streams.min.assignment.interval.ms", GroupsConfig, INT, "ms", "The least that may be set for a group."),
    ("group.streams.max.assignment.interval.ms", GroupsConfig, INT, "ms", "The most that may be set for a group."),
    ("group.streams.initial.rebalance.delay.ms", GroupsConfig, INT, "ms",
     "An empty streams group that gets its first member waits this long for more. May be set for one group, too."),
    ("group.streams.max.size", GroupsConfig, POSITIVE, "members",
     "A member beyond it is refused: GROUP_MAX_SIZE_REACHED."),
    ("group.streams.num.standby.replicas", GroupsConfig, INT, "copies",
     "Copies of each task's state beside the one in use. May be set for one group, too."),
    ("group.streams.max.standby.replicas", GroupsConfig, INT, "copies", "The most that may be set for a group."),
    ("group.streams.rack.aware.assignment.tags", GroupsConfig, TAGS, "",
     "Tags that each client of a streams group has to carry. May be set for one group, too."),
    ("group.streams.assignors", GroupsConfig, ASSIGNORS, "", "Who assigns the tasks of streams groups."),
    ("group.streams.task.offset.interval.ms", GroupsConfig, POSITIVE, "ms",
     "How often members are told to report how far their tasks have come. May be set for one group, too."),
    ("group.streams.min.task.offset.interval.ms", GroupsConfig, POSITIVE, "ms",
     "The least that may be set for a group."),
    ("group.streams.acceptable.recovery.lag", GroupsConfig, LONG, "records",
     "A copy of a task's state that lacks no more counts as caught up; members are told. May be set for one group, too."),
    ("group.streams.fencing.policy", GroupsConfig, choice(*STREAMS_FENCING_POLICIES), "",
     "Which earlier epochs a member of a streams group may commit with. May be set for one group, too (ours)."),
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
    "group.streams.num.warmup.": "warm-up tasks of streams groups (KIP-1071)",
    "group.streams.max.warmup.": "warm-up tasks of streams groups (KIP-1071)",
    "group.streams.topology.description.": "topology descriptions of streams groups (KIP-1331)",
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


def value_of(config: ServerConfig, name: str) -> Any:
    """What a setting of the table is in this configuration."""
    setting = SETTINGS[name]
    areas: Iterable[Any] = (
        config, config.admin, config.network, config.log, config.groups, config.topics, config.transactions,
    )  # fmt: skip
    return getattr(next(area for area in areas if type(area) is setting.area), setting.field_name)
