"""Shards are taken over in time (I40).

- I40: a shard whose worker died, was stopped or was cut off from the engine is served by another one within the promised five
  seconds, while the engine answers, a worker lives that is neither cut off nor out of disk, and no disk hangs (a worker waits
  for its own before it takes a shard again). What the engine does to statements in this run comes on top: their delay, and
  those that it loses or delays.

The time begins again whenever circumstances change, because each change may be what the next take-over has to wait for.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from coordinator.cluster.engine_writer import EngineWriter
from coordinator.cluster.workers.ownership import LOOK_S
from coordinator.runtime.shard import Status
from coordinator.server.composition import OFFSETS_TOPIC, SHARE_TOPIC, TRANSACTIONS_TOPIC
from coordinator_lab.simulation.history import OnBroken
from coordinator_lab.simulation.memory_engine import PAGE_PIECES
from coordinator_lab.simulation.plan import Plan
from coordinator_lab.simulation.shared_invariants import shards_of
from coordinator_lab.simulation.shared_store import SharedStore
from coordinator_lab.simulation.worker_machine import SETTINGS, WorkerMachine

INVARIANT = "I40 shards are taken over in time"
WITHIN_S = 5.0
"""The promise of docs/scale-out.md."""
EVERY_S = 0.25
STATEMENTS = 10
"""A take-over takes fewer, beside those of the replay."""
MEAN_TIMES = 4
"""How many times its mean a delay may be, on average over a take-over."""
FAILURE_S = SETTINGS.append_timeout_ms / 1000 + LOOK_S
"""What a lost statement costs: its time-out, and the next attempt."""
_SERVES_NOBODY = (Status.ELSEWHERE, Status.FAILED, Status.STOPPED)


class Circumstances(NamedTuple):
    """What a take-over depends on."""

    workers: tuple[str, ...]
    """Those that can take shards."""
    walled: tuple[str, ...]
    hanging: tuple[str, ...]
    """Machines with a disk that hangs."""
    engine_answers: bool
    engine_skew_s: float
    last_beats: tuple[float, ...]
    """Of the workers that are dead or stopped. One that woke up for a moment may have beaten in it, and lives from then on."""


@dataclass(slots=True)
class _Unserved:
    since_s: float
    failures: dict[str, int]
    """Failures that statements of each worker had before."""


class TakeOverCheck:
    """Watches the shards of a run."""

    def __init__(
        self,
        plan: Plan,
        store: SharedStore,
        machines: Sequence[WorkerMachine],
        *,
        now_s: Callable[[], float],
        is_walled: Callable[[str], bool],
        broken: OnBroken,
    ) -> None:
        """`is_walled(host)`: whether a host is cut off from others."""
        self._plan = plan
        self._store = store
        self._machines = machines
        self._now_s = now_s
        self._is_walled = is_walled
        self._broken = broken
        self._circumstances: Circumstances | None = None
        self._unchanged_since_s = 0.0
        self._unserved: dict[str, _Unserved] = {}
        self.taken = 0
        """Shards that were served again."""

    async def run(self, sleep: Callable[[float], Awaitable[None]]) -> None:
        """Looks until it is cancelled."""
        while True:
            await sleep(EVERY_S)
            self.look()

    def look(self) -> None:
        """Reports a shard that nobody serves for too long."""
        now_s, circumstances = self._now_s(), self._look_around()
        before = self._circumstances
        if circumstances != before:
            set_back_s = 0.0 if before is None else max(0.0, before.engine_skew_s - circumstances.engine_skew_s)
            self._circumstances, self._unchanged_since_s = circumstances, now_s + set_back_s
        served = {
            log for machine in self._machines if is_running(machine, now_s) for log in served_by(machine, self._store)
        }
        for log in self._logs():
            if log in served:
                self.taken += self._unserved.pop(log, None) is not None
                continue
            unserved = self._unserved.setdefault(log, _Unserved(now_s, self._failures()))
            can_be_taken = circumstances.engine_answers and len(circumstances.workers) > len(circumstances.walled)
            can_be_taken = can_be_taken and not circumstances.hanging
            waited_s = now_s - max(unserved.since_s, self._unchanged_since_s)
            if can_be_taken and waited_s > self._limit_s(log, unserved):
                self._broken(INVARIANT, f"nobody serves {log} for {waited_s:.2f} s, and {circumstances.workers} could")

    def _look_around(self) -> Circumstances:
        now_s = self._now_s()
        well = [machine for machine in self._machines if is_well(machine, now_s)]
        return Circumstances(
            tuple(machine.process.name for machine in well if machine.process is not None),
            tuple(machine.name for machine in well if self._is_walled(machine.host)),
            tuple(machine.name for machine in self._machines if machine.disk_hangs),
            self._store.stands_until_s <= now_s,
            self._store.skew_s,
            tuple(self._last_beat(machine) for machine in self._machines if not is_awake(machine)),
        )

    def _last_beat(self, machine: WorkerMachine) -> float:
        found = None if machine.sharing is None else self._store.beats.get(machine.sharing.worker.id)
        return -1.0 if found is None else found[0]

    def _logs(self) -> Iterator[str]:
        for index in range(self._plan.shards):
            yield f"{OFFSETS_TOPIC}-{index}"
            yield f"{TRANSACTIONS_TOPIC}-{index}"
            yield f"{SHARE_TOPIC}-{index}"

    def _failures(self) -> dict[str, int]:
        return {machine.name: machine.wire.failures for machine in self._machines}

    def _limit_s(self, log: str, unserved: _Unserved) -> float:
        pages = len(self._store.logs[log].pieces) // PAGE_PIECES if log in self._store.logs else 0
        slow_s = 2 * MEAN_TIMES * self._plan.engine_delay_s * (STATEMENTS + pages)
        failures = max(count - unserved.failures[name] for name, count in self._failures().items())
        return WITHIN_S + slow_s + FAILURE_S * failures


def is_well(machine: WorkerMachine, now_s: float) -> bool:
    """Whether a worker runs, reaches the engine, and can write."""
    return is_running(machine, now_s) and machine.disk.capacity_bytes is None


def is_running(machine: WorkerMachine, now_s: float) -> bool:
    """Whether a worker runs and reaches the engine."""
    server = machine.made
    return is_awake(machine) and machine.wire.passes_at(now_s) and server is not None and not server.stopping


def is_awake(machine: WorkerMachine) -> bool:
    """Whether its process runs."""
    process = machine.process
    return process is not None and process.alive and not process.paused


def served_by(machine: WorkerMachine, store: SharedStore) -> Iterator[str]:
    """The logs of which a worker has the newest claim and serves the shard. An administrator's reload counts as service.

    A worker whose disk is full serves what it has until it has to write; what it reads then, it cannot keep.
    """
    server, is_full = machine.made, machine.disk.capacity_bytes is not None
    if server is not None:
        for log, shard in shards_of(server):
            journal = server.journal
            assert isinstance(journal, EngineWriter)
            claim = journal.claim_of(shard.log)
            serves = shard.status is Status.ACTIVE if is_full else shard.status not in _SERVES_NOBODY
            if claim is not None and claim.epoch == store.of(log).epoch and serves:
                yield log
