"""Two health checks: is the event loop running, and should clients use this server?

`/health/live` responds whenever the event loop runs. A supervisor that restarted the server for other reasons would restart
it when the disk is full, which does not help. `/health/ready` responds with status 200 if every shard is loaded and accepts
writes, topics and settings can be changed, the disk has space for records, and the server is not stopping. Otherwise it
responds with status 503 and the reasons. Two problems are reported without making the server unready, because it can still
do everything else: partitions with a damaged log (`partitions_failed`), and event logs that accept no events (`events_lost`).
"""

from coordinator.admin.http import Request, Response, Routes, json_response
from coordinator.admin.server_view import ServerView
from coordinator.runtime import event_log
from coordinator.runtime.shard import Status

NAMED_MAX = 20
"""At most this many partitions are named; the rest are counted."""


def health_routes(server: ServerView) -> Routes:
    """The routes of both health checks."""

    def live(_request: Request) -> Response:
        return json_response({"status": "live"})

    def ready(_request: Request) -> Response:
        problems = not_ready(server)
        if problems:
            return json_response({"status": "not ready", "reasons": problems}, 503)
        status: dict[str, object] = {"status": "ready", "shards": len(server.groups.shards)}
        if failed := _partitions(server, "failed"):
            status["partitions_failed"] = failed
        if lost := _events_lost(server):
            status["events_lost"] = lost
        return json_response(status)

    return {("GET", "/health/live"): live, ("GET", "/health/ready"): ready}


def not_ready(server: ServerView) -> list[str]:
    """The reasons why clients should not use this server; empty if it is ready."""
    problems = ["the server is stopping"] if server.stopping else []
    for what, router in (("shard", server.groups), ("shard of transactions", server.transactions)):
        problems += [
            f"{what} {shard.index} is {shard.status}: {shard.reason}"
            for shard in router.shards
            if shard.status is not Status.ACTIVE
        ]
    if reason := server.topics.metadata.problem:
        problems.append(reason)
    problems += _partitions(server, "full")
    return problems


def _partitions(server: ServerView, wanted_state: str) -> list[str]:
    """The partitions of topics in this state, with the reasons."""
    return _shortened(
        [
            f"{name} is {state}: {reason}"
            for name, state, reason in server.topics.partition_states()
            if state == wanted_state
        ]
    )


def _events_lost(server: ServerView) -> list[str]:
    """The event logs that accept no events, with the reasons."""
    logs = [shard.events for shard in server.groups.shards if shard.events is not None]
    return _shortened([f"shard {log.index}: {log.reason}" for log in logs if log.status is not event_log.Status.ACTIVE])


def _shortened(found: list[str]) -> list[str]:
    more = len(found) - NAMED_MAX
    return [*found[:NAMED_MAX], f"and {more} more"] if more > 0 else found
