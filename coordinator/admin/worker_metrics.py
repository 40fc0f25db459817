"""The metrics of a worker that shares its journal. Other servers do not have them."""

from typing import TYPE_CHECKING

from coordinator.admin.metric import COUNTER, GAUGE, HISTOGRAM, Histograms, Metric, Samples, cumulative
from coordinator.admin.server_view import ServerView

if TYPE_CHECKING:
    from coordinator.workers.statistics import WorkerStatistics


def _worker(server: ServerView) -> "WorkerStatistics":
    assert server.worker is not None
    return server.worker


def _living(server: ServerView) -> Samples:
    yield (), len(_worker(server).cluster.living)


def _owned(server: ServerView) -> Samples:
    """1 for a shard that this worker has. The sum over all workers is 1 for every shard, but for moments without an owner."""
    cluster = _worker(server).cluster
    return (((log,), log in cluster.held) for log in sorted(cluster.owners))


def _take_overs(server: ServerView) -> Histograms:
    yield (), cumulative(_worker(server).take_overs_s)


def _replayed(server: ServerView) -> Samples:
    yield (), _worker(server).records_replayed


def _appends(server: ServerView) -> Histograms:
    yield (), cumulative(_worker(server).appends_s)


def _fenced(server: ServerView) -> Samples:
    journal = _worker(server).journal
    yield (), 0 if journal is None else journal.fenced_appends


def _unknown(server: ServerView) -> Samples:
    journal = _worker(server).journal
    yield (), 0 if journal is None else journal.unknown_appends


# fmt: off
WORKER_METRICS = (
    Metric("coordinator_workers", GAUGE, (), "Workers that live, as the engine says.", _living),
    Metric("coordinator_shard_owned", GAUGE, ("shard",), "1 if this worker has claimed the log, else 0.", _owned),
    Metric("coordinator_take_over_seconds", HISTOGRAM, (),
           "Duration of taking a shard, from the claim until requests are served.", _take_overs),
    Metric("coordinator_records_replayed", COUNTER, (), "Records that take-overs have replayed.", _replayed),
    Metric("coordinator_append_seconds", HISTOGRAM, (), "Duration of an append to the engine.", _appends),
    Metric("coordinator_appends_fenced", COUNTER, (),
           "Claims that ended because an append found a newer one.", _fenced),
    Metric("coordinator_appends_unknown", COUNTER, (), "Appends without a certain outcome.", _unknown),
)
# fmt: on
