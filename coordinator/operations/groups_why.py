"""`coordinator groups why`: says why a group rebalances, in one sentence, and shows what each client did.

It needs the event log, of a running server, in a data folder or in the journal of workers, and neither Spark nor Java.
"""

import json
import sys
import time
from datetime import UTC, datetime
from typing import Any

from coordinator.groups.cause_words import as_values, client_name, described, rewinder, sentence
from coordinator.groups.group_events import Found
from coordinator.groups.rebalance_causes import (
    ARCHIVED,
    LOCK_EXPIRED,
    RELEASED,
    Cause,
    ClientCounts,
    Delivery,
    Findings,
    Rewind,
    seconds,
)
from coordinator.operations.client import Client as KafkaClient
from coordinator.operations.client import OperationFailed
from coordinator.operations.group_events import event_log_of, from_folder, from_server
from coordinator.operations.json_values import table
from coordinator.operations.log_source import LogSource
from coordinator.world.log_lines import printable


def why_from_log(source: LogSource, group_id: str, last_ms: int, *, as_json: bool) -> int:
    """Prints the answer for the time before the end of a log.

    Raises JournalFailed, NoLogFolder, OperationFailed and OSError.
    """
    with source.opened(lambda logs: event_log_of(logs, group_id)) as folder:
        found = from_folder(folder, group_id, lambda problem: print(problem, file=sys.stderr))
    if found.last_ms is None:
        raise OperationFailed(f"the event log in {source.name} is empty")
    return _show(group_id, found, found.last_ms, last_ms, as_json=as_json)


def why_from_server(client: KafkaClient, group_id: str, last_ms: int, *, as_json: bool) -> int:
    """Prints the answer for the time before now. Raises OperationFailed."""
    now_ms = time.time_ns() // 1_000_000
    found = from_server(client, group_id, max(0, now_ms - last_ms))
    return _show(group_id, found, now_ms, last_ms, as_json=as_json)


def _show(group_id: str, found: Found, to_ms: int, last_ms: int, *, as_json: bool) -> int:
    if found.known is None and not any(event.type != "EventLogOpened" for event in found.events):
        raise OperationFailed(f"there is no group {group_id}, or nothing happened to it in the last {seconds(last_ms)}")
    findings = found.findings(group_id, to_ms, last_ms)
    print(json.dumps(as_values(findings), indent=2) if as_json else as_text(findings))
    return 0


def as_text(findings: Findings) -> str:
    """The sentence, the causes and the clients."""
    parts = [sentence(findings)]
    if findings.causes:
        parts.append(table(("REBALANCES", "SECONDS", "CAUSE"), [_cause_row(each) for each in findings.causes]))
    if findings.clients:
        header = ("CLIENT", "HOST", "MEMBERS", "JOINED", "LEFT", "EXPIRED", "REBALANCES-CAUSED", "SECONDS-WAITED-FOR")
        parts.append(table(header, [_client_row(each) for each in findings.clients]))
    if findings.rewinds:
        parts.append(
            table(("OFFSETS-BACK", "RECORDS-AGAIN", "COMMITTED-BY", "PARTITION-OF", "LAST"), _rewind_rows(findings))
        )
    if findings.deliveries:
        parts.append(table(("RECORDS", "OUTCOME", "MEMBER-OF", "DELIVERED", "LAST"), _delivery_rows(findings)))
    return "\n\n".join(parts)


_OUTCOMES = {LOCK_EXPIRED: "lock ended", ARCHIVED: "archived", RELEASED: "given back with the session"}


def _delivery_rows(findings: Findings) -> list[tuple[Any, ...]]:
    """By what became of the records, and by client."""
    rows: dict[tuple[str, str], list[Delivery]] = {}
    for each in findings.deliveries:
        rows.setdefault((_OUTCOMES[each.type], client_name(each.client)), []).append(each)
    return [
        (sum(each.records for each in mine), *who, max(each.delivery_count for each in mine), _place(mine[-1]))
        for who, mine in rows.items()
    ]


def _place(delivery: Delivery) -> str:
    when = datetime.fromtimestamp(delivery.time_ms / 1000, UTC)
    first, last = delivery.ranges[0][0], delivery.ranges[-1][1]
    offsets = str(first) if first == last else f"{first} to {last}"
    return f"{printable(delivery.topic)}-{delivery.partition}: {offsets} at {when:%H:%M:%S} UTC"


def _rewind_rows(findings: Findings) -> list[tuple[Any, ...]]:
    """By who committed and whose partition it was."""
    rows: dict[tuple[str, str | None], list[Rewind]] = {}
    for each in findings.rewinds:
        rows.setdefault((rewinder(each), each.owner and client_name(each.owner)), []).append(each)
    return [(len(mine), sum(each.records or 0 for each in mine), *who, _step(mine[-1])) for who, mine in rows.items()]


def _step(rewind: Rewind) -> str:
    step, when = rewind.step, datetime.fromtimestamp(rewind.time_ms / 1000, UTC)
    now = "deleted" if rewind.records is None else step.offset
    return f"{printable(step.topic)}-{step.partition}: {step.previous} -> {now} at {when:%H:%M:%S} UTC"


def _cause_row(cause: Cause) -> tuple[Any, ...]:
    return cause.rebalances, round(cause.ms / 1000), described(cause)


def _client_row(counts: ClientCounts) -> tuple[Any, ...]:
    client = counts.client
    return (
        client_name(client), client.host.lstrip("/") or None, counts.members, counts.joined, counts.left, counts.expired,
        counts.rebalances, round(counts.waited_ms / 1000),
    )  # fmt: skip
