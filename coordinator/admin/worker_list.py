"""`GET /v1/workers`: the workers that share the work, which shards each has, and what taking them over cost."""

from collections.abc import Mapping

from msgspec import Struct

from coordinator.admin.endpoint import Endpoint, RefusedRequest, Request
from coordinator.admin.located import elsewhere
from coordinator.admin.server_view import ClusterStatistics, OtherWorker, ServerView
from coordinator.topics.names import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE

_TOPICS = frozenset({CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE})


class WorkerView(Struct):
    """A worker."""

    number: int
    """From 0. Of a worker that is asked itself: its node id."""
    pid: int | None
    """Its process; null: there is none at the moment, or it is not known here."""
    ready: bool
    """Whether it answers; of another worker that is not asked: whether the engine says that it lives."""
    leaving: bool
    """Whether it gives its shards to the others."""
    shards: list[str]
    """The logs of the shards that it has, such as `__consumer_offsets-3`."""
    take_overs: int | None
    """Shards that it has taken over since it started, and served; null: it does not answer, or is not asked."""
    take_over_ms: int | None
    """How long they took on average, from the claim until requests were served: mostly the replay. Null: none."""
    records_replayed: int | None
    """Records that take-overs have replayed."""
    shards_replaying: int | None
    """Shards that it reads from the engine now, so that their requests wait."""
    pieces_to_replay: int | None
    """The lag of that: the pieces of their logs behind the newest snapshots. A piece is what one turn wrote."""
    admin: str | None = None
    """The URL of its admin HTTP, which drains it and moves shards to it. Null: this address does."""


class WorkerList(Struct):
    """All workers; none if the server works alone."""

    workers: list[WorkerView]
    not_served: list[str]
    """The logs of shards that no worker has at the moment, as far as it is known here."""


def list_workers(server: ServerView, _request: Request) -> WorkerList:
    """This worker and what it knows of the others; an empty list where there is only one server."""
    statistics = server.cluster_statistics
    if statistics is None:
        return WorkerList([], [])
    shards = [log for log in statistics.owned if log.rpartition("-")[0] in _TOPICS]
    owners = {log: statistics.other_owner(log) for log in sorted(shards) if not statistics.owned[log]}
    views = [_other_view(each, owners) for each in statistics.others]
    return WorkerList(
        sorted([_view(server, statistics), *views], key=lambda view: view.number),
        [log for log, owner in owners.items() if owner is None],
    )


def _other_view(worker: OtherWorker, owners: Mapping[str, OtherWorker | None]) -> WorkerView:
    shards = [log for log, owner in owners.items() if owner is not None and owner.node_id == worker.node_id]
    return WorkerView(
        worker.node_id, None, True, worker.is_leaving, shards, None, None, None, None, None, worker.admin or None
    )


class MoveRequest(Struct, forbid_unknown_fields=True):
    """A shard that is to move."""

    shard: str
    """Its log, such as `__consumer_offsets-3`."""


async def move(server: ServerView, request: Request) -> WorkerView:
    """Moves a shard to a worker, which gives another one for it if it has its share. Until then it is served where it is."""
    statistics, shard = _statistics_of(server, request), request.body.shard
    shards = [log for log in statistics.owned if log.rpartition("-")[0] in _TOPICS]
    if shard not in shards:
        raise RefusedRequest(404, f"there is no shard {shard}", shards)
    if statistics.is_leaving:
        raise RefusedRequest(409, "the worker is drained: it takes no shard until it resumes")
    await server.mark_worker(wants=shard)
    return _view(server, statistics)


async def drain(server: ServerView, request: Request) -> WorkerView:
    """Lets the other workers take the shards of this one, a few at a time; it serves each until then, and takes none."""
    return await _marked(server, request, is_leaving=True)


async def resume(server: ServerView, request: Request) -> WorkerView:
    """Lets a worker that was drained take its share of the shards again."""
    return await _marked(server, request, is_leaving=False)


async def _marked(server: ServerView, request: Request, *, is_leaving: bool) -> WorkerView:
    statistics = _statistics_of(server, request)
    if is_leaving and statistics.workers < 2:
        raise RefusedRequest(409, "there is no other worker that could take the shards")
    await server.mark_worker(is_leaving=is_leaving)
    return _view(server, statistics)


def _statistics_of(server: ServerView, request: Request) -> ClusterStatistics:
    """Of the worker that a request names, which is this one."""
    statistics, number = server.cluster_statistics, request.parameters["number"]
    if statistics is None:
        raise RefusedRequest(409, "this server has no workers")
    for other in statistics.others:
        if number == str(other.node_id):
            raise elsewhere(other, "is another worker")
    if number != str(server.config.node_id):
        raise RefusedRequest(404, f"there is no worker {number} here", [str(server.config.node_id)])
    return statistics


def _view(server: ServerView, statistics: ClusterStatistics) -> WorkerView:
    take_overs = sum(statistics.take_overs_s.counts)
    return WorkerView(
        number=server.config.node_id,
        pid=None,
        ready=True,
        leaving=statistics.is_leaving,
        shards=sorted(log for log, is_mine in statistics.owned.items() if is_mine),
        take_overs=take_overs,
        take_over_ms=round(statistics.take_overs_s.total / take_overs * 1000) if take_overs else None,
        records_replayed=statistics.records_replayed,
        shards_replaying=sum(shard.awaits_log for shard in server.shards),
        pieces_to_replay=statistics.pieces_to_replay,
    )


ENDPOINTS = (
    Endpoint(
        "GET", "/v1/workers", "list the workers of a server that is several, and their shards", list_workers,
        name="listWorkers", returns=WorkerList,
    ),
    Endpoint(
        "POST", "/v1/workers/{number}/drain", "let the other workers take the shards of one", drain,
        name="drainWorker", returns=WorkerView, refusals=(404, 409, 421, 503), control=True,
    ),
    Endpoint(
        "POST", "/v1/workers/{number}/resume", "let a worker that was drained take shards again", resume,
        name="resumeWorker", returns=WorkerView, refusals=(404, 409, 421, 503), control=True,
    ),
    Endpoint(
        "POST", "/v1/workers/{number}/move", "move a shard to a worker", move,
        name="moveShard", body=MoveRequest, returns=WorkerView, refusals=(404, 409, 421, 503), control=True,
    ),
)  # fmt: skip
