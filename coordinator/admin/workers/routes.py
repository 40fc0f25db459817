"""The handler of every endpoint of admin HTTP, where several workers are behind it."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import Any
from urllib.parse import quote

from msgspec import json, structs

from coordinator.admin import (
    acting,
    api,
    application,
    brokers,
    browser_page,
    clock,
    emulation,
    event_stream,
    faults,
    health,
    index,
    metrics,
    openapi,
    overview,
    recordings,
    records,
    topics,
    why,
    worker_list,
)
from coordinator.admin.connection import AdminConnection
from coordinator.admin.connections import Connections
from coordinator.admin.endpoint import Answer, Endpoint, Handler, RefusedRequest, Request, Response, wait_ms
from coordinator.admin.overview import Overview
from coordinator.admin.routes import all_endpoints
from coordinator.admin.worker_list import WorkerList, WorkerView
from coordinator.admin.workers import merged
from coordinator.admin.workers.asking import Answer as WorkerAnswer
from coordinator.admin.workers.asking import Ask, NotAnswered, NotAsked, Workers, ask_of, ask_owner
from coordinator.admin.workers.clock import ClockOfAll
from coordinator.admin.workers.emulation import EmulationOfAll
from coordinator.admin.workers.faults import FaultsOnAll
from coordinator.admin.workers.machine import Machine
from coordinator.admin.workers.merged import EventsOfAll, whole_list
from coordinator.admin.workers.recordings import RecordingsOnAll
from coordinator.config.settings import AdminConfig
from coordinator.protocol.java import positive_hash
from coordinator.topics.names import CONSUMER_OFFSETS, TRANSACTION_STATE
from coordinator.world.threads import Done

_log = logging.getLogger(__name__)


class AllWorkers:
    """All that handlers need; in place of a server."""

    brokers = None

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.workers = Workers(machine)
        self.faults = FaultsOnAll(self.workers)
        self.recordings = RecordingsOnAll(machine, self.workers)
        self.clock = ClockOfAll(self.workers)
        self.emulation = EmulationOfAll(self.workers, machine.config.emulate)
        self.events = EventsOfAll(machine)
        self._tasks: set[asyncio.Task[None]] = set()
        machine.on_worker_ready = self._on_worker_ready

    @property
    def addresses(self) -> list[str]:
        return list(self.machine.addresses)

    def run_in_thread(self, function: Callable[[], Any], done: Done) -> None:
        self.machine.run_in_thread(function, done)

    def until_s(self, timeout_ms: int = 0) -> float:
        """Until when a request may be tried again."""
        return asyncio.get_running_loop().time() + timeout_ms / 1000 + self.workers.answers_within_s

    def logs(self, topic: str) -> list[str]:
        """The logs of the shards."""
        log = self.machine.config.log
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
            await self.emulation.worker_ready(number)
        except (RefusedRequest, NotAsked, NotAnswered) as error:
            _log.warning("event=control_not_set_again worker=%d reason=%s", number, error)


def protocol_factory(
    machine: Machine, config: AdminConfig, connections: Connections, token: str
) -> Callable[[], AdminConnection]:
    """As that of a server (admin/application.py), with other handlers."""
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it has a line for every request
    return application.protocol_factory(AllWorkers(machine), config, connections, token, endpoints())


def endpoints() -> list[Endpoint]:
    """All endpoints. Raises LookupError if one has no handler."""
    return [
        endpoint if endpoint.handle in _SAME else replace(endpoint, handle=_handler(endpoint))
        for endpoint in all_endpoints()
    ]


def _handler(endpoint: Endpoint) -> Handler:
    if endpoint.handle in _OF_TOPICS:
        return partial(_topics, endpoint)
    if endpoint.handle in _WITH_SHARE_PARTITIONS:
        return partial(_with_share_partitions, endpoint)
    if "{group_id}" in endpoint.path:
        return partial(_forward, endpoint, CONSUMER_OFFSETS, "group_id")
    if "{transactional_id}" in endpoint.path:
        return partial(_forward, endpoint, TRANSACTION_STATE, "transactional_id")
    if endpoint.handle in _LISTS:
        return partial(_list, endpoint, *_LISTS[endpoint.handle])
    return _IN_PLACE_OF[endpoint.handle]


async def _forward(
    endpoint: Endpoint, topic: str, parameter: str, all_workers: AllWorkers, request: Request
) -> Response:
    """To the worker that has the group or transactional id."""
    timeout_ms = wait_ms(request.query)
    until_s = all_workers.until_s(timeout_ms)

    def ask() -> Ask:
        if not timeout_ms:
            return ask_of(endpoint, request)
        left_s = until_s - all_workers.until_s()
        return ask_of(endpoint, request, timeout_ms=max(0, round(left_s * 1000)))

    return (await _ask_owner(all_workers, topic, request.parameters[parameter], ask, until_s)).response()


async def _ask_owner(
    all_workers: AllWorkers, topic: str, key: str, make_ask: Callable[[], Ask], until_s: float
) -> WorkerAnswer:
    logs = all_workers.logs(topic)
    log = logs[positive_hash(key) % len(logs)]
    return await ask_owner(all_workers.workers, log, lambda: all_workers.machine.owner_of(log), make_ask, until_s)


async def _with_share_partitions(endpoint: Endpoint, all_workers: AllWorkers, request: Request) -> Answer:
    """From the worker that has the group. What is in flight, and who holds it, is known to the one that has the records."""
    response = await _forward(endpoint, CONSUMER_OFFSETS, "group_id", all_workers, request)
    view = json.decode(response.body) if response.status == 200 else {}
    partitions = view.get("share_partitions", ())
    if all(each["in_flight"] is not None for each in partitions):
        return response
    group_id = request.parameters["group_id"]
    path = f"/v1/groups/{quote(group_id, safe='')}"
    led = (await _ask_topics(all_workers, Ask("GET", f"{path}/in-flight"))).json()
    if "members" not in view:
        whole = await _ask_owner(
            all_workers, CONSUMER_OFFSETS, group_id, lambda: Ask("GET", path), all_workers.until_s()
        )
        members = whole.json().get("members", ())
    else:
        members = view["members"]
    clients = {each["member_id"]: each["client_id"] for each in members}
    known = {(each["topic"], each["partition"]): each for each in led["share_partitions"]}
    for each in known.values():
        each["held"] = [held | {"client_id": clients.get(held["member_id"])} for held in each["held"]]
    return view | {"share_partitions": [known.get((each["topic"], each["partition"]), each) for each in partitions]}


async def _topics(endpoint: Endpoint, all_workers: AllWorkers, request: Request) -> Response:
    """To the worker that has the records of topics; if none has them, to any."""
    return (await _ask_topics(all_workers, ask_of(endpoint, request))).response()


async def _ask_topics(all_workers: AllWorkers, ask: Ask) -> WorkerAnswer:
    workers = all_workers.workers
    has_data = all_workers.machine.config.shared.data_plane == "local"

    def owner() -> int | None:
        return 0 if has_data else next(iter(workers.ready), None)

    return await ask_owner(workers, "topics", owner, lambda: ask, all_workers.until_s())


async def _list(
    endpoint: Endpoint, topic: str, key: str, name: str, all_workers: AllWorkers, request: Request
) -> dict[str, Any]:
    """Of all workers that have shards."""
    ask, limit = ask_of(endpoint, request), request.query.limit
    order = api.trouble if getattr(request.query, "sort", "name") == "trouble" else itemgetter(name)
    return await whole_list(all_workers.workers, ask, all_workers.logs(topic), key, order, limit, all_workers.until_s())


async def _ready(all_workers: AllWorkers, _request: Request) -> Answer:
    answers = await merged.ask_all(all_workers.machine, all_workers.workers, "/health/ready")
    return merged.ready(all_workers.machine.not_served(), answers)


async def _metrics(all_workers: AllWorkers, _request: Request) -> Answer:
    answers = await merged.ask_all(all_workers.machine, all_workers.workers, "/metrics")
    return merged.metrics(all_workers.machine.metrics(), answers)


async def _overview(all_workers: AllWorkers, request: Request) -> Overview:
    """The sums of what the workers say. Topics are those of one of them."""
    machine = all_workers.machine
    answers = await merged.ask_all(machine, all_workers.workers, request.path)
    health = merged.ready(machine.not_served(), await merged.ask_all(machine, all_workers.workers, "/health/ready"))
    return merged.overview(all_workers.addresses, len(machine.workers), machine.wall_ms(), health, answers)


async def _worker_list(all_workers: AllWorkers, request: Request) -> WorkerList:
    machine = all_workers.machine
    answers = await merged.ask_all(machine, all_workers.workers, request.path)
    return WorkerList(merged.workers(machine, answers), list(machine.not_served()))


async def _to_worker(all_workers: AllWorkers, request: Request) -> WorkerView:
    """An act on one worker. It knows itself by its node id."""
    machine, text = all_workers.machine, request.parameters["number"]
    if text not in {str(worker.number) for worker in machine.workers}:
        raise RefusedRequest(404, f"there is no worker {text}", [str(worker.number) for worker in machine.workers])
    worker, (head, _, act) = machine.workers[int(text)], request.path.rpartition("/")
    node_id = machine.config.node_id + worker.number
    path = f"{head.rpartition('/')[0]}/{node_id}/{act}"
    answer = await all_workers.workers.ask(worker.number, Ask("POST", path, json.encode(request.body or {})))
    if answer.status != 200:
        raise answer.refusal()
    return structs.replace(json.decode(answer.body, type=WorkerView), number=worker.number, pid=worker.pid)


_SAME = frozenset({
    index.index, openapi.openapi, browser_page.page_file, health.live,
    brokers.list_brokers, brokers.take_down, brokers.bring_up, brokers.lead,
})  # fmt: skip
"""Handlers whose answers are the same at every server."""
_LISTS: Mapping[Handler, tuple[str, str, str]] = {
    api.list_groups: (CONSUMER_OFFSETS, "groups", "group_id"),
    api.list_transactions: (TRANSACTION_STATE, "transactions", "transactional_id"),
}
_OF_TOPICS = frozenset(
    {topics.list_topics, topics.describe_topic, records.read_records, acting.expire_locks, why.in_flight}
)
"""Also locks: the worker that has the records gives them out to members of share groups."""
_WITH_SHARE_PARTITIONS = frozenset({api.describe_group, why.why})
_IN_PLACE_OF: Mapping[Handler, Handler] = {
    overview.overview: _overview,
    worker_list.list_workers: _worker_list,
    worker_list.drain: _to_worker,
    worker_list.resume: _to_worker,
    worker_list.move: _to_worker,
    health.ready: _ready,
    metrics.metrics: _metrics,
    event_stream.events: lambda all_workers, request: event_stream.stream_of(all_workers.events, request),
    event_stream.event_page: lambda all_workers, request: event_stream.page_of(all_workers.events, request),
    clock.read_clock: lambda all_workers, _request: all_workers.clock.read(),
    clock.change_clock: lambda all_workers, request: all_workers.clock.change(request),
    emulation.show_emulation: lambda all_workers, _request: all_workers.emulation.show(),
    emulation.emulate: lambda all_workers, request: all_workers.emulation.emulate(request),
    faults.set_fault: lambda all_workers, request: all_workers.faults.set(request),
    faults.list_faults: lambda all_workers, request: all_workers.faults.listed(request),
    faults.clear_faults: lambda all_workers, request: all_workers.faults.clear(request),
    faults.view_fault: lambda all_workers, request: all_workers.faults.view(request),
    faults.clear_fault: lambda all_workers, request: all_workers.faults.clear_one(request),
    faults.release_fault: lambda all_workers, request: all_workers.faults.release(request),
    recordings.begin_recording: lambda all_workers, request: all_workers.recordings.begin(request),
    recordings.list_recordings: lambda all_workers, request: all_workers.recordings.listed(request),
    recordings.delete_recordings: lambda all_workers, request: all_workers.recordings.delete(request),
    recordings.read_recording: lambda all_workers, request: all_workers.recordings.page(request),
    recordings.delete_recording: lambda all_workers, request: all_workers.recordings.delete_one(request),
}
"""What several workers do where one server does the first."""
