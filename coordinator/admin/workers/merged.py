"""Health and metrics of all workers."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from operator import itemgetter
from typing import Any

from msgspec import convert, json
from msgspec.structs import replace

from coordinator.admin.endpoint import RefusedRequest, Response
from coordinator.admin.event_stream import no_events
from coordinator.admin.fault_events import FaultEvents
from coordinator.admin.health import NotReady, Ready
from coordinator.admin.json_body import json_bytes
from coordinator.admin.overview import Overview
from coordinator.admin.worker_list import WorkerList, WorkerView
from coordinator.admin.workers.asking import Answer, Ask, NotAnswered, NotAsked, Workers
from coordinator.admin.workers.machine import Machine
from coordinator.log.journaled_log import JournaledLog
from coordinator.protocol.java import positive_hash
from coordinator.rules.model import FaultActed

Order = Callable[[Any], Any]
"""What rows are sorted by. An `itemgetter` gets the name behind which the next page begins; another order has one page."""
Answers = Sequence[tuple[int, Answer | None]]


async def ask_all(machine: Machine, workers: Workers, path: str) -> Answers:
    """Number and answer of each worker; None: it did not answer."""

    async def ask(number: int) -> Answer | None:
        try:
            return await workers.ask(number, Ask("GET", path))
        except (NotAsked, NotAnswered):
            return None

    numbers = [worker.number for worker in machine.workers]
    return list(zip(numbers, await asyncio.gather(*map(ask, numbers)), strict=True))


def ready(not_served: Iterable[str], answers: Answers) -> Ready | Response:
    """Whether every worker is ready, and every shard is served."""
    reasons = [f"shard {log} is served by no worker" for log in not_served]
    shards, failed, lost = 0, [], []
    for number, answer in answers:
        if answer is None:
            reasons.append(f"worker {number} does not answer")
            continue
        said: Any = answer.json()
        reasons += [f"worker {number}: {reason}" for reason in said.get("reasons", ())]
        shards = max(shards, said.get("shards", 0))
        failed += said.get("partitions_failed", ())
        lost += [f"worker {number}: {reason}" for reason in said.get("events_lost", ())]
    if reasons:
        return Response(body=json_bytes(NotReady(reasons)), status=503)
    return Ready(shards, partitions_failed=failed, events_lost=lost)


def metrics(own: str, answers: Answers) -> Response:
    """The samples of the workers that answer, and those of the supervisor."""
    texts = [
        (number, answer.body.decode()) for number, answer in answers if answer is not None and answer.status == 200
    ]
    text = merged(texts) + own
    return Response(body=text.encode(), content_type="text/plain; version=0.0.4; charset=utf-8")


def merged(texts: Iterable[tuple[int, str]]) -> str:
    """Prometheus texts of several workers as one: each sample has the label `worker`, each family one HELP and one TYPE."""
    families: dict[str, list[str]] = {}
    described: dict[str, list[str]] = {}
    for number, text in texts:
        family = ""
        for line in text.splitlines():
            if line.startswith("#"):
                _, kind, name, *_ = line.split(" ", 3)
                family = name
                known = described.setdefault(family, [])
                families.setdefault(family, [])
                if not any(each.startswith(f"# {kind} ") for each in known):
                    known.append(line)
            elif line:
                families.setdefault(family, []).append(_labelled(line, number))
    return "".join(f"{line}\n" for name, samples in families.items() for line in (*described.get(name, ()), *samples))


def _labelled(sample: str, number: int) -> str:
    name, brace, rest = sample.partition("{")
    if brace:
        return f'{name}{{worker="{number}",{rest}'
    name, _, value = sample.partition(" ")
    return f'{name}{{worker="{number}"}} {value}'


def overview(
    addresses: Sequence[str], workers: int, now_ms: int, health: Ready | Response, answers: Answers
) -> Overview:
    """The workers that answer, together."""
    said = [
        json.decode(answer.body, type=Overview) for _, answer in answers if answer is not None and answer.status == 200
    ]
    is_ready = isinstance(health, Ready)
    groups: Counter[str] = Counter()
    for each in said:
        groups.update(each.groups)

    def total(name: str) -> int | None:
        return sum(getattr(each, name) for each in said) if len(said) == workers else None

    return Overview(
        server="kafka-group-coordinator",
        version=version("kafka-group-coordinator"),
        addresses=list(addresses),
        time_ms=now_ms,
        uptime_ms=max((each.uptime_ms or 0 for each in said), default=None),
        status="ready" if is_ready else "not ready",
        reasons=[] if isinstance(health, Ready) else json.decode(health.body, type=NotReady).reasons,
        warnings=[*health.partitions_failed, *health.events_lost] if isinstance(health, Ready) else [],
        requests=total("requests"),
        offsets_committed=total("offsets_committed"),
        groups=groups,
        members=sum(each.members for each in said),
        connections=total("connections"),
        topics=max((each.topics or 0 for each in said), default=None),
        partitions=max((each.partitions or 0 for each in said), default=None),
        control=any(each.control for each in said),
        events=any(each.events for each in said),
        workers=workers,
        brokers=0,
        unknown=[],
    )


def workers(machine: Machine, answers: Answers) -> list[WorkerView]:
    """Every worker, whether it answers or not. Who has a shard, the engine knows."""
    views = []
    for worker, (_, answer) in zip(machine.workers, answers, strict=True):
        said = [] if answer is None or answer.status != 200 else json.decode(answer.body, type=WorkerList).workers
        node_id = machine.config.node_id + worker.number
        own = [each for each in said if each.number == node_id]
        view = own[0] if own else WorkerView(worker.number, worker.pid, False, False, [], None, None, None, None, None)
        views.append(replace(view, number=worker.number, pid=worker.pid))
    return views


AGAIN_S = 0.1
ATTEMPT_S = 2.0
"""How long a worker may take: one that hangs loses its shards, and is not asked again."""


async def whole_list(
    workers: Workers, ask: Ask, logs: Iterable[str], key: str, order: Order, limit: int, until_s: float
) -> dict[str, Any]:
    """The page of all workers. `logs`: of its shards; `key`: of the rows, and `order` what they are sorted by.

    Raises RefusedRequest: 503 not every shard is served in time; or as a worker refuses.
    """
    loop = asyncio.get_running_loop()
    logs = list(logs)
    while True:
        owners = {workers.owner_of(log) for log in logs}
        reason = "not every shard has a worker at the moment: try again"
        if None not in owners:
            try:
                parts = await asyncio.gather(*(_part(workers, number, ask) for number in owners if number is not None))
            except (NotAsked, NotAnswered) as error:
                reason = str(error)
            else:
                if sum(part["of_worker"]["shards"] for part in parts) == len(logs):
                    return _merged(parts, key, order, limit)
        if loop.time() >= until_s:
            raise RefusedRequest(503, reason)
        await asyncio.sleep(AGAIN_S)


async def _part(workers: Workers, number: int, ask: Ask) -> Any:
    answer: Answer = await workers.ask(number, ask, ATTEMPT_S)
    if answer.status != 200:
        raise answer.refusal()
    return answer.json()


def _merged(parts: Iterable[Any], key: str, order: Order, limit: int) -> dict[str, Any]:
    parts = list(parts)
    rows = sorted((row for part in parts for row in part[key]), key=order)
    page: dict[str, Any] = {key: rows[:limit]}
    is_named = isinstance(order, itemgetter)
    if is_named and (len(rows) > limit or any("next" in part for part in parts)):
        page["next"] = order(rows[:limit][-1])
    if all("total" in part for part in parts):
        page["total"] = sum(part["total"] for part in parts)
    return page


class EventsOfAll:
    """The event logs of the machine."""

    def __init__(self, machine: Machine) -> None:
        self._logs = machine.event_logs
        self.readers = machine.event_readers
        self.wall_ms = machine.wall_ms
        self.run_in_thread = machine.run_in_thread
        self.faults = FaultEvents()
        machine.on_fault_acted = lambda acted: self.faults.add(convert(acted, FaultActed))

    def logs(self, group: str | None) -> Sequence[tuple[int, JournaledLog]]:
        found = list(enumerate(self._logs))
        if not found:
            raise no_events()
        return found if group is None else [found[positive_hash(group) % len(found)]]
