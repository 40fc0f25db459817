"""Share groups (KIP-932): members that die with records, locks that end, acknowledgements that are lost or refused."""

import asyncio
from typing import Unpack

from coordinator.rules.model import Entry
from coordinator_testing.certify.curriculum import acts
from coordinator_testing.certify.curriculum.output import need_output
from coordinator_testing.certify.event import Allows, NotApplicable, Protocol, Source, event
from coordinator_testing.certify.judge.entries import rows
from coordinator_testing.certify.judge.share import FETCH, acknowledgements
from coordinator_testing.certify.programs import Instance
from coordinator_testing.certify.stage import Mark, Stage
from coordinator_testing.control import NotReached
from coordinator_testing.control.asynchronous import AsyncFault
from coordinator_testing.control.keywords import FaultKeywords

SHARE: tuple[Protocol, ...] = ("share",)
_LOCK_MS = 3_000
_LIMIT = 2
"""The lowest share.delivery.count.limit."""
_REFUSED_TIMES = 3
_NO_REBALANCES = Allows(rebalances=None)

_SESSION_ENDS = Source(
    "SharePartitionManager.releaseSession",
    "records that a member holds are available again when its share session ends",
)
_LOCK_ENDS = Source(
    "SharePartition.releaseAcquisitionLockOnTimeout", "a record whose lock has ended is available again, or archived"
)
_REFUSED = Source(
    "KIP-932, acknowledgement", "INVALID_RECORD_STATE: the lock has ended, and the record may be another member's"
)


@event(
    "holder-killed",
    protocols=SHARE,
    happens="kill -9 of an instance while it processes records that it holds.",
    right_client="processes the records of the dead member, which come again with a higher delivery count",
    provoked="a rule holds what an instance writes to the output topic; kill -9; its session expires by command, and it starts "
    "again when its records have come to an instance again",
    sources=(_SESSION_ENDS,),
    allows=_NO_REBALANCES,
)
async def holder_killed(stage: Stage) -> None:
    need_output(stage)
    member_id = await stage.member_of(stage.first)
    mark = stage.mark()
    await _kill_at_work(stage, stage.first)
    await stage.expire_member(member_id)
    await _delivered(stage, 2, mark)
    await stage.start(stage.first)
    await stage.stable()


@event(
    "lock-expires",
    protocols=SHARE,
    happens="An instance works on its records for longer than their lock, so that others get them. Then it goes on.",
    right_client="learns that its acknowledgement is refused, and takes more records; their second processing is the price",
    provoked="share.record.lock.duration.ms=3000; a rule holds what an instance writes to the output topic until its records "
    "have come to another one",
    sources=(_LOCK_ENDS, _REFUSED),
    allows=_NO_REBALANCES,
)
async def lock_expires(stage: Stage) -> None:
    need_output(stage)
    await acts.set_group_config(stage, "share.record.lock.duration.ms", str(_LOCK_MS))
    mark = stage.mark()
    busy = await stage.fault(stage.first, api="Produce", hold="request", until="cleared")
    await stage.held(busy)
    await _delivered(stage, 2, mark)
    await busy.clear()
    await stage.progress()


@event(
    "acknowledgement-answer-lost",
    protocols=SHARE,
    happens="Records are accepted, and the answer is lost with the connection.",
    right_client="connects again, and neither waits for the records nor acknowledges them without end",
    provoked="a rule loses the answer to the next request of one instance that acknowledges records",
    sources=(
        Source("ShareConsumeRequestManager", "an acknowledgement that was not answered is reported to the callback"),
        _SESSION_ENDS,
    ),
    allows=_NO_REBALANCES,
)
async def acknowledgement_answer_lost(stage: Stage) -> None:
    await stage.acted(await _fault_on_acknowledgement(stage, lose="answer"))
    await stage.progress()


@event(
    "acknowledgement-lost",
    protocols=SHARE,
    happens="An acknowledgement is lost with the connection, and has no effect: the records come again.",
    right_client="connects again and processes them again, or acknowledges them if it still holds them",
    provoked="a rule loses the next request of one instance that acknowledges records",
    sources=(_SESSION_ENDS,),
    allows=_NO_REBALANCES,
)
async def acknowledgement_lost(stage: Stage) -> None:
    await stage.acted(await _fault_on_acknowledgement(stage, lose="request"))
    await stage.progress()


