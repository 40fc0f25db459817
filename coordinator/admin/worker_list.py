"""`GET /v1/workers`: the workers that share the work, which shards each has, and what taking them over cost."""

from msgspec import Struct

from coordinator.admin.endpoint import Endpoint, Request
from coordinator.admin.server_view import ServerView


class WorkerView(Struct):
    """A worker."""

    number: int
    """From 0. Of a worker that is asked itself: its node id."""
    pid: int | None
    """Its process; null: there is none at the moment, or it is not known here."""
    ready: bool
    """Whether it answers."""
    shards: list[str]
    """The logs of the shards that it has, such as `__consumer_offsets-3`."""
    take_overs: int | None
    """Shards that it has taken over since it started, and served; null: it does not answer."""
    take_over_ms: int | None
    """How long they took on average, from the claim until requests were served: mostly the replay. Null: none."""
    records_replayed: int | None
    """Records that take-overs have replayed."""
    shards_replaying: int | None
    """Shards that it reads from the journal now, so that their requests wait."""


class WorkerList(Struct):
    """All workers; none if the server works alone."""

    workers: list[WorkerView]
    not_served: list[str]
    """The logs of shards that no worker has at the moment, as far as it is known here."""


def list_workers(server: ServerView, _request: Request) -> WorkerList:
    """This worker, or an empty list where there is only one server."""
    statistics = server.cluster_statistics
    if statistics is None:
        return WorkerList([], [])
    take_overs = sum(statistics.take_overs_s.counts)
    return WorkerList([
        WorkerView(
            number=server.config.node_id,
            pid=None,
            ready=True,
            shards=sorted(log for log, is_mine in statistics.owned.items() if is_mine),
            take_overs=take_overs,
            take_over_ms=round(statistics.take_overs_s.total / take_overs * 1000) if take_overs else None,
            records_replayed=statistics.records_replayed,
            shards_replaying=sum(shard.awaits_log for shard in server.shards),
        )
    ], [])  # fmt: skip


ENDPOINTS = (
    Endpoint(
        "GET", "/v1/workers", "list the workers of a server that is several, and their shards", list_workers,
        name="listWorkers", returns=WorkerList,
    ),
)  # fmt: skip
