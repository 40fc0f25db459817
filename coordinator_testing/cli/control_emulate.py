"""`coordinator control emulate`: shows the release of Kafka that clients see, and changes it while they run."""

import click

from coordinator.cli.client_options import json_option
from coordinator.cli.command_line import Command, examples
from coordinator_testing.cli.control_options import admin_option, show_done


@click.command(cls=Command, epilog=examples("coordinator control emulate", "coordinator control emulate 3.9"))
@click.argument("release", required=False)
@admin_option
@json_option
def emulate(release: str | None, admin: str, as_json: bool) -> int:
    """Show the release of Kafka that clients see, or become RELEASE: all connections end, as in a rolling upgrade."""
    return show_done(
        admin, as_json, lambda control: control.emulation() if release is None else control.emulate(release)
    )
