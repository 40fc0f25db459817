"""The lists of groups and transactional ids of all workers as one. A list is whole or refused, never silently a part."""

import asyncio
from collections.abc import Iterable
from typing import Any

from coordinator.admin.endpoint import RefusedRequest
from coordinator.front.workers import Answer, Ask, NotAnswered, NotAsked, Workers

AGAIN_S = 0.1
ATTEMPT_S = 2.0
"""How long a worker may take: one that hangs loses its shards, and is not asked again."""


async def whole_list(
    workers: Workers, ask: Ask, logs: Iterable[str], key: str, name: str, limit: int, until_s: float
) -> dict[str, Any]:
    """The page of all workers. `logs`: of its shards; `key`: of the rows, and `name` that of a row.

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
                    return _merged(parts, key, name, limit)
        if loop.time() >= until_s:
            raise RefusedRequest(503, reason)
        await asyncio.sleep(AGAIN_S)


async def _part(workers: Workers, number: int, ask: Ask) -> Any:
    answer: Answer = await workers.ask(number, ask, ATTEMPT_S)
    if answer.status != 200:
        raise answer.refusal()
    return answer.json()


def _merged(parts: Iterable[Any], key: str, name: str, limit: int) -> dict[str, Any]:
    parts = list(parts)
    rows = sorted((row for part in parts for row in part[key]), key=lambda row: str(row[name]))
    page: dict[str, Any] = {key: rows[:limit]}
    if len(rows) > limit or any("next" in part for part in parts):
        page["next"] = rows[:limit][-1][name]
    return page
