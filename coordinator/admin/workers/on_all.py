"""What is set on every worker under one id: fault rules and recordings.

They are soft state: a worker that ends forgets them. The supervisor does not, and gives them to its successor, but for those
that `ends` knows to have ended perhaps.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any, NamedTuple

from msgspec import json

from coordinator.admin.endpoint import RefusedRequest, Request
from coordinator.admin.faults import CHOSEN_ID, chosen_id
from coordinator.admin.workers.asking import Answer, Ask, NotAnswered, NotAsked, Workers
from coordinator.rules.faults import next_id

_log = logging.getLogger(__name__)
CREATED, NOT_FOUND = 201, 404


class _Item(NamedTuple):
    body: Any
    had: set[int]
    """The workers that had it."""


class OnAll:
    """The fault rules, or the recordings."""

    def __init__(self, workers: Workers, path: str, letter: str, ends: Callable[[Any], bool]) -> None:
        """`ends`: whether such a thing may be over when it has been at a worker for a while."""
        self._workers = workers
        self._path = path
        self._letter = letter
        self._ends = ends
        self._items: dict[str, _Item] = {}
        self._numbers = count(1)
        self._changing = asyncio.Lock()

    def body(self, item_id: str) -> Any:
        """What was asked for. Raises RefusedRequest: 404."""
        item = self._items.get(item_id)
        if item is None:
            raise RefusedRequest(NOT_FOUND, f"there is no {item_id}: it never was, or is cleared")
        return item.body

    def has(self, item_id: str) -> bool:
        """Whether it is set."""
        return item_id in self._items

    def of_scope(self, scope: str | None) -> list[str]:
        """The ids of a scope; None: all."""
        return [item_id for item_id, item in self._items.items() if scope is None or item.body.scope == scope]

    async def add(self, request: Request) -> Any:
        """Sets it on all workers, or on none. Returns what one of them says. Raises RefusedRequest."""
        async with self._changing:
            item_id = chosen_id(request, self._letter, self._items)
            item_id = item_id or next_id(self._letter, self._numbers, self._items)
            item = _Item(request.body, set())
            try:
                answers = await self.ask_all(self._setting(item_id, item))
                item.had.update(number for number, _ in answers)
            except BaseException:
                await self._take_back(item_id)
                raise
            refused = next((answer for _, answer in answers if answer.status != CREATED), None)
            if refused is not None:
                await self._take_back(item_id)
                raise refused.refusal()
            self._items[item_id] = item
        return answers[0][1].json()

    async def remove(self, item_ids: Sequence[str]) -> int:
        """Removes these everywhere. Raises RefusedRequest: 503 a worker does not answer, and may have them still."""
        async with self._changing:
            removed = [item_id for item_id in item_ids if item_id in self._items]
            for item_id in removed:
                await self.ask_all(Ask("DELETE", f"{self._path}/{item_id}"))
                del self._items[item_id]
        return len(removed)

    async def worker_ready(self, number: int) -> None:
        """Gives a new worker what its predecessor had, or would have had."""
        async with self._changing:
            for item_id, item in self._items.items():
                if number in item.had and self._ends(item.body):
                    continue
                try:
                    answer = await self._workers.ask(number, self._setting(item_id, item))
                except (NotAsked, NotAnswered) as error:
                    _log.warning("event=not_set id=%s reason=%s", item_id, error)
                    continue
                if answer.status == CREATED:
                    item.had.add(number)

    async def ask_all(self, ask: Ask) -> list[tuple[int, Answer]]:
        """What the workers answer that are ready. Raises RefusedRequest: 503 none is, or one does not answer."""
        numbers = self._workers.ready
        found = await asyncio.gather(*(self._workers.ask(number, ask) for number in numbers), return_exceptions=True)
        answers: list[tuple[int, Answer]] = []
        for number, answer in zip(numbers, found, strict=True):
            if isinstance(answer, NotAsked):
                continue
            if isinstance(answer, BaseException):
                raise answer
            answers.append((number, answer))
        if not answers:
            raise RefusedRequest(503, "no worker is ready: try again")
        return answers

    async def ask_each(self, item_id: str) -> list[tuple[int, Answer]]:
        """What the workers say that have it."""
        answers = await self.ask_all(Ask("GET", f"{self._path}/{item_id}"))
        return [(number, answer) for number, answer in answers if answer.status == 200]

    async def listed(self, kind: Any, key: str) -> dict[str, list[Any]]:
        """The statuses of each, by id. `kind`: of the list that workers have."""
        found: dict[str, list[Any]] = {item_id: [] for item_id in self._items}
        for _, answer in await self.ask_all(Ask("GET", self._path)):
            for status in getattr(json.decode(answer.body, type=kind), key):
                found.get(status.id, []).append(status)
        return found

    def _setting(self, item_id: str, item: _Item) -> Ask:
        return Ask("POST", self._path, json.encode(item.body), {CHOSEN_ID: item_id})

    async def _take_back(self, item_id: str) -> None:
        for number in self._workers.ready:
            try:
                await self._workers.ask(number, Ask("DELETE", f"{self._path}/{item_id}"))
            except (NotAsked, NotAnswered) as error:
                _log.warning("event=not_removed id=%s reason=%s", item_id, error)


async def first_of(waits: Iterable[Any], within_s: float) -> None:
    """Returns when one of these is done, or the time is over; the others are cancelled."""
    tasks = [asyncio.ensure_future(each) for each in waits]
    try:
        if tasks:
            await asyncio.wait(tasks, timeout=max(0.0, within_s), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
