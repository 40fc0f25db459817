"""The outcome of one run: whether an invariant broke, and counts that show how much happened."""

from dataclasses import dataclass, field

from coordinator_lab.simulation.plan import Plan


@dataclass(slots=True)
class Report:
    """The outcome of one run."""

    plan: Plan
    broken: str | None = None
    """The first broken invariant, a colon and the details; None if all held."""
    trace: str = ""
    """SHA-256 of every byte delivered and every event, with their times: equal traces are equal runs."""
    events: list[str] = field(default_factory=list)
    """The last lines of the trace."""
    seconds: float = 0.0
    callbacks: int = 0
    connections: int = 0
    starts: int = 0
    failures: dict[str, int] = field(default_factory=dict)
    acknowledged: int = 0
    records: int = 0
    transactions: int = 0
    delivered: int = 0
    """Deliveries of records to members of share groups."""
    reads: int = 0
    assignments: int = 0
    expired: int = 0
    """Offsets and groups that the server removed because their retention had passed."""
    forced: int = 0
    """Rebalances that an operator forced."""
    acts: int = 0
    """Acts of a tester on groups and shards."""
    hunted: int = 0
    """Commits in the name of members that were judged by what clients were informed of."""
    waits: int = 0
    """How often a quota let a client wait."""
    checks: int = 0
    reported: int = 0
    """Committed offsets that had a valid event at the end."""
    taken: int = 0
    """Shards of workers that were served again after nobody did."""
    marked: int = 0
    """Transactions of which all groups have the marker, at several workers."""
    changes: int = 0
    """Changes of what workers share that were acknowledged."""

    def __str__(self) -> str:
        failures = " ".join(f"{name}={count}" for name, count in self.failures.items())
        counts = (
            "callbacks",
            "connections",
            "starts",
            "acknowledged",
            "records",
            "transactions",
            "delivered",
            "reads",
            "assignments",
            "expired",
            "forced",
            "acts",
            "hunted",
            "waits",
            "checks",
            "reported",
            "taken",
            "marked",
            "changes",
        )
        numbers = " ".join(f"{name}={getattr(self, name)}" for name in counts)
        outcome = "BROKEN" if self.broken else "ok"
        return (
            f"seed={self.plan.seed} {outcome} trace={self.trace[:16]} seconds={self.seconds:.1f} {numbers}"
            f" faults: {failures or 'none'}"
        )
