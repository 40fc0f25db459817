"""All Prometheus metrics. A scrape reads them from counters that the server keeps anyway.

The hot path increments plain integers (`runtime/statistics.py`, `answered` of a route, `count` of the offsets) and does not
know about metrics. The number of label values is bounded: APIs and error codes by the protocol, causes and states by the
code, shards and listeners by the configuration. No label holds the name of a group, member, topic or client, because clients
choose those names and could exhaust the memory of the scraper; the exception is groups that an operator has named
(named_groups.py).

The Prometheus library takes a tenth of a second to import, so the first scrape imports it in a thread.
"""

import importlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from coordinator.admin import named_groups
from coordinator.admin.endpoint import Endpoint, Request, Response, in_thread
from coordinator.admin.metric import COUNTER, GAUGE, HISTOGRAM, Histograms, Metric, Samples, cumulative
from coordinator.admin.server_view import ServerView
from coordinator.api.route import Route
from coordinator.groups.classic.assignment_rules import RULES
from coordinator.groups.fencing import STALE_REASONS, TXN_CHECKS
from coordinator.groups.kinds import LABELS
from coordinator.protocol.errors import ErrorCode
from coordinator.quotas.enforcement import Throttling
from coordinator.rules.model import KINDS
from coordinator.runtime import event_log
from coordinator.runtime.event_log import EventLog
from coordinator.runtime.shard import Status
from coordinator.transactions.prepare import ENDS
from coordinator.transactions.state import FENCING_APIS
from coordinator.transactions.transaction import NAMES as TRANSACTION_STATES

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


def _requests(server: ServerView) -> Samples:
    counts: Counter[tuple[str, str]] = Counter()
    for route in _routes(server):
        failed = 0
        for error, count in list(route.errors.items()):
            counts[route.name, _error_name(error)] += count
            failed += count
        counts[route.name, "NONE"] += route.answered - failed
    return counts.items()


def _error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)


def _connections(server: ServerView) -> Samples:
    return (((_listener_name(i),), len(listener.connections)) for i, listener in enumerate(server.all_listeners))


def _connections_refused(server: ServerView) -> Samples:
    return (((_listener_name(i),), listener.refused_count) for i, listener in enumerate(server.all_listeners))


def _faults_acted(server: ServerView) -> Samples:
    acted: Counter[str] = server.interceptor.faults.acted if server.has_interceptor else Counter()
    return [((kind,), acted[kind]) for kind in KINDS]


def _fault_rules(server: ServerView) -> Samples:
    rules = server.interceptor.faults.by_id.values() if server.has_interceptor else ()
    return [((), sum(fault.active for fault in rules))]


def _throttled(server: ServerView) -> Samples:
    found = server.quotas.throttling if server.quotas is not None else Throttling()
    return [((kind,), times) for kind, times in found.times.items()]


def _throttle_seconds(server: ServerView) -> Samples:
    found = server.quotas.throttling if server.quotas is not None else Throttling()
    return [((kind,), throttle_ms / 1000) for kind, throttle_ms in found.throttle_ms.items()]


def _quota_bytes(server: ServerView) -> Samples:
    found = server.quotas.throttling if server.quotas is not None else Throttling()
    return [((kind,), size_bytes) for kind, size_bytes in found.bytes.items()]


def _connections_closed(server: ServerView) -> Samples:
    counts: Counter[str] = Counter()
    for listener in server.all_listeners:
        counts.update(listener.closed)
    return (((reason,), count) for reason, count in counts.items())


def _authentications_failed(server: ServerView) -> Samples:
    return (((_listener_name(i),), listener.authentications_failed) for i, listener in enumerate(server.all_listeners))


def _authorization_denied(server: ServerView) -> Samples:
    audit = server.authorizer.audit if server.authorizer is not None else None
    denied = audit.denied if audit is not None else {}
    return [((of.name, operation.name), count) for (operation, of), count in list(denied.items())]


def _listener_name(index: int) -> str:
    return str(index)


def _requests_waiting(server: ServerView) -> Samples:
    yield (), sum(connection.waiting for listener in server.all_listeners for connection in listener.connections)


def _memory_held(server: ServerView) -> Samples:
    yield (), server.memory.held_bytes


