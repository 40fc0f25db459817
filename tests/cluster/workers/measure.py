"""Measures workers: commits per second and CPU, and how long shards are without an owner after a fault.

    python -m tests.cluster.workers.measure                                     every journal that can be started here
    python -m tests.cluster.workers.measure --journals embedded,postgresql      some of them
    python -m tests.cluster.workers.measure --faults 0                          commits only
    python -m tests.cluster.workers.measure --faults 0 --set coordinator.events=none      and without events
    python -m tests.cluster.workers.measure --seconds 0 --faults 0 --restarts 1    how long clients wait in rolling restarts
    python -m tests.cluster.workers.measure --journals postgresql --seconds 0 --commits 50000,200000,1000000
                                                                        take-overs after so many commits

Prints Markdown. The servers, the database and the load generator share this machine, so figures of one run can be compared
with each other and with nothing else. CPU times need Linux.
"""

import argparse
import asyncio
import json
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import uvloop

from coordinator.protocol.errors import ErrorCode
from tests.cluster.workers.load import TOPIC, Load, Outcome, coordinator_of
from tests.cluster.workers.world import commit, find
from tests.rules.world import Client, Closed
from tests.support.cuttable_proxy import CuttableProxy
from tests.support.kafka_cluster import KafkaCluster
from tests.support.postgresql import Cluster
from tests.support.server_process import ServerProcess
from tests.support.waiting import wait_until
from tests.support.worker_events import worker_events

JOURNALS = ("embedded", "local", "postgresql", "kafka")
WORKERS = (1, 2, 3)
LOCAL = "--workers"
CONNECTIONS = 100
WARM_UP_S = 3.0
FAULTS = ("kill -9", "SIGSTOP", "cut off from the engine", "cut off from clients", "cut off from both")
TOPICS = ("__consumer_offsets-", "__transaction_state-")
SHARDS = 50
ASKED_EVERY_S = 0.01
COMMITTED_EVERY_S = 0.02
CLIENTS = 16
TAKEN_WITHIN_S = 30.0
CLUSTER = "measured"
"""One for all measurements of a journal, because making hundreds of topics takes Kafka longer than to measure it."""
SPREAD_WITHIN_S = 180.0
PATIENT = {"journal.append.timeout.ms": 60_000, "journal.beat.timeout.ms": 30_000}
"""For commits: a machine that is short of CPU shall show fewer of them, and no worker without shards."""


class Journal(NamedTuple):
    """Where the workers keep their journal."""

    name: str
    arguments: tuple[str, ...]
    settings: dict[str, object]
    engine_pids: Callable[[], list[int]]
    ways: Sequence[tuple[tuple[str, ...], Sequence[CuttableProxy]]] = ()
    """For each worker, if take-overs are measured: the arguments that lead to the engine through proxies, and these."""


@contextmanager
def embedded() -> Iterator[Journal]:
    yield Journal("embedded", (), {}, list)


@contextmanager
def postgresql() -> Iterator[Journal]:
    cluster = Cluster(standbys=1)
    primary, url = cluster.primary, cluster.url(cluster.primary)
    with ExitStack() as stack:
        stack.callback(cluster.close)
        proxies = [stack.enter_context(CuttableProxy(primary.address)) for _ in range(max(WORKERS))]
        yield Journal(
            "postgresql",
            ("--journal", url),
            {"data.plane": "none"},
            primary.processes,
            [(("--journal", url.replace(primary.address, proxy.address)), [proxy]) for proxy in proxies],
        )


@contextmanager
def local() -> Iterator[Journal]:
    """`serve --workers N`: the engine is the supervisor."""
    yield Journal(LOCAL, (), {}, list)


@contextmanager
def kafka() -> Iterator[Journal]:
    """Three brokers. They have a listener for each worker, by which it learns the addresses of its proxies."""
    with KafkaCluster(ways=max(WORKERS)) as cluster:
        pids = [broker.process.pid for broker in cluster.brokers if broker.process is not None]
        yield Journal(
            "kafka",
            ("--journal", cluster.url()),
            {"data.plane": "none"},
            lambda: pids,
            [(("--journal", cluster.url(way)), proxies) for way, proxies in enumerate(cluster.proxies)],
        )


STARTS = {"embedded": embedded, "local": local, "postgresql": postgresql, "kafka": kafka}


