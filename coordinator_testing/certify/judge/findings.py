"""What the judge says of one promise."""

from dataclasses import dataclass
from typing import Literal

Outcome = Literal["kept", "broken", "warning", "not judged"]
EVIDENCE_MAX = 10
"""The pieces of evidence that a finding names. `count` counts all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A promise, and whether the program kept it."""

    promise: str
    outcome: Outcome
    count: float | None
    """What the promise counts: records, requests, rebalances or seconds. None if that cannot be known."""
    text: str
    evidence: tuple[str, ...] = ()
    """Entries ("entry 17 at 127.0.0.1:4000"), offsets ("orders-3@41") and events, at most EVIDENCE_MAX."""


def kept(promise: str, text: str, count: float = 0) -> Finding:
    return Finding(promise=promise, outcome="kept", count=count, text=text)


def warning(promise: str, text: str, evidence: list[str]) -> Finding:
    """Kept, with a harm that comes from the client library and that the program cannot prevent."""
    return Finding(
        promise=promise, outcome="warning", count=len(evidence), text=text, evidence=tuple(evidence[:EVIDENCE_MAX])
    )


def not_judged(promise: str, text: str) -> Finding:
    """Neither kept nor broken: nothing shows it."""
    return Finding(promise=promise, outcome="not judged", count=None, text=text)


def broken(promise: str, text: str, evidence: list[str], count: float | None = None) -> Finding:
    return Finding(
        promise=promise,
        outcome="broken",
        count=len(evidence) if count is None else count,
        text=text,
        evidence=tuple(evidence[:EVIDENCE_MAX]),
    )
