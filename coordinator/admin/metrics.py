"""All Prometheus metrics. A scrape reads them from counters that the server keeps anyway.

The hot path increments plain integers (`runtime/statistics.py`, `answered` of a route, `count` of the offsets) and does not
know about metrics. The number of label values is bounded: APIs and error codes by the protocol, causes and states by the
code, shards and listeners by the configuration. No label holds the name of a group, member, topic or client, because clients
choose those names and could exhaust the memory of the scraper; the exception is groups that an operator has named
(`metrics.groups`), each with a bounded number of topics.

The Prometheus library takes a tenth of a second to import, so the first scrape imports it in a thread.
"""

import importlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple, TypeAlias, TypeVar

from coordinator.admin.endpoint import Endpoint, Request, Response, in_thread
from coordinator.admin.lag import partition_lag
from coordinator.admin.server_view import ClusterStatistics, ServerView
from coordinator.admin.share_view import share_lag
from coordinator.api.route import Route
from coordinator.groups.classic.assignment_rules import RULES
from coordinator.groups.fencing import STALE_REASONS, TXN_CHECKS
from coordinator.groups.kinds import LABELS
from coordinator.groups.offsets import value as values
from coordinator.groups.share.group import ShareGroup
from coordinator.protocol.errors import ErrorCode
from coordinator.quotas.enforcement import Throttling
from coordinator.rules.model import KINDS
from coordinator.runtime import event_log
from coordinator.runtime.event_log import EventLog
from coordinator.runtime.shard import Status
from coordinator.runtime.statistics import Histogram
from coordinator.share_state.state import FENCING_APIS as SHARE_FENCING_APIS
from coordinator.transactions.prepare import ENDS
from coordinator.transactions.state import FENCING_APIS
from coordinator.transactions.transaction import NAMES as TRANSACTION_STATES

COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"
Labels: TypeAlias = str | tuple[str, ...]
"""The value of the one label, or the values of all."""
Samples: TypeAlias = Mapping[str, float] | Mapping[tuple[str, str], float]
"""By labels."""
Histograms: TypeAlias = Mapping[str, tuple[list[tuple[str, int]], float]]
"""By label: the cumulative buckets and the sum of a Prometheus histogram."""


class Metric(NamedTuple):
    """A metric. `read` returns a number or `Histogram`; with labels, `Samples` or `Histograms`."""

    name: str
    kind: str
    labels: tuple[str, ...]
    text: str
    read: Callable[[ServerView], Any]


def cumulative(histogram: Histogram) -> tuple[list[tuple[str, int]], float]:
    """The cumulative buckets and the sum."""
    buckets, count = [], 0
    for bound, here in zip([*map(str, histogram.bounds), "+Inf"], histogram.counts, strict=True):
        count += here
        buckets.append((bound, count))
    return buckets, histogram.total


def labels(found: Labels) -> tuple[str, ...]:
    """The values of all labels."""
    return (found,) if isinstance(found, str) else found


Label = TypeVar("Label", str, tuple[str, str])
TOPICS_MAX = 100
"""Topics of one group that have a lag, the first in the order of their names."""
DURATION_POWERS = range(13, 39)
"""The bounds of the buckets for requests are 2^13 ns (8 us) to 2^38 ns (275 s)."""
FENCES = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.GROUP_ID_NOT_FOUND,
)
"""The error codes of a commit whose sender is no longer the owner of the partitions."""


def _routes(server: ServerView) -> Iterable[Route]:
    return (route for listener in server.all_listeners for route in listener.dispatcher.routes)


def _by_listener(read: Callable[[Any], int]) -> Callable[[ServerView], Samples]:
    """Samples of each listener, by its number."""
    return lambda server: {str(number): read(listener) for number, listener in enumerate(server.all_listeners)}


def _states(server: ServerView) -> Iterable[Any]:
    return (shard.state for shard in server.groups.shards)


def _share_states(server: ServerView) -> Iterable[Any]:
    return (shard.state for shard in server.share_states.router.shards)


def _of_share_partitions(read: Callable[[Any], int]) -> Callable[[ServerView], int]:
    """A number of all share partitions that this process leads: the sum over them."""
    return lambda server: sum(
        read(leader) for manager in server.share_partitions.of_process for leader in manager.leaders.values()
    )