def _memory_waiting(server: ServerView) -> Samples:
    yield (), server.memory.waiting


def _groups(server: ServerView) -> Samples:
    counts: Counter[tuple[str, str]] = Counter()
    for state in _states(server):
        counts.update((group.kind.label, group.state.value) for group in state.by_id.values())
    return counts.items()


def _members(server: ServerView) -> Samples:
    members = Counter(dict.fromkeys(LABELS, 0))
    for state in _states(server):
        for group in state.by_id.values():
            members[group.kind.label] += len(group.members)
    yield from (((label,), count) for label, count in members.items())


def _offsets(server: ServerView) -> Samples:
    yield (), sum(state.offsets.count for state in _states(server))


def _commits(server: ServerView) -> Samples:
    yield (), sum(state.counters.offsets for state in _states(server))


def _commits_fenced(server: ServerView) -> Samples:
    counts = dict.fromkeys(FENCES, 0)
    for route in _routes(server):
        if route.name in ("OffsetCommit", "TxnOffsetCommit"):
            for error in FENCES:
                counts[error] += route.errors.get(error, 0)
    return (((error.name,), count) for error, count in counts.items())


def _stale_commits(server: ServerView) -> Samples:
    counts: Counter[str] = Counter(dict.fromkeys(STALE_REASONS, 0))
    for state in _states(server):
        counts.update(state.counters.fenced)
    return (((reason,), count) for reason, count in counts.items())


def _txn_commits(server: ServerView) -> Samples:
    counts: Counter[str] = Counter(dict.fromkeys(TXN_CHECKS, 0))
    for state in _states(server):
        counts.update(state.counters.txn_requests)
    return (((checked,), count) for checked, count in counts.items())


def _invalid_assignments(server: ServerView) -> Samples:
    counts: Counter[str] = Counter(dict.fromkeys(RULES, 0))
    for state in _states(server):
        counts.update(state.counters.invalid_partitions)
    return (((rule,), count) for rule, count in counts.items())


def _groups_held_bytes(server: ServerView) -> Samples:
    yield (), server.held_bytes.total


def _groups_too_large(server: ServerView) -> Samples:
    counts: Counter[str] = Counter(dict.fromkeys(("limit.group.bytes", "limit.groups.bytes"), 0))
    for state in _states(server):
        counts.update(state.counters.too_large)
    return (((setting,), count) for setting, count in counts.items())


def _pending_offsets(server: ServerView) -> Samples:
    yield (), sum(len(each) for state in _states(server) for each in state.offsets.pending.by_producer.values())


def _transactional_ids(server: ServerView) -> Samples:
    counts: Counter[str] = Counter(dict.fromkeys(TRANSACTION_STATES.values(), 0))
    for state in _transaction_states(server):
        counts.update({TRANSACTION_STATES[each]: count for each, count in state.states.items()})
    return (((name,), count) for name, count in counts.items())


def _transactions_ended(server: ServerView) -> Samples:
    counts: Counter[tuple[str, str]] = Counter(dict.fromkeys(ENDS, 0))
    for state in _transaction_states(server):
        counts.update(state.ended)
    return counts.items()


def _producers_fenced(server: ServerView) -> Samples:
    counts: Counter[str] = Counter(dict.fromkeys(FENCING_APIS, 0))
    for state in _transaction_states(server):
        counts.update(state.fenced)
    return (((api,), count) for api, count in counts.items())


def _markers_waiting(server: ServerView) -> Samples:
    yield (), sum(len(left) for state in _transaction_states(server) for left in state.undelivered.values())


def _transaction_states(server: ServerView) -> Iterable[Any]:
    return (shard.state for shard in server.transactions.shards)


def _states(server: ServerView) -> Iterable[Any]:
    return (shard.state for shard in server.groups.shards)


def _rebalances(server: ServerView) -> Samples:
    for kind, causes in server.statistics.rebalances.items():
        yield from (((kind, cause), count) for cause, count in causes.items())


def _rebalancing_often(server: ServerView) -> Samples:
    yield (), server.group_rebalances.often()


def _expired(server: ServerView) -> Samples:
    return (((timeout,), count) for timeout, count in server.statistics.expired.items())


def _events(server: ServerView) -> Samples:
    return (((name,), count) for name, count in server.statistics.facts.items())


