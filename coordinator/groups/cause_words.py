"""The answer of `rebalance_causes` in words and as JSON, for the command line, admin HTTP and the reports."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from coordinator.groups.offsets.rewound import BY_ADMINISTRATOR, BY_MEMBER, DELETED
from coordinator.groups.rebalance_causes import (
    ARCHIVED,
    LOCK_EXPIRED,
    Cause,
    Client,
    Delivery,
    Findings,
    Rewind,
    seconds,
)
from coordinator.world.log_lines import printable

ROWS_LISTED = 100
"""Of rebalances, and of offsets that went back: the newest."""
_REWINDERS_NAMED = 2
_UNRECORDED_SHOWN_MS = 1_000


def sentence(findings: Findings) -> str:
    """The answer in one sentence, and in another one whom the rebalances waited for."""
    window = seconds(findings.to_ms - findings.from_ms)
    if findings.unrecorded_ms >= _UNRECORDED_SHOWN_MS:
        window += (
            f" (without {seconds(findings.unrecorded_ms)} before a start of the server, in which nothing was recorded)"
        )
    count = sum(each.rebalances for each in findings.causes)
    if not count:
        after = f"{_rewound(findings)}{_undelivered(findings)}"
        return f"{printable(findings.group_id)} has not rebalanced in the last {window}.{after}"
    percent = findings.share * 100
    share = f"{percent:.0f} %" if percent >= 1 else "less than 1 %"
    text = f"{printable(findings.group_id)} spent {share} of the last {window} rebalancing"
    first = findings.causes[0]
    because = (
        f", once: {described(first)}"
        if count == 1
        else (f"; {first.rebalances} of {count} rebalances because {described(first)}")
    )
    return f"{text}{because}.{_waits(findings)}{_rewound(findings)}{_undelivered(findings)}"


def _rewound(findings: Findings) -> str:
    again, deleted = Counter[str](), Counter[str]()
    for each in findings.rewinds:
        if each.records is None:
            deleted[rewinder(each)] += 1
        else:
            again[rewinder(each)] += each.records
    text = ""
    if again:
        text += f" Offsets went back, so that {again.total():,} records come again: committed by {_most(again)}."
    if deleted:
        text += f" The offsets of {_counted(deleted.total(), 'partition')} were deleted: by {_most(deleted)}."
    return text


def _most(who: Counter[str]) -> str:
    return " and ".join(f"{name} ({count:,})" for name, count in who.most_common(_REWINDERS_NAMED))


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _undelivered(findings: Findings) -> str:
    text = ""
    expired = [each for each in findings.deliveries if each.type == LOCK_EXPIRED]
    if expired:
        text += f" The locks of {_records(expired)} ended: {_holders(expired)}."
    archived = [each for each in findings.deliveries if each.type == ARCHIVED]
    if archived:
        times = max(each.delivery_count for each in archived)
        text += (
            f" {_records(archived)} will not be delivered again after {times} deliveries: last to {_holders(archived)}."
        )
    return text


def _records(deliveries: Sequence[Delivery]) -> str:
    return _counted(sum(each.records for each in deliveries), "record")


def _holders(deliveries: Sequence[Delivery]) -> str:
    holders = Counter[str]()
    for each in deliveries:
        holders[client_name(each.client)] += each.records
    return _most(holders)


def rewinder(rewind: Rewind) -> str:
    """Who took an offset back, or deleted it."""
    if rewind.cause == BY_MEMBER and not rewind.member_id:
        owner = (
            "no member had the partition" if rewind.owner is None else f"{client_name(rewind.owner)} had the partition"
        )
        return f"a member that Kafka's log does not name, while {owner}"
    name = client_name(rewind.client)
    if rewind.cause == BY_ADMINISTRATOR and not rewind.principal and not rewind.client.client_id:
        return "an administrator, whom Kafka's log does not name"
    is_administrator = rewind.cause in (BY_ADMINISTRATOR, DELETED)
    return f"an administrator ({printable(rewind.principal)}) with {name}" if is_administrator else name


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


def as_values(findings: Findings) -> dict[str, Any]:
    """The answer as JSON values; the newest rebalances only."""
    return {
        "group_id": findings.group_id,
        "from_ms": findings.from_ms,
        "to_ms": findings.to_ms,
        "sentence": sentence(findings),
        "unrecorded_ms": findings.unrecorded_ms,
        "rebalancing_ms": findings.rebalancing_ms,
        "rebalancing_share": round(findings.share, 4),
        "causes": [
            {
                "cause": each.text,
                "kind": each.kind,
                **_client(each.client),
                "rebalances": each.rebalances,
                "ms": each.ms,
            }
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
            for each in findings.rebalances[-ROWS_LISTED:]
        ],
        "rewound_offsets": [
            {
                "time_ms": each.time_ms,
                "cause": each.cause,
                "member_id": each.member_id or None,
                **_client(each.client),
                "principal": each.principal,
                **each.step._asdict(),
                "owner_id": each.step.owner_id or None,
                "records": each.records,
            }
            for each in findings.rewinds[-ROWS_LISTED:]
        ],
        "deliveries": [
            {
                "type": each.type,
                "time_ms": each.time_ms,
                "cause": each.cause or None,
                "member_id": each.member_id,
                **_client(each.client if each.client.client_id else None),
                "topic": each.topic,
                "partition": each.partition,
                "records": each.records,
                "ranges": [
                    {"first_offset": first, "last_offset": last, "delivery_count": count}
                    for first, last, count in each.ranges
                ],
            }
            for each in findings.deliveries[-ROWS_LISTED:]
        ],
    }


def _client(client: Client | None) -> dict[str, str | None]:
    return {"client_id": client.client_id if client else None, "host": client.host or None if client else None}