def _of_share_sessions(read: Callable[[Any], int]) -> Callable[[ServerView], int]:
    """A number of all share sessions: the sum over the brokers of this process."""
    return lambda server: sum(read(manager.sessions) for manager in server.share_partitions.of_process)


def _transaction_states(server: ServerView) -> Iterable[Any]:
    return (shard.state for shard in server.transactions.shards)


def _sum(read: Callable[[Any], int]) -> Callable[[ServerView], int]:
    """A number of all groups: the sum over the states of their shards."""
    return lambda server: sum(map(read, _states(server)))


def _total(labels: Iterable[Label], counts: Iterable[Mapping[Label, int] | list[Label]]) -> Counter[Label]:
    """The sums of counts, or of how often a label is listed. These labels are there in any case."""
    total = Counter(dict.fromkeys(labels, 0))
    for each in counts:
        total.update(each)
    return total


def _values(names: type[Enum]) -> list[str]:
    return [each.value for each in names]


def _counted(labels: Iterable[str], name: str) -> Callable[[ServerView], Samples]:
    """The sums of a dictionary that each shard of groups has among its `counters`."""
    return lambda server: _total(labels, (getattr(state.counters, name) for state in _states(server)))


def _requests(server: ServerView) -> Samples:
    counts: Counter[tuple[str, str]] = Counter()
    for route in _routes(server):
        failed = 0
        for error, count in list(route.errors.items()):
            counts[route.name, _error_name(error)] += count
            failed += count
        counts[route.name, "NONE"] += route.answered - failed
    return counts


def _error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)


def _requests_waiting(server: ServerView) -> int:
    return sum(connection.waiting for listener in server.all_listeners for connection in listener.connections)


def _faults_acted(server: ServerView) -> Samples:
    acted: Counter[str] = server.interceptor.faults.acted if server.has_interceptor else Counter()
    return {kind: acted[kind] for kind in KINDS}


def _fault_rules(server: ServerView) -> int:
    rules = server.interceptor.faults.by_id.values() if server.has_interceptor else ()
    return sum(fault.active for fault in rules)


def _throttling(server: ServerView) -> Throttling:
    return server.quotas.throttling if server.quotas is not None else Throttling()


def _authorization_denied(server: ServerView) -> Samples:
    audit = server.authorizer.audit if server.authorizer is not None else None
    denied = audit.denied if audit is not None else {}
    return {(of.name, operation.name): count for (operation, of), count in list(denied.items())}


def _groups(server: ServerView) -> Samples:
    return Counter((group.kind.label, group.state.value) for state in _states(server) for group in state.by_id.values())


def _members(server: ServerView) -> Samples:
    groups = [group for state in _states(server) for group in state.by_id.values()]
    return _total(LABELS, ({group.kind.label: len(group.members)} for group in groups))


def _commits_fenced(server: ServerView) -> Samples:
    routes = [route for route in _routes(server) if route.name in ("OffsetCommit", "TxnOffsetCommit")]
    return {error.name: sum(route.errors.get(error, 0) for route in routes) for error in FENCES}


def _transactional_ids(server: ServerView) -> Samples:
    counts = (
        {TRANSACTION_STATES[each]: count for each, count in state.states.items()}
        for state in _transaction_states(server)
    )
    return _total(TRANSACTION_STATES.values(), counts)


def _rebalances(server: ServerView) -> Samples:
    kinds = server.statistics.rebalances.items()
    return {(kind, cause): count for kind, causes in kinds for cause, count in causes.items()}


def _lags(server: ServerView) -> Samples:
    """The lags by group and topic, over the partitions that this server has."""
    found = {group_id: _lag_by_topic(server, group_id) for group_id in server.group_rebalances.named}
    return {(group_id, topic): lag[topic] for group_id, lag in found.items() for topic in sorted(lag)[:TOPICS_MAX]}


def _lag_by_topic(server: ServerView, group_id: str) -> Counter[str]:
    state: Any = server.groups.shard_of(group_id).state
    lag: Counter[str] = Counter()
    group = state.by_id.get(group_id)
    if isinstance(group, ShareGroup):
        for topic in group.state_partitions.initialized.values():
            behind = share_lag(server, group, topic.name)
            if behind is not None:
                lag[topic.name] = behind
    for (topic, index), committed in state.offsets.by_group.get(group_id, {}).items():
        behind = partition_lag(server, topic, index, values.fetched(committed)[0])
        if behind is not None:
            lag[topic] += behind
    return lag


