"""`GET /v1/overview`: which server this is, how it is, and its totals, for one look. Rates: differences of two answers."""

from collections import Counter
from importlib.metadata import version
from typing import Any, Literal

from msgspec import Struct

from coordinator.admin.endpoint import Endpoint, Request
from coordinator.admin.health import events_lost, not_ready, partitions_in
from coordinator.admin.server_view import ServerView


class Overview(Struct):
    """A server, or several workers together. Counters begin with the process; null: not known here."""

    server: str
    version: str
    addresses: list[str]
    """HOST:PORT of each listener, as clients get it."""
    time_ms: int
    """The wall clock of the server."""
    uptime_ms: int | None
    """Of several workers: of the one that has run longest."""
    status: Literal["ready", "not ready"]
    """As `/health/ready` says."""
    reasons: list[str]
    """Why it is not ready."""
    warnings: list[str]
    """What is wrong although it is ready."""
    requests: int | None
    """Requests that were answered."""
    offsets_committed: int | None
    groups: dict[str, int]
    """How many groups there are in each state."""
    members: int
    connections: int | None
    topics: int | None
    """Without Kafka's internal ones."""
    partitions: int | None
    control: bool
    """Whether control is on (`admin.control.enable`)."""
    events: bool
    """Whether there are event logs (`coordinator.events`)."""
    workers: int
    """How many share the work; 0: it is one server."""
    brokers: int
    """How many brokers the server is; 0: one."""
    unknown: list[str]
    """Of a watcher: what the log of a Kafka does not say."""


def overview(server: ServerView, _request: Request) -> Overview:
    """The server in one look."""
    reasons = not_ready(server)
    states: list[Any] = [shard.state for shard in server.groups.shards]
    groups = [group for state in states for group in state.by_id.values()]
    topics = [topic for topic in server.topics.registry.topics.values() if not topic.is_internal]
    is_watcher = bool(server.unknown)
    listeners = server.all_listeners
    return Overview(
        server="kafka-group-coordinator",
        version=version("kafka-group-coordinator"),
        addresses=server.addresses,
        time_ms=server.clock.wall_ms(),
        uptime_ms=server.statistics.uptime_ms,
        status="not ready" if reasons else "ready",
        reasons=reasons,
        warnings=partitions_in(server, "failed") + events_lost(server),
        requests=None
        if is_watcher
        else sum(route.answered for listener in listeners for route in listener.dispatcher.routes),
        offsets_committed=None if is_watcher else sum(state.counters.offsets for state in states),
        groups=Counter(group.state.value for group in groups),
        members=sum(len(group.members) for group in groups),
        connections=None if is_watcher else sum(len(listener.connections) for listener in listeners),
        topics=len(topics),
        partitions=sum(topic.partitions for topic in topics),
        control=server.config.admin.admin_control_enable and not is_watcher,
        events=any(shard.events is not None for shard in server.groups.shards),
        workers=0,
        brokers=0 if server.brokers is None else len(server.brokers.by_id),
        unknown=list(server.unknown),
    )


ENDPOINTS = (
    Endpoint(
        "GET", "/v1/overview", "get the server in one look; health, totals, counters", overview, name="getOverview",
        returns=Overview,
    ),
)  # fmt: skip