class World:
    """Workers of one cluster, each behind a proxy for its clients and one for its way to the engine."""

    def __init__(self, journal: Journal, number: int, stack: ExitStack, *, proxies: bool) -> None:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        self.workers: list[ServerProcess] = []
        self.fronts: list[CuttableProxy] = []
        self.engines: list[Sequence[CuttableProxy]] = []
        for node_id in range(1, number + 1):
            arguments = journal.arguments
            if proxies:
                self.fronts.append(stack.enter_context(CuttableProxy("")))
                arguments, engines = journal.ways[node_id - 1]
                self.engines.append(engines)
                arguments += ("--advertise", self.fronts[-1].address)
            shared = {"node.id": node_id, "journal.cluster": CLUSTER} if journal.arguments[:1] == ("--journal",) else {}
            shards = {"offsets.topic.num.partitions": SHARDS, "transaction.state.log.num.partitions": SHARDS}
            (folder / str(node_id)).mkdir()
            worker = ServerProcess(
                folder / str(node_id), settings=journal.settings | shared | shards, arguments=arguments
            )
            stack.callback(worker.stop)
            self.workers.append(worker)
        with ThreadPoolExecutor() as threads:
            list(threads.map(self.start, range(number)))

    def start(self, index: int) -> None:
        worker = self.workers[index]
        if self.fronts:
            worker.hold_ports()
            self.fronts[index].target = worker.listens_at
        worker.start()

    def shards(self) -> dict[int, set[str]]:
        """The shards that each worker says that it serves."""
        return {index: owned(worker) for index, worker in enumerate(self.workers) if worker.alive}

    def is_spread(self) -> bool:
        found = list(self.shards().values())
        counts = [[sum(name.startswith(topic) for name in each) for each in found] for topic in TOPICS]
        return all(sum(each) == SHARDS and max(each) - min(each) <= 1 for each in counts)


def metrics(worker: ServerProcess) -> list[str]:
    from urllib.request import urlopen

    with urlopen(f"{worker.admin}/metrics", timeout=60) as response:
        return response.read().decode().splitlines()


def owned(worker: ServerProcess) -> set[str]:
    prefix = 'coordinator_shard_owned{shard="'
    lines = [re.sub(r'worker="\d+",', "", line) for line in metrics(worker) if line.endswith(" 1.0")]
    return {line.removeprefix(prefix).partition('"')[0] for line in lines if line.startswith(prefix)}


# --- commits ----------------------------------------------------------------------------------------------------------


class Row(NamedTuple):
    journal: str
    workers: int
    per_second: float
    worker_us: float
    engine_us: float
    commits_per_append: float
    commits: int
    refused: int


