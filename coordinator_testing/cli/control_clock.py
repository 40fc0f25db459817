"""`coordinator control clock`: shows the server's clock, stops it and advances it."""

from typing import TYPE_CHECKING

import click

from coordinator.cli.client_options import json_option
from coordinator.cli.command_line import Command, exactly_one, examples
from coordinator_testing.cli.control_options import admin_option, with_control

if TYPE_CHECKING:
    from coordinator_testing.control import Control
    from coordinator_testing.control.clock import ClockReading


@click.command(
    cls=Command,
    epilog=examples(
        "coordinator control clock",
        "coordinator control clock manual",
        "coordinator control clock advance --ms 45000",
        "coordinator control clock advance --to-next",
        "coordinator control clock set-wall --ms 1800000000000",
    ),
)
@click.argument("action", required=False, type=click.Choice(["manual", "real", "advance", "set-wall"]))
@click.option(
    "--ms", type=int, metavar="MS", help="With advance: the milliseconds to advance; with set-wall: since 1970."
)
@click.option("--to-next", is_flag=True, default=None, help="With advance: to the next timer.")
@admin_option
@json_option
def clock(action: str | None, ms: int | None, to_next: bool | None, admin: str, as_json: bool) -> int:
    """Show the server's clock; stop it (manual), let it run (real), advance it while it stands, or set its wall clock."""
    from coordinator_testing.cli.control_shown import show_clock

    if action == "advance":
        exactly_one(ms=ms, to_next=to_next)
    elif to_next or (ms is None) is (action == "set-wall"):
        raise click.UsageError(
            "--ms belongs to `advance` and `set-wall`, --to-next to `advance`.", click.get_current_context()
        )
    return with_control(admin, lambda control: show_clock(_act(control, action, ms), as_json))


def _act(control: "Control", action: str | None, ms: int | None) -> "ClockReading":
    match action:
        case "manual":
            return control.clock.manual()
        case "real":
            return control.clock.real()
        case "advance":
            return control.clock.advance_to_next() if ms is None else control.clock.advance(ms)
        case "set-wall":
            assert ms is not None
            return control.clock.set_wall(ms)
        case _:
            return control.clock.read()
