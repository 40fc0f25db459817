"""Every setting, with its name, range, unit and documentation, and the frozen dataclasses that hold the values.

A setting that Kafka has keeps Kafka's name, type and default, so that people can paste what they know; documentation
says where a setting is not Kafka's. The table (`SETTINGS`) defines what can be set, and the dataclasses define the
defaults. The dataclasses of `groups`, `topics` and `transactions` live in those packages, which cannot import this one.

Some settings of Kafka, such as replication factors, can only have one value on a single node. They are accepted with that
value and refused with any other (`ONLY_VALUE`). Where Kafka would accept a negative time or size, the lower bound here is 0.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

from coordinator.config import access_control, delegation_tokens, overlay, security, sharing
from coordinator.config.access_control import AccessControlConfig
from coordinator.config.delegation_tokens import DelegationTokensConfig
from coordinator.config.overlay import OverlayConfig
from coordinator.config.parsers import (
    ASSIGNORS,
    BOOLEAN,
    GROUPS,
    INT,
    INT_MAX,
    LONG,
    LONG_MAX,
    MAYBE_TEXT,
    NAMES,
    POSITIVE,
    POSITIVE_LONG,
    PROTOCOLS,
    SECRET,
    TAGS,
    TEXT,
    Parser,
    caseless,
    choice,
    integer,
)  # fmt: skip
from coordinator.config.security import NO_SECURITY, PLAINTEXT, ListenerSecurity, SaslConfig, TlsConfig
from coordinator.config.sharing import SharedConfig
from coordinator.groups.settings import (
    EVENT_POLICIES,
    FENCING_POLICIES,
    MIGRATION_POLICIES,
    VALIDATION_POLICIES,
    GroupsConfig,
)
from coordinator.protocol.releases import NEWEST, releases
from coordinator.share_state.settings import ShareStateConfig
from coordinator.topics.config import TopicsConfig
from coordinator.transactions.settings import TransactionsConfig

NODES_MAX = 32
"""The most brokers that a server is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerConfig:
    """An address that clients connect to. Port 0: any free port.

    `advertised_*` is the address that the server gives to clients. None, or port 0: the one that it is bound to.
    """

    host: str = "127.0.0.1"
    port: int = 9092
    advertised_host: str | None = None
    advertised_port: int | None = None
    dialect: str | None = None
    emulate: str | None = None
    """The release of Kafka that clients of this listener see; None: that of the server."""
    name: str = PLAINTEXT
    """In upper case, as in Kafka."""
    security: ListenerSecurity = NO_SECURITY
    shared_port: int | None = None
    """Of the workers of one machine: the port at which clients find any of them. No source sets it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkConfig:
    """Limits on connections and on the requests that arrive on them."""

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
    """The logs of the coordinators: shards, durability, segments, and how long a response can wait for the disk."""

    durability: str = "fsync"
    offsets_topic_num_partitions: int = 50
    offsets_topic_segment_bytes: int = 104_857_600
    offsets_commit_timeout_ms: int = 5_000
    transaction_state_log_num_partitions: int = 50
    transaction_state_log_segment_bytes: int = 104_857_600
    share_coordinator_state_topic_num_partitions: int = 50
    share_coordinator_state_topic_segment_bytes: int = 104_857_600
    log_cleaner_backoff_ms: int = 15_000
    log_cleaner_delete_retention_ms: int = 86_400_000
    coordinator_journal_file_bytes: int = 16_777_216
    coordinator_events_segment_bytes: int = 33_554_432
    coordinator_events_retention_bytes: int = 268_435_456
    coordinator_events_retention_ms: int = 604_800_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminConfig:
    """The address and the limits of the admin HTTP server."""

    host: str = "127.0.0.1"
    port: int = 9644
    admin_connections: int = 64
    admin_header_bytes: int = 8 << 10
    admin_body_bytes: int = 64 << 10
    admin_request_time_ms: int = 10_000
    admin_control_enable: bool = False
    admin_token: str = field(default="", repr=False)
    admin_token_file: str = ""
    admin_anonymous: str = "none"
    admin_ssl_keystore_location: str = ""
    admin_ssl_key_password: str = field(default="", repr=False)
    admin_ssl_truststore_location: str = ""
    metrics_groups: tuple[str, ...] = ()
    behind: tuple[str, int] | None = None
    """Of a worker of one machine: where it listens behind its supervisor. No source sets it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotasConfig:
    """How the rates of clients with quotas are measured."""

    quota_window_num: int = 11
    quota_window_size_seconds: int = 1
    controller_quota_window_num: int = 11
    controller_quota_window_size_seconds: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredTopic:
    """A topic that the server creates when it starts, unless it exists."""

    name: str
    partitions: int
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """The whole configuration of a server. It does not change while the server runs."""

    node_id: int = 1
    nodes: int = 1
    nodes_racks: tuple[str, ...] = ()
    emulate: str = NEWEST
    log_dir: str = "data"
    shutdown_time_ms: int = 5_000
    listeners: tuple[ListenerConfig, ...] = (ListenerConfig(),)
    admin: AdminConfig = field(default_factory=AdminConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    log: LogConfig = field(default_factory=LogConfig)
    groups: GroupsConfig = field(default_factory=GroupsConfig)
    topics: TopicsConfig = field(default_factory=TopicsConfig)
    transactions: TransactionsConfig = field(default_factory=TransactionsConfig)
    share_states: ShareStateConfig = field(default_factory=ShareStateConfig)
    quotas: QuotasConfig = field(default_factory=QuotasConfig)
    tls: TlsConfig = field(default_factory=TlsConfig)
    """The settings of all listeners; those of each are in its `security`."""
    sasl: SaslConfig = field(default_factory=SaslConfig)
    """As `tls`."""
    access_control: AccessControlConfig = field(default_factory=AccessControlConfig)
    delegation_tokens: DelegationTokensConfig = field(default_factory=DelegationTokensConfig)
    shared: SharedConfig = field(default_factory=SharedConfig)
    overlay: OverlayConfig = field(default_factory=OverlayConfig)
    declared_topics: tuple[DeclaredTopic, ...] = ()

    @property
    def node_ids(self) -> range:
        """The ids of the brokers that the server is."""
        return range(self.node_id, self.node_id + self.nodes)


class Setting(NamedTuple):
    """A row of the table. `area` is the dataclass that has the setting as a field, with underscores for dots."""

    section: str
    name: str
    area: type
    parse: Parser
    unit: str
    documentation: str

    @property
    def allowed(self) -> str:
        """What can be set, in words, with the unit."""
        return f"{self.parse.allowed} ({self.unit})" if self.unit else self.parse.allowed

    @property
    def field_name(self) -> str:
        return self.name.replace(".", "_")

    @property
    def default(self) -> Any:
        return next(item.default for item in fields(self.area) if item.name == self.field_name)


_Row = tuple[str, type, Parser, str, str]
"""A row without its section."""


# fmt: off
def _of_each_kind(kind: str) -> Iterator[_Row]:
    """The settings that consumer, streams and share groups have alike, each kind under names of its own."""
    for name, parse, plural, about in (
        ("session.timeout.ms", POSITIVE, "session timeouts",
         "The server removes a member that sends no heartbeat for this long. Lower it to detect dead members sooner."),
        ("heartbeat.interval.ms", POSITIVE, "heartbeat intervals",
         "Members are asked to send heartbeats at this interval. A shorter one makes rebalances faster and costs"
         " more requests."),
        ("assignment.interval.ms", INT, "assignment intervals",
         "The server computes a new assignment for a group at most once per interval, so that members that join together"
         " share one rebalance (KIP-1263)."),
    ):
        overridden = f"{about} A single group can override it with {kind}.{name}."
        yield f"group.{kind}.{name}", GroupsConfig, parse, "milliseconds", overridden
        for bound, word in (("min", "lower"), ("max", "upper")):
            bounds = f"The {word} bound for {plural}, for the server and for single groups."
            yield f"group.{kind}.{bound}.{name}", GroupsConfig, parse, "milliseconds", bounds


_SECTIONS: dict[str, tuple[_Row, ...]] = {
    "Server": (
        ("node.id", ServerConfig, INT, "",
         "The broker id that clients see. Each of several workers needs one of its own."),
        ("nodes", ServerConfig, integer(1, NODES_MAX), "",
         "How many brokers this server is (docs/nodes.md). They have the ids from node.id on, and each listener has a port for"
         " each: its own and those that follow. For tests; not with workers, an engine or data.bootstrap.servers. Not a Kafka"
         " setting."),
        ("nodes.racks", ServerConfig, TAGS, "",
         "The racks of these brokers, in the order of their ids; if there are fewer racks than brokers they are used again."
         " Nothing: brokers have no rack. Not a Kafka setting."),
        ("emulate", ServerConfig, choice(NEWEST, *releases()), "",
         "The release of Kafka that clients see (docs/emulation.md). A listener can have one of its own. Not with"
         " data.bootstrap.servers. Not a Kafka setting."),
        ("log.dir", ServerConfig, TEXT, "",
         "The data folder. It holds all logs and everything else that must survive a restart. Put it on a disk that syncs"
         " fast: with durability=fsync every commit waits for it."),
        ("shutdown.time.ms", ServerConfig, INT, "milliseconds",
         "On SIGTERM the server waits this long for requests in progress, then closes their connections. Keep it below the"
         " time after which your supervisor kills the process. Not a Kafka setting."),
    ),
    "Logs of the coordinators": (
        ("durability", LogConfig, choice("fsync", "write"), "",
         "How durable a change is before its response is sent. fsync: it survives a power failure. write: it survives a"
         " crash of the process but not a power failure; choose it for tests. Not a Kafka setting."),
        ("coordinator.journal.file.bytes", LogConfig, integer(65_536, INT_MAX), "bytes",
         "The size of a file of the journal, through which all internal logs become durable with one sync. The server keeps"
         " up to four of them, and syncs the logs' own segments whenever one is full. Not a Kafka setting."),
        ("offsets.topic.num.partitions", LogConfig, POSITIVE, "partitions",
         "The number of partitions of __consumer_offsets, which is also the number of group shards. The hash of a group's"
         " name selects its partition, so do not change this once there is data."),
        ("offsets.topic.segment.bytes", LogConfig, POSITIVE, "bytes",
         "A partition of __consumer_offsets starts a new segment when the current one reaches this size. Compaction"
         " rewrites closed segments only, so a smaller size keeps the log shorter."),
        ("offsets.commit.timeout.ms", LogConfig, POSITIVE, "milliseconds",
         "If a response waits longer than this for the disk, the client gets a retriable error instead. The change itself"
         " may still take effect. Raise it if the disk has long pauses."),
        ("transaction.state.log.num.partitions", LogConfig, POSITIVE, "partitions",
         "The number of partitions of __transaction_state. The hash of a transactional id selects its partition, so do not"
         " change this once there is data."),
        ("transaction.state.log.segment.bytes", LogConfig, POSITIVE, "bytes",
         "A partition of __transaction_state starts a new segment when the current one reaches this size."),
        ("share.coordinator.state.topic.num.partitions", LogConfig, POSITIVE, "partitions",
         "The number of partitions of __share_group_state. The hash of a share group, topic and partition selects its"
         " partition, so do not change this once there is data."),
        ("share.coordinator.state.topic.segment.bytes", LogConfig, POSITIVE, "bytes",
         "A partition of __share_group_state starts a new segment when the current one reaches this size. A segment is"
         " deleted when every share partition has a later snapshot."),
        ("log.cleaner.backoff.ms", LogConfig, POSITIVE_LONG, "milliseconds",
         "The interval at which the server looks for a log that is due for compaction. It compacts one log at a time."),
        ("log.cleaner.delete.retention.ms", LogConfig, LONG, "milliseconds",
         "Compaction keeps a tombstone for this long, so that programs that read the log see the deletion. Raise it if a"
         " reader may fall further behind."),
    ),
    "Event log": (
        ("coordinator.events", GroupsConfig, choice(*EVENT_POLICIES), "",
         "Which decisions about groups the event log records. all: every event. refused: every event except accepted"
         " commits, which are most of them. none: no events. Not a Kafka setting."),
        ("coordinator.events.segment.bytes", LogConfig, POSITIVE, "bytes",
         "An event log starts a new segment when the current one reaches this size. Retention removes whole segments."
         " Not a Kafka setting."),
        ("coordinator.events.retention.bytes", LogConfig, integer(-1, LONG_MAX), "bytes",
         "If the event log of a shard is larger than this, the server deletes its oldest segments. -1: no limit."
         " Not a Kafka setting."),
        ("coordinator.events.retention.ms", LogConfig, integer(-1, LONG_MAX), "milliseconds",
         "The server deletes event log segments that are older than this. -1: it keeps them. Not a Kafka setting."),
    ),
    "Groups of every kind": (
        ("group.coordinator.rebalance.protocols", GroupsConfig, PROTOCOLS, "",
         "The group protocols that the server offers. It refuses heartbeats of the others with UNSUPPORTED_VERSION."
         " Remove one to keep clients from using it."),
        ("limit.groups", GroupsConfig, POSITIVE, "groups",
         "The most groups that can exist. A request that would create another one fails with GROUP_MAX_SIZE_REACHED."
         " A group takes one to two kilobytes of memory. Not a Kafka setting."),
        ("limit.group.bytes", GroupsConfig, POSITIVE, "bytes",
         "The most memory that the ids, subscriptions, metadata and assignments of a group's members can take together; at"
         " least 1.5 KiB are counted for each member. A join or heartbeat that would add more fails with"
         " GROUP_MAX_SIZE_REACHED. It also bounds the group's records. Not a Kafka setting."),
        ("limit.groups.bytes", GroupsConfig, POSITIVE_LONG, "bytes",
         "The most memory that all groups can take together. A request that would add more fails with"
         " COORDINATOR_NOT_AVAILABLE, and clients try again; members of up to 1 KiB are served. It is as much as"
         " limit.memory.bytes by default. Not a Kafka setting."),
        ("limit.group.tasks", GroupsConfig, POSITIVE, "tasks",
         "The most tasks that a streams group can have, standby tasks included. A topology of a kilobyte can ask for a"
         " million: each subtopology has as many as its largest topic has partitions. A heartbeat beyond it fails with"
         " GROUP_MAX_SIZE_REACHED. At the default an assignment takes a tenth of a second. Not a Kafka setting."),
        ("limit.pattern.bytes", GroupsConfig, integer(65_536, INT_MAX), "bytes",
         "The most memory that a pattern can take when it is compiled: the pattern of a consumer's subscription, which is"
         " refused beyond it with INVALID_REGULAR_EXPRESSION, or of transactional ids in ListTransactions. 20 letters can"
         " become 20,000 instructions of 16 bytes. Not a Kafka setting."),
        ("limit.pattern.work", GroupsConfig, POSITIVE_LONG, "instructions times topics",
         "The most work that it can be to match a consumer's pattern: the instructions that it compiles to, times the"
         " topics. A heartbeat that brings one beyond it fails with INVALID_REGULAR_EXPRESSION. topic-.* has 20"
         " instructions, a choice of a thousand names has ten thousand. At the default a pattern takes a thread four"
         " seconds at most. Not a Kafka setting."),
        ("offset.metadata.max.bytes", GroupsConfig, INT, "UTF-16 characters",
         "The longest metadata text that a commit can have for a partition. A longer one is refused with"
         " OFFSET_METADATA_TOO_LARGE. Despite its name, the setting counts characters, in Kafka too."),
        ("offsets.retention.minutes", GroupsConfig, POSITIVE, "minutes",
         "How long the server keeps a committed offset that its group no longer needs, because the group is empty or no"
         " member subscribes to the topic. Raise it if your applications can be stopped for longer."),
        ("offsets.retention.check.interval.ms", GroupsConfig, POSITIVE_LONG, "milliseconds",
         "The interval at which the server looks for expired offsets."),
        ("fencing.require.ownership", GroupsConfig, BOOLEAN, "",
         "If true, a member that commits with its current epoch must own the partitions. If false, as in Kafka, it can"
         " commit any partition. A single group can override it with consumer.fencing.require.ownership or"
         " streams.fencing.require.ownership. Not a Kafka setting."),
        ("fencing.require.member", GroupsConfig, BOOLEAN, "",
         "If true, a commit in a transaction must name a member of the group, so that it can be fenced. If false, as in"
         " Kafka, it need not. Clients before Kafka 2.5 name no member. A single group can override it with"
         " fencing.require.member. Not a Kafka setting."),
        ("group.rebalance.interval.ms", GroupsConfig, INT, "milliseconds",
         "Every group rebalances when this time has passed since its last rebalance; 0 means never. Set it if assignors of"
         " your clients use facts that the coordinator does not see. A single group can override it with"
         " group.rebalance.interval.ms. Not a Kafka setting."),
        ("group.min.rebalance.interval.ms", GroupsConfig, POSITIVE, "milliseconds",
         "The lower bound for rebalance intervals, for the server and for single groups, unless they are 0. A shorter"
         " interval leaves members little time to work. Not a Kafka setting."),
    ),
    "Classic groups": (
        ("group.initial.rebalance.delay.ms", GroupsConfig, INT, "milliseconds",
         "When the first member joins an empty group, the group waits this long for further members before it rebalances."
         " Set it to 0 in tests. Raise it if many members start together."),
        ("group.min.session.timeout.ms", GroupsConfig, INT, "milliseconds",
         "The shortest session timeout that a member can ask for. A shorter one is refused with INVALID_SESSION_TIMEOUT."
         " Lower it if members must be declared dead sooner."),
        ("group.max.session.timeout.ms", GroupsConfig, INT, "milliseconds",
         "The longest session timeout that a member can ask for. A longer one is refused with INVALID_SESSION_TIMEOUT."),
        ("group.new.member.join.timeout.ms", GroupsConfig, POSITIVE, "milliseconds",
         "A new member whose first JoinGroup request is pending cannot send heartbeats. The group removes it if the"
         " rebalance takes longer than this. In Kafka it is a constant, not a setting."),
        ("group.max.size", GroupsConfig, POSITIVE, "members",
         "The most members that a classic group can have. A further member is refused with GROUP_MAX_SIZE_REACHED."),
        ("limit.pending.members", GroupsConfig, POSITIVE, "members",
         "The most member ids that a group hands out to members that have not joined yet. A further one is refused with"
         " GROUP_MAX_SIZE_REACHED. Not a Kafka setting."),
        ("group.classic.sanitize.owned.partitions", GroupsConfig, BOOLEAN, "",
         "If true, the server removes partitions that a member claims from an older generation before the group's leader"
         " sees the subscription (KIP-792). Turn it on if assignors of your clients trust such claims."
         " Not a Kafka setting."),
        ("group.classic.validate.assignments", GroupsConfig, choice(*VALIDATION_POLICIES), "",
         "What the server does if the leader of a classic group assigns a partition to two members, assigns a topic without"
         " a subscriber, or, with a cooperative assignor, gives away a partition that its owner has not revoked"
         " (KIP-792). report: it counts and logs the violation. refuse: it also discards the assignment, and the members join"
         " again; an assignor that is always wrong then keeps its group rebalancing. A single group can override it with"
         " classic.validate.assignments. Not a Kafka setting."),
    ),
    "Consumer groups": (
        *_of_each_kind("consumer"),
        ("group.consumer.max.size", GroupsConfig, POSITIVE, "members",
         "The most members that a consumer group can have. A further member is refused with GROUP_MAX_SIZE_REACHED."),
        ("group.consumer.assignors", GroupsConfig, NAMES, "",
         "The assignors that members can choose. A group whose members choose none uses the first. uniform and range are"
         " built in; add your own as entry points of the group coordinator.assignors."),
        ("group.consumer.migration.policy", GroupsConfig, caseless(*MIGRATION_POLICIES), "",
         "Whether a group that has members can change its protocol. upgrade: from classic to consumer. downgrade: from"
         " consumer to classic. bidirectional: both. disabled: neither."),
        ("group.consumer.regex.refresh.interval.ms", GroupsConfig, integer(10_000, INT_MAX), "milliseconds",
         "The server matches subscription patterns against the topics at this interval. It also does so within about a"
         " second after a topic is created or deleted, so there is rarely a reason to change this."),
        ("group.consumer.fencing.policy", GroupsConfig, choice(*FENCING_POLICIES), "",
         "Which epochs, other than its current one, a member can commit with. strict: none, as in Kafka up to 4.2."
         " revocation-epoch: its epochs since it last lost a partition. assignment-epoch: its epochs since it was assigned the"
         " partition, as in Kafka 4.4. A single group can override it with consumer.fencing.policy. Not a Kafka setting."),
    ),
    "Streams groups": (
        *_of_each_kind("streams"),
        ("group.streams.initial.rebalance.delay.ms", GroupsConfig, INT, "milliseconds",
         "When the first member joins an empty group, the group waits this long for further members before it assigns"
         " tasks. Set it to 0 in tests. A single group can override it with streams.initial.rebalance.delay.ms."),
        ("group.streams.max.size", GroupsConfig, POSITIVE, "members",
         "The most members that a streams group can have. A further member is refused with GROUP_MAX_SIZE_REACHED."),
        ("group.streams.num.standby.replicas", GroupsConfig, INT, "replicas",
         "How many standby replicas of each stateful task the server assigns to other processes. With a standby, a task"
         " moves without restoring its state first. A single group can override it with streams.num.standby.replicas."),
        ("group.streams.max.standby.replicas", GroupsConfig, INT, "replicas",
         "The upper bound for standby replicas, for the server and for single groups."),
        ("group.streams.rack.aware.assignment.tags", GroupsConfig, TAGS, "",
         "The client tags, such as rack, that every member must have. A member without one gets the status"
         " MISSING_CLIENT_TAGS. The assignor does not use the tags yet."
         " A single group can override it with streams.rack.aware.assignment.tags."),
        ("group.streams.assignors", GroupsConfig, ASSIGNORS, "",
         "The assignors of streams groups. There is one, as in Kafka."),
        ("group.streams.task.offset.interval.ms", GroupsConfig, POSITIVE, "milliseconds",
         "Members are asked to report the offsets of their tasks at this interval."
         " A single group can override it with streams.task.offset.interval.ms."),
        ("group.streams.min.task.offset.interval.ms", GroupsConfig, POSITIVE, "milliseconds",
         "The lower bound for task offset intervals, for the server and for single groups."),
        ("group.streams.acceptable.recovery.lag", GroupsConfig, LONG, "records",
         "A replica of a task's state counts as caught up if it lacks at most this many records. The server passes it on"
         " to members. A single group can override it with streams.acceptable.recovery.lag."),
        ("group.streams.fencing.policy", GroupsConfig, choice(*FENCING_POLICIES), "",
         "Which epochs, other than its current one, a member can commit with. strict: none. revocation-epoch: its epochs"
         " since it last lost an active task. assignment-epoch: its epochs since it was assigned the task, as in Kafka. A"
         " single group can override it with streams.fencing.policy. Not a Kafka setting."),
    ),
    "Share groups": (
        *_of_each_kind("share"),
        ("group.share.max.size", GroupsConfig, integer(1, 1_000), "members",
         "The most members that a share group can have. A further member is refused with GROUP_MAX_SIZE_REACHED."),
        ("group.share.initialize.retry.interval.ms", GroupsConfig, POSITIVE, "milliseconds",
         "If the share coordinator has not made the states of a topic's partitions within this time, it is asked again."),
        ("group.share.record.lock.duration.ms", GroupsConfig, integer(1_000, 3_600_000), "milliseconds",
         "How long a member has a record to itself before others can get it."
         " A single group can override it with share.record.lock.duration.ms."),
        ("group.share.min.record.lock.duration.ms", GroupsConfig, integer(1_000, 30_000), "milliseconds",
         "The lower bound for record locks, for the server and for single groups."),
        ("group.share.max.record.lock.duration.ms", GroupsConfig, integer(30_000, 3_600_000), "milliseconds",
         "The upper bound for record locks, for the server and for single groups."),
        ("group.share.delivery.count.limit", GroupsConfig, integer(2, 10), "deliveries",
         "How often a record is delivered, at most. A single group can override it with share.delivery.count.limit."),
        ("group.share.min.delivery.count.limit", GroupsConfig, integer(2, 5), "deliveries",
         "The lower bound for delivery counts, for the server and for single groups."),
        ("group.share.max.delivery.count.limit", GroupsConfig, integer(5, 25), "deliveries",
         "The upper bound for delivery counts, for the server and for single groups."),
        ("group.share.partition.max.record.locks", GroupsConfig, integer(100, 10_000), "records",
         "How many records of a partition the members of a group can have at a time."
         " A single group can override it with share.partition.max.record.locks."),
        ("group.share.min.partition.max.record.locks", GroupsConfig, integer(100, 2_000), "records",
         "The lower bound for these limits, for the server and for single groups."),
        ("group.share.max.partition.max.record.locks", GroupsConfig, integer(2_000, 10_000), "records",
         "The upper bound for these limits, for the server and for single groups."),
        ("group.share.max.share.sessions", GroupsConfig, POSITIVE, "sessions",
         "How many members of share groups can fetch from this server. A further one is refused with"
         " SHARE_SESSION_LIMIT_REACHED."),
    ),
    "Transactions": (
        ("transaction.version", TransactionsConfig, integer(0, 2), "",
         "The feature level that the server reports to clients (KIP-890). 2: a producer gets a new epoch after each"
         " transaction. 1: it does not. 0: the same, and the log has the record format of Kafka 3."),
        ("transaction.max.timeout.ms", TransactionsConfig, POSITIVE, "milliseconds",
         "The longest transaction timeout that a producer can ask for. A longer one is refused with"
         " INVALID_TRANSACTION_TIMEOUT. An open transaction holds back readers of committed records."),
        ("transactional.id.expiration.ms", TransactionsConfig, POSITIVE, "milliseconds",
         "The server forgets a transactional id after this time without use."),
        ("transaction.abort.timed.out.transaction.cleanup.interval.ms", TransactionsConfig, POSITIVE, "milliseconds",
         "The interval at which the server looks for transactions that have exceeded their timeout, and aborts them."),
        ("transaction.remove.expired.transaction.cleanup.interval.ms", TransactionsConfig, POSITIVE, "milliseconds",
         "The interval at which the server looks for expired transactional ids."),
        ("transaction.partition.verification.enable", TransactionsConfig, BOOLEAN, "",
         "If true, the server refuses a transactional write to a partition that is not part of the transaction. This"
         " prevents a delayed batch from leaving a transaction open forever. There is rarely a reason to turn it off."),
    ),
    "Share coordinator": (
        ("share.coordinator.snapshot.update.records.per.snapshot", ShareStateConfig, integer(0, 500), "records",
         "How many writes to the state of a share partition are stored as updates until the next one becomes a snapshot. A"
         " smaller number makes a load quicker and a write larger."),
        ("share.coordinator.write.timeout.ms", ShareStateConfig, POSITIVE, "milliseconds",
         "If the state of a share partition waits longer than this for the disk, the leader gets a retriable error. The"
         " change itself may still take effect."),
        ("share.coordinator.cold.partition.snapshot.interval.ms", ShareStateConfig, POSITIVE, "milliseconds",
         "The interval at which a share partition gets a new snapshot that has none as young as this, so that the log before"
         " it can be deleted."),
        ("share.coordinator.state.topic.prune.interval.ms", ShareStateConfig, POSITIVE, "milliseconds",
         "The interval at which records of __share_group_state are deleted that lie before the last snapshot of every share"
         " partition."),
    ),
    "Topics, Produce and Fetch": (
        ("num.partitions", TopicsConfig, POSITIVE, "partitions",
         "The number of partitions of a new topic if the request that creates it does not say."),
        ("auto.create.topics.enable", TopicsConfig, BOOLEAN, "",
         "If true, the server creates a topic when a client asks for one that does not exist. Turn it off if a"
         " misspelt name must fail."),
        ("delete.topic.enable", TopicsConfig, BOOLEAN, "",
         "If false, the server refuses DeleteTopics requests."),
        ("errors.deadletterqueue.auto.create.topics.enable", TopicsConfig, BOOLEAN, "",
         "If true, the server creates the topic that a share group names as its dead-letter queue"
         " (errors.deadletterqueue.topic.name, a setting of the group). If false, somebody must create it, with"
         " errors.deadletterqueue.group.enable=true."),
        ("errors.deadletterqueue.topic.name.prefix", TopicsConfig, TEXT, "",
         "How the names of all dead-letter queues must begin. Empty: any name is allowed."),
        ("topic.visibility.delay.ms", TopicsConfig, integer(0, 60_000), "milliseconds",
         "How long a topic that was created, extended or deleted looks to clients and groups as it did before, after the"
         " request was answered: the brokers of a Kafka cluster learn of topics later than its controller. Not a Kafka"
         " setting, and without effect where workers share the metadata log."),
        ("limit.partitions", TopicsConfig, POSITIVE, "partitions",
         "The most partitions that all topics can have together, without the server's own. A request for more fails with"
         " POLICY_VIOLATION. Each partition takes memory, and each one that was written to takes files."
         " Not a Kafka setting."),
        ("topic.partitions.max", TopicsConfig, POSITIVE, "partitions",
         "The most partitions that one request can create. A request for more fails with POLICY_VIOLATION. In Kafka it is"
         " a constant, not a setting."),
        ("message.max.bytes", TopicsConfig, INT, "bytes",
         "The largest record batch that a topic accepts, as it is sent (compressed). A larger one is refused with"
         " MESSAGE_TOO_LARGE. A topic can override it with max.message.bytes."),
        ("log.segment.bytes", TopicsConfig, integer(1 << 20, INT_MAX), "bytes",
         "A partition starts a new segment when the current one reaches this size. Retention removes whole segments."
         " A topic can override it with segment.bytes."),
        ("log.roll.ms", TopicsConfig, POSITIVE_LONG, "milliseconds",
         "A partition starts a new segment when the current one reaches this age."
         " A topic can override it with segment.ms."),
        ("log.retention.bytes", TopicsConfig, integer(-1, LONG_MAX), "bytes",
         "If a partition is larger than this, the server deletes its oldest segments. -1: no limit."
         " A topic can override it with retention.bytes."),
        ("log.retention.ms", TopicsConfig, integer(-1, LONG_MAX), "milliseconds",
         "The server deletes segments that are older than this. -1: it keeps them."
         " A topic can override it with retention.ms."),
        ("log.retention.check.interval.ms", TopicsConfig, POSITIVE_LONG, "milliseconds",
         "The interval at which the server looks for segments to delete."),
        ("log.cleanup.policy", TopicsConfig, choice("delete", "compact", "compact,delete", "delete,compact"), "",
         "delete: the server deletes old segments by age and size. compact: it keeps the last record of each key."
         " A topic can override it with cleanup.policy."),
        ("log.index.interval.bytes", TopicsConfig, INT, "bytes",
         "The distance in the log between two entries of a segment's index. A smaller one takes more memory and makes a"
         " Fetch at a random offset read less. A topic can override it with index.interval.bytes."),
        ("log.index.size.max.bytes", TopicsConfig, integer(4, INT_MAX), "bytes",
         "The server reports this value as segment.index.bytes of topics; it has no effect, because indexes are in memory"
         " here."),
        ("log.message.timestamp.type", TopicsConfig, choice("CreateTime", "LogAppendTime"), "",
         "Which clock sets the timestamp of a record. CreateTime: the producer's. LogAppendTime: the server's."
         " A topic can override it with message.timestamp.type."),
        ("log.message.timestamp.before.max.ms", TopicsConfig, LONG, "milliseconds",
         "How far before the server's time the timestamp of a record can be. An older one is refused with"
         " INVALID_TIMESTAMP. A topic can override it with message.timestamp.before.max.ms."),
        ("log.message.timestamp.after.max.ms", TopicsConfig, LONG, "milliseconds",
         "How far after the server's time the timestamp of a record can be. A later one is refused with"
         " INVALID_TIMESTAMP. A topic can override it with message.timestamp.after.max.ms."),
        ("compression.type", TopicsConfig, choice("producer"), "",
         "The server stores batches as the producer compressed them. It offers nothing else."),
        ("fetch.max.bytes", TopicsConfig, integer(1024, INT_MAX), "bytes",
         "The most bytes that a Fetch response can have, whatever the client asks for. A larger first batch is still"
         " sent, because the client could not read on without it."),
        ("max.incremental.fetch.session.cache.slots", TopicsConfig, INT, "sessions",
         "The most fetch sessions that the server remembers (KIP-227). A consumer without one names all its partitions in"
         " each request. Raise it if you have more consumers than this."),
        ("producer.id.expiration.ms", TopicsConfig, POSITIVE, "milliseconds",
         "A partition forgets the state of a producer that has not written to it for this long. After that, it no longer"
         " detects duplicates of the producer's last batches."),
        ("producer.id.block.size", TopicsConfig, POSITIVE, "ids",
         "How many producer ids the server reserves with one record on disk. In Kafka it is a constant, not a setting."),
    ),
    "Network": (
        ("socket.request.max.bytes", NetworkConfig, POSITIVE, "bytes",
         "The largest Produce request. The server closes the connection of a client that sends a larger one."),
        ("limit.request.bytes", NetworkConfig, POSITIVE, "bytes",
         "The largest request of any other kind. The server closes the connection of a client that sends a larger one."
         " The assignments of 3,000 members take about 1 MiB. Not a Kafka setting."),
        ("limit.request.elements", NetworkConfig, POSITIVE, "elements",
         "The most elements that all arrays of a request can have together; ten times as many in heartbeats of"
         " consumer and streams groups, which name all partitions of a member. The server closes the connection of a"
         " client that sends more. The limit keeps small requests from taking much CPU. Not a Kafka setting."),
        ("limit.memory.bytes", NetworkConfig, integer(1 << 20, LONG_MAX), "bytes",
         "The most memory that all requests and responses over 64 KiB can take together. While it is used up, further"
         " large requests wait and Fetch responses have no records. Not a Kafka setting."),
        ("max.connections", NetworkConfig, INT, "connections",
         "The most open connections. The server closes a further one at once. Kafka has no limit by default."),
        ("max.connections.per.ip", NetworkConfig, INT, "connections",
         "The most open connections from one address. The server closes a further one at once. The default is as high as"
         " max.connections because clients in containers often share an address."),
        ("max.connection.creation.rate", NetworkConfig, POSITIVE, "connections per second",
         "The most new connections in a second. The server closes a further one at once, where Kafka lets it wait. The"
         " default is no limit, as in Kafka."),
        ("connections.max.idle.ms", NetworkConfig, POSITIVE_LONG, "milliseconds",
         "The server closes a connection that sends no request for this long."),
        ("limit.frame.time.ms", NetworkConfig, POSITIVE, "milliseconds",
         "The most time from the first byte of a request to its last. The server closes the connection of a slower"
         " client, which would hold a buffer. Raise it for clients on slow links. Not a Kafka setting."),
        ("limit.requests.in.flight", NetworkConfig, POSITIVE, "requests",
         "The most requests of one connection that can be in progress. The server reads further ones when it has"
         " responded. Clients send at most 5 by default. Not a Kafka setting."),
        ("limit.write.buffer.bytes", NetworkConfig, POSITIVE, "bytes",
         "When a client has not read this many bytes of its responses, the server stops reading its requests."
         " Not a Kafka setting."),
        ("limit.write.time.ms", NetworkConfig, POSITIVE, "milliseconds",
         "The server closes a connection whose write buffer has been full for this long. Not a Kafka setting."),
    ),
    "Quotas": (
        ("quota.window.num", QuotasConfig, POSITIVE, "windows",
         "A client's rate of bytes and of request time is measured over this number of windows, including the current one."),
        ("quota.window.size.seconds", QuotasConfig, POSITIVE, "seconds",
         "The length of such a window. It is also the longest time for which a request quota or the quota of an address lets a"
         " client wait at once."),
        ("controller.quota.window.num", QuotasConfig, POSITIVE, "windows",
         "A client can change as many partitions at once as its quota allows in this number of windows."),
        ("controller.quota.window.size.seconds", QuotasConfig, POSITIVE, "seconds",
         "The length of such a window."),
    ),
    "TLS and SASL": security.ROWS,
    "Several workers": sharing.ROWS,
    "In front of a real cluster": overlay.ROWS,
    "Access control": access_control.ROWS,
    "Delegation tokens": delegation_tokens.ROWS,
    "Admin HTTP": (
        ("admin.connections", AdminConfig, POSITIVE, "connections",
         "The most open HTTP connections. A further one takes the place of the one that has kept the server waiting the"
         " longest, or gets status 503 if the server is at work on all of them. Long polls and event streams can hold half of"
         " them. Not a Kafka setting."),
        ("admin.header.bytes", AdminConfig, integer(256, 1 << 20), "bytes",
         "The largest request line and headers together of an HTTP request. Not a Kafka setting."),
        ("admin.body.bytes", AdminConfig, INT, "bytes",
         "The largest body of an HTTP request. Not a Kafka setting."),
        ("admin.request.time.ms", AdminConfig, POSITIVE, "milliseconds",
         "The most time that an HTTP request can take to arrive, to be answered, and its response to be read. A long poll"
         " has its timeout_ms in addition; an event stream goes on for as long as the client reads it. Not a Kafka setting."),
        ("admin.token", AdminConfig, SECRET, "",
         "The token that requests over admin HTTP present: Authorization: Bearer TOKEN, or as the password of any user."
         " At least 16 characters. Not a Kafka setting."),
        ("admin.token.file", AdminConfig, MAYBE_TEXT, "",
         "A file with the token, instead of admin.token. Not a Kafka setting."),
        ("admin.anonymous", AdminConfig, choice("none", "read", "all"), "",
         "What admin HTTP lets requests do that present no token and no certificate: nothing but health checks, read views and"
         " metrics, or everything. Without a token and client certificates, a server that listens on loopback allows"
         " everything, and one that listens on more starts only with read or all. Not a Kafka setting."),
        ("admin.ssl.keystore.location", AdminConfig, MAYBE_TEXT, "",
         "A PEM file with the private key and the certificate chain of admin HTTP, which then speaks TLS. The server reads"
         " it again when it changes. Not a Kafka setting."),
        ("admin.ssl.key.password", AdminConfig, SECRET, "",
         "The password of that private key, if it is encrypted. Not a Kafka setting."),
        ("admin.ssl.truststore.location", AdminConfig, MAYBE_TEXT, "",
         "A PEM file with the authorities whose client certificates admin HTTP accepts in place of the token."
         " Not a Kafka setting."),
        ("admin.control.enable", AdminConfig, BOOLEAN, "",
         "Whether admin HTTP may inject faults, act on groups and set the clock (docs/control.md). It lets every client that"
         " reaches the address break groups, so it is for tests. Not a Kafka setting."),
        ("metrics.groups", AdminConfig, GROUPS, "",
         "The groups that have metrics of their own: coordinator_group_lag by topic, and coordinator_group_rebalances_total."
         " All other metrics are totals. Not a Kafka setting."),
    ),
}
# fmt: on

SETTINGS: dict[str, Setting] = {row[0]: Setting(section, *row) for section, rows in _SECTIONS.items() for row in rows}


class StructuredSetting(NamedTuple):
    """A setting that is not a single value. load.py has a function for each."""

    allowed: str
    documentation: str


STRUCTURED = {
    "listeners": StructuredSetting(
        "[NAME://]HOST:PORT, or a list of {address: HOST:PORT, name: NAME, advertise: HOST:PORT, dialect: NAME,"
        " emulate: RELEASE}",
        "The addresses that clients connect to. The name is a security protocol (PLAINTEXT, which is the default, SSL,"
        " SASL_PLAINTEXT, SASL_SSL), or has one in listener.security.protocol.map, or is free. `advertise` is the address that"
        " the server gives to clients, if it is another one. `dialect: kip-792` makes a listener speak JoinGroup v8 as that"
        " proposal defines it, `dialect: client-side-assignment` one with a SyncGroup v6 that has the extensions for leaders as"
        " plain fields. `emulate: 3.6` shows the clients of a listener another release of Kafka than `emulate` does.",
    ),
    "listener.security.protocol.map": StructuredSetting(
        "NAME:PROTOCOL,... with PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL",
        "The security protocol of each listener, by its name. A listener that is named as a protocol needs no entry.",
    ),
    "admin.listener": StructuredSetting(
        "HOST:PORT",
        "The address of the admin HTTP server, which has metrics, health checks and views of groups, and can rebalance"
        " groups. On more than loopback it needs a token, client certificates, or admin.anonymous.",
    ),
    "topics": StructuredSetting(
        "a list of {name: NAME, partitions: NUMBER, configs: {key: value}}",
        "Topics that the server creates when it starts, unless they exist.",
    ),
}


AREAS: dict[type, str] = {item.type: item.name for item in fields(ServerConfig) if isinstance(item.type, type)}
"""The field of the configuration that has each dataclass."""


def value_of(config: ServerConfig, name: str) -> Any:
    """The value of a setting in this configuration."""
    setting = SETTINGS[name]
    area = config if setting.area is ServerConfig else getattr(config, AREAS[setting.area])
    return getattr(area, setting.field_name)


def absolute_log_dir(config: ServerConfig) -> str:
    """The data folder by the one path under which clients know it."""
    return str(Path(config.log_dir).resolve())


def joined(host: str, port: int) -> str:
    """ "host:port", with IPv6 in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
