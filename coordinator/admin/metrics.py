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
from coordinator.admin.served import Served
from coordinator.protocol.errors import ErrorCode
from coordinator.requests.exchange import Route
from coordinator.runtime.shard import Status
from coordinator.runtime.statistics import Histogram

Samples = Iterable[tuple[tuple[str, ...], float]]
"""Label values, and the number."""


class Metric(NamedTuple):
    """One metric. `read` gives its samples; a histogram has one and no labels."""

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
            counts[route.api.name, _error_name(error)] += count
            failed += count
        counts[route.api.name, "NONE"] += route.answered - failed
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


def _listener_name(index: int) -> str:
    return str(index)


def _requests_waiting(server: Served) -> Samples:
    yield (), sum(connection.waiting for listener in server.listeners for connection in listener.connections)


def _groups(server: Served) -> Samples:
    counts: Counter[tuple[str, str]] = Counter()
    for state in _states(server):
        counts.update(("classic", group.state.value) for group in state.classic.values())
    return counts.items()


def _members(server: Served) -> Samples:
    yield ("classic",), sum(len(group.members) for state in _states(server) for group in state.classic.values())


def _offsets(server: Served) -> Samples:
    yield (), sum(state.offsets.count for state in _states(server))


def _commits(server: Served) -> Samples:
    yield (), sum(state.offsets.commits for state in _states(server))


def _states(server: Served) -> Iterable[Any]:
    return (shard.state for shard in server.groups.shards)


def _rebalances(server: Served) -> Samples:
    return (((cause,), count) for cause, count in server.statistics.rebalances.items())


def _facts(server: Served) -> Samples:
    return (((name,), count) for name, count in server.statistics.facts.items())


def _shards(server: Served) -> Samples:
    counts = Counter(shard.status for shard in server.groups.shards)
    return (((status.value,), counts[status]) for status in Status)


def _parked(server: Served) -> Samples:
    yield (), sum(len(shard.parked) for shard in server.groups.shards)


def _timers(server: Served) -> Samples:
    yield (), sum(shard.timers_armed for shard in server.groups.shards)


def _log_end(server: Served) -> Samples:
    return (((str(shard.index),), shard.log.end_offset) for shard in server.groups.shards)


def _log_durable(server: Served) -> Samples:
    return (((str(shard.index),), shard.offset_durable) for shard in server.groups.shards)


def _syncs_failed(server: Served) -> Samples:
    yield (), server.statistics.syncs_failed


def _syncs(server: Served) -> Histogram:
    return server.statistics.syncs_s


def _rebalance_times(server: Served) -> Histogram:
    return server.statistics.rebalances_s


COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"

# fmt: off
METRICS = (
    Metric("coordinator_requests", COUNTER, ("api", "error"), "Answers, by API and top-level error code.", _requests),
    Metric("coordinator_requests_waiting", GAUGE, (), "Requests not answered yet.", _requests_waiting),
    Metric("coordinator_connections", GAUGE, ("listener",), "Open connections, by listener.", _connections),
    Metric("coordinator_connections_refused", COUNTER, ("listener",), "Over a limit.", _connections_refused),
    Metric("coordinator_groups", GAUGE, ("kind", "state"), "Groups.", _groups),
    Metric("coordinator_members", GAUGE, ("kind",), "Members of all groups.", _members),
    Metric("coordinator_rebalances", COUNTER, ("cause",), "Rebalances begun.", _rebalances),
    Metric("coordinator_rebalance_seconds", HISTOGRAM, (), "From its cause to a generation.", _rebalance_times),
    Metric("coordinator_events", COUNTER, ("event",), "What the groups told, by event, as in the log.", _facts),
    Metric("coordinator_offsets", GAUGE, (), "Committed offsets held.", _offsets),
    Metric("coordinator_offset_commits", COUNTER, (), "Offsets committed since the state was loaded.", _commits),
    Metric("coordinator_shards", GAUGE, ("status",), "Shards of the groups' log.", _shards),
    Metric("coordinator_timers", GAUGE, (), "Timers armed: sessions, rebalances, expiry.", _timers),
    Metric("coordinator_parked_replies", GAUGE, (), "Answers that wait for the disk.", _parked),
    Metric("coordinator_log_end_offset", GAUGE, ("shard",), "The next offset of a shard's log.", _log_end),
    Metric("coordinator_log_durable_offset", GAUGE, ("shard",), "Everything before it is durable.", _log_durable),
    Metric("coordinator_log_sync_seconds", HISTOGRAM, (), "Time of an fdatasync.", _syncs),
    Metric("coordinator_log_syncs_failed", COUNTER, (), "Failed fdatasyncs.", _syncs_failed),
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
                family = core.HistogramMetricFamily(metric.name, metric.text)
                buckets, total = _cumulative(read)
                family.add_metric((), buckets, total)
            else:
                kind = core.CounterMetricFamily if metric.kind == COUNTER else core.GaugeMetricFamily
                family = kind(metric.name, metric.text, labels=metric.labels)
                for labels, value in read:
                    family.add_metric(labels, value)
            yield family


def _cumulative(histogram: Histogram) -> tuple[list[tuple[str, int]], float]:
    """Buckets as Prometheus has them: each counts everything up to its bound."""
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
