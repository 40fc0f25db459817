"""`coordinator control workers`: the workers of a server that is several."""

from typing import TYPE_CHECKING

import click

from coordinator.cli.client_options import json_option
from coordinator.cli.command_line import Group, examples
from coordinator_testing.cli.control_options import admin_option, with_control

if TYPE_CHECKING:
    from collections.abc import Callable

    from coordinator_testing.control import Control
    from coordinator_testing.control.workers import Worker

_number = click.argument("number", type=int)


@click.group(cls=Group)
def workers() -> None:
    """Show who has which shard; drain a worker before you stop it or work on its machine; move a shard."""


def _shown(admin: str, as_json: bool, ask: "Callable[[Control], list[Worker]]") -> int:
    from coordinator_testing.cli.control_shown import show_workers

    return with_control(admin, lambda control: show_workers(ask(control), as_json))


@workers.command("list", epilog=examples("coordinator control workers list"))
@admin_option
@json_option
def list_(admin: str, as_json: bool) -> int:
    """Show the workers, the shards of each, its take-overs, and how far its replays are behind."""
    return _shown(admin, as_json, lambda control: control.workers())


@workers.command(epilog=examples("coordinator control workers drain 1"))
@_number
@admin_option
@json_option
def drain(number: int, admin: str, as_json: bool) -> int:
    """Let the others take the shards of a worker, a few at a time. It takes none until `resume` or its next start."""
    return _shown(admin, as_json, lambda control: [control.drain_worker(number)])


@workers.command(epilog=examples("coordinator control workers resume 1"))
@_number
@admin_option
@json_option
def resume(number: int, admin: str, as_json: bool) -> int:
    """Let a worker that was drained take its share of the shards again."""
    return _shown(admin, as_json, lambda control: [control.resume_worker(number)])


@workers.command(epilog=examples("coordinator control workers move __consumer_offsets-3 1"))
@click.argument("shard")
@_number
@admin_option
@json_option
def move(shard: str, number: int, admin: str, as_json: bool) -> int:
    """Move a shard, by its log, to a worker, which gives another one for it if it has its share."""
    return _shown(admin, as_json, lambda control: [control.move_shard(shard, number)])