@event(
    "share-leader-moves",
    protocols=SHARE,
    happens="The leader of the partitions moves: ShareFetch, and later an acknowledgement, is answered with "
    "NOT_LEADER_OR_FOLLOWER.",
    right_client="refreshes its metadata and goes on; what it could not acknowledge comes again",
    provoked="share.record.lock.duration.ms=3000; rules: two ShareFetches of one instance, and one of its requests that "
    "acknowledges records",
    sources=(
        Source(
            "KIP-932, ShareFetch", "NOT_LEADER_OR_FOLLOWER: the client finds the leader; its locks end with the old one"
        ),
    ),
    allows=_NO_REBALANCES,
)
async def share_leader_moves(stage: Stage) -> None:
    await acts.set_group_config(stage, "share.record.lock.duration.ms", str(_LOCK_MS))
    moved = await stage.fault(stage.first, api=FETCH, error="NOT_LEADER_OR_FOLLOWER", times=2)
    await stage.acted(moved, 2)
    await stage.progress()
    await stage.acted(await _fault_on_acknowledgement(stage, error="NOT_LEADER_OR_FOLLOWER"))
    await stage.progress()


@event(
    "share-session-not-found",
    protocols=SHARE,
    happens="The broker has evicted the share session: a ShareFetch is answered with SHARE_SESSION_NOT_FOUND.",
    right_client="begins another session, and gets again what it held",
    provoked="share.record.lock.duration.ms=3000; a rule: a ShareFetch of one instance",
    sources=(
        Source("ShareSessionHandler.handleResponse", "SHARE_SESSION_NOT_FOUND: the next request begins a session"),
    ),
    allows=_NO_REBALANCES,
)
async def share_session_not_found(stage: Stage) -> None:
    await acts.set_group_config(stage, "share.record.lock.duration.ms", str(_LOCK_MS))
    await stage.acted(await stage.fault(stage.first, api=FETCH, error="SHARE_SESSION_NOT_FOUND"))
    await stage.progress()


@event(
    "share-member-removed",
    protocols=SHARE,
    happens="A member is removed: its next heartbeat is answered with UNKNOWN_MEMBER_ID.",
    right_client="joins again with epoch 0, and goes on",
    provoked="share.record.lock.duration.ms=3000; the member of one instance is evicted",
    sources=(
        Source("ShareMembershipManager.transitionToFenced", "the member gives its partitions up, and joins again"),
    ),
    allows=_NO_REBALANCES,
)
async def share_member_removed(stage: Stage) -> None:
    await acts.set_group_config(stage, "share.record.lock.duration.ms", str(_LOCK_MS))
    await stage.evict(stage.first)
    await acts.answered_with(stage, stage.first, acts.heartbeat_of(stage.first), "UNKNOWN_MEMBER_ID")
    await stage.stable()


@event(
    "share-silence",
    protocols=SHARE,
    happens="An instance is stopped for longer than its locks and its session. Then it goes on.",
    right_client="learns that it is no member and holds nothing, and joins again",
    provoked="share.record.lock.duration.ms=3000; SIGSTOP, the session expires by command, the others read on, SIGCONT",
    sources=(_LOCK_ENDS, _REFUSED),
    allows=_NO_REBALANCES,
)
async def share_silence(stage: Stage) -> None:
    acts.need_two(stage)
    await acts.set_group_config(stage, "share.record.lock.duration.ms", str(_LOCK_MS))
    member_id = await stage.member_of(stage.first)
    stage.pause(stage.first)
    await stage.expire_member(member_id)
    await stage.progress()
    stage.resume(stage.first)
    await stage.stable()


