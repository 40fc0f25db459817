"""Every Prometheus metric, declared once, and read from the server's own numbers when somebody scrapes.

The hot path knows nothing of this: it adds to plain integers (`runtime/statistics.py`, a route's `answered`, a store's
`count`), and a scrape reads them. Labels are bounded: APIs and error codes by the protocol, causes and states by the
code, shards and listeners by the configuration. No label ever holds the name of a group, member, topic or client, since
clients choose those and could fill the memory of whoever scrapes.

The metrics library takes a tenth of a second to import, so it is imported in a worker thread by the first scrape.
"""

import asyncio
import importlib
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from coordinator.admin.http import Request, Response, Routes
from coordinator.admin.server_view import Served
from coordinator.api.exchange import Route
from coordinator.groups.fencing import STALE_REASONS, TXN_CHECKS
from coordinator.protocol.errors import ErrorCode
from coordinator.runtime import event_log
from coordinator.runtime.event_log import EventLog
from coordinator.runtime.shard import Status
from coordinator.runtime.statistics import Histogram
from coordinator.transactions.prepare import ENDS
from coordinator.transactions.transaction import NAMES as TRANSACTION_STATES
from coordinator.transactions.transactions import FENCING_APIS

Samples = Iterable[tuple[tuple[str, ...], float]]
"""Label values, and the number."""
Histograms = Iterable[tuple[tuple[str, ...], tuple[list[tuple[str, int]], float]]]
"""Label values, and buckets as Prometheus has them (each counts everything up to its bound) with the sum of values."""

DURATION_POWERS = range(13, 39)
"""Requests are told apart from 2^13 ns (8 us) to 2^38 ns (275 s)."""
FENCES = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.GROUP_ID_NOT_FOUND,
)
"""How a commit is told that its sender does not own what it commits any more."""


class Metric(NamedTuple):
    """One metric. `read` gives its samples: label values and the number, or the histogram."""

    name: str
    kind: str
    labels: tuple[str, ...]
    text: str
    read: Callable[[Served], Any]


def _routes(server: Served) -> Iterable[Route]:
    return (route for listener in server.listeners for route in listener.dispatcher.routes)


def _requests(server: Served) -> Samples:
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


def _connections(server: Served) -> Samples:
    return (((_listener_name(i),), len(listener.connections)) for i, listener in enumerate(server.listeners))


def _connections_refused(server: Served) -> Samples:
    return (((_listener_name(i),), listener.refused_count) for i, listener in enumerate(server.listeners))


def _connections_closed(server: Served) -> Samples:
    counts: Counter[str] = Counter()
    for listener in server.listeners:
        counts.update(listener.closed)
    return (((reason,), count) for reason, count in counts.items())


def _listener_name(index: int) -> str:
    return str(index)


def _requests_waiting(server: Served) -> Samples:
    yield (), sum(connection.waiting for listener in server.listeners for connection in listener.connections)


def _memory_held(server: Served) -> Samples:
    yield (), server.memory.held_bytes


def _memory_waiting(server: Served) -> Samples:
    yield (), server.memory.waiting


def _groups(server: Served) -> Samples:
    counts: Counter[tuple[str, str]] = Counter()
    for state in _states(server):
        counts.update(("classic", group.state.value) for group in state.classic.values())
        counts.update(("consumer", group.state.value) for group in state.consumer.values())
        counts.update(("streams", group.state.value) for group in state.streams.values())
    return counts.items()


def _members(server: Served) -> Samples:
    yield ("classic",), sum(len(group.members) for state in _states(server) for group in state.classic.values())
    yield ("consumer",), sum(len(group.members) for state in _states(server) for group in state.consumer.values())
    yield ("streams",), sum(len(group.members) for state in _states(server) for group in state.streams.values())


def _offsets(server: Served) -> Samples:
    yield (), sum(state.offsets.count for state in _states(server))


def _commits(server: Served) -> Samples:
    yield (), sum(state.offsets.commits for state in _states(server))


def _commits_fenced(server: Served) -> Samples:
    counts = dict.fromkeys(FENCES, 0)
    for route in _routes(server):
        if route.name in ("OffsetCommit", "TxnOffsetCommit"):
            for error in FENCES:
                counts[error] += route.errors.get(error, 0)
    return (((error.name,), count) for error, count in counts.items())


def _stale_commits(server: Served) -> Samples:
    counts: Counter[str] = Counter(dict.fromkeys(STALE_REASONS, 0))
    for state in _states(server):
        counts.update(state.commits_fenced)
    return (((reason,), count) for reason, count in counts.items())


def _txn_commits(server: Served) -> Samples:
    counts: Counter[str] = Counter(dict.fromkeys(TXN_CHECKS, 0))
    for state in _states(server):
        counts.update(state.txn_commits)
    return (((checked,), count) for checked, count in counts.items())


def _pending_offsets(server: Served) -> Samples:
    yield (), sum(len(each) for state in _states(server) for each in state.offsets.pending.by_producer.values())