def _log_bytes(server: ServerView) -> Samples:
    user_partitions = (
        server.topics.user_partition(topic.name, index)
        for topic in server.topics.registry.topics.values()
        for index in range(topic.partitions)
    )
    logs = {
        "groups": (shard.log for shard in server.groups.shards),
        "transactions": (shard.log for shard in server.transactions.shards),
        "share_states": (shard.log for shard in server.share_states.router.shards),
        "events": (events.log for events in _event_logs(server)),
        "topics": (each.log for each in user_partitions if each is not None and each.log is not None),
    }
    return {name: sum(log.size_bytes for log in some) for name, some in logs.items()}


def _event_logs(server: ServerView) -> list[EventLog]:
    return [shard.events for shard in server.groups.shards if shard.events is not None]


def _durations(server: ServerView) -> Histograms:
    """By API, over all versions and listeners. Index i of a route's counts is for durations up to 2^i ns."""
    counts: dict[str, list[int]] = {}
    sums_ns: Counter[str] = Counter()
    for route in _routes(server):
        name = route.name
        counts[name] = [
            a + b for a, b in zip(counts.get(name, [0] * len(route.durations)), route.durations, strict=True)
        ]
        sums_ns[name] += route.duration_ns
    found = {}
    for name, by_power in counts.items():
        buckets = [(repr(2**power / 1e9), sum(by_power[: power + 1])) for power in DURATION_POWERS]
        found[name] = [*buckets, ("+Inf", sum(by_power))], sums_ns[name] / 1e9
    return found


def _cluster(server: ServerView) -> ClusterStatistics:
    assert server.cluster_statistics is not None
    return server.cluster_statistics


