"""The states of a classic group (mirrors `ClassicGroupState`), and which may follow which."""

from enum import StrEnum


class State(StrEnum):
    """The five states of a classic group. Each says how it answers requests and what ends it."""

    EMPTY = "Empty"
    """The group has no members. It is kept for its offsets, or for members that so far have only received an id.

    Joins are accepted. Heartbeat, SyncGroup and LeaveGroup answer UNKNOWN_MEMBER_ID. Simple commits, which name neither member
    nor generation, are accepted. Ends when a member joins or the group is deleted."""

    PREPARING_REBALANCE = "PreparingRebalance"
    """The coordinator waits for members to join.

    Joins are parked. Heartbeat and SyncGroup answer REBALANCE_IN_PROGRESS. Commits of the previous generation are accepted,
    because members give up partitions now. Ends when all members have joined or the rebalance timeout has passed: those that
    joined form the next generation, and if none did, the group becomes Empty."""

    COMPLETING_REBALANCE = "CompletingRebalance"
    """The generation is formed and its leader computes the assignment.

    SyncGroups are parked. Heartbeats are answered. Commits get REBALANCE_IN_PROGRESS, because no member knows yet what it
    owns. Ends with the leader's SyncGroup, or returns to PreparingRebalance when a member joins, leaves, changes its metadata
    or fails to sync in time. The generation is in the log: after a crash the group is in this state again, until its leader's
    SyncGroup or any JoinGroup."""

    STABLE = "Stable"
    """Every member can fetch its assignment.

    Heartbeats, SyncGroups and commits of this generation are answered at once. A follower that joins with unchanged metadata
    receives the current generation. Ends, in PreparingRebalance, when a member joins, leaves or changes its metadata, or when
    the leader joins."""

    DEAD = "Dead"
    """The group does not exist. No group object is ever in this state; descriptions of unknown groups report it."""


SUCCESSORS: dict[State, frozenset[State]] = {
    State.EMPTY: frozenset({State.PREPARING_REBALANCE, State.DEAD}),
    State.PREPARING_REBALANCE: frozenset({State.COMPLETING_REBALANCE, State.EMPTY, State.DEAD}),
    State.COMPLETING_REBALANCE: frozenset({State.STABLE, State.PREPARING_REBALANCE, State.DEAD}),
    State.STABLE: frozenset({State.PREPARING_REBALANCE, State.DEAD}),
    State.DEAD: frozenset(),
}
"""The states that may follow each state."""
