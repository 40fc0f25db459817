"""Runs a measurement against a server and the echo, several times, and prints medians, spreads and the ratio.

Another server (a Kafka) is measured by the same load, instead of ours or beside it: then each row is a line for each, and
both ran within the same minute, which is what figures of a machine with other work on it need to be compared at all.
"""

import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.metadata import version
from math import log
from pathlib import Path
from statistics import linear_regression, median
from tempfile import TemporaryDirectory
from typing import Any

from coordinator.bench import footprint
from coordinator.bench.consumer import GIVE_UP_S, Convergence, assignor_seconds
from coordinator.bench.data import DATA_ROWS, DataOutcome, DataPlan
from coordinator.bench.load import Outcome, Plan
from coordinator.bench.rebalance import Rebalances
from coordinator.bench.transactions import IDS_LOADED, TRANSACTION_ROWS, TransactionOutcome, TransactionPlan, write_ids


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: what is asked, by how many connections, how many at once."""

    name: str
    request: str
    connections: int
    in_flight: int
    partitions: int
    rate: int = 0
    """Requests per second of all connections; 0: each asks again when it is answered."""


PACED = 5_000
ROWS = (
    Row("heartbeat, 1 connection x16", "heartbeat", 1, 16, 0),
    Row("heartbeat, 100 connections", "heartbeat", 100, 1, 0),
    Row("consumer heartbeat, 100 connections", "consumer heartbeat", 100, 1, 0),
    Row("heartbeat, 1,000 connections", "heartbeat", 1_000, 1, 0),
    Row("heartbeat, 1,000 connections, paced 5,000/s", "heartbeat", 1_000, 1, 0, PACED),
    Row("consumer heartbeat, 1,000 connections, paced 5,000/s", "consumer heartbeat", 1_000, 1, 0, PACED),
    Row("commit 1 partition, 1 connection x16", "commit", 1, 16, 1),
    Row("commit 1 partition, 100 connections", "commit", 100, 1, 1),
    Row("commit 1 partition, 1,000 connections", "commit", 1_000, 1, 1),
    Row("commit 10 partitions, 100 connections", "commit", 100, 1, 10),
)


EVENT_ROWS = (
    Row("events of commits of 1 partition, 1 connection x16", "commit", 1, 16, 1),
    Row("events of commits of 1 partition, 100 connections", "commit", 100, 1, 1),
    Row("events of commits of 10 partitions, 100 connections", "commit", 100, 1, 10),
)
EVENT_POLICIES = ("none", "refused", "all")
REBALANCE_MEMBERS = (100, 1_000, 3_000)
FORMING = "group.initial.rebalance.delay.ms=1000"
FOOTPRINT_CONNECTIONS = 1_000
FOOTPRINT_OFFSETS = (100_000, 300_000)
CONSUMER_GROUPS = ((100, 1_000), (300, 3_000), (1_000, 10_000), (1_000, 100_000))
"""Members and partitions."""
LONG = 100_000_000
"""Members x partitions of a group that is formed once and not `repetitions` times."""
ASSIGNMENT_INTERVALS_MS = (1_000, 0)
GROUP_AT_REST = (10_000, 10_000)
"""Members and partitions of the group whose heartbeats are counted."""
GROUP_AT_REST_S = 5.0


@dataclass(frozen=True, slots=True)
class Target:
    """A server under measurement: loopback address and process id."""

    host: str
    port: int
    pid: int


@dataclass(frozen=True, slots=True)
class Contender:
    """A server that is measured. `start(*settings)` gives it for one measurement; another than ours has the settings it has."""

    suffix: str
    """Behind the names of its rows."""
    start: Callable[..., AbstractContextManager[Target]]
    is_ours: bool


def contenders(durability: str, target: Target | None, *, with_ours: bool) -> list[Contender]:
    """Ours, the one at `target`, or both."""
    ours = Contender("", partial(own_server, durability), is_ours=True)
    if target is None:
        return [ours]
    theirs = Contender(" *" if with_ours else "", lambda *_settings: nullcontext(target), is_ours=False)
    return [ours, theirs] if with_ours else [theirs]


@contextmanager
def own_server(durability: str, *settings: str) -> Iterator[Target]:
    """Our server on free ports with an empty data folder, and one shard, as the single-node Kafka it is compared with."""
    with TemporaryDirectory() as folder:
        wanted = (f"durability={durability}", "group.initial.rebalance.delay.ms=0", "offsets.topic.num.partitions=1")
        with footprint.served(folder, *wanted, *settings) as (port, process):
            yield Target("127.0.0.1", port, process.pid)


@contextmanager
def echo_server(answer_bytes: int) -> Iterator[Target]:
    """The bare echo with answers of the given size."""
    command = [sys.executable, "-m", "coordinator.bench.echo", str(answer_bytes)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603
    try:
        assert process.stdout is not None
        yield Target("127.0.0.1", int(process.stdout.readline()), process.pid)
    finally:
        process.kill()
        process.wait()


def measure(plan: Plan) -> Outcome:
    """One run of the load generator, in a process of its own."""
    return Outcome(**_loaded("coordinator.bench.load", asdict(plan)))


def _loaded(module: str, plan: dict[str, Any]) -> dict[str, Any]:
    return _run(module, json.dumps(plan))


def _run(module: str, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise SystemExit(f"bench: the load generator failed: {done.stderr.strip()[-500:]}")
    outcome: dict[str, Any] = json.loads(done.stdout)
    return outcome


def spread(values: list[float], digits: int = 1) -> str:
    return f"{median(values):5.{digits}f} ({min(values):.{digits}f}-{max(values):.{digits}f})"


def report(
    match: str,
    seconds: float,
    repetitions: int,
    durability: str,
    target: Target | None,
    warm_up_s: float = 1.0,
    *,
    with_ours: bool = False,
) -> None:
    """Prints a table of the rows whose name contains `match`."""
    servers = contenders(durability, target, with_ours=with_ours)
    print(machine())  # noqa: T201
    print(f"median (min-max) of {repetitions} runs of {seconds:g} s; durability: {durability}")  # noqa: T201
    if with_ours and target is not None:
        print(f"* the server at {target.host}:{target.port}")  # noqa: T201
    report_requests([row for row in ROWS if match in row.name], servers, seconds, repetitions, warm_up_s)
    if target is None or with_ours:
        report_events(match, seconds, repetitions, durability, warm_up_s)
    report_data(match, servers, seconds, repetitions, warm_up_s)
    report_transactions(match, servers, seconds, repetitions, warm_up_s)
    report_rebalances(match, servers, repetitions)
    report_consumer_groups(match, servers, repetitions)
    if target is None or with_ours:
        report_ids_loaded(match, repetitions)
        report_footprint(match, repetitions)


def machine() -> str:
    """What figures of two runs may differ by: processor, system, Python, and what else runs."""
    cpuinfo = Path("/proc/cpuinfo")
    model = re.search(r"model name\s*:\s*(.+)", cpuinfo.read_text(encoding="utf-8") if cpuinfo.exists() else "")
    processor = model[1] if model else platform.processor() or platform.machine()
    python = f"Python {platform.python_version()}, uvloop {version('uvloop')}"
    load = " ".join(f"{each:.1f}" for each in os.getloadavg())
    return f"{processor}, {os.cpu_count()} cores; {platform.system()} {platform.release()}; {python}; load {load}"


def report_requests(
    rows: Sequence[Row], servers: Sequence[Contender], seconds: float, repetitions: int, warm_up_s: float
) -> None:
    """Each row: CPU per request of each server and of the echo, and how fast it went."""
    costs: dict[str, float] = {}
    if rows:
        print(f"\n{'CPU us per request':54} {'server':>20} {'echo':>20} {'ratio':>6} {'req/s':>9}")  # noqa: T201
    for row in rows:
        plan = Plan(
            "", 0, row.request, row.connections, row.in_flight, row.partitions, warm_up_s, seconds, 0,
            joins=True, rate=row.rate,
        )  # fmt: skip
        found: dict[str, list[Outcome]] = {server.suffix: [] for server in servers}
        floor: list[float] = []
        for _ in range(repetitions):
            for server in servers:
                with server.start() as at:
                    found[server.suffix].append(measure(replace(plan, host=at.host, port=at.port, server_pid=at.pid)))
            with echo_server(found[servers[0].suffix][-1].answer_bytes) as echo:
                own = replace(plan, host=echo.host, port=echo.port, server_pid=echo.pid, joins=False, warm_up_s=1.0)
                bare = measure(own)
            floor.append(bare.server_cpu_s / bare.answers * 1e6)
        for suffix, outcomes in found.items():
            cost = [outcome.server_cpu_s / outcome.answers * 1e6 for outcome in outcomes]
            rate = median(outcome.answers / outcome.seconds for outcome in outcomes)
            p99 = f"   p99 {median(outcome.p99_us for outcome in outcomes):,.0f} us" if row.rate else ""
            ratio = median(cost) / median(floor)
            figures = f"{spread(cost):>20} {spread(floor):>20} {ratio:6.2f} {rate:9,.0f}{p99}"
            print(f"{row.name + suffix:54} {figures}", flush=True)  # noqa: T201
            costs[row.name + suffix] = median(cost)
    for how in ("100 connections", "1,000 connections, paced 5,000/s"):
        if f"heartbeat, {how}" in costs and f"consumer heartbeat, {how}" in costs:
            ratio = costs[f"consumer heartbeat, {how}"] / costs[f"heartbeat, {how}"]
            print(f"a consumer heartbeat costs {ratio:.2f} of a classic one ({how})", flush=True)  # noqa: T201


def report_transactions(
    match: str, servers: Sequence[Contender], seconds: float, repetitions: int, warm_up_s: float
) -> None:
    """Transactions per second, what one costs the server, and how long one takes."""
    rows = [row for row in TRANSACTION_ROWS if match in row.name]
    if rows:
        head = ("per second", "server CPU us each", "median ms", "p99 ms")
        print(f"\n{'':56} " + " ".join(f"{title:>22}" for title in head))  # noqa: T201
    for row in rows:
        found: dict[str, list[TransactionOutcome]] = {server.suffix: [] for server in servers}
        for _ in range(repetitions):
            for server in servers:
                with server.start("transaction.state.log.num.partitions=1") as at:
                    plan = TransactionPlan(at.host, at.port, row.producers, warm_up_s, seconds, at.pid)
                    outcome = TransactionOutcome(**_loaded("coordinator.bench.transactions", asdict(plan)))
                    found[server.suffix].append(outcome)
        for suffix, runs in found.items():
            columns = (
                [run.transactions / run.seconds for run in runs],
                [run.server_cpu_s / run.transactions * 1e6 for run in runs],
                [run.p50_ms for run in runs],
                [run.p99_ms for run in runs],
            )
            repeated = sum(run.repeated for run in runs) / sum(run.transactions for run in runs)
            figures = " ".join(f"{spread(column):>22}" for column in columns)
            print(f"{row.name + suffix:56} {figures}   {repeated:.2f} repeated requests each", flush=True)  # noqa: T201


def report_ids_loaded(match: str, repetitions: int) -> None:
    """How much later a server is ready with so many transactional ids in its log; of our own server only."""
    name = f"{IDS_LOADED:,} transactional ids loaded at the start"
    if match not in name:
        return
    wall_ms, cpu_ms = [], []
    for _ in range(repetitions):
        with TemporaryDirectory() as folder:
            empty = footprint.ready(folder)
        with TemporaryDirectory() as folder:
            write_ids(IDS_LOADED, folder)
            full = footprint.ready(folder)
        wall_ms.append(full[0] - empty[0])
        cpu_ms.append(full[1] - empty[1])
    figures = f"{spread(wall_ms, 0).strip()} ms more than an empty start, {spread(cpu_ms, 0).strip()} ms of CPU"
    print(f"\n{name}: {figures}", flush=True)  # noqa: T201


def report_events(match: str, seconds: float, repetitions: int, durability: str, warm_up_s: float) -> None:
    """What the event log costs a commit: our server with and without it, in turn, so that both see the same machine."""
    rows = [row for row in EVENT_ROWS if match in row.name]
    if rows:
        heads = " ".join(f"{f'events {policy}':>20}" for policy in EVENT_POLICIES)
        print(f"\n{'CPU us per request':54} {heads} {'all - none':>20}")  # noqa: T201
    for row in rows:
        costs: dict[str, list[float]] = {policy: [] for policy in EVENT_POLICIES}
        for _ in range(repetitions):
            for policy in EVENT_POLICIES:
                with own_server(durability, f"coordinator.events={policy}") as at:
                    outcome = measure(
                        Plan(
                            at.host, at.port, row.request, row.connections, row.in_flight, row.partitions, warm_up_s,
                            seconds, at.pid, joins=True,
                        )
                    )  # fmt: skip
                costs[policy].append(outcome.server_cpu_s / outcome.answers * 1e6)
        more = [each - base for each, base in zip(costs["all"], costs["none"], strict=True)]
        columns = " ".join(f"{spread(column):>20}" for column in [*costs.values(), more])
        print(f"{row.name:54} {columns}", flush=True)  # noqa: T201


def report_rebalances(match: str, servers: Sequence[Contender], repetitions: int) -> None:
    """Server CPU of a classic rebalance by members, and the exponent by which it grows from 1,000 to 3,000.

    Members that come within the delay are one generation, as in a deployment; without it each would be one."""
    counts = [count for count in REBALANCE_MEMBERS if match in f"rebalance of {count:,} members"]
    if counts:
        print(f"\n{'server CPU in ms':42} {'form':>22} {'one joins':>22} {'one leaves':>22} {'form: wall':>22}")  # noqa: T201
    form: dict[tuple[str, int], float] = {}
    for count in counts:
        steps: dict[str, list[Rebalances]] = {server.suffix: [] for server in servers}
        for _ in range(repetitions):
            for server in servers:
                with server.start(FORMING) as at:
                    arguments = (at.host, str(at.port), str(at.pid), str(count))
                    steps[server.suffix].append(Rebalances(**_run("coordinator.bench.rebalance", *arguments)))
        for suffix, found in steps.items():
            form[suffix, count] = median(step.form_ms for step in found)
            columns = (
                [step.form_ms for step in found],
                [step.joins_ms for step in found],
                [step.leaves_ms for step in found],
                [step.form_wall_ms for step in found],
            )
            name = f"rebalance of {count:,} members{suffix}"
            print(f"{name:42} " + " ".join(f"{spread(column):>22}" for column in columns), flush=True)  # noqa: T201
    for server in servers:
        few, many = form.get((server.suffix, 1_000)), form.get((server.suffix, 3_000))
        if few and many:
            exponent = log(many / few) / log(3)
            print(f"growth of forming from 1,000 to 3,000 members{server.suffix}: exponent {exponent:.2f}")  # noqa: T201


def report_consumer_groups(match: str, servers: Sequence[Contender], repetitions: int) -> None:
    """A consumer group from nothing to all stable, one leaving, growth, and the assignor alone (ours, without a server).

    A server that is not ours has the assignment interval it has; it is taken for the default."""
    rows = [
        (server, interval, size, name)
        for interval in ASSIGNMENT_INTERVALS_MS
        for size in CONSUMER_GROUPS
        if match in (name := f"consumer group {size[0]:,} x {size[1]:,}, interval {interval}")
        for server in servers
        if server.is_ours or interval == ASSIGNMENT_INTERVALS_MS[0]
    ]
    if rows:
        head = ("form: CPU", "wall", "one leaves: CPU", "wall")
        print(f"\n{'s, of server CPU and wall clock':46} " + " ".join(f"{title:>18}" for title in head))  # noqa: T201
    form: dict[str, dict[int, float]] = {}
    for contender, interval, (members, partitions), name in rows:
        settings = (
            f"group.consumer.assignment.interval.ms={interval}",
            "limit.partitions=200000",
            # In a large group a heartbeat may wait long for its turn.
            f"group.consumer.max.session.timeout.ms={GIVE_UP_S * 1000:.0f}",
            f"group.consumer.session.timeout.ms={GIVE_UP_S * 1000:.0f}",
        )
        runs: list[Convergence] = []
        for _ in range(repetitions if members * partitions < LONG else 1):
            with contender.start(*settings) as server:
                arguments = (server.host, server.port, server.pid, members, partitions)
                runs.append(Convergence(**_run("coordinator.bench.consumer", *map(str, arguments))))
        cpu = form.setdefault(f"forming, interval {interval}{contender.suffix}", {})
        cpu[members * partitions] = median(run.form_cpu_s for run in runs)
        columns = (
            [run.form_cpu_s for run in runs],
            [run.form_wall_s for run in runs],
            [run.leave_cpu_s for run in runs],
            [run.leave_wall_s for run in runs],
        )
        figures = " ".join(f"{spread(column, 2):>18}" for column in columns)
        print(f"{name + contender.suffix:46} {figures}", flush=True)  # noqa: T201
    for what, cpu in form.items():
        _print_growth(what, cpu)
    report_group_at_rest(match, servers)
    alone: dict[int, float] = {}
    for members, partitions in CONSUMER_GROUPS if servers[0].is_ours else ():
        name = f"uniform assignor alone, {members:,} x {partitions:,}"
        if match in name:
            fresh, again = assignor_seconds(members, partitions, repetitions)
            alone[members * partitions] = fresh
            print(f"{name}: {fresh:.4f} s from nothing, {again:.4f} s after one left", flush=True)  # noqa: T201
    _print_growth("the uniform assignor", alone)


def _print_growth(what: str, cost: dict[int, float]) -> None:
    """The exponent by which a cost grows with members x partitions: the slope of the straight line through the logarithms."""
    if len(cost) < 2:
        return
    sizes, costs = [log(size) for size in cost], [log(max(each, 0.001)) for each in cost.values()]
    exponent = linear_regression(sizes, costs).slope
    print(f"growth of {what} with members x partitions: exponent {exponent:.2f} (1 is linear)", flush=True)  # noqa: T201


def report_group_at_rest(match: str, servers: Sequence[Contender]) -> None:
    """Heartbeats per second of one large group, and what one costs; measured once, for the group takes a while to form."""
    members, partitions = GROUP_AT_REST
    name = f"consumer heartbeats of one group of {members:,} members"
    if match not in name:
        return
    room = f"max.connections={3 * members}", f"max.connections.per.ip={3 * members}"
    for contender in servers:
        with contender.start(*room) as server:
            arguments = (server.host, server.port, server.pid, members, partitions, GROUP_AT_REST_S)
            outcome = Outcome(**_run("coordinator.bench.consumer", *map(str, arguments)))
        rate, cost = outcome.answers / outcome.seconds, outcome.server_cpu_s / outcome.answers * 1e6
        print(f"\n{name}{contender.suffix}: {rate:,.0f} per second, {cost:.1f} us of server CPU each", flush=True)  # noqa: T201


def report_footprint(match: str, repetitions: int) -> None:
    """Start-up, memory, idle CPU, restart; of our own server only, for it is started and killed."""
    name = "footprint with 1,000 connections and 1,000 members"
    if match in name:
        _print_figures(
            name,
            [footprint.measure_connections(FOOTPRINT_CONNECTIONS) for _ in range(repetitions)],
            {
                "ready after exec, ms": ("start_ms", 0),
                "CPU until then, ms": ("start_cpu_ms", 0),
                "idle CPU, ms per s": ("idle_cpu_ms", 1),
                "RSS idle, MiB": ("rss_idle_mib", 0),
                "RSS with the connections, MiB": ("rss_connections_mib", 0),
                "RSS with as many members of a group, MiB": ("rss_members_mib", 0),
            },
        )
    for offsets in FOOTPRINT_OFFSETS:
        name = f"footprint with {offsets:,} offsets"
        if match in name:
            _print_figures(
                name,
                [footprint.measure_offsets(offsets) for _ in range(repetitions)],
                {
                    "RSS, MiB": ("rss_mib", 0),
                    "after kill -9 an offset is answered after exec, ms": ("restart_ms", 0),
                    "replayed offset commits per second of CPU": ("replayed_per_s", 0),
                },
            )


def _print_figures(name: str, runs: Sequence[object], figures: dict[str, tuple[str, int]]) -> None:
    """A line for each figure: its title, and the attribute of the runs and the digits it is shown with."""
    print(f"\n{name}", flush=True)  # noqa: T201
    for title, (attribute, digits) in figures.items():
        print(f"  {title:52} {spread([getattr(run, attribute) for run in runs], digits)}", flush=True)  # noqa: T201


def report_data(match: str, servers: Sequence[Contender], seconds: float, repetitions: int, warm_up_s: float) -> None:
    """The same for the data plane, without an echo: megabytes of record batches per second and CPU per megabyte."""
    rows = [row for row in DATA_ROWS if match in row.name]
    if rows:
        print(f"\n{'':42} {'MB/s':>22} {'server CPU us per MB':>26}")  # noqa: T201
    for row in rows:
        found: dict[str, list[DataOutcome]] = {server.suffix: [] for server in servers}
        for _ in range(repetitions):
            for server in servers:
                with server.start() as at:
                    plan = DataPlan(
                        at.host, at.port, row.request, row.connections, row.in_flight, warm_up_s, seconds, at.pid
                    )
                    outcome = DataOutcome(**_loaded("coordinator.bench.data", asdict(plan)))
                found[server.suffix].append(outcome)
        for suffix, outcomes in found.items():
            rates = [outcome.batch_bytes / outcome.seconds / 1e6 for outcome in outcomes]
            costs = [outcome.server_cpu_s / (outcome.batch_bytes / 1e6) * 1e6 for outcome in outcomes]
            print(f"{row.name + suffix:42} {spread(rates):>22} {spread(costs):>26}", flush=True)  # noqa: T201
