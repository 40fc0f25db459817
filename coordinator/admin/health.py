"""Two health checks: is the event loop running, and should clients use this server?

`/health/live` responds whenever the event loop runs. A supervisor that restarted the server for other reasons would restart it
when the disk is full, which does not help. `/health/ready` responds with status 200 if every shard that this server has is
loaded and accepts writes, topics and settings can be changed, the disk has space for records, the cluster behind answers (if
there is one), and the server is not stopping. Otherwise it responds with status 503 and the reasons. Two problems are reported
without making the server unready, because it can still do everything else: partitions with a damaged log
(`partitions_failed`), and event logs that accept no events (`events_lost`).
"""

from typing import Any

from msgspec import Struct

from coordinator.admin.endpoint import Endpoint, Request, Response
from coordinator.admin.json_body import json_bytes
from coordinator.admin.server_view import ServerView
from coordinator.runtime import event_log
from coordinator.runtime.router import Router
from coordinator.runtime.shard import Status

NAMED_MAX = 20
"""At most this many partitions are named; the rest are counted."""


class Live(Struct, tag_field="status", tag="live"):
    """The event loop runs."""


class Ready(Struct, tag_field="status", tag="ready", omit_defaults=True):
    """Clients should use this server."""

    shards: int
    partitions_failed: list[str] = []
    events_lost: list[str] = []


class NotReady(Struct, tag_field="status", tag="not ready"):
    """Clients should not use this server."""

    reasons: list[str]


def live(_server: ServerView, _request: Request) -> Live:
    """The event loop runs."""
    return Live()


def ready(server: ServerView, _request: Request) -> Ready | Response:
    """Whether clients should use this server."""
    problems = not_ready(server)
    if problems:
        return Response(body=json_bytes(NotReady(problems)), status=503)
    return Ready(
        len(server.groups.shards), partitions_failed=partitions_in(server, "failed"), events_lost=events_lost(server)
    )


def not_ready(server: ServerView) -> list[str]:
    """The reasons why clients should not use this server; empty if it is ready."""
    problems = ["the server is stopping"] if server.stopping else []
    if reason := server.cluster_problem:
        problems.append(reason)
    routers: list[tuple[str, Router[Any]]] = [
        ("shard", server.groups),
        ("shard of transactions", server.transactions),
        ("shard of share partitions", server.share_states.router),
    ]
    for what, router in routers:
        problems += [
            f"{what} {shard.index} is {shard.status}: {shard.reason}"
            for shard in router.shards
            if shard.status not in (Status.ACTIVE, Status.ELSEWHERE)
        ]
    if server.cluster_statistics is not None and server.cluster_statistics.may_be_replaced:
        problems.append("the engine has not taken a beat in time, so other workers may have the shards")
    if reason := server.topics.metadata.problem:
        problems.append(reason)
    problems += partitions_in(server, "full")
    return problems


def partitions_in(server: ServerView, wanted_state: str) -> list[str]:
    """The partitions of topics in this state, with the reasons."""
    return _shortened(
        [
            f"{name} is {state}: {reason}"
            for name, state, reason in server.topics.partition_states()
            if state == wanted_state
        ]
    )


def events_lost(server: ServerView) -> list[str]:
    """The event logs that accept no events, with the reasons."""
    logs = [shard.events for shard in server.groups.shards if shard.events is not None]
    return _shortened([f"shard {log.index}: {log.reason}" for log in logs if log.status is not event_log.Status.ACTIVE])


def _shortened(found: list[str]) -> list[str]:
    more = len(found) - NAMED_MAX
    return [*found[:NAMED_MAX], f"and {more} more"] if more > 0 else found


ENDPOINTS = (
    Endpoint(
        "GET", "/health/live", "check that the event loop runs; status 200 while it does", live, name="getLiveness",
        returns=Live, is_open=True,
    ),
    Endpoint(
        "GET", "/health/ready", "check whether clients should use this server; status 200, or 503 and the reasons",
        ready, name="getReadiness", returns=Ready, is_open=True, others={503: NotReady},
    ),
)  # fmt: skip
