"""`coordinator bench`: measures the server CPU per request."""

import click

from coordinator.cli.command_line import Command, examples, refused


@click.command(
    cls=Command,
    epilog=examples(
        "coordinator bench --only Heartbeat --seconds 1",
        "coordinator bench --only soak --soak-minutes 60",
        "coordinator bench --bootstrap localhost:9092 --server-pid 4711 --with-ours",
    ),
)
@click.option("--only", default="", metavar="TEXT", help="Measure only rows whose name contains this.")
@click.option("--seconds", type=float, default=5.0, show_default=True, metavar="S", help="Seconds of one measurement.")
@click.option(
    "--repetitions", type=int, default=3, show_default=True, metavar="N", help="How often each row is measured."
)
@click.option(
    "--durability",
    type=click.Choice(["fsync", "write"]),
    default="write",
    show_default=True,
    help="Durability of the server that this command starts.",
)
@click.option("--bootstrap", metavar="HOST:PORT", help="Measure this server instead of starting one.")
@click.option("--server-pid", type=int, metavar="PID", help="The process id of that server.")
@click.option("--with-ours", is_flag=True, help="Also measure a server that this command starts, row by row.")
@click.option(
    "--warm-up",
    type=float,
    default=1.0,
    show_default=True,
    metavar="S",
    help="Seconds of load before a measurement; a JVM needs about 10.",
)
@click.option(
    "--soak-minutes", type=float, default=5.0, show_default=True, metavar="M", help="Minutes of the soak's row."
)
def bench(
    only: str,
    seconds: float,
    repetitions: int,
    durability: str,
    bootstrap: str | None,
    server_pid: int | None,
    with_ours: bool,
    warm_up: float,
    soak_minutes: float,
) -> int:
    """Measure the server CPU per request, and compare it with a uvloop echo server that sends frames of the same sizes."""
    from coordinator_lab.bench import programs, report

    target = None
    if bootstrap is not None or server_pid is not None:
        host, _, port = (bootstrap or "").rpartition(":")
        if not host or not port.isdigit() or server_pid is None:
            return refused("--bootstrap HOST:PORT and --server-pid PID require each other")
        target = programs.Target(host, int(port), server_pid)
    report.report(
        only, seconds, repetitions, durability, target, warm_up, with_ours=with_ours, soak_minutes=soak_minutes
    )
    return 0
