"""`coordinator groups why`: says why a group rebalances, in one sentence, and shows what each client did.

It needs the event log, of a running server, in a data folder or in the journal of workers, and neither Spark nor Java.
"""

import json
import sys
import time
from dataclasses import asdict
from typing import Any

from coordinator.operations.client import Client as KafkaClient
from coordinator.operations.client import OperationFailed
from coordinator.operations.group_events import Found, event_log_of, from_folder, from_server
from coordinator.operations.json_values import table
from coordinator.operations.log_source import LogSource
from coordinator.operations.rebalance_causes import Cause, Client, ClientCounts, Findings, find_causes, seconds
from coordinator.world.log_lines import printable

REBALANCES_LISTED = 100


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
    from_ms = max(to_ms - last_ms, to_ms if found.first_ms is None else min(found.first_ms, to_ms))
    findings = find_causes(group_id, found.events, from_ms, to_ms, found.known)
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
    return "\n\n".join(parts)


def sentence(findings: Findings) -> str:
    """The answer in one sentence, and in another one whom the rebalances waited for."""
    window = seconds(findings.to_ms - findings.from_ms)
    count = sum(each.rebalances for each in findings.causes)
    if not count:
        return f"{printable(findings.group_id)} has not rebalanced in the last {window}."
    percent = findings.share * 100
    share = f"{percent:.0f} %" if percent >= 1 else "less than 1 %"
    text = f"{printable(findings.group_id)} spent {share} of the last {window} rebalancing"
    first = findings.causes[0]
    because = (
        f", once: {described(first)}"
        if count == 1
        else (f"; {first.rebalances} of {count} rebalances because {described(first)}")
    )
    return f"{text}{because}.{_waits(findings)}"


def _waits(findings: Findings) -> str:
    slowest = max(findings.clients, key=lambda each: each.waited_ms, default=None)
    if slowest is None or not slowest.waited_ms:
        return ""
    return f" Rebalances waited longest for {client_name(slowest.client)} ({seconds(slowest.waited_ms)})."


def described(cause: Cause) -> str:
    """The cause with its client."""
    return printable(cause.text) if cause.client is None else f"{client_name(cause.client)} {printable(cause.text)}"


def client_name(client: Client) -> str:
    """The client id for people."""
    return printable(client.client_id) or "a client without a name"


def _cause_row(cause: Cause) -> tuple[Any, ...]:
    return cause.rebalances, round(cause.ms / 1000), described(cause)


def _client_row(counts: ClientCounts) -> tuple[Any, ...]:
    client = counts.client
    return (
        client_name(client), client.host.lstrip("/") or None, counts.members, counts.joined, counts.left, counts.expired,
        counts.rebalances, round(counts.waited_ms / 1000),
    )  # fmt: skip


def as_values(findings: Findings) -> dict[str, Any]:
    """The answer as JSON values; the newest rebalances only."""
    return {
        "group_id": findings.group_id,
        "from_ms": findings.from_ms,
        "to_ms": findings.to_ms,
        "sentence": sentence(findings),
        "rebalancing_ms": findings.rebalancing_ms,
        "rebalancing_share": round(findings.share, 4),
        "causes": [
            {"cause": each.text, **_client(each.client), "rebalances": each.rebalances, "ms": each.ms}
            for each in findings.causes
        ],
        "clients": [
            {**_client(each.client), **{name: value for name, value in asdict(each).items() if name != "client"}}
            for each in findings.clients
        ],
        "rebalances": [
            {
                "epoch": each.epoch,
                "started_ms": each.started_ms,
                "ended_ms": each.ended_ms,
                "cause": each.cause,
                "reason": each.reason or None,
                "member_id": each.member_id or None,
                **_client(each.client),
                "delay_ms": each.delay_ms,
                "waited_for": [{**_client(client), "ms": ms} for client, ms in each.waits.items()],
            }
            for each in findings.rebalances[-REBALANCES_LISTED:]
        ],
    }


def _client(client: Client | None) -> dict[str, str | None]:
    return {"client_id": client.client_id if client else None, "host": client.host or None if client else None}