@event(
    "delivery-limit-reached",
    protocols=SHARE,
    happens="All instances die with the same records as often as these may be delivered: they are archived.",
    right_client="goes on with the records that follow",
    provoked="share.delivery.count.limit=2; a rule holds what the instances write to the output topic until "
    "one has a record; kill -9 of all, and a start; the same again, with records that come again",
    sources=(Source("SharePartition", "a record that was delivered share.delivery.count.limit times is archived"),),
    allows=Allows(rebalances=None, stall_s=40.0),
    time_limit_s=150.0,
)
async def delivery_limit_reached(stage: Stage) -> None:
    need_output(stage)
    await acts.set_group_config(stage, "share.delivery.count.limit", str(_LIMIT))
    stage.delivery_limit = _LIMIT
    mark = stage.mark()
    busy = [await stage.fault(each, api="Produce", hold="request", until="cleared") for each in stage.instances]
    for delivery in range(1, _LIMIT + 1):
        await _delivered(stage, delivery, mark)  # of two instances, the second may get what the first was killed with
        members = [await stage.member_of(each) for each in stage.instances]
        # Together, or the second may be given what the first was killed with, a moment before its own end.
        await asyncio.gather(*(stage.kill(each) for each in stage.instances))
        for member_id in members:
            await stage.remove_if_member(member_id)
        if delivery == _LIMIT:
            for fault in busy:
                await fault.clear()
        for each in stage.instances:
            await stage.start(each)
        await stage.stable()
    await stage.progress()


@event(
    "output-refused-for-a-while",
    protocols=SHARE,
    happens="What an instance writes is refused three times: MESSAGE_TOO_LARGE.",
    right_client="gives the records back (release) and gets them again, tries again itself, or rejects them",
    provoked="a rule: three Produces of one instance; an instance that ends is started again",
    sources=(Source("KIP-932, AcknowledgeType.RELEASE", "the record is available for delivery again"),),
    allows=acts.MAY_END,
)
async def output_refused(stage: Stage) -> None:
    need_output(stage)
    refused = await stage.fault(stage.first, api="Produce", error="MESSAGE_TOO_LARGE", times=_REFUSED_TIMES)
    await stage.acted(refused, _REFUSED_TIMES)
    await acts.ended_or_commits_again(stage, stage.first, acts.commits)


async def _kill_at_work(stage: Stage, instance: Instance) -> None:
    """Kills an instance when it holds records that it has not processed. Raises NotReached."""
    busy = await stage.fault(instance, api="Produce", hold="request", until="cleared")
    await stage.held(busy)
    await stage.kill(instance)
    await busy.clear()


async def _delivered(stage: Stage, delivery: int, since: Mark) -> None:
    """Waits until an instance has been sent a record for the `delivery`-th time. Raises NotReached."""

    async def found() -> bool:
        return any(
            each["delivery_count"] >= delivery
            for entry in stage.observation.entries
            # A fetch that waited for records at that moment may be the one that gets them.
            if entry.api == FETCH and (entry.answered_ms or 0) >= since.time_ms
            for row in rows(entry.response)
            for each in row.fields.get("acquired_records") or ()
        )

    await stage.until(found, f"delivery {delivery} of a record")


async def _fault_on_acknowledgement(stage: Stage, **rule: Unpack[FaultKeywords]) -> AsyncFault:
    """Sets a rule for the next request of the first instance that acknowledges records.

    A library sends ShareAcknowledge, or lets ShareFetch do it. Raises NotApplicable if the program does neither.
    """

    async def found() -> Entry | None:
        return stage.observation.last(
            lambda each: each.listener == stage.first.listener and any(acknowledgements(each))
        )

    # The first records may all have gone to another instance.
    try:
        entry = await stage.until(found, "an acknowledgement")
    except NotReached:
        raise NotApplicable("the program acknowledges nothing") from None
    batches = "Topics[].Partitions[].AcknowledgementBatches[].FirstOffset"
    rule |= {"api": entry.api, "where": {batches: {">=": 0}}}
    return await stage.fault(stage.first, **rule)


EVENTS = (
    holder_killed,
    lock_expires,
    acknowledgement_answer_lost,
    acknowledgement_lost,
    share_leader_moves,
    share_session_not_found,
    share_member_removed,
    share_silence,
    delivery_limit_reached,
    output_refused,
)