def _transactional_ids(server: Served) -> Samples:
    counts: Counter[str] = Counter(dict.fromkeys(TRANSACTION_STATES.values(), 0))
    for state in _transaction_states(server):
        counts.update({TRANSACTION_STATES[each]: count for each, count in state.states.items()})
    return (((name,), count) for name, count in counts.items())


def _transactions_ended(server: Served) -> Samples:
    counts: Counter[tuple[str, str]] = Counter(dict.fromkeys(ENDS, 0))
    for state in _transaction_states(server):
        counts.update(state.ended)
    return counts.items()


def _producers_fenced(server: Served) -> Samples:
    counts: Counter[str] = Counter(dict.fromkeys(FENCING_APIS, 0))
    for state in _transaction_states(server):
        counts.update(state.fenced)
    return (((api,), count) for api, count in counts.items())


def _markers_waiting(server: Served) -> Samples:
    yield (), sum(len(left) for state in _transaction_states(server) for left in state.undelivered.values())


def _transaction_states(server: Served) -> Iterable[Any]:
    return (shard.state for shard in server.transactions.shards)


def _states(server: Served) -> Iterable[Any]:
    return (shard.state for shard in server.groups.shards)


def _rebalances(server: Served) -> Samples:
    for kind, causes in server.statistics.rebalances.items():
        yield from (((kind, cause), count) for cause, count in causes.items())


def _expired(server: Served) -> Samples:
    return (((timeout,), count) for timeout, count in server.statistics.expired.items())


def _facts(server: Served) -> Samples:
    return (((name,), count) for name, count in server.statistics.facts.items())


def _shards(server: Served) -> Samples:
    counts = Counter(shard.status for shard in server.shards)
    return (((status.value,), counts[status]) for status in Status)


def _partitions(server: Served) -> Samples:
    counts = Counter({"active": 0, "full": 0, "failed": 0})
    counts.update(state for _, state, _ in server.topics.partition_states())
    return (((state,), count) for state, count in counts.items())


def _metadata_writable(server: Served) -> Samples:
    yield (), 0 if server.topics.metadata.problem else 1


def _parked(server: Served) -> Samples:
    yield (), sum(len(shard.parked) for shard in server.shards)


def _timers(server: Served) -> Samples:
    yield (), sum(shard.timers_armed for shard in server.shards)


def _log_end(server: Served) -> Samples:
    return (((str(shard.index),), shard.log.end_offset) for shard in server.groups.shards)


def _log_durable(server: Served) -> Samples:
    return (((str(shard.index),), shard.offset_durable) for shard in server.groups.shards)


def _log_bytes(server: Served) -> Samples:
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


def _event_logs(server: Served) -> list[EventLog]:
    return [shard.events for shard in server.groups.shards if shard.events is not None]


def _event_log_states(server: Served) -> Samples:
    counts = Counter(log.status for log in _event_logs(server))
    return (((status.value,), counts[status]) for status in event_log.Status)


def _events_written(server: Served) -> Samples:
    yield (), sum(log.written for log in _event_logs(server))


def _events_lost(server: Served) -> Samples:
    yield (), sum(log.lost for log in _event_logs(server))


def _events_bytes(server: Served) -> Samples:
    yield (), sum(log.written_bytes for log in _event_logs(server))


def _events_gaps(server: Served) -> Samples:
    yield (), sum(log.gaps for log in _event_logs(server))


def _syncs_failed(server: Served) -> Samples:
    yield (), server.statistics.syncs_failed


def _syncs(server: Served) -> Histograms:
    yield (), _of(server.statistics.syncs_s)


def _rebalance_times(server: Served) -> Histograms:
    yield (), _of(server.statistics.rebalances_s)


def _lag(server: Served) -> Histograms:
    yield (), _of(server.statistics.lag_s)


def _durations(server: Served) -> Histograms:
    """By API over all versions and listeners; a route's counts are by powers of two of nanoseconds."""
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


COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"

