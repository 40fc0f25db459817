"""Events of offsets: commits that are answered late, lost or refused, and offsets that are gone."""

import asyncio
from collections.abc import Callable

from coordinator.operations import groups
from coordinator.operations.client import Client, OperationFailed
from coordinator_testing.certify.curriculum import acts
from coordinator_testing.certify.event import Allows, Protocol, Source, event
from coordinator_testing.certify.programs import now_ms
from coordinator_testing.certify.records import ANSWERED_WITHIN_S
from coordinator_testing.certify.stage import Stage

BOTH: tuple[Protocol, ...] = ("classic", "consumer")
REPEATED = Source(
    "KafkaConsumer.commitSync",
    "a commit is repeated after an error that can be retried until it is answered; the last one that is accepted counts",
)


@event(
    "commit-answered-late",
    protocols=("classic", "consumer", "streams"),
    happens="A commit takes effect at once and is answered after 8 s.",
    right_client="waits or reports a timeout, stays a member, and never takes the records for unread",
    provoked="a rule delays the answer to the next OffsetCommit of one instance",
    sources=(REPEATED,),
    allows=Allows(rebalances=0),
)
async def commit_answered_late(stage: Stage) -> None:
    fault = await stage.fault(stage.first, api=acts.COMMITS, delay_ms=8_000, when="after")
    await stage.acted(fault)


@event(
    "commit-answer-lost",
    protocols=("classic", "consumer", "streams"),
    happens="A commit takes effect, and its answer is lost with the connection.",
    right_client="connects again and repeats the commit, or reports the failure and commits with later records",
    provoked="a rule loses the answer to the next OffsetCommit of one instance",
    sources=(REPEATED,),
    allows=Allows(rebalances=0),
)
async def commit_answer_lost(stage: Stage) -> None:
    fault = await stage.fault(stage.first, api=acts.COMMITS, lose="answer")
    await stage.acted(fault)


@event(
    "commit-request-lost",
    protocols=("classic", "consumer", "streams"),
    happens="A commit is lost with the connection and has no effect.",
    right_client="connects again and repeats the commit, or reports the failure and commits with later records",
    provoked="a rule loses the next OffsetCommit of one instance",
    sources=(REPEATED,),
    allows=Allows(rebalances=0),
)
async def commit_request_lost(stage: Stage) -> None:
    fault = await stage.fault(stage.first, api=acts.COMMITS, lose="request")
    await stage.acted(fault)


@event(
    "commit-rebalance-in-progress",
    protocols=("classic",),
    happens="A commit is answered with REBALANCE_IN_PROGRESS.",
    right_client="polls on, which joins the group again; it loses no position and does not end",
    provoked="a rule: the next OffsetCommit of one instance",
    sources=(
        Source(
            "ConsumerCoordinator.OffsetCommitResponseHandler",
            "requests a rejoin, keeps the generation, and raises RebalanceInProgressException: poll, then commit again",
        ),
    ),
    allows=Allows(rebalances=1),
)
async def commit_rebalance_in_progress(stage: Stage) -> None:
    acts.need_plain_commits(stage)
    fault = await stage.fault(stage.first, api="OffsetCommit", error="REBALANCE_IN_PROGRESS")
    await stage.acted(fault)
    await stage.stable()


@event(
    "commit-stale-member-epoch",
    protocols=("consumer",),
    happens="A commit is answered with STALE_MEMBER_EPOCH.",
    right_client="learns its epoch by a heartbeat and commits again, or reports the failure; it stays a member",
    provoked="a rule: the next OffsetCommit of one instance",
    sources=(
        Source(
            "CommitRequestManager.commitSyncExceptionForError",
            "commitSync raises CommitFailedException; the commit before a revocation is repeated with the new epoch",
        ),
        Source("KIP-848, OffsetCommit", "the consumer should retry with its new epoch"),
    ),
    allows=Allows(rebalances=0),
)
async def commit_stale_member_epoch(stage: Stage) -> None:
    acts.need_plain_commits(stage)
    fault = await stage.fault(stage.first, api="OffsetCommit", error="STALE_MEMBER_EPOCH")
    await stage.acted(fault)


