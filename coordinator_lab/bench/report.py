"""Runs the measurements several times and prints medians, ranges and the ratio to the echo server.

Another server, such as Kafka, can be measured with the same load, instead of this server or in addition to it. In addition, a
row has a line for each server. Both are measured within the same minute, because otherwise the results could not be compared
on a machine that also does other work.
"""

import os
import platform
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from math import log
from pathlib import Path
from statistics import linear_regression, median
from tempfile import TemporaryDirectory

from coordinator_lab.bench import footprint
from coordinator_lab.bench.access_control import ACCESS_CONTROL
from coordinator_lab.bench.consumer import GIVE_UP_S, Convergence, assignor_seconds
from coordinator_lab.bench.control import CONTROL
from coordinator_lab.bench.data import DATA_ROWS, DataOutcome, DataPlan
from coordinator_lab.bench.flood import report_floods
from coordinator_lab.bench.load import Outcome, Plan
from coordinator_lab.bench.programs import (
    FORMING,
    Contender,
    Target,
    contenders,
    echo_server,
    own_server,
    run_plan,
    run_program,
    spread,
)
from coordinator_lab.bench.quotas import QUOTAS
from coordinator_lab.bench.rebalance import RANGE, Rebalances
from coordinator_lab.bench.share import IN_FLIGHT, SHARE_ROWS, ShareOutcome, SharePlan, measure_in_flight
from coordinator_lab.bench.soak import measure_soak
from coordinator_lab.bench.tls import report_tls
from coordinator_lab.bench.transactions import (
    IDS_LOADED,
    TRANSACTION_ROWS,
    TransactionOutcome,
    TransactionPlan,
    write_ids,
)
from coordinator_lab.bench.validation import report_validation


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table: the kind of request, and the numbers of connections and of requests in progress on each."""

    name: str
    request: str
    connections: int
    in_flight: int
    partitions: int
    rate: int = 0
    """Requests per second of all connections. 0: each sends the next request when it has a response."""


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
FOOTPRINT_CONNECTIONS = 1_000
FOOTPRINT_OFFSETS = (100_000, 300_000)
CONSUMER_GROUPS = ((100, 1_000), (300, 3_000), (1_000, 10_000), (1_000, 100_000))
"""Members and partitions of each group."""
ASSIGNOR_TOPICS = 10
"""The assignor by itself is also measured with the partitions of the largest group in this many topics."""
LONG = 100_000_000
"""A group with this product of members and partitions is formed only once."""
ASSIGNMENT_INTERVALS_MS = (1_000, 0)
STABLE_GROUP = (10_000, 10_000)
"""Members and partitions of the stable group whose heartbeats are measured."""
STABLE_GROUP_S = 5.0


def measure(plan: Plan) -> Outcome:
    """Runs the load generator in its own process."""
    return Outcome(**run_plan("coordinator_lab.bench.load", asdict(plan)))


def report(
    match: str,
    seconds: float,
    repetitions: int,
    durability: str,
    target: Target | None,
    warm_up_s: float = 1.0,
    *,
    with_ours: bool = False,
    soak_minutes: float = 5.0,
) -> None:
    """Measures the rows whose name contains `match` and prints tables."""
    servers = contenders(durability, target, with_ours=with_ours)
    print(machine())  # noqa: T201
    print(f"median (min-max) of {repetitions} runs of {seconds:g} s; durability: {durability}")  # noqa: T201
    if with_ours and target is not None:
        print(f"* the server at {target.host}:{target.port}")  # noqa: T201
    report_requests([row for row in ROWS if match in row.name], servers, seconds, repetitions, warm_up_s)
    if target is None or with_ours:
        report_events(match, seconds, repetitions, durability, warm_up_s)
        for table in (CONTROL, ACCESS_CONTROL, QUOTAS):
            table.report(match, seconds, repetitions, durability, warm_up_s)
        report_tls(match, seconds, repetitions, durability, warm_up_s)
        report_validation(match, repetitions, durability)
    report_floods(match, servers, seconds, repetitions)
    report_data(match, servers, seconds, repetitions, warm_up_s)
    report_share_groups(match, servers, seconds, repetitions, warm_up_s)
    report_transactions(match, servers, seconds, repetitions, warm_up_s)
    report_rebalances(match, servers, repetitions)
    report_consumer_groups(match, servers, repetitions)
    if target is None or with_ours:
        report_transactional_ids(match, repetitions)
        report_footprint(match, repetitions)
        report_soak(match, soak_minutes)


def machine() -> str:
    """What can make results of two runs differ: processor, system, Python, and other load."""
    cpuinfo = Path("/proc/cpuinfo")
    model = re.search(r"model name\s*:\s*(.+)", cpuinfo.read_text(encoding="utf-8") if cpuinfo.exists() else "")
    processor = model[1] if model else platform.processor() or platform.machine()
    python = f"Python {platform.python_version()}, uvloop {version('uvloop')}"
    load = " ".join(f"{each:.1f}" for each in os.getloadavg())
    return f"{processor}, {os.cpu_count()} cores; {platform.system()} {platform.release()}; {python}; load {load}"


def report_requests(
    rows: Sequence[Row], servers: Sequence[Contender], seconds: float, repetitions: int, warm_up_s: float
) -> None:
    """CPU time per request of each server and of the echo server, and requests per second."""
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
            print(f"a consumer heartbeat costs {ratio:.2f} times a classic one ({how})", flush=True)  # noqa: T201


def report_transactions(
    match: str, servers: Sequence[Contender], seconds: float, repetitions: int, warm_up_s: float
) -> None:
    """Transactions per second, the CPU time of the server for each, and their duration."""
    rows = [row for row in TRANSACTION_ROWS if match in row.name]
    if rows:
        head = ("per second", "server CPU us each", "median ms", "p99 ms")
        print(f"\n{'':56} " + " ".join(f"{title:>22}" for title in head))  # noqa: T201
    for row in rows:
        found: dict[str, list[TransactionOutcome]] = {server.suffix: [] for server in servers}
        for _ in range(repetitions):
            for server in servers:
                with server.start() as at:
                    plan = TransactionPlan(at.host, at.port, row.producers, warm_up_s, seconds, at.pid)
                    outcome = TransactionOutcome(**run_plan("coordinator_lab.bench.transactions", asdict(plan)))
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
            print(f"{row.name + suffix:56} {figures}   {repeated:.2f} retried requests each", flush=True)  # noqa: T201


def report_transactional_ids(match: str, repetitions: int) -> None:
    """The additional start-up time with many transactional ids in the log, for this server only."""
    name = f"{IDS_LOADED:,} transactional ids loaded at the start"
    if match not in name:
        return
    wall_ms, cpu_ms = [], []
    for _ in range(repetitions):
        with TemporaryDirectory() as folder:
            empty = footprint.start_up_ms(folder)
        with TemporaryDirectory() as folder:
            write_ids(IDS_LOADED, folder)
            full = footprint.start_up_ms(folder)
        wall_ms.append(full[0] - empty[0])
        cpu_ms.append(full[1] - empty[1])
    figures = f"{spread(wall_ms, 0).strip()} ms more than an empty start, {spread(cpu_ms, 0).strip()} ms of CPU"
    print(f"\n{name}: {figures}", flush=True)  # noqa: T201


def report_events(match: str, seconds: float, repetitions: int, durability: str, warm_up_s: float) -> None:
    """The cost of the event log for commits: this server with each policy in turn, under the same conditions."""
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
    """CPU time of the server for classic rebalances, and the exponent of its growth from 1,000 to 3,000 members.

    With an initial rebalance delay the members form one generation, as in a deployment. Without it there would be many.
    """
    counts = [count for count in REBALANCE_MEMBERS if match in f"rebalance of {count:,} members"]
    if counts:
        print(f"\n{'server CPU in ms':42} {'form':>22} {'one joins':>22} {'one leaves':>22} {'form: wall':>22}")  # noqa: T201
    form: dict[tuple[str, int], float] = {}
    for count in counts:
        steps: dict[str, list[Rebalances]] = {server.suffix: [] for server in servers}
        for _ in range(repetitions):
            for server in servers:
                with server.start(FORMING) as at:
                    arguments = (at.host, str(at.port), str(at.pid), str(count), RANGE)
                    steps[server.suffix].append(
                        Rebalances(**run_program("coordinator_lab.bench.rebalance", *arguments))
                    )
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
    """CPU time and wall-clock time of rebalances of consumer groups, the growth, and the assignor by itself.

    Another server is measured with the default assignment interval only, which it is assumed to have.
    """
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
            # In a large group a heartbeat can wait for a long time.
            f"group.consumer.max.session.timeout.ms={GIVE_UP_S * 1000:.0f}",
            f"group.consumer.session.timeout.ms={GIVE_UP_S * 1000:.0f}",
        )
        runs: list[Convergence] = []
        for _ in range(repetitions if members * partitions < LONG else 1):
            with contender.start(*settings) as server:
                arguments = (server.host, server.port, server.pid, members, partitions)
                runs.append(Convergence(**run_program("coordinator_lab.bench.consumer", *map(str, arguments))))
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
    report_stable_group(match, servers)
    alone: dict[int, float] = {}
    rows_of_assignor = [(*size, 1) for size in CONSUMER_GROUPS] + [(*CONSUMER_GROUPS[-1], ASSIGNOR_TOPICS)]
    for members, partitions, topics in rows_of_assignor if servers[0].is_ours else ():
        name = f"uniform assignor alone, {members:,} x {partitions:,}{f' in {topics} topics' if topics > 1 else ''}"
        if match in name:
            new, after_leave = assignor_seconds(members, partitions, topics, repetitions)
            if topics == 1:
                alone[members * partitions] = new
            print(f"{name}: {new:.4f} s for a new group, {after_leave:.4f} s after one left", flush=True)  # noqa: T201
    _print_growth("the uniform assignor", alone)


def _print_growth(what: str, cost: dict[int, float]) -> None:
    """Prints the exponent of the growth with members x partitions: the slope of a line through the logarithms."""
    if len(cost) < 2:
        return
    sizes, costs = [log(size) for size in cost], [log(max(each, 0.001)) for each in cost.values()]
    exponent = linear_regression(sizes, costs).slope
    print(f"growth of {what} with members x partitions: exponent {exponent:.2f} (linear: 1)", flush=True)  # noqa: T201


def report_stable_group(match: str, servers: Sequence[Contender]) -> None:
    """Heartbeats per second of one large group, and the CPU time for each. It is measured once, because forming takes long."""
    members, partitions = STABLE_GROUP
    name = f"consumer heartbeats of one group of {members:,} members"
    if match not in name:
        return
    room = f"max.connections={3 * members}", f"max.connections.per.ip={3 * members}"
    for contender in servers:
        with contender.start(*room) as server:
            arguments = (server.host, server.port, server.pid, members, partitions, STABLE_GROUP_S)
            outcome = Outcome(**run_program("coordinator_lab.bench.consumer", *map(str, arguments)))
        rate, cost = outcome.answers / outcome.seconds, outcome.server_cpu_s / outcome.answers * 1e6
        print(f"\n{name}{contender.suffix}: {rate:,.0f} per second, {cost:.1f} us of server CPU each", flush=True)  # noqa: T201


def report_footprint(match: str, repetitions: int) -> None:
    """Start-up time, memory, idle CPU and restarts, for this server only."""
    name = "footprint with 1,000 connections and 1,000 members"
    if match in name:
        _print_figures(
            name,
            [footprint.measure_connections(FOOTPRINT_CONNECTIONS) for _ in range(repetitions)],
            {
                "from exec to ready, ms": ("start_ms", 0),
                "CPU time until ready, ms": ("start_cpu_ms", 0),
                "first group, ms of CPU more than the second": ("first_group_ms", 1),
                "CPU time while idle, ms per s": ("idle_cpu_ms", 1),
                "RSS while idle, MiB": ("rss_idle_mib", 0),
                "RSS with the connections, MiB": ("rss_connections_mib", 0),
                "RSS with as many members of one group, MiB": ("rss_members_mib", 0),
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
                    "RSS per offset, bytes": ("bytes_each", 0),
                    "after kill -9, from exec to an OffsetFetch response, ms": ("restart_ms", 0),
                    "offset commits replayed per second of CPU": ("replayed_per_s", 0),
                },
            )
    name = f"footprint with {IN_FLIGHT:,} records in flight in a share group"
    if match in name:
        _print_figures(
            name,
            [measure_in_flight() for _ in range(repetitions)],
            {
                "RSS per record, bytes": ("acquired_bytes", 0),
                "RSS per record if every second one is accepted, bytes": ("alternating_bytes", 0),
            },
        )


def report_soak(match: str, minutes: float) -> None:
    """What groups that were deleted leave behind in memory, for this server only."""
    name = f"soak: classic groups come and go for {minutes:g} minutes"
    if match in name:
        _print_figures(
            name,
            [measure_soak(minutes)],
            {
                "groups": ("groups", 0),
                "RSS at the beginning, MiB": ("rss_begin_mib", 1),
                "RSS at the end, MiB": ("rss_end_mib", 1),
                "slope of the second half, MiB per minute": ("slope_per_minute", 2),
                "slope of the second half, MiB per 1,000 groups": ("slope_per_1000_groups", 3),
            },
        )


def _print_figures(name: str, runs: Sequence[object], figures: dict[str, tuple[str, int]]) -> None:
    """Prints a line per title, with an attribute of the runs and the number of digits."""
    print(f"\n{name}", flush=True)  # noqa: T201
    for title, (attribute, digits) in figures.items():
        print(f"  {title:52} {spread([getattr(run, attribute) for run in runs], digits)}", flush=True)  # noqa: T201


def report_data(match: str, servers: Sequence[Contender], seconds: float, repetitions: int, warm_up_s: float) -> None:
    """Megabytes of record batches per second and CPU time of the server per megabyte, without the echo server."""
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
                    outcome = DataOutcome(**run_plan("coordinator_lab.bench.data", asdict(plan)))
                found[server.suffix].append(outcome)
        for suffix, outcomes in found.items():
            rates = [outcome.batch_bytes / outcome.seconds / 1e6 for outcome in outcomes]
            costs = [outcome.server_cpu_s / (outcome.batch_bytes / 1e6) * 1e6 for outcome in outcomes]
            print(f"{row.name + suffix:42} {spread(rates):>22} {spread(costs):>26}", flush=True)  # noqa: T201


def report_share_groups(
    match: str, servers: Sequence[Contender], seconds: float, repetitions: int, warm_up_s: float
) -> None:
    """Records that a share group settles per second, CPU time of the server for each, and the same of consumer groups."""
    rows = [row for row in SHARE_ROWS if match in row.name]
    if rows:
        print(f"\n{'':60} {'records/s':>24} {'server CPU us per record':>26}")  # noqa: T201
    for row in rows:
        found: dict[str, list[ShareOutcome]] = {server.suffix: [] for server in servers}
        for _ in range(repetitions):
            for server in servers:
                with server.start() as at:
                    plan = SharePlan(at.host, at.port, row.kind, row.partitions, warm_up_s, seconds, at.pid)
                    outcome = ShareOutcome(**run_plan("coordinator_lab.bench.share", asdict(plan)))
                found[server.suffix].append(outcome)
        for suffix, outcomes in found.items():
            rates = [outcome.records / outcome.seconds for outcome in outcomes]
            costs = [outcome.server_cpu_s / outcome.records * 1e6 for outcome in outcomes]
            print(f"{row.name + suffix:60} {spread(rates, 0):>24} {spread(costs, 2):>26}", flush=True)  # noqa: T201
