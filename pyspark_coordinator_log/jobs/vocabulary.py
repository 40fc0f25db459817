"""The text values that tables contain, shared by the modules that write and compare them.

A separate module, because judging.py runs in the tasks that read commits and must not import Spark.
"""

from coordinator.groups.kinds import Kind

CLASSIC, CONSUMER, STREAMS = Kind.CLASSIC.label, Kind.CONSUMER.label, Kind.STREAMS.label
COMMIT_DECIDED, ASSIGNMENT_INVALID = "CommitDecided", "AssignmentInvalid"
STATE_LOG, EVENT_LOG, SHARE_STATE_LOG = "state", "events", "share_state"

SAFE, LOST, AHEAD, NOT_A_MEMBER, UNOWNED, UNCLAIMED, UNKNOWN = (
    "safe", "lost", "ahead", "not a member", "unowned", "unclaimed", "unknown",
)  # fmt: skip
ZOMBIES = (LOST, AHEAD, NOT_A_MEMBER)
ACCEPTED, REFUSED, FAILED = "accepted", "refused", "failed"
POLICIES = ("strict", "revocation_epoch", "assignment_epoch")
IN_FORCE = "in force"
"""Used instead of a policy's name for the server's actual response."""
FENCING_ERRORS = (
    "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "STALE_MEMBER_EPOCH", "FENCED_MEMBER_EPOCH", "FENCED_INSTANCE_ID",
    "REBALANCE_IN_PROGRESS", "GROUP_ID_NOT_FOUND", "INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED",
)  # fmt: skip
"""Errors that refuse the sender. Any other error concerns the content of the commit."""

EPOCH_ORDER, EPOCH_FELL, TWO_OWNERS, ZOMBIE_ACCEPTED = "epoch order", "epoch fell", "two owners", "zombie accepted"
INVALID_ASSIGNMENT, OFFSET_WENT_BACK = "invalid assignment", "offset went back"
REPORTED, DISCARDED = "report", "refuse"
"""What a group did with an invalid assignment of its leader."""
GENERATION_TWICE = "generation twice"
SINCE_TOO_EARLY, EVENT_DISAGREES, VERDICT = "since too early", "told otherwise", "verdict"
RELEASED, REJECTED, GAP, LOCK_ENDED, SESSION_ENDED, LEADER_CHANGED = (
    "released", "rejected", "gap", "lock ended", "session ended", "leader changed",
)  # fmt: skip
"""How a delivery of a share group ended, besides ACCEPTED."""
ACKNOWLEDGED_TWICE, NOT_THE_HOLDER, DELIVERED_AGAIN = "acknowledged twice", "not the holder", "delivered again"
TWO_HOLDERS, COUNT_FELL, RECORD_LOST = "two holders", "delivery count fell", "record lost"
