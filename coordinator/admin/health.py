"""Two questions that must not be confused: does the process turn its loop, and can it do its work?

`/health/live` answers whenever the loop turns; a supervisor that restarts on anything else would restart a server whose
disk is full, and restarting makes no space. `/health/ready` says whether clients should be sent here: every shard is
loaded and takes writes, topics and settings can be changed, the disk has space for records, and no stop is under way. What
is wrong is said in words. A partition of a topic that has failed (a damaged log) is said too, under `partitions_failed`, and
so is an event log that takes nothing, under `events_lost`; but they keep nobody away: all else is served.
"""

from coordinator.admin.http import Request, Response, Routes, json_response
from coordinator.admin.server_view import Served
from coordinator.runtime import event_log
from coordinator.runtime.shard import Status

TOLD_MAX = 20
"""So many partitions are named; of more there is a number."""


def health_routes(server: Served) -> Routes:
    """The two routes."""

    def live(_request: Request) -> Response:
        return json_response({"status": "live"})

    def ready(_request: Request) -> Response:
        problems = not_ready(server)
        if problems:
            return json_response({"status": "not ready", "reasons": problems}, 503)
        said: dict[str, object] = {"status": "ready", "shards": len(server.groups.shards)}
        if failed := _partitions(server, "failed"):
            said["partitions_failed"] = failed
        if lost := _events_lost(server):
            said["events_lost"] = lost
        return json_response(said)

    return {("GET", "/health/live"): live, ("GET", "/health/ready"): ready}


def not_ready(server: Served) -> list[str]:
    """Why clients should not be sent here; empty if they should."""
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


def _partitions(server: Served, wanted: str) -> list[str]:
    """The user partitions in this state, each with the reason."""
    return _some(
        [f"{name} is {state}: {reason}" for name, state, reason in server.topics.partition_states() if state == wanted]
    )


def _events_lost(server: Served) -> list[str]:
    """The event logs that take nothing, each with the reason."""
    logs = [shard.events for shard in server.groups.shards if shard.events is not None]
    return _some([f"shard {log.index}: {log.reason}" for log in logs if log.status is not event_log.Status.ACTIVE])


def _some(found: list[str]) -> list[str]:
    more = len(found) - TOLD_MAX
    return [*found[:TOLD_MAX], f"and {more} more"] if more > 0 else found
