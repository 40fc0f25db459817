"""`coordinator control events`: shows the events of groups as they happen."""

import re
from typing import TYPE_CHECKING

import click

from coordinator.cli.client_options import json_option
from coordinator.cli.command_line import Command, examples, until_stopped
from coordinator_testing.cli.control_options import admin_option, with_control

if TYPE_CHECKING:
    from coordinator_testing.control import Control


def _after(_context: click.Context, _option: click.Parameter, text: str | None) -> str | None:
    if text is not None and text != "now" and re.fullmatch("[0-9]{1,18}", text, re.ASCII) is None:
        raise click.BadParameter(f"{text!r} is neither an offset nor `now`")
    return text


@click.command(
    cls=Command,
    epilog=examples(
        "coordinator control events --group billing",
        "coordinator control events --group billing --no-follow --json",
        "coordinator control events --after now --limit 10",
    ),
)
@click.option("--group", metavar="GROUP", help="Only of this group.")
@click.option("--after", callback=_after, metavar="OFFSET|now", help="Only after this offset of the event log.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="End after this number of events.")
@click.option("--follow/--no-follow", default=True, show_default=True, help="Show later ones as they happen.")
@admin_option
@json_option
def events(group: str | None, after: str | None, limit: int | None, follow: bool, admin: str, as_json: bool) -> int:
    """Show the events of groups and the faults that act, until Ctrl-C or SIGTERM; with --json a line for each."""
    from coordinator_testing.cli.control_shown import show_events

    def show(control: "Control") -> int:
        chosen = control.events(group, after=after, limit=limit, follow=follow)
        return until_stopped(lambda: show_events(chosen, as_json))

    return with_control(admin, show)
