"""`coordinator groups`: shows and changes groups over the Kafka protocol, on this server or a real Kafka."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from coordinator.cli.client_options import (
    Access,
    WatchedAccess,
    client_options,
    json_option,
    watch_client,
    watch_options,
    with_client,
)
from coordinator.cli.command_line import Group, exactly_one, examples, fail
from coordinator.cli.journal_options import or_journal_options

if TYPE_CHECKING:
    from coordinator.operations.client import Client

_group = click.argument("group")
_groups = click.argument("group", nargs=-1, required=True)


@click.group(cls=Group)
def groups() -> None:
    """Show and change groups over the Kafka protocol, on this server or a real Kafka."""


@groups.command("list", epilog=examples("coordinator groups list --state Stable --type consumer"))
@click.option("--state", "states", multiple=True, metavar="STATE", help="Only groups in this state; can be repeated.")
@click.option("--type", "types", multiple=True, metavar="TYPE", help="Only groups of this type; can be repeated.")
@client_options
@watch_options
@json_option
def groups_list(states: tuple[str, ...], types: tuple[str, ...], as_json: bool, **access: Unpack[WatchedAccess]) -> int:
    """List all groups with type and state."""
    from coordinator.operations import groups_shown

    return watch_client(access, lambda client: groups_shown.show_list(client, states, types, as_json=as_json))


@groups.command(
    epilog=examples("coordinator groups describe orders billing", "coordinator groups describe orders --watch")
)
@_groups
@client_options
@watch_options
@json_option
def describe(group: tuple[str, ...], as_json: bool, **access: Unpack[WatchedAccess]) -> int:
    """Show state, members and offsets of groups."""
    from coordinator.operations import groups_shown

    return watch_client(access, lambda client: groups_shown.show_description(client, group, as_json=as_json))


@groups.command(
    epilog=examples(
        "coordinator groups why orders --last 1h",
        "coordinator groups why orders --log data --json",
        "coordinator groups why orders --journal postgresql://coordinator@db/coordinator",
    )
)
@_group
@click.option(
    "--last",
    "last_ms",
    default="1h",
    show_default=True,
    metavar="DURATION",
    callback=lambda _context, _option, value: duration_ms(value),
    help="The time to look at: a number and s, m, h or d.",
)
@click.option(
    "--log",
    "folder",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Read this data folder instead of asking a server. With --log and --journal the time ends with the last event.",
)
@or_journal_options
@client_options
@json_option
def why(
    group: str,
    last_ms: int,
    folder: Path | None,
    journal: str | None,
    journal_cluster: str,
    as_json: bool,
    **access: Unpack[Access],
) -> int:
    """Say why a group rebalances, and which client causes it; from the events of this server."""
    from coordinator.operations import groups_why
    from coordinator.operations.client import OperationFailed
    from coordinator.operations.journal_access import JournalFailed
    from coordinator.operations.log_folders import NoLogFolder
    from coordinator.operations.log_source import LogSource

    if folder is None and journal is None:
        return with_client(access, lambda client: groups_why.why_from_server(client, group, last_ms, as_json=as_json))
    if folder is not None and journal is not None:
        raise click.UsageError("Only one of --log and --journal is allowed.", click.get_current_context())
    try:
        source = LogSource(folder, journal, journal_cluster)
        return groups_why.why_from_log(source, group, last_ms, as_json=as_json)
    except (JournalFailed, NoLogFolder, OperationFailed, OSError) as error:
        return fail(error)


def duration_ms(text: str) -> int:
    """The milliseconds of a duration such as 10m. Raises click.BadParameter."""
    match = re.fullmatch(r"([1-9][0-9]{0,5})([smhd])", text)
    if match is None:
        raise click.BadParameter(f"{text!r} is no duration, such as 30s, 10m, 2h or 7d")
    return int(match[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86_400}[match[2]] * 1000


@groups.command(epilog=examples("coordinator groups delete orders"))
@_groups
@client_options
@json_option
def delete(group: tuple[str, ...], as_json: bool, **access: Unpack[Access]) -> int:
    """Delete groups that have no members, and their offsets."""
    from coordinator.operations import groups_shown

    return with_client(access, lambda client: groups_shown.show_deletion(client, group, as_json=as_json))


@groups.command(epilog=examples("coordinator groups offsets orders --json"))
@_group
@client_options
@watch_options
@json_option
def offsets(group: str, as_json: bool, **access: Unpack[WatchedAccess]) -> int:
    """Show the committed offsets of a group, or where the partitions of a share group start, and its lag."""
    from coordinator.operations import groups_shown

    return watch_client(access, lambda client: groups_shown.show_offsets(client, group, as_json=as_json))


@groups.command(
    "reset-offsets",
    epilog=examples(
        "coordinator groups reset-offsets orders --all-topics --to-earliest",
        "coordinator groups reset-offsets orders --topic events:0,1 --shift-by -100 --execute",
    ),
)
@_group
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC[:PARTITION,...]",
    help="The partitions to reset; can be repeated.",
)
@click.option("--all-topics", is_flag=True, help="All partitions for which the group has an offset.")
@click.option("--to-earliest", is_flag=True, help="To the start of the log.")
@click.option("--to-latest", is_flag=True, help="To the end of the log.")
@click.option("--to-offset", type=int, metavar="OFFSET", help="To this offset, or the nearest one in the log.")
@click.option(
    "--to-datetime",
    metavar="TIME",
    help="To the first record at or after this time in ISO 8601, in UTC if it has no zone.",
)
@click.option("--shift-by", type=int, metavar="DISTANCE", help="This many records forward, or backward if negative.")
@click.option("--execute", is_flag=True, help="Change the offsets.")
@client_options
@json_option
def reset_offsets(
    group: str,
    topics: tuple[str, ...],
    all_topics: bool,
    to_earliest: bool,
    to_latest: bool,
    to_offset: int | None,
    to_datetime: str | None,
    shift_by: int | None,
    execute: bool,
    as_json: bool,
    **access: Unpack[Access],
) -> int:
    """Change the offsets of a group that has no members; without --execute, only show the plan."""
    from coordinator.operations import groups_shown

    to = "earliest" if to_earliest else None
    latest = "latest" if to_latest else None
    exactly_one(to_earliest=to, to_latest=latest, to_offset=to_offset, to_datetime=to_datetime, shift_by=shift_by)

    def reset(client: "Client") -> int:
        return groups_shown.show_reset(
            client,
            group,
            groups_shown.selection(topics, all_topics=all_topics),
            groups_shown.target(to or latest, to_offset, to_datetime, shift_by),
            execute=execute,
            as_json=as_json,
        )

    return with_client(access, reset)
