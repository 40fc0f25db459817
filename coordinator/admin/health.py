"""Two questions that must not be confused: does the process turn its loop, and can it do its work?

`/health/live` answers whenever the loop turns; a supervisor that restarts on anything else would restart a server whose
disk is full, and restarting makes no space. `/health/ready` says whether clients should be sent here: every shard is
loaded and its disk takes writes, and no stop is under way. What is wrong is said in words, per shard.
"""

from coordinator.admin.http import Request, Response, Routes, json_response
from coordinator.admin.served import Served
from coordinator.runtime.shard import Status


def health_routes(server: Served) -> Routes:
    """The two routes."""

    def live(_request: Request) -> Response:
        return json_response({"status": "live"})

    def ready(_request: Request) -> Response:
        problems = not_ready(server)
        if problems:
            return json_response({"status": "not ready", "reasons": problems}, 503)
        return json_response({"status": "ready", "shards": len(server.groups.shards)})

    return {("GET", "/health/live"): live, ("GET", "/health/ready"): ready}


def not_ready(server: Served) -> list[str]:
    """Why clients should not be sent here; empty if they should."""
    problems = ["the server is stopping"] if server.stopping else []
    problems += [
        f"shard {shard.index} is {shard.status}: {shard.reason}"
        for shard in server.groups.shards
        if shard.status is not Status.ACTIVE
    ]
    return problems
