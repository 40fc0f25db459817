"""`coordinator control transactions`: acts on transactions."""

import click

from coordinator.cli.client_options import json_option
from coordinator.cli.command_line import Group, examples
from coordinator_testing.cli.control_options import admin_option, show_done

_transactional_id = click.argument("transactional_id")


@click.group(cls=Group)
def transactions() -> None:
    """Abort transactions as their timeout does, and move their coordinator."""


@transactions.command(epilog=examples("coordinator control transactions expire payments-1"))
@_transactional_id
@admin_option
@json_option
def expire(transactional_id: str, admin: str, as_json: bool) -> int:
    """Abort the open transaction of a transactional id, as its timeout does."""
    return show_done(admin, as_json, lambda control: control.transaction(transactional_id).expire())


@transactions.command(epilog=examples("coordinator control transactions reload payments-1 --for-ms 500"))
@_transactional_id
@click.option("--for-ms", type=int, default=0, show_default=True, metavar="MS", help="How long the coordinator loads.")
@admin_option
@json_option
def reload(transactional_id: str, for_ms: int, admin: str, as_json: bool) -> int:
    """Make the coordinator of a transactional id forget its memory and load its log, as after a failover."""
    return show_done(admin, as_json, lambda control: control.transaction(transactional_id).reload(for_ms=for_ms))