def run_load(journal: Journal, number: int, *, warm_up_s: float, seconds: float, commits: int = 0) -> Outcome:
    """Commits over a number of workers. `commits`: how many there are at least, however long that takes."""
    with ExitStack() as stack:
        is_local = journal.name == LOCAL
        if is_local:
            journal = journal._replace(arguments=("--workers", str(number)))
        if journal.arguments:
            journal = journal._replace(settings=journal.settings | PATIENT)
        world = World(journal, 1 if is_local else number, stack, proxies=False)
        if journal.arguments:
            wait_until(world.is_spread, lambda: f"an even spread: {world.shards()}", within_s=SPREAD_WITHIN_S)
        first = world.workers[0]
        load = Load(
            bootstrap=[(worker.host, worker.port) for worker in world.workers],
            worker_pids=first.ready["workers"] if is_local else [worker.pid for worker in world.workers],
            # While it fills logs for long, processes of a database come and go; nobody asks for their CPU then.
            engine_pids=[] if commits else [first.pid] if is_local else journal.engine_pids(),
            connections=CONNECTIONS,
            warm_up_s=warm_up_s,
            seconds=seconds,
            commits=commits,
            metrics=[worker.admin for worker in world.workers],
        )
        ran = subprocess.run(
            [sys.executable, "-m", "tests.cluster.workers.load", json.dumps(asdict(load))],
            check=True, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
    found = Outcome(**json.loads(ran.stdout))
    print(f"{journal.name}, {number} workers: {found}", file=sys.stderr)
    return found


def measure_commits(journal: Journal, number: int, seconds: float) -> Row:
    found = run_load(journal, number, warm_up_s=WARM_UP_S, seconds=seconds)
    return Row(
        journal.name,
        number,
        found.commits / found.seconds,
        found.worker_cpu_s / found.commits * 1e6,
        found.engine_cpu_s / found.commits * 1e6,
        found.commits / found.appends if found.appends else 0.0,
        found.commits,
        found.refused,
    )


def print_commits(rows: Sequence[Row]) -> None:
    print(f"\n{CONNECTIONS} groups of one member each, which commit one partition all the time:\n")
    print("| journal | workers | commits/s | workers' CPU per commit | engine's CPU per commit | commits per append |")
    print("|---|---|---|---|---|---|")
    for row in rows:
        engine = (f"{row.engine_us:.0f} us", f"{row.commits_per_append:.1f}") if row.commits_per_append else ("", "")
        print(
            f"| {row.journal} | {row.workers} | {row.per_second:,.0f} | {row.worker_us:.0f} us | {' | '.join(engine)} |"
        )
    for row in rows:
        if row.refused:
            print(f"\n{row.journal} with {row.workers} workers refused {row.refused:,} more commits: measure again.")
        if row.commits_per_append and row.workers == max(WORKERS):
            print_model(row)


def print_model(row: Row) -> None:
    """What these times allow on a machine for each process."""
    of_worker, of_append = 1e6 / row.worker_us, 1e6 / (row.engine_us * row.commits_per_append)
    of_engine = 1e6 / row.engine_us
    print(
        f"\nModel for {row.journal}: a worker with a core of its own does 1 s / {row.worker_us:.0f} us ="
        f" {of_worker:,.0f} commits/s at most. The engine (the primary, or"
        f" the supervisor) needs {row.engine_us * row.commits_per_append:.0f} us of CPU for an append, so"
        f" each of its cores takes {of_append:,.0f} appends/s, which is {of_engine:,.0f} commits/s at"
        f" {row.commits_per_append:.1f} commits per append: N workers do min(N * {of_worker:,.0f}, C * {of_engine:,.0f})"
        f" commits/s with C cores of the engine, so {max(1, round(of_engine / of_worker, 1)):g} workers occupy one core of it."
        " The true limit of the engine is higher, because appends grow while it is busy. A supervisor has one core."
    )


# --- take-over --------------------------------------------------------------------------------------------------------


class TakeOver(NamedTuple):
    """Seconds from the fault on."""

    fault: str
    shards: int
    records: int
    """How many they had to replay."""
    noticed: float
    """A worker has learned from the engine that the other one is dead or has left, or that a shard is free."""
    first: float
    last: float
    """The first and the last shard of the victim were taken, of groups and transactions."""
    answered: Sequence[float]
    """Until another worker acknowledged a commit, for each shard of groups."""
    slowest_ms: float
    """The longest take-over of a shard: claim, replay, load."""


class Faults:
    """Does something to a worker, and undoes it."""

    def __init__(self, world: World) -> None:
        self._world = world

    def begin(self, fault: str, index: int) -> None:
        worker = self._world.workers[index]
        if fault == "kill -9":
            worker.kill()
        elif fault == "SIGSTOP":
            worker.pause()
        if fault in {"cut off from the engine", "cut off from both"}:
            for proxy in self._world.engines[index]:
                proxy.fall_silent()
        if fault in {"cut off from clients", "cut off from both"}:
            self._world.fronts[index].fall_silent()

    def end(self, fault: str, index: int) -> None:
        worker = self._world.workers[index]
        if fault == "kill -9":
            worker.start()
        elif fault == "SIGSTOP":
            worker.resume()
        for proxy in (*self._world.engines[index], self._world.fronts[index]):
            proxy.speak()


async def answered_at(survivors: Sequence[tuple[str, int]], victim: tuple[str, int], group: str) -> float:
    """When another worker acknowledged a commit of the group."""
    clients: dict[tuple[str, int], Client] = {}

    async def client(address: tuple[str, int]) -> Client:
        if address not in clients:
            clients[address] = Client(*await asyncio.open_connection(*address), "measure")
        return clients[address]

    async with asyncio.timeout(TAKEN_WITHIN_S):
        while True:
            await asyncio.sleep(ASKED_EVERY_S)
            try:
                found = await find(await client(random.choice(survivors)), group)
                where = found.host, found.port
                if found.error_code or where == victim:
                    continue
                error = await commit(await client(where), group, TOPIC, 1)
            except (OSError, Closed):
                clients.clear()
                continue
            if not error:
                for each in clients.values():
                    each.close()
                return time.time()
            assert error in {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}, error


async def groups_of(world: World) -> dict[int, list[str]]:
    """A group of each shard, by the worker that has it."""
    from coordinator.protocol.java import positive_hash

    names: dict[int, str] = {}
    for number in range(100 * SHARDS):
        names.setdefault(positive_hash(f"probe-{number}") % SHARDS, f"probe-{number}")
    addresses = [(worker.host, worker.port) for worker in world.workers]
    found = await asyncio.gather(*(coordinator_of(addresses[0], group) for group in names.values()))
    return {
        index: [group for group, where in zip(names.values(), found, strict=True) if where == address]
        for index, address in enumerate(addresses)
    }


async def take_over(world: World, fault: str, index: int) -> TakeOver:
    worker = world.workers[index]
    groups = (await groups_of(world))[index]
    shards = len(owned(worker))
    survivors = [each for each in world.workers if each is not worker]
    addresses = [(each.host, each.port) for each in survivors]
    victim = worker.host, worker.port
    await asyncio.sleep(random.random())
    began = time.time()
    Faults(world).begin(fault, index)
    answered = await asyncio.gather(*(answered_at(addresses, victim, group) for group in groups))
    moved: list[tuple[float, str, str]] = []
    while sum(event == "shard_taken" for _, event, _ in moved) < shards:
        assert time.time() < began + TAKEN_WITHIN_S, moved
        await asyncio.sleep(0.1)
        moved = sorted(each for each in worker_events(survivors, began))
    taken = [(at, fields) for at, event, fields in moved if event == "shard_taken"]
    Faults(world).end(fault, index)
    return TakeOver(
        fault,
        shards,
        sum(int(fields.partition("records=")[2].split()[0]) for _, fields in taken),
        next(at for at, event, _ in moved if event == "workers_living") - began,
        taken[0][0] - began,
        taken[-1][0] - began,
        [at - began for at in answered],
        max(float(fields.rpartition("ms=")[2]) for _, fields in taken),
    )


async def measure_take_overs(journal: Journal, faults: int, kinds: Sequence[str]) -> list[TakeOver]:
    with ExitStack() as stack:
        world = World(journal, max(WORKERS), stack, proxies=True)
        client = Client(*await asyncio.open_connection(world.workers[0].host, world.workers[0].port), "measure")
        from coordinator.protocol.messages import CreateTopicsRequest

        topic = CreateTopicsRequest.CreatableTopic(TOPIC, 16, -1)
        await client.call("CreateTopics", 5, topics=[topic], timeout_ms=5_000)
        client.close()
        found = []
        for number in range(faults):
            for fault in kinds:
                wait_until(world.is_spread, lambda: f"an even spread: {world.shards()}", within_s=SPREAD_WITHIN_S)
                found.append(await take_over(world, fault, number % len(world.workers)))
        return found


# --- orderly moves ----------------------------------------------------------------------------------------------------


class Committing:
    """Commits of one group all the time, at the worker that has it."""

    def __init__(self, world: World, group: str) -> None:
        self._world = world
        self._group = group
        self._clients: dict[tuple[str, int], Client] = {}
        self.longest_s = 0.0
        """Between two acknowledged commits."""
        self.workers: set[tuple[str, int]] = set()
        """Those that have acknowledged commits."""

    async def run(self) -> None:
        """Commits until it is cancelled."""
        last_s = time.monotonic()
        where: tuple[str, int] | None = None
        while True:
            try:
                if where is None:
                    alive = [(each.host, each.port) for each in self._world.workers if each.alive]
                    found = await find(await self._client(random.choice(alive)), self._group)
                    where = (found.host, found.port)
                error = await commit(await self._client(where), self._group, TOPIC, 1)
            except (OSError, Closed):
                self._clients.clear()
                error = ErrorCode.NETWORK_EXCEPTION
            if error or where is None:
                where = None
                await asyncio.sleep(ASKED_EVERY_S)
                continue
            now_s = time.monotonic()
            self.longest_s, last_s = max(self.longest_s, now_s - last_s), now_s
            self.workers.add(where)
            await asyncio.sleep(COMMITTED_EVERY_S)

    async def _client(self, address: tuple[str, int]) -> Client:
        if address not in self._clients:
            self._clients[address] = Client(*await asyncio.open_connection(*address), "measure")
        return self._clients[address]


async def silences(world: World, groups: Sequence[str], act: Callable[[], object]) -> list[float]:
    """The longest time without an acknowledged commit, of each group that has moved when all is spread again."""
    clients = [Committing(world, group) for group in groups]
    tasks = [asyncio.create_task(client.run()) for client in clients]
    await asyncio.sleep(1.0)
    for client in clients:
        client.longest_s, client.workers = 0.0, set()
    await asyncio.to_thread(act)
    await asyncio.to_thread(wait_until, world.is_spread, lambda: f"an even spread: {world.shards()}", within_s=60.0)
    await asyncio.sleep(1.0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return [client.longest_s for client in clients if len(client.workers) > 1]


async def measure_restarts(journal: Journal, rounds: int) -> dict[str, list[float]]:
    """Each worker is stopped in order (SIGTERM), and started again when the others have its shards."""
    from coordinator.protocol.messages import CreateTopicsRequest

    found: dict[str, list[float]] = {"SIGTERM": [], "start": []}
    with ExitStack() as stack:
        world = World(journal, max(WORKERS), stack, proxies=False)
        client = Client(*await asyncio.open_connection(world.workers[0].host, world.workers[0].port), "measure")
        topic = CreateTopicsRequest.CreatableTopic(TOPIC, 16, -1)
        await client.call("CreateTopics", 5, topics=[topic], timeout_ms=5_000)
        client.close()
        for number in range(rounds * len(world.workers)):
            wait_until(world.is_spread, lambda: f"an even spread: {world.shards()}", within_s=SPREAD_WITHIN_S)
            index = number % len(world.workers)
            groups = await groups_of(world)
            found["SIGTERM"] += await silences(world, groups[index][:CLIENTS], world.workers[index].terminate)
            rest = [group for each in groups.values() for group in each][:: SHARDS // CLIENTS]
            found["start"] += await silences(world, rest, lambda index=index: world.start(index))
    return found


def print_silences(journal: str, found: Mapping[str, Sequence[float]]) -> None:
    print(f"\nThree workers over {journal}, {SHARDS} shards of groups and {SHARDS} of transactions; seconds without a")
    print(f"commit of a group that moved, which commits every {COMMITTED_EVERY_S * 1000:.0f} ms:\n")
    print("| | groups | median | p90 | worst |\n|---|---|---|---|---|")
    for act, times in found.items():
        ordered = sorted(times)
        print(
            f"| {act} | {len(ordered)} | {statistics.median(ordered):.2f} | {ordered[len(ordered) * 9 // 10]:.2f} |"
            f" {ordered[-1]:.2f} |"
        )


def print_take_overs(journal: str, found: Mapping[int, Sequence[TakeOver]]) -> None:
    """`found`: by the number of commits before."""
    print(
        f"\nThree workers over {journal}, {SHARDS} shards of groups and {SHARDS} of transactions; seconds from the fault on:\n"
    )
    print(
        "| commits before | fault | shards | records | noticed | first taken | last taken | commits again: median | worst"
        " | slowest shard took |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for commits, each in of_all(found):
        print(
            f"| {commits:,} | {each.fault} | {each.shards} | {each.records:,} | {each.noticed:.1f} | {each.first:.1f} |"
            f" {each.last:.1f} | {statistics.median(each.answered):.1f} | {max(each.answered):.1f} |"
            f" {each.slowest_ms / 1000:.2f} |"
        )
    print("\n| commits before | fault | times | noticed | commits again: median | worst |\n|---|---|---|---|---|---|")
    for commits, fault in dict.fromkeys((commits, each.fault) for commits, each in of_all(found)):
        same = [each for each in found[commits] if each.fault == fault]
        times = [at for each in same for at in each.answered]
        print(
            f"| {commits:,} | {fault} | {len(same)} | {statistics.median(each.noticed for each in same):.1f} |"
            f" {statistics.median(times):.1f} | {max(times):.1f} |"
        )


def of_all(found: Mapping[int, Sequence[TakeOver]]) -> Iterator[tuple[int, TakeOver]]:
    return ((commits, each) for commits, some in found.items() for each in some)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--journals", default=",".join(JOURNALS), help="comma-separated")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement of commits")
    parser.add_argument("--faults", type=int, default=3, help="of each kind")
    parser.add_argument(
        "--commits", default="0", help="how many there shall be before the faults; comma-separated, ascending"
    )
    parser.add_argument("--restarts", type=int, default=0, help="rolling restarts")
    parser.add_argument("--kinds", default=",".join(FAULTS), help="of faults; comma-separated")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="of every server; repeatable")
    options = parser.parse_args()
    rows: list[Row] = []
    settings = dict(each.split("=", 1) for each in options.set)
    for name in options.journals.split(","):
        with STARTS[name]() as started:
            journal = started._replace(settings=started.settings | settings)
            made = 0
            if options.seconds:
                numbers = WORKERS if journal.name != "embedded" else (1,)
                for number in numbers:
                    row = measure_commits(journal, number, options.seconds)
                    rows.append(row)
                    made += row.commits
            if options.restarts and journal.ways:
                print_silences(name, uvloop.run(measure_restarts(journal, options.restarts)))
            if options.faults and journal.ways:
                found: dict[int, list[TakeOver]] = {}
                for commits in map(int, options.commits.split(",")):
                    if commits > made:
                        made += run_load(journal, max(WORKERS), warm_up_s=0, seconds=0, commits=commits - made).commits
                    found[made] = uvloop.run(measure_take_overs(journal, options.faults, options.kinds.split(",")))
                print_take_overs(name, found)
    if rows:
        print_commits(rows)


if __name__ == "__main__":
    main()