@event(
    "offsets-expired",
    protocols=BOTH,
    happens="All instances are away for longer than offsets.retention.minutes: their committed offsets expire.",
    right_client="begins by auto.offset.reset, here at the earliest record, and reads everything again",
    provoked="all instances are stopped, the offsets expired, and the instances started",
    sources=(
        Source("OffsetMetadataManager.cleanupExpiredOffsets", "offsets of a group without members expire"),
        Source(
            "SubscriptionState.resetInitializingPositions",
            "a position without a committed offset is reset by the policy",
        ),
    ),
    allows=Allows(rebalances=None),
)
async def offsets_expired(stage: Stage) -> None:
    await acts.stop_all(stage)
    await stage.expire_offsets()
    await acts.start_all(stage)


async def _administrate(stage: Stage, act: Callable[[Client], None]) -> None:
    """Stops all instances, lets an administrator act on the group, and starts them."""
    await acts.stop_all(stage)

    def run() -> None:
        with Client(stage.server.bootstrap, ANSWERED_WITHIN_S) as client:
            act(client)

    await asyncio.to_thread(run)
    await acts.start_all(stage)


@event(
    "group-deleted",
    protocols=BOTH,
    happens="All instances are away, and an administrator deletes the group with its offsets.",
    right_client="makes another group of that name, and begins by auto.offset.reset, here at the earliest record",
    provoked="all instances are stopped, DeleteGroups, and the instances started",
    sources=(
        Source(
            "GroupMetadataManager.createGroupTombstoneRecords, OffsetMetadataManager.deleteAllOffsets",
            "nothing is left",
        ),
    ),
    allows=Allows(rebalances=None),
)
async def group_deleted(stage: Stage) -> None:
    def delete(client: Client) -> None:
        for problem in groups.delete(client, [stage.group]).values():
            if problem is not None:
                raise OperationFailed(problem)

    stage.note("the group is deleted")
    await _administrate(stage, delete)


@event(
    "offsets-reset",
    protocols=BOTH,
    happens="All instances are away, and an administrator moves the offsets of the group back by ten records.",
    right_client="reads on from the committed offsets, and takes no other memory of its position for better",
    provoked="all instances are stopped, the offsets committed as kafka-consumer-groups --shift-by -10 does, and the instances "
    "started",
    sources=(Source("KIP-122", "the offsets of a group without members can be reset; its members begin there"),),
    allows=Allows(rebalances=None),
)
async def offsets_reset(stage: Stage) -> None:
    def shift(client: Client) -> None:
        plan = groups.plan_reset(client, stage.group, groups.Selection(), groups.Target(shift=-10))
        groups.commit(client, stage.group, plan)
        stage.resets.append((now_ms(), {each.partition: each.new for each in plan}))

    stage.note("the offsets are moved back by 10")
    await _administrate(stage, shift)


@event(
    "access-withdrawn",
    protocols=BOTH,
    happens="The ACL that lets the program use its group is withdrawn for 5 s: GROUP_AUTHORIZATION_FAILED.",
    right_client="reports it, and ends or goes on when it has access again",
    provoked="a rule: every request of one instance to the coordinator of its group; an instance that ends is started again",
    sources=(
        Source("AbstractCoordinator", "GroupAuthorizationException is fatal to the call: poll and commit raise it"),
    ),
    allows=Allows(rebalances=None, stall_s=60.0, may_end=True),
    time_limit_s=150.0,
)
async def access_withdrawn(stage: Stage) -> None:
    apis = (acts.heartbeat_of(stage.first), *acts.COMMITS)
    await stage.acted(await stage.fault(stage.first, api=apis, error="GROUP_AUTHORIZATION_FAILED", for_ms=5_000))
    await acts.ended_or_commits_again(stage, stage.first, acts.commits)


@event(
    "offset-out-of-range",
    protocols=BOTH,
    happens="A Fetch is answered with OFFSET_OUT_OF_RANGE, as when retention has overtaken the reader.",
    right_client="resets its position by auto.offset.reset, here to the earliest record, and reads on from there",
    provoked="a rule: a Fetch of one instance",
    sources=(
        Source("FetchCollector.handleInitializeErrors", "OFFSET_OUT_OF_RANGE resets the position if there is a policy"),
    ),
    allows=Allows(rebalances=0),
)
async def offset_out_of_range(stage: Stage) -> None:
    fault = await stage.fault(stage.first, api="Fetch", error="OFFSET_OUT_OF_RANGE")
    await stage.acted(fault)


EVENTS = (
    commit_answered_late,
    commit_answer_lost,
    commit_request_lost,
    commit_rebalance_in_progress,
    commit_stale_member_epoch,
    offsets_expired,
    offset_out_of_range,
    group_deleted,
    offsets_reset,
    access_withdrawn,
)
