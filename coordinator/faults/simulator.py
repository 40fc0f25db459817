"""A whole server in a simulated world: one seed, one run, the same each time.

The server is the real one: `Server` as it is wired for production, from frames to recovery. Its loop, clock, chance, disk,
network and worker threads are the simulated twins, and that is all that differs. Simulated clients speak real bytes to
it while faults happen as the plan has it.

A run has two halves. First *safety*: anything may fail, and nothing may ever be wrong. Then everything is healed and
*liveness* is asked for: within a bound every group must come to rest, with all its members in one generation and every
partition owned. A run ends at the first broken invariant; exceptions that nobody declared, a deadlock and a livelock count as
such.
"""

import asyncio
import errno
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from dataclasses import dataclass, field
from random import Random
from typing import Any

from coordinator.config.settings import (
    AdminConfig,
    DeclaredTopic,
    ListenerConfig,
    LogConfig,
    NetworkConfig,
    ServerConfig,
)
from coordinator.faults import clients, counters, data_clients, transaction_clients
from coordinator.faults.clock import LoopClock
from coordinator.faults.consumer_clients import ConsumerMember, Ownership
from coordinator.faults.convergence import Calm, Crowd
from coordinator.faults.disk import Node, PowerCut, SimulatedDisk, SimulatedFile
from coordinator.faults.entropy import SeededEntropy
from coordinator.faults.expiry import Expiry
from coordinator.faults.history import History
from coordinator.faults.invariants import Invariants
from coordinator.faults.loop import Deadlock, Livelock, Process, SimulatedLoop
from coordinator.faults.mixed_clients import mixed_members
from coordinator.faults.network import SimulatedNetwork, Weather
from coordinator.faults.plan import Plan
from coordinator.faults.streams_clients import StreamsMember
from coordinator.faults.wire import Caller
from coordinator.faults.worker import SimulatedWorker
from coordinator.groups.settings import ASSIGNMENT_EPOCH, STRICT, GroupsConfig
from coordinator.runtime.shard import Status
from coordinator.server import EVENTS_TOPIC, CannotStart, Server
from coordinator.topics.engine import Topics
from coordinator.topics.partition import State
from coordinator.transactions.settings import TransactionsConfig
from coordinator.world.disk import File

ADDRESS = ("10.0.0.9", 9092)
LOG_DIR = "data"
EVENTS_KEPT = 200
CHECK_EVERY_S = 5.0

_OUTSIDE = Context()
"""Of no process."""

_server_log = logging.getLogger("coordinator")


@dataclass(slots=True)
class Report:
    """What came of one run."""

    plan: Plan
    broken: str | None = None
    """The first broken invariant, and what happened."""
    trace: str = ""
    """Digest of every byte delivered and every event, with their times."""
    events: list[str] = field(default_factory=list)
    """The last ones."""
    seconds: float = 0.0
    callbacks: int = 0
    connections: int = 0
    starts: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    acknowledged: int = 0
    records: int = 0
    transactions: int = 0
    reads: int = 0
    assignments: int = 0
    expired: int = 0
    """Offsets and groups that nobody needed any more."""
    checks: int = 0

    def __str__(self) -> str:
        faults = " ".join(f"{name}={count}" for name, count in self.faults.items())
        counts = (
            "callbacks",
            "connections",
            "starts",
            "acknowledged",
            "records",
            "transactions",
            "reads",
            "assignments",
            "expired",
            "checks",
        )
        numbers = " ".join(f"{name}={getattr(self, name)}" for name in counts)
        outcome = "BROKEN" if self.broken else "ok"
        return (
            f"seed={self.plan.seed} {outcome} trace={self.trace[:16]} seconds={self.seconds:.1f} {numbers}"
            f" faults: {faults or 'none'}"
        )


class Broken(Exception):
    """An invariant does not hold."""


class MachineDisk(SimulatedDisk):
    """A disk that tells its machine what was appended, and when the power has gone, before anything else happens."""

    def __init__(
        self, short_writes: Random | None, power_gone: Callable[[], None], appended: Callable[[str, bytes], None]
    ) -> None:
        super().__init__(short_writes=short_writes)
        self.appended = appended
        self.refuse: Callable[[str], None] = lambda _path: None
        """Asked before something is appended to a file; raises the OSError that comes of it."""
        self._power_gone = power_gone

    def open(self, path: str) -> File:
        super().open(path).close()
        return _MachineFile(self, self._file(path), path)

    def spend(self) -> None:
        try:
            super().spend()
        except PowerCut:
            self._power_gone()
            raise


