"""Recordings on every worker, read as one.

Each worker numbers its own entries. Here an entry gets its number when it is first read from its worker; the order is that of
the time, as far as entries were there by then.
"""

import asyncio
from collections.abc import Iterable
from typing import Any

from msgspec import json

from coordinator.admin.endpoint import Request, Response
from coordinator.admin.faults import scope_to_clear
from coordinator.admin.json_body import json_bytes
from coordinator.admin.workers.asking import Ask, NotAnswered, NotAsked, Workers
from coordinator.admin.workers.machine import Machine
from coordinator.admin.workers.on_all import OnAll, first_of
from coordinator.rules.model import Cleared, RecordingList, RecordingStatus
from coordinator.rules.recordings import PAGE_ENTRIES

PATH = "/v1/recordings"
AGAIN_S = 0.05
Place = tuple[int, int, int]
"""Of an entry: worker, its process, and the entry's number there."""


class Numbered:
    """The entries of a recording that were read so far."""

    def __init__(self, kept_max: int) -> None:
        """`kept_max`: how many entries all workers keep."""
        self.count = 0
        self.numbers: dict[Place, int] = {}
        """The numbers of its entries, but for the oldest, which workers have dropped."""
        self.places: dict[int, Place] = {}
        """The same, the other way round."""
        self.last: dict[tuple[int, int], int] = {}
        """The last entry of each process."""
        self._kept_max = kept_max

    def add(self, place: Place) -> None:
        """Gives an entry its number."""
        worker, process, number = place
        self.count += 1
        self.numbers[place], self.places[self.count] = self.count, place
        self.last[worker, process] = max(number, self.last.get((worker, process), 0))
        if len(self.places) > self._kept_max:
            del self.numbers[self.places.pop(next(iter(self.places)))]

    def after(self, number: int, limit: int) -> list[tuple[int, Place]]:
        """The entries after a number."""
        first = max(number + 1, self.count - len(self.places) + 1)
        return [(each, self.places[each]) for each in range(first, min(first + limit, self.count + 1))]


class RecordingsOnAll:
    """The recordings, and the handlers of their endpoints."""

    def __init__(self, machine: Machine, workers: Workers) -> None:
        self._machine = machine
        self._workers = workers
        self.all = OnAll(workers, PATH, "r", lambda _body: False)
        self._read: dict[str, Numbered] = {}

    async def begin(self, request: Request) -> RecordingStatus:
        return json.decode(json.encode(await self.all.add(request)), type=RecordingStatus)

    async def listed(self, request: Request) -> RecordingList:
        found = await self.all.listed(RecordingList, "recordings")
        return RecordingList(
            [self._total(each, found.get(each, [])) for each in self.all.of_scope(request.query.scope)]
        )

    def _total(self, recording_id: str, found: Iterable[RecordingStatus]) -> RecordingStatus:
        body, statuses = self.all.body(recording_id), list(found)
        entries, dropped = (sum(getattr(each, name) for each in statuses) for name in ("entries", "dropped"))
        return RecordingStatus(recording_id, body.match, body.limit, entries, dropped, body.scope)

    async def delete(self, request: Request) -> Cleared:
        """Ends the recordings of a scope, or all."""
        return await self._end(self.all.of_scope(scope_to_clear(request)))

    async def delete_one(self, request: Request) -> Cleared:
        recording_id = request.parameters["recording_id"]
        self.all.body(recording_id)
        return await self._end([recording_id])

    async def _end(self, recording_ids: list[str]) -> Cleared:
        ended = await self.all.remove(recording_ids)
        for recording_id in recording_ids:
            self._read.pop(recording_id, None)
        return Cleared(ended)

    # --- entries ------------------------------------------------------------------------------------------------------

    async def page(self, request: Request) -> Response:
        """Entries after a number, of all workers; waits for the first one."""
        recording_id, query = request.parameters["recording_id"], request.query
        loop = asyncio.get_running_loop()
        until_s = loop.time() + query.timeout_ms / 1000
        while True:
            kept_max = self.all.body(recording_id).limit * len(self._machine.workers)
            read = self._read.setdefault(recording_id, Numbered(kept_max))
            entries, dropped = await self._new_entries(recording_id, read)
            wanted = read.after(query.after, query.limit)
            left_s = until_s - loop.time()
            if wanted or left_s <= 0:
                break
            await first_of((self._wait(recording_id, read, number, left_s) for number in self._workers.ready), left_s)
            await asyncio.sleep(AGAIN_S)
        await self._read_again(recording_id, [place for _, place in wanted if place not in entries], entries)
        page = [entries[place] | {"number": number} for number, place in wanted if place in entries]
        after = wanted[-1][0] if wanted else query.after
        return Response(body=json_bytes({"entries": page, "next": after, "dropped": dropped}))

    async def _new_entries(self, recording_id: str, read: Numbered) -> tuple[dict[Place, Any], int]:
        """The entries that were not read before, which get their numbers, and how many the workers have dropped."""
        found: dict[Place, Any] = {}
        parts = await asyncio.gather(*(self._after(recording_id, read, number) for number in self._workers.ready))
        for entries, _ in parts:
            found |= entries
        for place in sorted(found, key=lambda place: (found[place]["time_ms"], place)):
            if place not in read.numbers:
                read.add(place)
        return found, sum(dropped for _, dropped in parts)

    async def _after(self, recording_id: str, read: Numbered, worker: int) -> tuple[dict[Place, Any], int]:
        process = self._process(worker)
        found: dict[Place, Any] = {}
        after, dropped = read.last.get((worker, process), 0), 0
        while True:
            page = await self._ask(recording_id, worker, after)
            dropped = page.get("dropped", dropped)
            for entry in page.get("entries", ()):
                found[worker, process, entry["number"]] = self._of_all(entry, worker)
            if len(page.get("entries", ())) < PAGE_ENTRIES:
                return found, dropped
            after = page["next"]

    async def _read_again(self, recording_id: str, places: list[Place], entries: dict[Place, Any]) -> None:
        """Adds entries that were read before; what their worker has dropped meanwhile stays out."""
        for worker in self._workers.ready:
            process = self._process(worker)
            left = {number for at, of, number in places if (at, of) == (worker, process)}
            while left:
                page = await self._ask(recording_id, worker, min(left) - 1)
                found = {entry["number"]: entry for entry in page.get("entries", ())}
                for number in left & found.keys():
                    entries[worker, process, number] = self._of_all(found[number], worker)
                left = {number for number in left if found and number > max(found)}

    async def _ask(self, recording_id: str, worker: int, after: int) -> Any:
        try:
            answer = await self._workers.ask(worker, Ask("GET", f"{PATH}/{recording_id}?after={after}"))
        except (NotAsked, NotAnswered):
            return {}
        return answer.json() if answer.status == 200 else {}

    async def _wait(self, recording_id: str, read: Numbered, worker: int, left_s: float) -> None:
        after = read.last.get((worker, self._process(worker)), 0)
        timeout_ms = max(1, round(left_s * 1000))
        path = f"{PATH}/{recording_id}?after={after}&limit=1&timeout_ms={timeout_ms}"
        await self._workers.ask(worker, Ask("GET", path), left_s + 1)

    def _process(self, worker: int) -> int:
        return self._machine.workers[worker].pid or 0

    def _of_all(self, entry: dict[str, Any], worker: int) -> dict[str, Any]:
        """Connections of different workers have different numbers."""
        return entry | {"connection": (entry["connection"] - 1) * len(self._machine.workers) + worker + 1}
