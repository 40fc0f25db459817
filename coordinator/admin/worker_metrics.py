"""The metrics of a worker that shares its journal. Other servers do not have them."""

from collections.abc import Callable

from coordinator.admin.metric import COUNTER, GAUGE, HISTOGRAM, Histograms, Metric, Samples, cumulative
from coordinator.admin.server_view import ClusterStatistics, ServerView


def _of(server: ServerView) -> ClusterStatistics:
    assert server.cluster_statistics is not None
    return server.cluster_statistics


def _owned(server: ServerView) -> Samples:
    """1 for a shard that this worker has. The sum over all workers is 1 for every shard, but for moments without an owner."""
    return (((log,), is_here) for log, is_here in sorted(_of(server).owned.items()))


def _take_overs(server: ServerView) -> Histograms:
    yield (), cumulative(_of(server).take_overs_s)


def _appends(server: ServerView) -> Histograms:
    yield (), cumulative(_of(server).appends_s)


def _count(read: Callable[[ClusterStatistics], int]) -> Callable[[ServerView], Samples]:
    return lambda server: [((), read(_of(server)))]


# fmt: off
WORKER_METRICS = (
    Metric("coordinator_workers", GAUGE, (), "Workers that live, as the engine says.", _count(lambda each: each.workers)),
    Metric("coordinator_shard_owned", GAUGE, ("shard",), "1 if this worker has claimed the log, else 0.", _owned),
    Metric("coordinator_take_over_seconds", HISTOGRAM, (),
           "Duration of taking a shard, from the claim until requests are served.", _take_overs),
    Metric("coordinator_records_replayed", COUNTER, (), "Records that take-overs have replayed.",
           _count(lambda each: each.records_replayed)),
    Metric("coordinator_append_seconds", HISTOGRAM, (), "Duration of an append to the engine.", _appends),
    Metric("coordinator_appends_fenced", COUNTER, (),
           "Claims that ended because an append found a newer one.",
           _count(lambda each: each.fenced_appends)),
    Metric("coordinator_appends_unknown", COUNTER, (), "Appends without a certain outcome.",
           _count(lambda each: each.unknown_appends)),
)
# fmt: on