class _MachineFile(SimulatedFile):
    __slots__ = ("_machine", "_path")

    def __init__(self, disk: MachineDisk, node: Node, path: str) -> None:
        super().__init__(disk, node)
        self._machine = disk
        self._path = path

    def append(self, data: bytes) -> None:
        self._machine.refuse(self._path)
        super().append(data)
        self._machine.appended(self._path, data)


class _Ears(logging.Handler):
    """What the server says at warning level and above: an event, or with a traceback a finding."""

    def __init__(self, heard: Callable[[str, BaseException | None], None]) -> None:
        super().__init__(logging.INFO)
        self._heard = heard

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if record.levelno >= logging.WARNING or error is not None:
            self._heard(record.getMessage(), error)


def config_of(plan: Plan) -> ServerConfig:
    """The server of a plan: small limits and short times, so that a minute is enough to reach them."""
    return ServerConfig(
        log_dir=LOG_DIR,
        shutdown_time_ms=2_000,
        listeners=(ListenerConfig(host=ADDRESS[0], port=ADDRESS[1]),),
        admin=AdminConfig(host=ADDRESS[0], port=9644),
        network=NetworkConfig(
            connections_max_idle_ms=60_000, limit_frame_time_ms=10_000, socket_request_max_bytes=1 << 20
        ),
        log=LogConfig(
            durability=plan.durability,
            offsets_topic_num_partitions=plan.shards,
            offsets_topic_segment_bytes=plan.segment_bytes,
            log_cleaner_backoff_ms=plan.cleaner_backoff_ms,
            log_cleaner_delete_retention_ms=plan.delete_retention_ms,
            coordinator_events_segment_bytes=plan.segment_bytes,
            transaction_state_log_num_partitions=plan.shards,
            transaction_state_log_segment_bytes=plan.segment_bytes,
        ),
        transactions=TransactionsConfig(transaction_abort_timed_out_transaction_cleanup_interval_ms=2_000),
        groups=GroupsConfig(
            group_initial_rebalance_delay_ms=plan.initial_rebalance_delay_ms,
            group_new_member_join_timeout_ms=20_000,
            group_consumer_session_timeout_ms=plan.session_ms,
            group_consumer_min_session_timeout_ms=plan.session_ms,
            group_consumer_assignment_interval_ms=plan.assignment_interval_ms,
            group_consumer_fencing_policy=plan.fencing_policy,
            offsets_retention_minutes=plan.offsets_retention_minutes,
            offsets_retention_check_interval_ms=5_000,
            group_streams_session_timeout_ms=plan.session_ms,
            group_streams_min_session_timeout_ms=plan.session_ms,
            group_streams_assignment_interval_ms=plan.assignment_interval_ms,
            group_streams_initial_rebalance_delay_ms=plan.initial_rebalance_delay_ms,
            group_streams_num_standby_replicas=plan.num_standby_replicas,
            group_streams_fencing_policy=STRICT if plan.fencing_policy == STRICT else ASSIGNMENT_EPOCH,
        ),
        declared_topics=(
            *(DeclaredTopic(name=name, partitions=count) for name, count in clients.TOPICS.items()),
            DeclaredTopic(name=data_clients.EVENTS, partitions=data_clients.PARTITIONS),
            _LEDGER,
        ),
    )


_LEDGER = DeclaredTopic(
    name=transaction_clients.LEDGER, partitions=transaction_clients.PARTITIONS, configs=transaction_clients.CONFIGS
)


def _has_failed(topics: Topics) -> bool:
    """Whether some log of the data plane takes no more until a restart."""
    wanted = {data_clients.EVENTS: data_clients.PARTITIONS, _LEDGER.name: _LEDGER.partitions}
    partitions = [topics.user_partition(name, index) for name, count in wanted.items() for index in range(count)]
    return topics.metadata.has_failed or any(
        partition is not None and partition.state is State.FAILED for partition in partitions
    )


