"""Troubles of a group of real wire clients against a real server on simulated time, with the truth about the harm.

The clients, the network and the server are those of examples/rebalance_storm.py. The replay of `groups what-if` shares none of
its clients with them.
"""

import asyncio
import importlib.util
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "rebalance_storm.py"
SECONDS, PARTITIONS = 200, 24
RECORDS_PER_S = 20


class Recorded(NamedTuple):
    """The data folder, and what was seen in the clients and in the server's group."""

    data: Path
    rebalances: int
    rebalancing_s: float
    partition_s_without_owner: float
    errors: list[str]


def restarts(storm: Any) -> list[Any]:
    """One consumer of seven is restarted three times."""
    applications = _applications(storm)
    for at_s in (50, 100, 150):
        _restart(storm, applications[0], at_s)
    return applications


def pauses(storm: Any) -> list[Any]:
    """A process with two of the consumers stands still three times, for longer than its session."""
    applications = [*_applications(storm), storm.module.Application(storm, "orders-gc", "10.0.2.1", 2, 0.5)]
    for at_s in (50, 100, 150):
        storm.at(at_s, lambda: applications[-1].pause(14))
    return applications


def rollout(storm: Any) -> list[Any]:
    """All seven consumers are replaced, one after the other."""
    applications = _applications(storm)
    for number, application in enumerate(applications):
        _restart(storm, application, 40 + 20 * number)
    return applications


def _applications(storm: Any) -> list[Any]:
    return [
        storm.module.Application(storm, f"orders-{number}", f"10.0.1.{number}", 1, 0.4 + 0.3 * number)
        for number in range(1, 8)
    ]


def _restart(storm: Any, application: Any, at_s: float) -> None:
    async def restart() -> None:
        await application.leave()
        application.members = []
        await asyncio.sleep(5)
        application.start()

    storm.at(at_s, restart)


def record(
    folder: Path,
    happen: Callable[[Any], list[Any]],
    *,
    session_s: int = 10,
    is_static: bool = False,
    initial_delay_ms: int = 3_000,
) -> Recorded:
    """Runs a trouble under these settings; a few seconds."""
    module: Any = _example()
    module.SESSION_S, module.SECONDS, module.PARTITIONS = session_s, SECONDS, PARTITIONS
    module.Member = _member(module, is_static=is_static)
    module.GroupsConfig = partial(module.GroupsConfig, group_initial_rebalance_delay_ms=initial_delay_ms)

    class Trouble(module.Storm):
        def __init__(self) -> None:
            super().__init__(folder)
            self.module = module
            self.without_owner = 0

        def at(self, at_s: float, action: Callable[[], Any]) -> None:
            self._at(at_s, action)

        async def happen(self) -> tuple[Any, ...]:
            applications = happen(self)
            for application in applications:
                application.start()
            watching = self.loop.create_task(self._watch(applications))
            await asyncio.sleep(SECONDS)
            watching.cancel()
            return tuple(applications)

        async def _watch(self, applications: list[Any]) -> None:
            seen: set[int] = set()
            while True:
                await asyncio.sleep(1 / module.SAMPLES_PER_S)
                working = [each for each in applications if each.runs.is_set()]
                owned = {index for each in working for member in each.members for index in member.partitions}
                seen |= owned
                self.without_owner += len(seen - owned)

    (folder / "data").mkdir(parents=True)
    storm = Trouble()
    truth = storm.record()
    return Recorded(
        folder / "data",
        sum(truth["rebalances_started"].values()),
        truth["rebalancing_s"],
        storm.without_owner / module.SAMPLES_PER_S,
        truth["errors"],
    )


def _example() -> Any:
    spec = importlib.util.spec_from_file_location("recorded_troubles_example", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _member(module: Any, *, is_static: bool) -> type:
    class Member(module.Member):
        """A consumer that reads as fast as records come, and gives up its partitions before it joins."""

        @property
        def offset(self) -> int:
            return int(self.application.storm.loop.time() * RECORDS_PER_S)

        @offset.setter
        def offset(self, _value: int) -> None:
            """Its offset follows the time."""

        async def _join(self) -> None:
            self.partitions = ()
            await super()._join()

        async def _ask(self, request: Any, version: int) -> Any:
            if is_static:
                request.group_instance_id = f"{self.application.client_id}-{self.application.members.index(self)}"
            response = await super()._ask(request, version)
            self.member_id = getattr(response, "member_id", "") or self.member_id
            return response

        async def leave(self) -> None:
            if not is_static:
                await super().leave()

    return Member
