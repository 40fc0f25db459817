"""The words of the tables: what is compared with a text in one module is written by another.

Apart, because those that judge (judging.py) run where commits are read, and need nothing of Spark.
"""

CLASSIC, CONSUMER, STREAMS = "classic", "consumer", "streams"
COMMIT_DECIDED = "CommitDecided"
STATE_LOG, EVENT_LOG = "state", "events"

SAFE, LOST, AHEAD, NOT_A_MEMBER, UNOWNED, UNCLAIMED, UNKNOWN = (
    "safe", "lost", "ahead", "not a member", "unowned", "unclaimed", "unknown",
)  # fmt: skip
ZOMBIES = (LOST, AHEAD, NOT_A_MEMBER)
ACCEPTED, REFUSED, FAILED = "accepted", "refused", "failed"
POLICIES = ("strict", "revocation_epoch", "assignment_epoch")
IN_FORCE = "in force"
"""In the place of a policy's name: what was really answered."""
FENCING_ERRORS = (
    "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "STALE_MEMBER_EPOCH", "FENCED_MEMBER_EPOCH", "FENCED_INSTANCE_ID",
    "REBALANCE_IN_PROGRESS", "GROUP_ID_NOT_FOUND", "INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED",
)  # fmt: skip
"""Who commits is refused. Any other error is about what is committed, and such a commit is not judged."""

EPOCH_ORDER, TWO_OWNERS, ZOMBIE_ACCEPTED = "epoch order", "two owners", "zombie accepted"
SINCE_TOO_EARLY, EVENT_DISAGREES, VERDICT = "since too early", "told otherwise", "verdict"