# fmt: off
METRICS = (
    Metric("coordinator_requests", COUNTER, ("api", "error"), "Answers, by API and top-level error code.", _requests),
    Metric("coordinator_request_seconds", HISTOGRAM, ("api",),
           "From request to answer. Of an API used often, one answer in sixteen.", _durations),
    Metric("coordinator_requests_waiting", GAUGE, (), "Requests not answered yet.", _requests_waiting),
    Metric("coordinator_memory_held_bytes", GAUGE, (), "Large requests and answers under way.", _memory_held),
    Metric("coordinator_memory_waiting", GAUGE, (), "Connections with a request that waits for memory.", _memory_waiting),
    Metric("coordinator_connections", GAUGE, ("listener",), "Open connections, by listener.", _connections),
    Metric("coordinator_connections_refused", COUNTER, ("listener",), "Over a limit.", _connections_refused),
    Metric("coordinator_connections_closed", COUNTER, ("reason",), "Why; peer: by the client.", _connections_closed),
    Metric("coordinator_groups", GAUGE, ("kind", "state"), "Groups.", _groups),
    Metric("coordinator_members", GAUGE, ("kind",), "Members of all groups.", _members),
    Metric("coordinator_rebalances", COUNTER, ("kind", "cause"), "Rebalances begun.", _rebalances),
    Metric("coordinator_rebalance_seconds", HISTOGRAM, (), "From its cause to a generation.", _rebalance_times),
    Metric("coordinator_members_expired", COUNTER, ("timeout",), "Members given up, by timeout.", _expired),
    Metric("coordinator_events", COUNTER, ("event",), "What the groups told, by event, as in the log.", _facts),
    Metric("coordinator_offsets", GAUGE, (), "Committed offsets held.", _offsets),
    Metric("coordinator_offset_commits", COUNTER, (), "Offsets committed since the state was loaded.", _commits),
    Metric("coordinator_commits_stale", COUNTER, ("reason",), "Commits of members refused for their epoch.", _stale_commits),
    Metric("coordinator_commits_fenced", COUNTER, ("reason",), "Commits refused to former members.", _commits_fenced),
    Metric("coordinator_txn_commits", COUNTER, ("checked",), "Commits in transactions, by who is fenced.", _txn_commits),
    Metric("coordinator_pending_offsets", GAUGE, (), "Offsets of open transactions.", _pending_offsets),
    Metric("coordinator_transactional_ids", GAUGE, ("state",), "Transactional ids, by state.", _transactional_ids),
    Metric("coordinator_transactions_ended", COUNTER, ("outcome", "cause"), "Transactions decided.", _transactions_ended),
    Metric("coordinator_producers_fenced", COUNTER, ("api",), "Requests of producers with an old epoch.", _producers_fenced),
    Metric("coordinator_markers_waiting", GAUGE, (), "Partitions without the marker of a decided end.", _markers_waiting),
    Metric("coordinator_shards", GAUGE, ("status",), "Shards of the logs of groups and transactions.", _shards),
    Metric("coordinator_partitions", GAUGE, ("status",), "Partitions of topics.", _partitions),
    Metric("coordinator_metadata_writable", GAUGE, (), "1 if topics and settings can be changed.", _metadata_writable),
    Metric("coordinator_timers", GAUGE, (), "Timers armed: sessions, rebalances, expiry.", _timers),
    Metric("coordinator_parked_replies", GAUGE, (), "Answers that wait for the disk.", _parked),
    Metric("coordinator_log_end_offset", GAUGE, ("shard",), "The next offset of a shard's log.", _log_end),
    Metric("coordinator_log_durable_offset", GAUGE, ("shard",), "Everything before it is durable.", _log_durable),
    Metric("coordinator_log_bytes", GAUGE, ("log",), "Bytes of the logs, by what is in them.", _log_bytes),
    Metric("coordinator_event_logs", GAUGE, ("status",), "Event logs of the shards.", _event_log_states),
    Metric("coordinator_event_log_records", COUNTER, (), "Events written to the event logs.", _events_written),
    Metric("coordinator_event_log_written_bytes", COUNTER, (), "Bytes written to the event logs.", _events_bytes),
    Metric("coordinator_event_log_lost", COUNTER, (), "Events that could not be written.", _events_lost),
    Metric("coordinator_event_log_gaps", COUNTER, (), "Starts and reloads that found events missing.", _events_gaps),
    Metric("coordinator_log_sync_seconds", HISTOGRAM, (), "Time of an fdatasync.", _syncs),
    Metric("coordinator_log_syncs_failed", COUNTER, (), "Failed fdatasyncs.", _syncs_failed),
    Metric("coordinator_loop_lag_seconds", HISTOGRAM, (), "How late the loop is for a timer.", _lag),
)
# fmt: on


class Collector:
    """Reads the metrics of one server; what `prometheus_client` calls a custom collector."""

    def __init__(self, server: Served) -> None:
        self._server = server

    def collect(self) -> Iterable[Any]:
        from prometheus_client import core  # noqa: PLC0415 - imported by then; see the module's text

        for metric in METRICS:
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


def _of(histogram: Histogram) -> tuple[list[tuple[str, int]], float]:
    """The buckets and the sum of a plain histogram."""
    buckets, count = [], 0
    for bound, here in zip([*map(str, histogram.bounds), "+Inf"], histogram.counts, strict=True):
        count += here
        buckets.append((bound, count))
    return buckets, histogram.total


def metrics_routes(server: Served) -> Routes:
    """`/metrics`."""
    registry: Any = None

    async def metrics(_request: Request) -> Response:
        nonlocal registry
        library: Any = await asyncio.to_thread(importlib.import_module, "prometheus_client")
        if registry is None:
            registry = library.CollectorRegistry()
            library.ProcessCollector(registry=registry)
            library.GCCollector(registry=registry)
            registry.register(Collector(server))
        return Response(body=library.generate_latest(registry), content_type=library.CONTENT_TYPE_LATEST)

    return {("GET", "/metrics"): metrics}
