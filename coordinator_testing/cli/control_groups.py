"""`coordinator control groups`: acts on groups, waits for their state, looks into their past."""

from typing import TYPE_CHECKING

import click

from coordinator.cli.client_options import json_option, timeout_option
from coordinator.cli.command_line import Command, Group, examples
from coordinator_testing.cli.control_options import admin_option, given, show_done, with_control

if TYPE_CHECKING:
    from coordinator_testing.control import Control

_group = click.argument("group")
_member = click.argument("member")
_reason = click.option("--reason", metavar="TEXT", help="Why; it is logged.")


@click.group(cls=Group)
def groups() -> None:
    """Act on groups, wait for their state, look into their past."""


@groups.command(epilog=examples("coordinator control groups evict billing consumer-1-7f3a --reason test"))
@_group
@_member
@_reason
@admin_option
@json_option
def evict(group: str, member: str, reason: str | None, admin: str, as_json: bool) -> int:
    """Remove a member."""
    return show_done(admin, as_json, lambda control: control.group(group).evict(member, reason=reason))


@groups.command("expire-session", epilog=examples("coordinator control groups expire-session billing consumer-1-7f3a"))
@_group
@_member
@admin_option
@json_option
def expire_session(group: str, member: str, admin: str, as_json: bool) -> int:
    """End the session of a member, as if it had been silent for that long."""
    return show_done(admin, as_json, lambda control: control.group(group).expire_session(member))


@groups.command("bump-epoch", epilog=examples("coordinator control groups bump-epoch billing"))
@_group
@_reason
@admin_option
@json_option
def bump_epoch(group: str, reason: str | None, admin: str, as_json: bool) -> int:
    """Raise the generation or epoch of a group; the members stay."""
    return show_done(admin, as_json, lambda control: control.group(group).bump_epoch(reason=reason))


@groups.command("expire-offsets", epilog=examples("coordinator control groups expire-offsets billing --topic orders"))
@_group
@click.option("--topic", "topics", multiple=True, metavar="TOPIC", help="Only of this topic; can be repeated.")
@admin_option
@json_option
def expire_offsets(group: str, topics: tuple[str, ...], admin: str, as_json: bool) -> int:
    """Delete committed offsets of a group as if their retention time had passed."""
    return show_done(admin, as_json, lambda control: control.group(group).expire_offsets(topics or None))


@groups.command("expire-locks", epilog=examples("coordinator control groups expire-locks invoices --topic orders"))
@_group
@click.option("--member", metavar="MEMBER", help="Only locks of this member.")
@click.option("--topic", metavar="TOPIC", help="Only in this topic.")
@click.option("--partition", type=int, metavar="N", help="Only in the partitions of this number.")
@admin_option
@json_option
def expire_locks(
    group: str, member: str | None, topic: str | None, partition: int | None, admin: str, as_json: bool
) -> int:
    """End the acquisition locks of a share group, as if their time had passed."""
    return show_done(
        admin, as_json, lambda control: control.group(group).expire_locks(member, topic=topic, partition=partition)
    )


@groups.command(epilog=examples("coordinator control groups reload billing --for-ms 500"))
@_group
@click.option("--for-ms", type=int, default=0, show_default=True, metavar="MS", help="How long the coordinator loads.")
@admin_option
@json_option
def reload(group: str, for_ms: int, admin: str, as_json: bool) -> int:
    """Make the group's coordinator forget its memory and load its log, as after a failover."""
    return show_done(admin, as_json, lambda control: control.group(group).reload(for_ms=for_ms))


@groups.command(epilog=examples("coordinator control groups wait billing --state Stable --members 3"))
@_group
@click.option("--state", metavar="STATE", help="Until it is in this state, such as Stable.")
@click.option("--members", type=int, metavar="N", help="Until it has this many members.")
@click.option("--epoch", type=int, metavar="N", help="Until it is in this generation or epoch.")
@admin_option
@timeout_option
@json_option
def wait(
    group: str, state: str | None, members: int | None, epoch: int | None, admin: str, timeout: float, as_json: bool
) -> int:
    """Wait for a state, a number of members and an epoch of a group, all at once."""
    from coordinator_testing.cli.control_shown import show_group

    until = given({"state": state, "members": members, "epoch": epoch})
    if not until:
        raise click.UsageError(
            "At least one of --state, --members and --epoch is required.", click.get_current_context()
        )

    def show(control: "Control") -> int:
        return show_group(control.group(group).wait(timeout_s=timeout, **until), as_json)

    return with_control(admin, show)


@groups.command(epilog=examples("coordinator control groups at billing 1042"))
@_group
@click.argument("offset", type=int)
@admin_option
@json_option
def at(group: str, offset: int, admin: str, as_json: bool) -> int:
    """Show a group as it was at an offset of its log."""
    from coordinator_testing.cli.control_shown import show_group

    return with_control(admin, lambda control: show_group(control.group(group).at(offset), as_json))


@groups.command(epilog=examples("coordinator control groups diff billing 1042 1060"))
@_group
@click.argument("first", type=int)
@click.argument("last", type=int)
@admin_option
@json_option
def diff(group: str, first: int, last: int, admin: str, as_json: bool) -> int:
    """Show what changed in a group between two offsets of its log."""
    from coordinator_testing.cli.control_shown import show_changes

    return with_control(admin, lambda control: show_changes(control.group(group).diff(first, last), as_json))


@click.command(cls=Command, epilog=examples("coordinator groups rebalance orders --reason racks-moved"))
@_group
@click.option("--reason", required=True, metavar="TEXT", help="Why; it is logged with the rebalance.")
@admin_option
@timeout_option
@json_option
def rebalance(group: str, reason: str, admin: str, timeout: float, as_json: bool) -> int:
    """Make all members of a group rebalance; over admin HTTP, because Kafka's protocol has no such request."""
    from coordinator_testing.cli.control_shown import show_rebalanced

    return with_control(
        admin,
        lambda control: show_rebalanced(control.group(group).rebalance(reason, timeout_s=timeout), as_json),
    )
