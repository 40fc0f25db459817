"""`coordinator control record`: shows what clients ask and are answered."""

from typing import TYPE_CHECKING, Any

import click

from coordinator.cli.client_options import json_option
from coordinator.cli.command_line import Command, examples, until_stopped
from coordinator_testing.cli.control_options import admin_option, given, match_options, with_control

if TYPE_CHECKING:
    from coordinator_testing.control import Control


@click.command(
    cls=Command,
    epilog=examples(
        "coordinator control record --group billing",
        "coordinator control record --api OffsetCommit --group billing --count 10 --json",
    ),
)
@match_options
@click.option(
    "--count", type=click.IntRange(min=1), metavar="N", help="End after this number of requests, not with Ctrl-C."
)
@admin_option
@json_option
def record(count: int | None, admin: str, as_json: bool, **match: Any) -> int:
    """Show what clients ask and are answered from now on, until Ctrl-C or SIGTERM; with --json a line for each."""
    from coordinator_testing.cli.control_shown import show_recording

    def show(control: "Control") -> None:
        recording = control.record(**given(match))
        try:
            show_recording(recording, count, as_json)
        finally:
            recording.clear()

    return with_control(admin, lambda control: until_stopped(lambda: show(control)))