class Simulation:
    """One run of a plan."""

    def __init__(self, plan: Plan, *, fastpath: bool = True) -> None:
        """`fastpath`: as for the server."""
        self.plan = plan
        self._fastpath = fastpath
        self.report = Report(plan)
        self.events: deque[str] = deque(maxlen=EVENTS_KEPT)
        self.loop = SimulatedLoop(self._random("loop"))
        self.network = SimulatedNetwork(self.loop, self._random("network"), Weather(plan.network_delay_s, plan.split))
        self.loop.network = self.network
        self.clock = LoopClock(self.loop.time)
        self.history = History(self.broken)
        self.expiry = Expiry(self.history, plan.offsets_retention_minutes * 60_000, self._group_expired, self.broken)
        self.invariants = Invariants(LOG_DIR, self.broken, self.expiry, self.clock.wall_ms)
        self.disk = MachineDisk(
            self._random("short writes") if plan.short_writes else None, self._power_gone, self.invariants.appended
        )
        self.disk.refuse = self._refuse_events
        self.disk.make_folder(LOG_DIR)
        self.disk.sync_folder("")
        self.world = clients.World(
            loop=self.loop, plan=plan, history=self.history, broken=self.broken, event=self.event, caller=self._caller
        )
        self.records = data_clients.Records(self.broken)
        self.ledger = transaction_clients.Ledger(self.broken)
        self.counts = [counters.Count(number, self.broken) for number in range(plan.counters)]
        self.server: Server | None = None
        self.process: Process | None = None
        self.fsync_s = plan.fsync_s
        self._entropy = SeededEntropy(self._random("ids"))
        self._random_faults = self._random("faults")
        self._random_worker = self._random("worker")
        self._random_crash = self._random("crash")
        self._random_linger = self._random("linger")
        self._random_events = self._random("events")
        self._config = config_of(plan)
        self._broken: str | None = None
        self._is_down = False
        self._ownership = Ownership(self.history, self.broken)
        self._crowd = Crowd()
        self._is_healed = False

    def _random(self, purpose: str) -> Random:
        """One for each purpose: a draw more in one place must not change all others."""
        return Random(f"{self.plan.seed} {purpose}")

    # --- running ------------------------------------------------------------------------------------------------------

    def run(self) -> Report:
        """Runs to the end, or to the first broken invariant."""
        report = self.report
        ears = _Ears(self._heard)
        said, level = _server_log.propagate, _server_log.level
        _server_log.addHandler(ears)
        _server_log.propagate = False
        _server_log.setLevel(logging.INFO)
        self.loop.set_exception_handler(self._exception)
        try:
            self.loop.run_until_complete(self._play())
        except (Broken, Deadlock, Livelock) as error:
            report.broken = self._broken or f"{type(error).__name__}: {error}"
        except RuntimeError:  # the loop was stopped
            if self._broken is None:
                raise
            report.broken = self._broken
        finally:
            _server_log.removeHandler(ears)
            _server_log.propagate = said
            _server_log.setLevel(level)
            self.loop.close()
        self.network.trace.update(repr(report.broken).encode())
        report.trace = self.network.trace.hexdigest()
        report.events = list(self.events)
        report.seconds, report.callbacks = self.loop.time(), self.loop.callbacks
        report.connections = self.network.connections
        report.records = self.records.acknowledged
        report.transactions = self.ledger.committed + sum(count.committed for count in self.counts)
        report.acknowledged, report.reads = self.history.acknowledged, self.history.reads
        report.assignments = self.history.assignments + self._ownership.assignments
        report.checks = self.invariants.checks
        report.expired = self.expiry.expired
        return report

    async def _play(self) -> None:
        plan, random = self.plan, self._random("clients")
        self.loop.call_soon(self._boot, context=_OUTSIDE)
        tasks = [self.loop.create_task(self._watch())]
        crowd = self._crowd
        for group in range(plan.groups):
            crowd.classic += [clients.Member(self.world, f"group-{group}", number) for number in range(plan.members)]
        for group in range(plan.consumer_groups):
            crowd.modern += [
                ConsumerMember(self.world, f"consumers-{group}", number, self._ownership)
                for number in range(plan.members)
            ]
        for group in range(plan.streams_groups):
            crowd.modern += [
                StreamsMember(self.world, f"streams-{group}", number, self._ownership) for number in range(plan.members)
            ]
        for group in range(plan.mixed_groups):
            classic, modern = mixed_members(self.world, group, self._ownership)
            crowd.classic += classic
            crowd.modern += modern
        crowd.producers = [data_clients.Producer(self.world, number, self.records) for number in range(2)]
        auditor = clients.Auditor(self.world, "auditor")
        others: list[Any] = [clients.Simple(self.world, number) for number in range(3)]
        others += [data_clients.Reader(self.world, number, self.records) for number in range(2)]
        if plan.accountants:
            crowd.producers += [
                transaction_clients.Accountant(self.world, number, self.ledger) for number in range(plan.accountants)
            ]
            others += [transaction_clients.CommittedReader(self.world, number, self.ledger) for number in range(2)]
        for count in self.counts:
            crowd.producers.append(counters.Counter(self.world, count, 0))
            others += [counters.Counter(self.world, count, number) for number in range(1, counters.WORKERS)]
            others.append(counters.Onlooker(self.world, count, "onlooker"))
        others += [auditor, clients.Administrator(self.world, "admin"), clients.Hostile(self.world, "hostile")]
        tasks += [
            self.loop.create_task(self._late(random.uniform(0, 5), client.run))
            for client in [*crowd.classic, *crowd.modern, *crowd.producers, *others]
        ]
        faults = [self.loop.create_task(fault) for fault in self._faults()]
        await self._rest(plan.span_s)
        for task in faults:
            task.cancel()
        await self._heal()
        calm = Calm(self.world, crowd, auditor, self.ledger, lambda: self.server, self._rest)
        await calm.come_to_rest()
        for task in tasks:
            task.cancel()
        await self._rest(0.1)
        if self.server is not None:
            self.invariants.check_events(self.server)
        await self._stop()

    async def _late(self, seconds: float, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """A client starts; whatever it raises is a finding."""
        await self._rest(seconds)
        try:
            await run()
        except Exception as error:  # noqa: BLE001 - reported, not hidden
            self.broken("a client fails", repr(error))

    async def _rest(self, seconds: float) -> None:
        await self.world.rest(seconds)
        if self._broken is not None:
            raise Broken(self._broken)

    # --- the machine --------------------------------------------------------------------------------------------------

    def _boot(self) -> None:
        """Starts the server's process; retries while the disk is in trouble."""
        self._is_down = False
        self.report.starts += 1
        process = self.process = Process(f"server-{self.report.starts}")
        self.loop.spawn(process, self._serve(process))

    async def _serve(self, process: Process) -> None:
        worker = SimulatedWorker(self.loop, self._random_worker, self._fsync_delay_s)
        try:
            server = Server(
                self._config, self.loop, self.clock, self.disk, self._entropy, worker, fastpath=self._fastpath
            )
            await server.start()
        except (OSError, CannotStart) as error:
            self.event(f"cannot start: {error}")
            if not self._disk_in_trouble:
                self.broken("a server starts on a sound disk", repr(error))
            self._died(process, silently=False)
            self.disk.kill()
            self._restart_after(2.0)
            return
        except PowerCut:
            return
        except Exception as error:  # noqa: BLE001 - reported, not hidden
            self.broken("a server starts on a sound disk", repr(error))
            return
        self._disk_in_trouble = self.disk.capacity_bytes is not None
        self.event(f"{process.name} started, offsets {[shard.log.end_offset for shard in server.groups.shards]}")
        self.server = server
        self.invariants.after_start(server)

    _disk_in_trouble = False
    """The disk failed or was full since the last start: the next one may fail too."""

    def _died(self, process: Process, *, silently: bool) -> None:
        self.loop.kill(process)
        self.network.process_died(process, silently=silently)
        if self.server is not None:
            self.invariants.before_death(self.server)
            self.server = None

    def _restart_after(self, mean_s: float) -> None:
        if not self._is_down:
            self._is_down = True
            self.loop.call_later(self._random_crash.expovariate(1 / mean_s), self._boot, context=_OUTSIDE)

    def kill(self) -> None:
        """SIGKILL."""
        assert self.process is not None
        self._died(self.process, silently=False)
        self.disk.kill()
        self._restart_after(self.plan.downtime_s)

    def lose_power(self) -> None:
        """Now, between two callbacks."""
        assert self.process is not None
        self._died(self.process, silently=True)
        self.disk.crash(self._random_crash)
        self._restart_after(self.plan.downtime_s)

    def _power_gone(self) -> None:
        """In the middle of something the server does: it must not do anything more."""
        process = self.process
        if process is None or not process.alive:
            return
        self.event("power lost during a write")
        self._died(process, silently=True)

        def gone() -> None:
            self.disk.crash(self._random_crash)
            self._restart_after(self.plan.downtime_s)

        self.loop.call_soon(gone, context=_OUTSIDE)

    def _fsync_delay_s(self) -> float:
        return self._random_worker.expovariate(1 / self.fsync_s)

    async def _stop(self) -> None:
        """An orderly stop."""
        server, process = self.server, self.process
        if server is None or process is None:
            return
        stopping = self.loop.spawn(process, server.stop())
        await self._rest(0)
        deadline = self.loop.time() + 60
        while not stopping.done() and process.alive:
            if self.loop.time() > deadline:
                self.broken("a stop ends", "not within a minute")
            await self._rest(0.1)
        error = stopping.exception() if stopping.done() else None
        if error is not None and not isinstance(error, PowerCut) and not self._disk_in_trouble:
            self.broken("a stop ends", repr(error))
        if process.alive:
            self._died(process, silently=False)
            self.disk.kill()

    async def _watch(self) -> None:
        """Looks at the server from time to time, and restarts it when a shard has given up, as an operator would."""
        while True:
            await self._rest(CHECK_EVERY_S * self._random_faults.uniform(0.5, 1.5))
            server = self.server
            if server is None or self.process is None or self.process.paused:
                continue
            self.invariants.check(server)
            for found in transaction_clients.hanging(server):
                self.broken(transaction_clients.INVARIANT, f"nobody will end what is open: {found}")
            if any(shard.status is Status.FAILED for shard in server.shards) or _has_failed(server.topics):
                if self.plan.durability == "write" or self._random_crash.random() < 0.5:
                    self.event("a shard has failed: the server is started anew")
                    self.kill()
                else:
                    self.event("a shard has failed: the machine is started anew")
                    self.lose_power()

    # --- faults -------------------------------------------------------------------------------------------------------

    def _faults(self) -> list[Coroutine[Any, Any, None]]:
        plan = self.plan
        kinds: list[tuple[float, Callable[[], Any]]] = [
            (plan.cut_s, self._cut),
            (plan.stall_s, self._stall),
            (plan.half_open_s, self._half_open),
            (plan.kill_s, self._kill),
            (plan.power_s, self._power),
            (plan.slow_disk_s, self._slow_disk),
            (plan.eio_s, self._eio),
            (plan.full_s, self._full),
            (plan.clock_jump_s, self._clock_jump),
            (plan.pause_s, self._pause),
            (plan.stop_s, self._orderly_stop),
        ]
        return [self._now_and_then(mean_s, fault) for mean_s, fault in kinds if mean_s]

    async def _now_and_then(self, mean_s: float, fault: Callable[[], Any]) -> None:
        random = self._random(fault.__name__)
        while True:
            await self._rest(random.expovariate(1 / mean_s))
            name = fault.__name__.strip("_")
            outcome = fault()
            if outcome is not None:
                self.report.faults[name] = self.report.faults.get(name, 0) + 1
                if asyncio.iscoroutine(outcome):
                    await outcome
                else:
                    self.event(f"fault {name} {outcome}")

    def _some_connection(self) -> Any:
        connections = self.network.open_connections()
        return self._random_faults.choice(connections) if connections else None

    def _cut(self) -> Any:
        end = self._some_connection()
        if end is None:
            return None
        self.network.cut(end)
        return end.number

    def _stall(self) -> Any:
        end = self._some_connection()
        if end is None:
            return None
        seconds = self._random_faults.uniform(0, 15)
        for each in self._random_faults.choice([(end,), (end.peer,), (end, end.peer)]):
            each.stall(seconds)
        return f"{end.number} for {seconds:.1f} s"

    def _half_open(self) -> Any:
        end = self._some_connection()
        if end is None:
            return None
        self.network.half_open(end)
        return end.number

    def _kill(self) -> Any:
        if self.server is None:
            return None
        self.kill()
        return "now"

    def _power(self) -> Any:
        if self.server is None:
            return None
        if self._random_faults.random() < self.plan.power_in_write:
            operations = self._random_faults.randrange(0, 30)
            self.disk.cut_after(operations)
            return f"after {operations} operations"
        self.lose_power()
        return "now"

    async def _for_a_while(self, name: str, seconds: float, begin: Callable[[], None], end: Callable[[], None]) -> None:
        self.event(f"fault {name} for {seconds:.1f} s")
        begin()
        try:
            await self._rest(seconds)
        finally:
            end()
        self.event(f"fault {name} is over")

    def _slow_disk(self) -> Any:
        slow_s = self._random_faults.choice([0.1, 1.0, 6.0])
        return self._for_a_while(
            f"slow_disk {slow_s}",
            self._random_faults.uniform(0, 10),
            lambda: setattr(self, "fsync_s", slow_s),
            lambda: setattr(self, "fsync_s", self.plan.fsync_s),
        )

    def _eio(self) -> Any:
        self._disk_in_trouble = True
        self.disk.sync_errors.append(errno.EIO)
        return "at the next sync"

    def _refuse_events(self, path: str) -> None:
        if not self.plan.events_fail or self._is_healed or not path.startswith(f"{LOG_DIR}/{EVENTS_TOPIC}-"):
            return
        if self._random_events.random() < self.plan.events_fail:
            self.report.faults["events"] = self.report.faults.get("events", 0) + 1
            raise OSError(self._random_events.choice([errno.EIO, errno.ENOSPC]), "no events are taken")

    def _full(self) -> Any:
        def begin() -> None:
            self._disk_in_trouble = True
            self.disk.capacity_bytes = self.disk.used_bytes() + self._random_faults.choice([0, 100, 2_000])

        def end() -> None:
            self.disk.capacity_bytes = None

        return self._for_a_while("full", self._random_faults.uniform(0, 8), begin, end)

    def _clock_jump(self) -> Any:
        jump_ms = self._random_faults.choice([-3_600_000, -1_000, 1_000, 3_600_000])
        self.expiry.latest_ms = max(self.expiry.latest_ms, self.clock.wall_ms())
        self.clock.skew_ms += jump_ms
        return f"{jump_ms} ms"

    def _pause(self) -> Any:
        process = self.process
        if process is None or self.server is None or process.paused:
            return None
        return self._for_a_while(
            "pause",
            self._random_faults.choice([0.5, 5.0, 30.0]) * self._random_faults.random(),
            lambda: setattr(process, "paused", True),
            lambda: self.loop.resume(process),
        )

    def _orderly_stop(self) -> Any:
        if self.server is None or self.process is None or self.process.paused or self.server.stopping:
            return None
        return self._stop_and_start()

    async def _stop_and_start(self) -> None:
        self.event("fault orderly stop")
        process = self.process
        await self._stop()
        if self.process is process:
            self._restart_after(self.plan.downtime_s)

    # --- healing ------------------------------------------------------------------------------------------------------

    async def _heal(self) -> None:
        """Nothing fails any more, and clients only do what they must."""
        self.event("everything is healed")
        self._is_healed = True
        await self._rest(0.5)
        self.world.calm = True
        self.network.weather = Weather(0.001, 0.0)
        self.fsync_s = 0.001
        self.disk.capacity_bytes = None
        self.disk.sync_errors.clear()
        self.disk.cut_never()
        self.network.cut_all()
        if self.server is not None and self.server.stopping:
            self.kill()

    # --- what is found ------------------------------------------------------------------------------------------------

    def broken(self, invariant: str, what: str) -> None:
        """The first one ends the run."""
        if self._broken is None:
            self._broken = f"{invariant}: {what}"
            self.event(f"BROKEN {self._broken}")
            self.loop.stop()

    def _group_expired(self, group_id: str) -> None:
        self.history.group_expired(group_id)
        self._ownership.group_expired(group_id)

    def event(self, text: str) -> None:
        self.network.trace.update(text.encode())
        self.events.append(f"{self.loop.time():10.3f} {text}")

    def _heard(self, message: str, error: BaseException | None) -> None:
        if isinstance(error, PowerCut) or (self.process is not None and not self.process.alive):
            return
        self.event(f"server: {message}")
        if error is not None:
            self.broken("no undeclared exception", f"{message}: {error!r}")

    def _exception(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, PowerCut | Broken):
            self.broken("no undeclared exception", f"{context['message']}: {error!r}")

    def _caller(self, client_id: str) -> Caller:
        return Caller(self.network, client_id, ADDRESS, self.broken, self._linger_s)

    def _linger_s(self) -> float:
        random = self._random_linger
        return random.choice([0.5, 3.0, 12.0]) * random.random() if random.random() < self.plan.ghosts else 0.0


def run(plan: Plan) -> Report:
    """Runs a plan."""
    return Simulation(plan).run()
