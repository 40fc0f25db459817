"""Health and metrics of all workers."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from coordinator.admin.endpoint import Response
from coordinator.admin.health import NotReady, Ready
from coordinator.admin.json_body import json_bytes
from coordinator.front.site import Site
from coordinator.front.workers import Answer, Ask, NotAnswered, NotAsked, Workers

Answers = Sequence[tuple[int, Answer | None]]


async def ask_all(site: Site, workers: Workers, path: str) -> Answers:
    """Number and answer of each worker; None: it did not answer."""

    async def ask(number: int) -> Answer | None:
        try:
            return await workers.ask(number, Ask("GET", path))
        except (NotAsked, NotAnswered):
            return None

    numbers = [worker.number for worker in site.workers]
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
