"""All promises, in the order of the report."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from coordinator_testing.certify.case import Evidence
from coordinator_testing.certify.judge import membership, records
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


def judge(evidence: Evidence) -> list[Finding]:
    """A finding for each promise."""
    if evidence.not_applicable is not None:
        return [not_judged(name, evidence.not_applicable) for name in PROMISES]
    history = History(evidence)
    return [promise.check(name, history) for name, promise in PROMISES.items()]
