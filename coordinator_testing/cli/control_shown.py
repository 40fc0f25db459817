"""What `coordinator control` prints: tables for people, JSON for scripts. Streams are lines, in JSON an object in each."""

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import click
import msgspec

from coordinator.operations.json_values import print_json, print_table
from coordinator.rules.model import Entry, FaultStatus
from coordinator.world.log_lines import printable
from coordinator_testing.control.blocking import Recording
from coordinator_testing.control.brokers import Broker
from coordinator_testing.control.clock import ClockReading
from coordinator_testing.control.groups import Rebalanced
from coordinator_testing.control.steps import View
from coordinator_testing.control.workers import Worker

FAULTS = ("FAULT", "SCOPE", "MATCH", "ACTION", "EXTENT", "MATCHED", "ACTED", "HELD", "ACTIVE")
LONG_POLL_MS = 5_000
IN_EVERY_EVENT = ("shard", "offset", "type", "time_ms", "group")


def show_faults(faults: Sequence[FaultStatus], as_json: bool) -> int:
    """Prints rules, and how often they have acted."""
    if as_json:
        print_json({"faults": msgspec.to_builtins(faults)})
        return 0
    print_table(FAULTS, [_fault(each) for each in faults])
    for fault in faults:
        if fault.notice is not None:
            click.echo(f"{fault.id}: {fault.notice}")
    return 0


def _fault(fault: FaultStatus) -> tuple[Any, ...]:
    rule = fault.rule
    parts = [_words(msgspec.to_builtins(part)) for part in (rule.match, rule.action, rule.extent)]
    parts[2] = parts[2] or "times=1"
    return (fault.id, rule.scope, *parts, fault.matched, fault.acted, fault.held, "yes" if fault.active else "no")


def _words(fields: View) -> str:
    """`api=Heartbeat group=billing`."""
    return " ".join(f"{name}={_word(value)}" for name, value in fields.items() if value is not None)


def _word(value: Any) -> str:
    if isinstance(value, list | tuple) and not any(isinstance(each, dict | list) for each in value):
        return ",".join(map(str, value))
    return str(value) if isinstance(value, str | int) else json.dumps(value)


def show_count(done: str, count: int, as_json: bool) -> int:
    """Prints how many were cleared or released."""
    if as_json:
        print_json({done: count})
    else:
        click.echo(f"{done} {count}")
    return 0


def show_rebalanced(done: Rebalanced, as_json: bool) -> int:
    """Prints what a forced rebalance did."""
    if as_json:
        print_json(msgspec.to_builtins(done))
        return 0
    outcome = "started" if done.started else "already in progress"
    row = (done.group_id, done.kind, done.state, outcome, done.epoch)
    print_table(("GROUP", "TYPE", "STATE-BEFORE", "REBALANCE", "EPOCH"), [row])
    return 0


def show_row(done: msgspec.Struct, as_json: bool) -> int:
    """Prints the fields of a result as a table with one row; lists as the number of their elements."""
    fields = msgspec.to_builtins(done)
    if as_json:
        print_json(fields)
        return 0
    shown = tuple(len(value) if isinstance(value, list) else value for value in fields.values())
    print_table(tuple(name.upper().replace("_", "-") for name in fields), [shown])
    return 0


def show_workers(workers: Sequence[Worker], as_json: bool) -> int:
    """Prints the workers of a server that is several."""
    if as_json:
        print_json({"workers": msgspec.to_builtins(workers)})
        return 0
    print_table(
        ("WORKER", "PID", "STATE", "SHARDS", "TAKE-OVERS", "MEAN", "PIECES TO REPLAY", "ADMIN"),
        [
            (
                each.number,
                "-" if each.pid is None else each.pid,
                "leaving" if each.leaving else "serves" if each.ready else "does not answer",
                len(each.shards),
                "-" if each.take_overs is None else each.take_overs,
                "-" if each.take_over_ms is None else f"{each.take_over_ms} ms",
                "-" if each.pieces_to_replay is None else each.pieces_to_replay,
                each.admin or "-",
            )
            for each in workers
        ],
    )
    return 0