def _shards(server: ServerView) -> Samples:
    counts = Counter(shard.status for shard in server.shards)
    return (((status.value,), counts[status]) for status in Status)


def _partitions(server: ServerView) -> Samples:
    counts = Counter({"active": 0, "full": 0, "failed": 0})
    counts.update(state for _, state, _ in server.topics.partition_states())
    return (((state,), count) for state, count in counts.items())


def _metadata_writable(server: ServerView) -> Samples:
    yield (), 0 if server.topics.metadata.problem else 1


def _parked(server: ServerView) -> Samples:
    yield (), sum(len(shard.parked) for shard in server.shards)


def _timers(server: ServerView) -> Samples:
    yield (), sum(shard.timers_armed for shard in server.shards)


def _log_end(server: ServerView) -> Samples:
    return (((str(shard.index),), shard.log.end_offset) for shard in server.groups.shards)


def _log_durable(server: ServerView) -> Samples:
    return (((str(shard.index),), shard.offset_durable) for shard in server.groups.shards)


def _journal_entries(server: ServerView) -> Samples:
    yield (), server.journal.entries


def _journal_bytes(server: ServerView) -> Samples:
    yield (), server.journal.entry_bytes


def _checkpoints(server: ServerView) -> Samples:
    yield (), server.journal.checkpoints


def _log_bytes(server: ServerView) -> Samples:
    yield ("groups",), sum(shard.log.size_bytes for shard in server.groups.shards)
    yield ("transactions",), sum(shard.log.size_bytes for shard in server.transactions.shards)
    yield ("events",), sum(log.log.size_bytes for log in _event_logs(server))
    held = 0
    for topic in server.topics.registry.topics.values():
        for index in range(topic.partitions):
            partition = server.topics.user_partition(topic.name, index)
            if partition is not None and partition.log is not None:
                held += partition.log.size_bytes
    yield ("topics",), held


def _event_logs(server: ServerView) -> list[EventLog]:
    return [shard.events for shard in server.groups.shards if shard.events is not None]


def _event_log_states(server: ServerView) -> Samples:
    counts = Counter(log.status for log in _event_logs(server))
    return (((status.value,), counts[status]) for status in event_log.Status)


def _events_written(server: ServerView) -> Samples:
    yield (), sum(log.written for log in _event_logs(server))


def _events_lost(server: ServerView) -> Samples:
    yield (), sum(log.lost for log in _event_logs(server))


def _events_bytes(server: ServerView) -> Samples:
    yield (), sum(log.written_bytes for log in _event_logs(server))


def _events_gaps(server: ServerView) -> Samples:
    yield (), sum(log.gaps for log in _event_logs(server))


def _syncs_failed(server: ServerView) -> Samples:
    yield (), server.statistics.syncs_failed


def _syncs(server: ServerView) -> Histograms:
    yield (), cumulative(server.statistics.syncs_s)


def _rebalance_times(server: ServerView) -> Histograms:
    yield (), cumulative(server.statistics.rebalances_s)


def _lag(server: ServerView) -> Histograms:
    yield (), cumulative(server.statistics.lag_s)


def _turns(server: ServerView) -> Histograms:
    yield (), cumulative(server.statistics.turns_s)


def _turns_cpu(server: ServerView) -> Histograms:
    yield (), cumulative(server.statistics.turns_cpu_s)


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
    for name, by_power in counts.items():
        buckets = [(repr(2**power / 1e9), sum(by_power[: power + 1])) for power in DURATION_POWERS]
        yield (name,), ([*buckets, ("+Inf", sum(by_power))], sums_ns[name] / 1e9)