# fmt: off
METRICS = (
    Metric("coordinator_requests", COUNTER, ("api", "error"), "Responses by API and top-level error code.", _requests),
    Metric("coordinator_request_seconds", HISTOGRAM, ("api",),
           "Time from request to response. Frequent APIs are sampled: one response in 16.", _durations),
    Metric("coordinator_requests_waiting", GAUGE, (), "Requests that have no response yet.", _requests_waiting),
    Metric("coordinator_memory_held_bytes", GAUGE, (),
           "Bytes of requests and responses over 64 KiB in progress.", lambda server: server.memory.held_bytes),
    Metric("coordinator_memory_waiting", GAUGE, (), "Connections whose request waits for memory.",
           lambda server: server.memory.waiting),
    Metric("coordinator_connections", GAUGE, ("listener",), "Open connections by listener.",
           _by_listener(lambda listener: len(listener.connections))),
    Metric("coordinator_connections_refused", COUNTER, ("listener",),
           "Connections refused because of a limit.", _by_listener(lambda listener: listener.refused_count)),
    Metric("coordinator_authentications_failed", COUNTER, ("listener",),
           "Clients that could not authenticate by SASL.",
           _by_listener(lambda listener: listener.authentications_failed)),
    Metric("coordinator_authorization_denied", COUNTER, ("resource", "operation"),
           "Permissions that the authorizer denied, by type of resource.", _authorization_denied),
    Metric("coordinator_connections_closed", COUNTER, ("reason",),
           "Closed connections by reason. peer: the client closed it.",
           lambda server: _total((), (listener.closed for listener in server.all_listeners))),
    Metric("coordinator_quota_throttled", COUNTER, ("quota",),
           "Number of times that clients had to wait because of a quota, by what it limits.",
           lambda server: _throttling(server).times),
    Metric("coordinator_quota_throttle_seconds", COUNTER, ("quota",),
           "Time that clients had to wait because of a quota.",
           lambda server: {quota: ms / 1000 for quota, ms in _throttling(server).throttle_ms.items()}),
    Metric("coordinator_quota_bytes", COUNTER, ("quota",),
           "Bytes of requests and answers of clients that have a quota of bytes.",
           lambda server: _throttling(server).bytes),
    Metric("coordinator_faults_acted", COUNTER, ("action",),
           "Requests on which fault rules acted, by kind of action.", _faults_acted),
    Metric("coordinator_fault_rules", GAUGE, (), "Fault rules that may still act.", _fault_rules),
    Metric("coordinator_groups", GAUGE, ("kind", "state"), "Groups by kind and state.", _groups),
    Metric("coordinator_members", GAUGE, ("kind",), "Members of all groups by kind of group.", _members),
    Metric("coordinator_groups_held_bytes", GAUGE, (),
           "Estimated memory of all groups: ids, subscriptions, metadata, assignments.",
           lambda server: server.held_bytes.total),
    Metric("coordinator_groups_too_large", COUNTER, ("setting",),
           "Requests refused because groups would hold more bytes than this setting allows.",
           _counted(("limit.group.bytes", "limit.groups.bytes"), "too_large")),
    Metric("coordinator_rebalances", COUNTER, ("kind", "cause"),
           "Rebalances that have started, by cause.",
           _rebalances),
    Metric("coordinator_groups_rebalancing_often", GAUGE, (),
           "Groups with rebalances in at least 5 of the last 10 minutes.",
           lambda server: server.group_rebalances.often()),
    Metric("coordinator_rebalance_seconds", HISTOGRAM, (),
           "Duration of a rebalance, from its cause to the new generation.",
           lambda server: server.statistics.rebalances_s),
    Metric("coordinator_group_rebalances", COUNTER, ("group",),
           "Rebalances that have started, of the groups in metrics.groups.", lambda server: server.group_rebalances.named),
    Metric("coordinator_group_lag", GAUGE, ("group", "topic"),
           "Records after the committed offsets, of the groups in metrics.groups. Share groups: those not done with.",
           _lags),
    Metric("coordinator_members_expired", COUNTER, ("timeout",), "Members removed because of a timeout.",
           lambda server: server.statistics.expired),
    Metric("coordinator_events", COUNTER, ("event",), "Events of groups, by event= in the server's log.",
           lambda server: server.statistics.facts),
    Metric("coordinator_offsets", GAUGE, (), "Committed offsets in memory.", _sum(lambda state: state.offsets.count)),
    Metric("coordinator_offset_commits", COUNTER, (), "Offsets committed since the shards were loaded.",
           _sum(lambda state: state.counters.offsets)),
    Metric("coordinator_commits_stale", COUNTER, ("reason",),
           "Commits refused because of the member's epoch.", _counted(STALE_REASONS, "fenced")),
    Metric("coordinator_commits_fenced", COUNTER, ("reason",),
           "Commits refused to former members, by error code.", _commits_fenced),
    Metric("coordinator_txn_commits", COUNTER, ("checked",),
           "Commits in transactions, by what could be checked.", _counted(TXN_CHECKS, "txn_requests")),
    Metric("coordinator_invalid_assignments", COUNTER, ("rule",),
           "Partitions that leaders of classic groups assigned against a rule.", _counted(RULES, "invalid_partitions")),
    Metric("coordinator_pending_offsets", GAUGE, (),
           "Offsets committed in transactions that are still open.",
           _sum(lambda state: sum(map(len, state.offsets.pending.by_producer.values())))),
    Metric("coordinator_transactional_ids", GAUGE, ("state",),
           "Transactional ids by state of their transaction.", _transactional_ids),
    Metric("coordinator_transactions_ended", COUNTER, ("outcome", "cause"),
           "Transactions committed or aborted, by cause.",
           lambda server: _total(ENDS, (state.ended for state in _transaction_states(server)))),
    Metric("coordinator_producers_fenced", COUNTER, ("api",),
           "Requests refused because of an old producer epoch.",
           lambda server: _total(FENCING_APIS, (state.fenced for state in _transaction_states(server)))),
    Metric("coordinator_markers_waiting", GAUGE, (),
           "Partitions that still lack the marker of a transaction.",
           lambda server: sum(len(left) for state in _transaction_states(server) for left in state.undelivered.values())),
    Metric("coordinator_share_partitions", GAUGE, (), "Share partitions whose state is kept.",
           lambda server: sum(len(state.by_key) for state in _share_states(server))),
    Metric("coordinator_share_state_writes", COUNTER, (),
           "Writes to the state of share partitions since the shards were loaded.",
           lambda server: sum(state.writes for state in _share_states(server))),
    Metric("coordinator_share_state_fenced", COUNTER, ("api",),
           "Requests about the state of share partitions that were refused because of an old epoch.",
           lambda server: _total(SHARE_FENCING_APIS, (state.fenced for state in _share_states(server)))),
    Metric("coordinator_share_in_flight_messages", GAUGE, (),
           "Records from the start to the end of the share partitions that members read (Kafka's InFlightMessageCount).",
           _of_share_partitions(lambda leader: leader.machine.in_flight_count)),
    Metric("coordinator_share_in_flight_batches", GAUGE, (),
           "Batches of these records that were acquired at once (Kafka's InFlightBatchCount).",
           _of_share_partitions(lambda leader: len(leader.machine.in_flight))),
    Metric("coordinator_share_records_archiving", GAUGE, (), "Records on the way to dead-letter queues.",
           _of_share_partitions(lambda leader: leader.archiving_count)),
    Metric("coordinator_share_sessions", GAUGE, (), "Share sessions of members (Kafka's ShareSessionsCount).",
           _of_share_sessions(len)),
    Metric("coordinator_share_session_partitions", GAUGE, (),
           "Partitions in share sessions (Kafka's SharePartitionsCount).",
           _of_share_sessions(lambda sessions: sessions.partition_count)),
    Metric("coordinator_share_records_acquired", COUNTER, (),
           "Records that members of share groups have acquired, each as often as it was delivered.",
           lambda server: server.share_partitions.outcomes.acquired),
    Metric("coordinator_share_record_acknowledgements", COUNTER, ("ack_type",),
           "Records that members of share groups have acknowledged, by type (Kafka's record-acknowledgement-count).",
           lambda server: server.share_partitions.outcomes.acknowledged),
    Metric("coordinator_share_acquisition_lock_timeouts", COUNTER, (),
           "Records whose acquisition lock has ended (Kafka's AcquisitionLockTimeoutPerSec).",
           lambda server: server.share_partitions.outcomes.locks_expired),
    Metric("coordinator_share_records_archived", COUNTER, (),
           "Records that were archived because of share.delivery.count.limit.",
           lambda server: server.share_partitions.outcomes.archived),
    Metric("coordinator_share_dead_letters", COUNTER, ("outcome",),
           "Records for dead-letter queues that were written (Kafka's DeadLetterQueueRecordCount), or could not be.",
           lambda server: server.share_partitions.outcomes.dead_letters),
    Metric("coordinator_shards", GAUGE, ("status",), "Shards of groups, transactions and share partitions by status.",
           lambda server: _total(_values(Status), [[shard.status.value for shard in server.shards]])),
    Metric("coordinator_partitions", GAUGE, ("status",), "Partitions of topics by status.",
           lambda server: _total(("active", "full", "failed"), [[state for _, state, _ in server.topics.partition_states()]])),
    Metric("coordinator_metadata_writable", GAUGE, (),
           "1 if topics and settings can be changed, else 0.",
           lambda server: 0 if server.topics.metadata.problem else 1),
    Metric("coordinator_timers", GAUGE, (), "Timers of sessions, rebalances and expiry that are set.",
           lambda server: sum(shard.timers_armed for shard in server.shards)),
    Metric("coordinator_parked_replies", GAUGE, (), "Responses that wait until their records are durable.",
           lambda server: sum(len(shard.parked) for shard in server.shards)),
    Metric("coordinator_log_end_offset", GAUGE, ("shard",), "Log end offset of each group shard.",
           lambda server: {str(shard.index): shard.log.end_offset for shard in server.groups.shards}),
    Metric("coordinator_log_durable_offset", GAUGE, ("shard",),
           "Offset before which the log of a group shard is durable.",
           lambda server: {str(shard.index): shard.offset_durable for shard in server.groups.shards}),
    Metric("coordinator_log_bytes", GAUGE, ("log",), "Size of the logs by content.", _log_bytes),
    Metric("coordinator_journal_entries", COUNTER, (), "Entries written to the journal.",
           lambda server: server.journal.entries),
    Metric("coordinator_journal_written_bytes", COUNTER, (), "Bytes written to the journal.",
           lambda server: server.journal.entry_bytes),
    Metric("coordinator_journal_checkpoints", COUNTER, (),
           "Files of the journal that could be used again, because the segments had their content.",
           lambda server: server.journal.checkpoints),
    Metric("coordinator_event_logs", GAUGE, ("status",), "Event logs by status.",
           lambda server: _total(_values(event_log.Status), [[log.status.value for log in _event_logs(server)]])),
    Metric("coordinator_event_log_records", COUNTER, (), "Events written to the event logs.",
           lambda server: sum(log.written for log in _event_logs(server))),
    Metric("coordinator_event_log_written_bytes", COUNTER, (), "Bytes written to the event logs.",
           lambda server: sum(log.written_bytes for log in _event_logs(server))),
    Metric("coordinator_event_log_lost", COUNTER, (),
           "Events that could not be written to the event logs.",
           lambda server: sum(log.lost for log in _event_logs(server))),
    Metric("coordinator_event_log_gaps", COUNTER, (), "Starts and reloads that found events missing.",
           lambda server: sum(log.gaps for log in _event_logs(server))),
    Metric("coordinator_log_sync_seconds", HISTOGRAM, (), "Duration of an fdatasync.",
           lambda server: server.statistics.syncs_s),
    Metric("coordinator_log_syncs_failed", COUNTER, (), "Fdatasyncs that failed.",
           lambda server: server.statistics.syncs_failed),
    Metric("coordinator_loop_lag_seconds", HISTOGRAM, (), "Delay of the event loop's timers.",
           lambda server: server.statistics.lag_s),
    Metric("coordinator_loop_turn_seconds", HISTOGRAM, (),
           "Length of the event loop's turns that handled more than a few requests.",
           lambda server: server.statistics.turns_s),
    Metric("coordinator_loop_turn_cpu_seconds", HISTOGRAM, (),
           "CPU time of the event loop's turns that handled more than a few requests.",
           lambda server: server.statistics.turns_cpu_s),
)
WORKER_METRICS = (
    Metric("coordinator_workers", GAUGE, (), "Workers that live, as the engine says.", lambda server: _cluster(server).workers),
    Metric("coordinator_shard_owned", GAUGE, ("shard",), "1 if this worker has claimed the log, else 0.",
           lambda server: dict(sorted(_cluster(server).owned.items()))),
    Metric("coordinator_take_over_seconds", HISTOGRAM, (),
           "Duration of taking a shard, from the claim until requests are served.",
           lambda server: _cluster(server).take_overs_s),
    Metric("coordinator_records_replayed", COUNTER, (), "Records that take-overs have replayed.",
           lambda server: _cluster(server).records_replayed),
    Metric("coordinator_pieces_to_replay", GAUGE, (), "Pieces of claimed logs that are replayed before their shards serve.",
           lambda server: _cluster(server).pieces_to_replay),
    Metric("coordinator_append_seconds", HISTOGRAM, (), "Duration of an append to the engine.",
           lambda server: _cluster(server).appends_s),
    Metric("coordinator_appends_fenced", COUNTER, (),
           "Claims that ended because an append found a newer one.",
           lambda server: _cluster(server).fenced_appends),
    Metric("coordinator_appends_unknown", COUNTER, (), "Appends without a certain outcome.",
           lambda server: _cluster(server).unknown_appends),
)
"""Those of a worker that shares its journal, in addition."""
# fmt: on