def show_brokers(brokers: Sequence[Broker], as_json: bool) -> int:
    """Prints the brokers of a server that is several."""
    if as_json:
        print_json({"brokers": msgspec.to_builtins(brokers)})
        return 0
    print_table(
        ("BROKER", "RACK", "ADDRESSES", "STATE", "CONTROLLER", "LEADS"),
        [
            (
                each.id,
                each.rack or "-",
                ",".join(each.addresses),
                "up" if each.up else "down",
                each.controller,
                each.leads,
            )
            for each in brokers
        ],
    )
    return 0


def show_changes(view: View, as_json: bool) -> int:
    """Prints what is different in a group between two offsets."""
    if as_json:
        print_json(view)
        return 0
    print_table(
        ("CHANGED", "BEFORE", "AFTER"),
        [(each["path"], _shown(each["before"]), _shown(each["after"])) for each in view["changes"]],
    )
    return 0


def _shown(value: Any) -> Any:
    return value if value is None or isinstance(value, int) else _word(value)


def show_group(view: View, as_json: bool) -> int:
    """Prints a group with members and committed offsets."""
    if as_json:
        print_json(view)
        return 0
    row = (
        view["group_id"],
        view["kind"],
        view["state"],
        view["generation"],
        view["member_count"],
        view["offset_count"],
    )
    print_table(("GROUP", "TYPE", "STATE", "EPOCH", "MEMBERS", "OFFSETS"), [row])
    members = [(each["member_id"], each.get("client_id"), each.get("client_host")) for each in view.get("members", ())]
    if members:
        click.echo()
        print_table(("MEMBER", "CLIENT", "HOST"), members)
    offsets = [(each["topic"], each["partition"], each["offset"]) for each in view.get("committed", ())]
    if offsets:
        click.echo()
        print_table(("TOPIC", "PARTITION", "OFFSET"), offsets)
    return 0


def show_clock(clock: ClockReading, as_json: bool) -> int:
    """Prints the clock, and the timers that fired while it was advanced."""
    if as_json:
        print_json(msgspec.to_builtins(clock))
        return 0
    row = (clock.mode, _time(clock.wall_ms), clock.monotonic_ms, clock.timers, clock.next_timer_ms)
    print_table(("CLOCK", "TIME", "MONOTONIC-MS", "TIMERS", "NEXT-TIMER-MS"), [row])
    if clock.fired:
        click.echo()
        fired = [(each.at_ms, each.timer, each.shard, each.group) for each in clock.fired]
        print_table(("FIRED-AT-MS", "TIMER", "SHARD", "GROUP"), fired)
    return 0


def _time(wall_ms: int) -> str:
    return datetime.fromtimestamp(wall_ms / 1000, UTC).isoformat(timespec="milliseconds").removesuffix("+00:00")


def show_recording(recording: Recording, count: int | None, as_json: bool) -> None:
    """Prints requests with their answers, in the order of their arrival, each when it is answered."""
    after = printed = 0
    while count is None or printed < count:
        for entry in recording.page(after, wait_ms=LONG_POLL_MS).entries:
            if printed == count or entry.outcome == "pending":
                break
            _print_line(msgspec.to_builtins(entry) if as_json else None, _entry(entry))
            after, printed = entry.number, printed + 1


def _entry(entry: Entry) -> str:
    asked = f"{_time(entry.time_ms)} {entry.client_id or '-'} {entry.api} v{entry.version} {_words(entry.request)}"
    answered = _words(entry.response) if entry.response is not None else "-"
    return f"{asked} -> {entry.outcome}{f' by {entry.fault}' if entry.fault else ''}: {answered}"


def show_events(events: Iterable[View], as_json: bool) -> None:
    """Prints events as they come."""
    for event in events:
        fields = {name: value for name, value in event.items() if name not in IN_EVERY_EVENT and value is not None}
        about = f"{_time(event['time_ms'])} {event.get('group') or '-'} {event['type']}"
        _print_line(event if as_json else None, f"{about} {_words(fields)}".rstrip())


def _print_line(value: Any, text: str) -> None:
    """Prints the value as JSON or, if there is none, the text, at once."""
    click.echo(printable(text) if value is None else json.dumps(value))
