"""All promises, in the order of the report."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from coordinator_testing.certify.case import Evidence
from coordinator_testing.certify.event import Protocol
from coordinator_testing.certify.judge import membership, records, share
from coordinator_testing.certify.judge.findings import Finding, not_judged
from coordinator_testing.certify.judge.history import History


class Promise(NamedTuple):
    """A promise of a right client."""

    check: Callable[[str, History], Finding]
    column: str
    """The head of its column in the table."""
    rule: str
    """How it is judged, for people."""


PROMISES: Mapping[str, Promise] = {
    "records lost": Promise(
        records.lost,
        "lost",
        (
            "Every record below the committed offset of its partition was processed, as the testimony shows. Without a "
            "testimony: every record below the committed offset was sent to an instance. After an administrator has moved the "
            "offset back, an instance is sent the records from there on again. A record that an unclean election has lost is "
            "no loss of the program's; one that has its offset since then is another record."
        ),
    ),
    "delivered twice": Promise(
        records.delivered_twice,
        "twice",
        (
            "A record may be delivered again as long as its offset is not committed. A process may not process a record "
            "again after the commit, unless it joined again or took its position (OffsetFetch) since it was first sent the "
            "record, and it may not read records again below the committed offset that it was given. No record may have two "
            "copies in committed transactions, unless the coordinator gave the process a position from which it had to read "
            "again although a later one was committed."
        ),
    ),
    "committed too early": Promise(
        records.committed_too_early,
        "early",
        (
            "An accepted commit covers only records that the process was sent before and that were processed before, as the "
            "testimony shows. Offsets and copies of a transaction count from the request that commits it. Lines on "
            "stdout are read a moment after they are written: they count if one of them came 500 ms after the commit, or nine "
            "of ten came after it."
        ),
    ),
    "committed backwards": Promise(
        records.went_back,
        "back",
        (
            "No commit moves the offset of a partition back, unless ListOffsets gave the process that position, "
            "OffsetFetch did after an administrator's reset, the topic was made again, or the partition lost its end: to "
            "where it ended then. "
            "For 3 s after it joined again or was resumed, a process may finish what it had polled: a warning."
        ),
    ),
    "committed by another": Promise(
        membership.committed_by_another,
        "others",
        (
            "No commit is accepted for a partition more than 3 s after the instance gave it up or was disowned, while another "
            "instance owns it."
        ),
    ),
    "read by two at once": Promise(
        membership.read_by_two,
        "two",
        (
            "No instance is sent records of a partition more than 3 s after it gave the partition up (JoinGroup, "
            "LeaveGroup, a heartbeat without it) or was disowned, while another instance owns it."
        ),
    ),
    "seconds without progress": Promise(
        records.progress,
        "stall s",
        (
            "From the provocation until the group has caught up, the committed offset of every partition advances at "
            "least once in the time that the event allows. Time does not count while the server is down, nor while the offset "
            "is in the open transaction of a process that was killed (UNSTABLE_OFFSET_COMMIT). A partition that is read before "
            "the event has to be committed in that time, too. The finding names the causes that the requests show."
        ),
    ),
    "rebalances": Promise(
        membership.rebalances,
        "rebal.",
        (
            "From the provocation on, the group rebalances no more often than the event allows: twice as often if "
            "members own partitions while they join (cooperative assignors). A rebalance that the leader begins within 3 s "
            "after another one does not count: it heard of that one too late."
        ),
    ),
    "requests after a fatal error": Promise(
        membership.requests_after_fatal,
        "fatal",
        (
            "5 s after the coordinator disowned a member id (UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID), a generation "
            "(ILLEGAL_GENERATION) or a member epoch (FENCED_MEMBER_EPOCH), the process sends no request with it. A process "
            "that was refused for good (GROUP_MAX_SIZE_REACHED, INCONSISTENT_GROUP_PROTOCOL, FENCED_INSTANCE_ID), or because "
            "another process has its instance id, does not join again."
        ),
    ),
    "program ended": Promise(
        membership.program_ended,
        "ended",
        ("No process ends by itself, unless the event is fatal to it."),
    ),
}
"""The promises in the order of the report."""
_SHARE_ONLY: Mapping[str, Promise] = {
    "records lost": Promise(
        share.lost,
        "lost",
        (
            "Every record that was accepted was processed, as the testimony shows. A record that was delivered as often as it "
            "may be (share.delivery.count.limit) was processed or rejected, unless each process that had it was killed."
        ),
    ),
    "delivered twice": Promise(
        share.delivered_twice,
        "twice",
        (
            "No record comes again that was accepted or rejected, two processes never have one with the same delivery count, "
            "and none is delivered more often than the limit allows. A process processes a record no more often than it was "
            "sent it."
        ),
    ),
    "accepted too early": Promise(
        share.accepted_too_early,
        "early",
        "A record is accepted after it was processed, as the testimony shows; lines on stdout as with commits.",
    ),
    "acknowledged without a lock": Promise(
        share.acknowledged_unheld,
        "unheld",
        (
            "A process acknowledges only records that it was sent, and each once for each time that it was sent it. It may do "
            "so after the lock has ended, and again if the first time was not answered, or with an error that passes."
        ),
    ),
    "seconds without progress": Promise(
        share.progress,
        "stall s",
        (
            "From the provocation until the group has caught up, a record of every partition is accepted or rejected at least "
            "once in the time that the event allows. Time does not count while the server is down. A partition whose records "
            "were delivered before the event has to have one settled in that time, too."
        ),
    ),
}
SHARE_PROMISES: Mapping[str, Promise] = {
    **_SHARE_ONLY,
    **{name: PROMISES[name] for name in ("requests after a fatal error", "program ended")},
}
"""Those of share consumers, whose groups have no commits, owners and rebalances."""


def promises_of(protocol: Protocol) -> Mapping[str, Promise]:
    return SHARE_PROMISES if protocol == "share" else PROMISES


def judge(evidence: Evidence) -> list[Finding]:
    """A finding for each promise."""
    promises = promises_of(evidence.protocol)
    if evidence.not_applicable is not None:
        return [not_judged(name, evidence.not_applicable) for name in promises]
    history = History(evidence)
    return [promise.check(name, history) for name, promise in promises.items()]