class Collector:
    """A custom collector of `prometheus_client` for one server."""

    def __init__(self, server: ServerView, table: Sequence[Metric] = METRICS) -> None:
        self._server = server
        self._table = table

    def collect(self) -> Iterable[Any]:
        from prometheus_client import core  # noqa: PLC0415 - already imported; see the module's docstring

        for metric in self._table:
            read = metric.read(self._server)
            family: Any
            if not metric.labels:
                read = {(): cumulative(read) if isinstance(read, Histogram) else read}
            if metric.kind == HISTOGRAM:
                family = core.HistogramMetricFamily(metric.name, metric.text, labels=metric.labels)
                for label, (buckets, total) in read.items():
                    family.add_metric(labels(label), buckets, total)
            else:
                kind = core.CounterMetricFamily if metric.kind == COUNTER else core.GaugeMetricFamily
                family = kind(metric.name, metric.text, labels=metric.labels)
                for label, value in read.items():
                    family.add_metric(labels(label), value)
            yield family


async def metrics(server: ServerView, _request: Request) -> Response:
    """All metrics in the text format of Prometheus."""
    library = await in_thread(server, lambda: importlib.import_module("prometheus_client"))
    registry = library.CollectorRegistry()
    library.ProcessCollector(registry=registry)
    library.GCCollector(registry=registry)
    registry.register(Collector(server))
    if server.cluster_statistics is not None:
        registry.register(Collector(server, WORKER_METRICS))
    return Response(body=library.generate_latest(registry), content_type=library.CONTENT_TYPE_LATEST)


ENDPOINTS = (
    Endpoint(
        "GET", "/metrics", "get the metrics for Prometheus", metrics, name="getMetrics", content_types=("text/plain",),
    ),
)  # fmt: skip