# fmt: off
METRICS = (
    Metric("coordinator_requests", COUNTER, ("api", "error"), "Responses by API and top-level error code.", _requests),
    Metric("coordinator_request_seconds", HISTOGRAM, ("api",),
           "Time from request to response. Frequent APIs are sampled: one response in 16.", _durations),
    Metric("coordinator_requests_waiting", GAUGE, (), "Requests that have no response yet.", _requests_waiting),
    Metric("coordinator_memory_held_bytes", GAUGE, (),
           "Bytes of requests and responses over 64 KiB in progress.", _memory_held),
    Metric("coordinator_memory_waiting", GAUGE, (), "Connections whose request waits for memory.", _memory_waiting),
    Metric("coordinator_connections", GAUGE, ("listener",), "Open connections by listener.", _connections),
    Metric("coordinator_connections_refused", COUNTER, ("listener",),
           "Connections refused because of a limit.", _connections_refused),
    Metric("coordinator_authentications_failed", COUNTER, ("listener",),
           "Clients that could not authenticate by SASL.", _authentications_failed),
    Metric("coordinator_authorization_denied", COUNTER, ("resource", "operation"),
           "Permissions that the authorizer denied, by type of resource.", _authorization_denied),
    Metric("coordinator_connections_closed", COUNTER, ("reason",),
           "Closed connections by reason. peer: the client closed it.", _connections_closed),
    Metric("coordinator_quota_throttled", COUNTER, ("quota",),
           "Number of times that clients had to wait because of a quota, by what it limits.", _throttled),
    Metric("coordinator_quota_throttle_seconds", COUNTER, ("quota",),
           "Time that clients had to wait because of a quota.", _throttle_seconds),
    Metric("coordinator_quota_bytes", COUNTER, ("quota",),
           "Bytes of requests and answers of clients that have a quota of bytes.", _quota_bytes),
    Metric("coordinator_faults_acted", COUNTER, ("action",),
           "Requests on which fault rules acted, by kind of action.", _faults_acted),
    Metric("coordinator_fault_rules", GAUGE, (), "Fault rules that may still act.", _fault_rules),
    Metric("coordinator_groups", GAUGE, ("kind", "state"), "Groups by kind and state.", _groups),
    Metric("coordinator_members", GAUGE, ("kind",), "Members of all groups by kind of group.", _members),
    Metric("coordinator_groups_held_bytes", GAUGE, (),
           "Estimated memory of all groups: ids, subscriptions, metadata, assignments.", _groups_held_bytes),
    Metric("coordinator_groups_too_large", COUNTER, ("setting",),
           "Requests refused because groups would hold more bytes than this setting allows.", _groups_too_large),
    Metric("coordinator_rebalances", COUNTER, ("kind", "cause"),
           "Rebalances that have started, by cause.", _rebalances),
    Metric("coordinator_groups_rebalancing_often", GAUGE, (),
           "Groups with rebalances in at least 5 of the last 10 minutes.", _rebalancing_often),
    Metric("coordinator_rebalance_seconds", HISTOGRAM, (),
           "Duration of a rebalance, from its cause to the new generation.", _rebalance_times),
    Metric("coordinator_group_rebalances", COUNTER, ("group",),
           "Rebalances that have started, of the groups in metrics.groups.", named_groups.rebalances),
    Metric("coordinator_group_lag", GAUGE, ("group", "topic"),
           "Records after the committed offsets, of the groups in metrics.groups.", named_groups.lags),
    Metric("coordinator_members_expired", COUNTER, ("timeout",), "Members removed because of a timeout.", _expired),
    Metric("coordinator_events", COUNTER, ("event",), "Events of groups, by event= in the server's log.", _events),
    Metric("coordinator_offsets", GAUGE, (), "Committed offsets in memory.", _offsets),
    Metric("coordinator_offset_commits", COUNTER, (), "Offsets committed since the shards were loaded.", _commits),
    Metric("coordinator_commits_stale", COUNTER, ("reason",),
           "Commits refused because of the member's epoch.", _stale_commits),
    Metric("coordinator_commits_fenced", COUNTER, ("reason",),
           "Commits refused to former members, by error code.", _commits_fenced),
    Metric("coordinator_txn_commits", COUNTER, ("checked",),
           "Commits in transactions, by what could be checked.", _txn_commits),
    Metric("coordinator_invalid_assignments", COUNTER, ("rule",),
           "Partitions that leaders of classic groups assigned against a rule.", _invalid_assignments),
    Metric("coordinator_pending_offsets", GAUGE, (),
           "Offsets committed in transactions that are still open.", _pending_offsets),
    Metric("coordinator_transactional_ids", GAUGE, ("state",),
           "Transactional ids by state of their transaction.", _transactional_ids),
    Metric("coordinator_transactions_ended", COUNTER, ("outcome", "cause"),
           "Transactions committed or aborted, by cause.", _transactions_ended),
    Metric("coordinator_producers_fenced", COUNTER, ("api",),
           "Requests refused because of an old producer epoch.", _producers_fenced),
    Metric("coordinator_markers_waiting", GAUGE, (),
           "Partitions that still lack the marker of a transaction.", _markers_waiting),
    Metric("coordinator_shards", GAUGE, ("status",), "Shards of groups and transactions by status.", _shards),
    Metric("coordinator_partitions", GAUGE, ("status",), "Partitions of topics by status.", _partitions),
    Metric("coordinator_metadata_writable", GAUGE, (),
           "1 if topics and settings can be changed, else 0.", _metadata_writable),
    Metric("coordinator_timers", GAUGE, (), "Timers of sessions, rebalances and expiry that are set.", _timers),
    Metric("coordinator_parked_replies", GAUGE, (), "Responses that wait until their records are durable.", _parked),
    Metric("coordinator_log_end_offset", GAUGE, ("shard",), "Log end offset of each group shard.", _log_end),
    Metric("coordinator_log_durable_offset", GAUGE, ("shard",),
           "Offset before which the log of a group shard is durable.", _log_durable),
    Metric("coordinator_log_bytes", GAUGE, ("log",), "Size of the logs by content.", _log_bytes),
    Metric("coordinator_journal_entries", COUNTER, (), "Entries written to the journal.", _journal_entries),
    Metric("coordinator_journal_written_bytes", COUNTER, (), "Bytes written to the journal.", _journal_bytes),
    Metric("coordinator_journal_checkpoints", COUNTER, (),
           "Files of the journal that could be used again, because the segments had their content.", _checkpoints),
    Metric("coordinator_event_logs", GAUGE, ("status",), "Event logs by status.", _event_log_states),
    Metric("coordinator_event_log_records", COUNTER, (), "Events written to the event logs.", _events_written),
    Metric("coordinator_event_log_written_bytes", COUNTER, (), "Bytes written to the event logs.", _events_bytes),
    Metric("coordinator_event_log_lost", COUNTER, (),
           "Events that could not be written to the event logs.", _events_lost),
    Metric("coordinator_event_log_gaps", COUNTER, (), "Starts and reloads that found events missing.", _events_gaps),
    Metric("coordinator_log_sync_seconds", HISTOGRAM, (), "Duration of an fdatasync.", _syncs),
    Metric("coordinator_log_syncs_failed", COUNTER, (), "Fdatasyncs that failed.", _syncs_failed),
    Metric("coordinator_loop_lag_seconds", HISTOGRAM, (), "Delay of the event loop's timers.", _lag),
    Metric("coordinator_loop_turn_seconds", HISTOGRAM, (),
           "Length of the event loop's turns that handled more than a few requests.", _turns),
    Metric("coordinator_loop_turn_cpu_seconds", HISTOGRAM, (),
           "CPU time of the event loop's turns that handled more than a few requests.", _turns_cpu),
)
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
            if metric.kind == HISTOGRAM:
                family = core.HistogramMetricFamily(metric.name, metric.text, labels=metric.labels)
                for labels, (buckets, total) in read:
                    family.add_metric(labels, buckets, total)
            else:
                kind = core.CounterMetricFamily if metric.kind == COUNTER else core.GaugeMetricFamily
                family = kind(metric.name, metric.text, labels=metric.labels)
                for labels, value in read:
                    family.add_metric(labels, value)
            yield family


async def metrics(server: ServerView, _request: Request) -> Response:
    """All metrics in the text format of Prometheus."""
    library = await in_thread(server, lambda: importlib.import_module("prometheus_client"))
    registry = library.CollectorRegistry()
    library.ProcessCollector(registry=registry)
    library.GCCollector(registry=registry)
    registry.register(Collector(server))
    if server.cluster_statistics is not None:
        from coordinator.admin.worker_metrics import WORKER_METRICS  # noqa: PLC0415 - most servers share nothing

        registry.register(Collector(server, WORKER_METRICS))
    return Response(body=library.generate_latest(registry), content_type=library.CONTENT_TYPE_LATEST)


ENDPOINTS = (Endpoint("GET", "/metrics", "metrics for Prometheus", metrics, content_types=("text/plain",)),)
