"""`coordinator groups ...`: prints the results of groups.py as tables or as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from coordinator.client.reading import EARLIEST, LATEST
from coordinator.operations import groups
from coordinator.operations.client import Client, OperationFailed
from coordinator.operations.groups import CommittedOffset, DescribedGroup, Selection, Target
from coordinator.operations.json_values import print_as, print_deletion, print_json, print_table


def show_list(client: Client, states: Sequence[str], types: Sequence[str], *, as_json: bool) -> int:
    """Prints all groups with type, protocol type and state."""
    found = groups.list_groups(client, states, types)
    rows = [(group.group_id, group.type or None, group.protocol_type or None, group.state or None) for group in found]
    value = {"groups": [asdict(group) for group in found]}
    print_as(as_json, value, ("GROUP", "TYPE", "PROTOCOL-TYPE", "STATE"), rows)
    return 0


def show_description(client: Client, group_ids: Sequence[str], *, as_json: bool) -> int:
    """Prints state, members and offsets of groups."""
    found = [groups.describe(client, group_id) for group_id in group_ids]
    held = [groups.offsets(client, group) for group in found]
    if as_json:
        described = [
            {**asdict(group), "offsets": [asdict(each) for each in rows]}
            for group, rows in zip(found, held, strict=True)
        ]
        print_json({"groups": described})
        return 0
    for i, (group, rows) in enumerate(zip(found, held, strict=True)):
        if i:
            print()
        _print_group(group, rows)
    return 0


def _print_group(group: DescribedGroup, rows: Sequence[CommittedOffset]) -> None:
    header = ("GROUP", "TYPE", "STATE", "PROTOCOL", "EPOCH", "MEMBERS", "COORDINATOR")
    row = (
        group.group_id,
        group.type,
        group.state,
        group.protocol or None,
        group.epoch,
        len(group.members),
        group.coordinator,
    )
    print_table(header, [row])
    if group.members:
        print()
        print_table(
            ("MEMBER", "INSTANCE", "CLIENT", "HOST", "TASKS" if group.type == "streams" else "ASSIGNMENT"),
            [
                (
                    each.member_id,
                    each.instance_id,
                    each.client_id,
                    each.client_host,
                    _held(each.assignment) if each.tasks is None else _tasks(each.tasks),
                )
                for each in group.members
            ],
        )
    if rows:
        print()
        _print_offsets(rows)


def _held(assignment: Any) -> str | None:
    """For example "orders:0,1 events:0"."""
    if assignment is None:
        return None
    return (
        " ".join(f"{topic}:{','.join(map(str, partitions))}" for topic, partitions in assignment.items()) or "nothing"
    )


def _tasks(tasks: Mapping[str, Any]) -> str:
    """For example "active 0:0,1 1:0; standby 0:2"."""
    return "; ".join(f"{kind} {_held(of_kind)}" for kind, of_kind in tasks.items()) or "nothing"


def show_offsets(client: Client, group_id: str, *, as_json: bool) -> int:
    """Prints the committed offsets of a group, or where the partitions of a share group start, and its lag."""
    group = groups.describe(client, group_id)
    rows = groups.offsets(client, group)
    if as_json:
        print_json({"group_id": group_id, "offsets": [asdict(each) for each in rows]})
    else:
        _print_offsets(rows)
    return 0


def _print_offsets(rows: Sequence[CommittedOffset]) -> None:
    header = ("TOPIC", "PARTITION", "OFFSET", "END", "LAG", "MEMBER", "METADATA")
    print_table(
        header,
        [
            (each.topic, each.partition, each.offset, each.end, each.lag, each.owner, each.metadata or None)
            for each in rows
        ],
    )


def show_deletion(client: Client, group_ids: Sequence[str], *, as_json: bool) -> int:
    """Deletes groups. Returns 1 if one could not be deleted."""
    return print_deletion("groups", "group_id", groups.delete(client, group_ids), as_json=as_json)


def show_reset(
    client: Client, group_id: str, selection: Selection, target: Target, *, execute: bool, as_json: bool
) -> int:
    """Prints the plan of a reset and, with `execute`, carries it out."""
    group = groups.find(client, group_id)
    is_share = group is not None and group.type == groups.SHARE
    if execute:
        groups.refuse_active(group)
    plan = groups.plan_reset(client, group_id, selection, target, is_share=is_share)
    if execute:
        (groups.alter if is_share else groups.commit)(client, group_id, plan)
    value = {"group_id": group_id, "executed": execute, "partitions": [asdict(reset) for reset in plan]}
    rows = [(reset.topic, reset.partition, reset.old, reset.new) for reset in plan]
    print_as(as_json, value, ("TOPIC", "PARTITION", "OLD", "NEW"), rows)
    if not as_json:
        print("done" if execute else "this is a plan, and nothing was changed; use --execute to carry it out")
    return 0


def selection(topics: Sequence[str], *, all_topics: bool) -> Selection:
    """The partitions of --topic TOPIC[:PARTITION,...] and --all-topics. Raises OperationFailed."""
    if bool(topics) is all_topics:
        raise OperationFailed(
            "specify partitions with --topic TOPIC[:PARTITION,...], which can be repeated, or --all-topics"
        )
    wanted: dict[str, list[int]] = {}
    for text in topics:
        topic, colon, numbers = text.partition(":")
        if not topic or (colon and not all(number.isdecimal() for number in numbers.split(","))):
            raise OperationFailed(f"--topic {text}: allowed: TOPIC or TOPIC:PARTITION,...")
        wanted.setdefault(topic, []).extend(map(int, numbers.split(",")) if colon else ())
    return Selection(topics=wanted)


def target(to: str | None, to_offset: int | None, to_datetime: str | None, shift_by: int | None) -> Target:
    """The target of a reset, of which one flag is set. Raises OperationFailed."""
    if to is not None:
        return Target(timestamp={"earliest": EARLIEST, "latest": LATEST}[to])
    if to_datetime is not None:
        return Target(timestamp=_timestamp(to_datetime))
    return Target(offset=to_offset, shift=shift_by)


def _timestamp(text: str) -> int:
    """An ISO 8601 time in milliseconds. A time without a zone is UTC."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise OperationFailed(f"--to-datetime {text}: allowed: ISO 8601, such as 2026-01-31T13:00:00Z") from None
    milliseconds = int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    if milliseconds < 0:
        raise OperationFailed(f"--to-datetime {text}: allowed: 1970 or later")
    return milliseconds
