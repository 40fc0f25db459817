"""`coordinator simulate`: runs the whole server in a simulated world of faults."""

import click

from coordinator.cli.command_line import Command, examples, refused


@click.command(
    cls=Command,
    epilog=examples(
        "coordinator simulate --seeds 100",
        "coordinator simulate --seed 17 --seconds 300 --shrink",
        "coordinator simulate --workers 3 --seeds 20",
    ),
)
@click.option("--seed", type=int, default=1, show_default=True, metavar="N", help="The first seed.")
@click.option("--seeds", type=int, default=1, show_default=True, metavar="COUNT", help="How many seeds to run.")
@click.option(
    "--seconds",
    type=float,
    default=60.0,
    show_default=True,
    metavar="S",
    help="For how many simulated seconds faults occur.",
)
@click.option(
    "--workers",
    type=click.IntRange(0, 9),
    default=None,
    metavar="N",
    help="Run N workers over a simulated engine; 0: one server with its own journal. By default one seed in eight has 2 or 3.",
)
@click.option("--plan", "text", metavar="TEXT", help="Run one plan, as an earlier run printed it, instead of seeds.")
@click.option("--shrink", "shrinks", is_flag=True, help="Reduce a failing plan to a smaller one that still fails.")
def simulate(seed: int, seeds: int, seconds: float, workers: int | None, text: str | None, shrinks: bool) -> int:
    """Run one seed after another in a simulated world of faults.

    If a seed violates an invariant, print its plan, its trace and its last events, and exit with code 1.
    """
    from coordinator_lab.simulation import plan, shrink, simulator

    if text is None:
        plans = [
            plan.draw(each, seconds, plan.workers_of(each) if workers is None else workers)
            for each in range(seed, seed + seeds)
        ]
    else:
        try:
            plans = [plan.Plan.parse(text)]
        except ValueError as error:
            return refused(error)
    failed = 0
    for each in plans:
        if len(plans) == 1:
            print(f"plan: {each}")
        report = simulator.run(each)
        print(report, flush=True)
        if report.broken is None:
            continue
        failed += 1
        if shrinks:
            report = shrink.shrink(each, simulator.run, lambda smaller: print(f"smaller: {smaller}", flush=True))
        lines = [f"plan: {report.plan}", "last events:", *report.events, "", f"broken: {report.broken}"]
        print("\n".join(["", *lines, ""]))
    return 1 if failed else 0
