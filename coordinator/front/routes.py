"""The handler of every endpoint of admin HTTP, where several workers are behind it."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from coordinator.admin import application
from coordinator.admin.connection import AdminConnection
from coordinator.admin.connections import Connections
from coordinator.admin.endpoint import Answer, Endpoint, RefusedRequest, Request, Response, wait_ms
from coordinator.admin.event_stream import answer as answer_events
from coordinator.admin.routes import all_endpoints
from coordinator.config.settings import AdminConfig
from coordinator.front import health
from coordinator.front.clock import ClockOfAll
from coordinator.front.events import EventsOfAll
from coordinator.front.faults import FaultsOnAll
from coordinator.front.lists import whole_list
from coordinator.front.owner import ask_owner
from coordinator.front.recordings import RecordingsOnAll
from coordinator.front.site import Site
from coordinator.front.workers import Ask, NotAnswered, NotAsked, Workers, ask_of
from coordinator.protocol.java import positive_hash
from coordinator.topics.names import CONSUMER_OFFSETS, TRANSACTION_STATE
from coordinator.world.worker import Done

_log = logging.getLogger(__name__)


class Front:
    """All that handlers need; in place of a server."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.workers = Workers(site)
        self.faults = FaultsOnAll(self.workers)
        self.recordings = RecordingsOnAll(site, self.workers)
        self.clock = ClockOfAll(self.workers)
        self.events = EventsOfAll(site)
        self._tasks: set[asyncio.Task[None]] = set()
        site.on_worker_ready = self._on_worker_ready

    def run_in_worker(self, function: Callable[[], Any], done: Done) -> None:
        self.site.run_in_worker(function, done)

    def until_s(self, timeout_ms: int = 0) -> float:
        """Until when a request may be tried again."""
        return asyncio.get_running_loop().time() + timeout_ms / 1000 + self.workers.answers_within_s

    def logs(self, topic: str) -> list[str]:
        """The logs of the shards."""
        log = self.site.config.log
        counts = {
            CONSUMER_OFFSETS: log.offsets_topic_num_partitions,
            TRANSACTION_STATE: log.transaction_state_log_num_partitions,
        }
        return [f"{topic}-{index}" for index in range(counts[topic])]

    def _on_worker_ready(self, number: int) -> None:
        task = asyncio.get_running_loop().create_task(self._set_again(number))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _set_again(self, number: int) -> None:
        try:
            await self.faults.rules.worker_ready(number)
            await self.recordings.all.worker_ready(number)
            await self.clock.worker_ready(number)
        except (RefusedRequest, NotAsked, NotAnswered) as error:
            _log.warning("event=control_not_set_again worker=%d reason=%s", number, error)


def protocol_factory(
    site: Site, config: AdminConfig, connections: Connections, token: str
) -> Callable[[], AdminConnection]:
    """As that of a server (admin/application.py), with other handlers."""
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it has a line for every request
    return application.protocol_factory(Front(site), config, connections, token, endpoints())


def endpoints() -> list[Endpoint]:
    """All endpoints. Raises LookupError if one has no handler."""
    return [
        endpoint if endpoint.path in _OWN else replace(endpoint, handle=_handler(endpoint))
        for endpoint in all_endpoints()
    ]


def _handler(endpoint: Endpoint) -> Any:
    if "{group_id}" in endpoint.path:
        return partial(_forward, endpoint, CONSUMER_OFFSETS, "group_id")
    if "{transactional_id}" in endpoint.path:
        return partial(_forward, endpoint, TRANSACTION_STATE, "transactional_id")
    if endpoint.path in _LISTS:
        return partial(_list, endpoint, *_LISTS[endpoint.path])
    if endpoint.path == "/v1/topics":
        return partial(_topics, endpoint)
    return _HANDLERS[endpoint.method, endpoint.path]


async def _forward(endpoint: Endpoint, topic: str, parameter: str, front: Front, request: Request) -> Response:
    """To the worker that has the group or transactional id."""
    logs, workers = front.logs(topic), front.workers
    log = logs[positive_hash(request.parameters[parameter]) % len(logs)]
    timeout_ms = wait_ms(request.query)
    until_s = front.until_s(timeout_ms)

    def ask() -> Ask:
        if not timeout_ms:
            return ask_of(endpoint, request)
        left_s = until_s - front.until_s()
        return ask_of(endpoint, request, timeout_ms=max(0, round(left_s * 1000)))

    return (await ask_owner(workers, log, lambda: workers.owner_of(log), ask, until_s)).response()


async def _topics(endpoint: Endpoint, front: Front, request: Request) -> Response:
    """To the worker that has the records of topics; if none has them, to any."""
    ask, workers = ask_of(endpoint, request), front.workers
    has_data = front.site.config.shared.data_plane == "local"

    def owner() -> int | None:
        return 0 if has_data else next(iter(workers.ready), None)

    return (await ask_owner(workers, "topics", owner, lambda: ask, front.until_s())).response()


async def _list(endpoint: Endpoint, topic: str, key: str, name: str, front: Front, request: Request) -> dict[str, Any]:
    """Of all workers that have shards."""
    ask, limit = ask_of(endpoint, request), request.query.limit
    return await whole_list(front.workers, ask, front.logs(topic), key, name, limit, front.until_s())


async def _ready(front: Front, _request: Request) -> Answer:
    answers = await health.ask_all(front.site, front.workers, "/health/ready")
    return health.ready(front.site.not_served(), answers)


async def _metrics(front: Front, _request: Request) -> Answer:
    return health.metrics(front.site.metrics(), await health.ask_all(front.site, front.workers, "/metrics"))


async def _events(front: Front, request: Request) -> Answer:
    return await answer_events(front.events, request)


_OWN = frozenset({"/", "/v1/openapi.json", "/page/{name}", "/health/live"})
"""Paths whose answers are the same at every server."""
_LISTS = {
    "/v1/groups": (CONSUMER_OFFSETS, "groups", "group_id"),
    "/v1/transactions": (TRANSACTION_STATE, "transactions", "transactional_id"),
}
_HANDLERS: Mapping[tuple[str, str], Any] = {
    ("GET", "/health/ready"): _ready,
    ("GET", "/metrics"): _metrics,
    ("GET", "/v1/events"): _events,
    ("GET", "/v1/clock"): lambda front, _request: front.clock.read(),
    ("POST", "/v1/clock"): lambda front, request: front.clock.change(request),
    ("POST", "/v1/faults"): lambda front, request: front.faults.set(request),
    ("GET", "/v1/faults"): lambda front, request: front.faults.listed(request),
    ("DELETE", "/v1/faults"): lambda front, request: front.faults.clear(request),
    ("GET", "/v1/faults/{fault_id}"): lambda front, request: front.faults.view(request),
    ("DELETE", "/v1/faults/{fault_id}"): lambda front, request: front.faults.clear_one(request),
    ("POST", "/v1/faults/{fault_id}/release"): lambda front, request: front.faults.release(request),
    ("POST", "/v1/recordings"): lambda front, request: front.recordings.begin(request),
    ("GET", "/v1/recordings"): lambda front, request: front.recordings.listed(request),
    ("DELETE", "/v1/recordings"): lambda front, request: front.recordings.delete(request),
    ("GET", "/v1/recordings/{recording_id}"): lambda front, request: front.recordings.page(request),
    ("DELETE", "/v1/recordings/{recording_id}"): lambda front, request: front.recordings.delete_one(request),
}
