"""The programs that try the judge, by language and name, and what it has to say of them."""

from typing import NamedTuple

from coordinator_testing.certify.event import Protocol


class Wrong(NamedTuple):
    """A mistake, the promise that it breaks, and the events in which it does. If any runs in the suite, the first does."""

    mistake: str
    promise: str
    events: str
    in_suite: bool = False
    protocol: Protocol = "classic"


WRONG = {
    "python wrong_commits_first": Wrong(
        "commits, then processes", "committed too early", "rebalance-forced,rolling-restart,follower-killed"
    ),
    "go first": Wrong(
        "commits, then processes", "committed too early", "rebalance-forced,rolling-restart,follower-killed", True
    ),
    "go slow": Wrong(
        "a slow thread processes what is committed automatically",
        "committed too early",
        "rebalance-forced,rolling-restart,heartbeat-answer-lost",
    ),
    "node unawaited": Wrong(
        "does not wait for its work, and lets the library commit",
        "committed too early",
        "rebalance-forced,rolling-restart,follower-killed",
        True,
    ),
    "go too_far": Wrong(
        "off by one: one record too far",
        "committed too early",
        "rebalance-forced,rolling-restart,heartbeat-answer-lost",
    ),
    "python wrong_commits too_far": Wrong(
        "off by one: one record too far", "committed too early", "rebalance-forced,rolling-restart,commit-answer-lost"
    ),
    "node short": Wrong(
        "off by one: one record too few",
        "seconds without progress",
        "rebalance-forced,rolling-restart,heartbeat-answer-lost",
    ),
    "go lost": Wrong(
        "commits what it lost", "committed by another", "rolling-restart,pause-and-zombie-commit,answers-fall-silent"
    ),
    "python wrong_commits lost": Wrong(
        "commits what it lost", "committed by another", "rolling-restart,pause-and-zombie-commit,answers-fall-silent"
    ),
    "node back": Wrong("goes back", "committed backwards", "rebalance-forced,rolling-restart,follower-killed"),
    "python wrong_commits back": Wrong(
        "goes back", "committed backwards", "rebalance-forced,rolling-restart,follower-killed"
    ),
    "python wrong_ignores_revocation": Wrong(
        "ignores revocation",
        "read by two at once",
        "pause-and-zombie-commit,rolling-restart,poll-interval-exceeded",
    ),
    "node skips": Wrong(
        "skips what it could not write",
        "records lost",
        "output-too-large,output-not-permitted,output-not-enough-replicas",
        True,
    ),
    "python wrong_resumes": Wrong(
        "a zombie: goes on after SIGSTOP",
        "requests after a fatal error",
        "pause-and-zombie-commit,heartbeat-unknown-member,commit-unknown-member",
    ),
    "node outside": Wrong(
        "commits offsets outside the transaction",
        "committed too early",
        "rebalance-forced,rolling-restart,follower-killed",
    ),
    "python wrong_commits outside": Wrong(
        "commits offsets outside the transaction",
        "committed too early",
        "rebalance-forced,rolling-restart,follower-killed",
    ),
    "go nothing": Wrong(
        "a transaction without offsets", "seconds without progress", "rebalance-forced,rolling-restart,follower-killed"
    ),
    "python wrong_static": Wrong(
        "swallows the fatal error of a fenced static member",
        "requests after a fatal error",
        "fenced-instance-id,heartbeat-fenced-instance-id,commit-fenced-instance-id",
    ),
    "python wrong_failures repeats": Wrong(
        "takes an offset that it has seen for a record that it has processed",
        "records lost",
        "topic-recreated,log-truncated,log-overwritten",
    ),
    "python wrong_failures gives_up": Wrong(
        "commits no more after a commit that failed",
        "seconds without progress",
        "answers-fall-silent,access-withdrawn,commit-unknown-member",
    ),
    "python wrong_failures no_retries": Wrong(
        "ends where a second attempt would do",
        "program ended",
        "output-timed-out,output-answer-lost,output-not-enough-replicas",
    ),
    "python wrong_failures nervous": Wrong(
        "ends when its client loses a connection",
        "program ended",
        "broker-upgraded,downgraded-before-finalized,versions-change",
    ),
    "python wrong_failures insists": Wrong(
        "repeats a commit that was refused until it is accepted",
        "committed backwards",
        "poll-interval-exceeded,pause-and-zombie-commit,commit-unknown-member",
    ),
    "python wrong_failures old_token": Wrong(
        "authenticates with a credential that it does not renew", "seconds without progress", "session-expires"
    ),
    "go stays": Wrong("never leaves", "seconds without progress", "rolling-restart,group-deleted,offsets-reset"),
    "node stays": Wrong("never leaves", "seconds without progress", "rolling-restart,group-deleted,offsets-reset"),
}
WRONG_CONSUMER = {
    "python wrong_commits_first": Wrong(
        "commits, then processes",
        "committed too early",
        "rebalance-forced,rolling-restart,heartbeat-fenced-member-epoch",
        protocol="consumer",
    ),
    "go too_far": Wrong(
        "off by one: one record too far",
        "committed too early",
        "rebalance-forced,rolling-restart,heartbeat-fenced-member-epoch",
        protocol="consumer",
    ),
    "python wrong_commits lost": Wrong(
        "commits what it lost",
        "committed by another",
        "rolling-restart,heartbeat-fenced-member-epoch,poll-interval-exceeded",
        protocol="consumer",
    ),
    "python wrong_commits back": Wrong(
        "goes back",
        "committed backwards",
        "rebalance-forced,rolling-restart,heartbeat-fenced-member-epoch",
        protocol="consumer",
    ),
    "python wrong_ignores_revocation": Wrong(
        "ignores revocation",
        "read by two at once",
        "rolling-restart,heartbeat-fenced-member-epoch,poll-interval-exceeded",
        protocol="consumer",
    ),
    "python wrong_failures insists": Wrong(
        "repeats a commit that was refused until it is accepted",
        "committed backwards",
        "poll-interval-exceeded",
        protocol="consumer",
    ),
}
"""With group.protocol=consumer."""
WRONG_SHARE = {
    "python wrong_share first": Wrong(
        "accepts, then processes",
        "accepted too early",
        "rolling-restart,share-member-removed,poison-record",
        protocol="share",
    ),
    "python wrong_share thread": Wrong(
        "a slow thread processes what is accepted with the next poll",
        "accepted too early",
        "rolling-restart,share-member-removed,poison-record",
        protocol="share",
    ),
    "python wrong_share never": Wrong(
        "acknowledges nothing",
        "seconds without progress",
        "rolling-restart,holder-killed,poison-record",
        protocol="share",
    ),
    "python wrong_share repeats": Wrong(
        "accepts each record twice",
        "acknowledged without a lock",
        "rolling-restart,share-member-removed,share-silence",
        protocol="share",
    ),
    "python wrong_share others": Wrong(
        "accepts all offsets up to its last one",
        "acknowledged without a lock",
        "rolling-restart,share-member-removed,share-silence",
        protocol="share",
    ),
    "python wrong_share skips": Wrong(
        "accepts what it could not write",
        "records lost",
        "output-too-large,output-not-permitted,output-refused-for-a-while",
        protocol="share",
    ),
    "python wrong_share gives_up": Wrong(
        "ends at a record that it cannot read", "program ended", "poison-record", protocol="share"
    ),
}
"""Share consumers."""
RIGHT_SHARE = (
    "rolling-restart,holder-killed,lock-expires,acknowledgement-answer-lost,acknowledgement-lost,share-session-not-found,"
    "share-member-removed,share-silence,delivery-limit-reached,output-refused-for-a-while,poison-record,coordinator-killed,"
    "share-leader-moves"
)
RIGHT_EVENTS = (
    "rolling-restart,follower-killed,pause-and-zombie-commit,rebalance-forced,commit-unknown-member,commit-answer-lost,"
    "client-throttled,offsets-reset"
)
RIGHT = {
    "go": RIGHT_EVENTS,
    "go pausing": RIGHT_EVENTS,
    "node batch": RIGHT_EVENTS,
    "python confluent_transactions": RIGHT_EVENTS,
    "python static_consumer": f"{RIGHT_EVENTS},static-member-back-in-time,fenced-instance-id",
}
"""Plain, pausing, batch, always transactional, static."""
RIGHT_CONSUMER = (
    "rolling-restart,rebalance-forced,assignment-answer-lost,heartbeat-fenced-member-epoch,pause-and-zombie-commit"
)
IN_SUITE = {"go pausing", "node batch"}
