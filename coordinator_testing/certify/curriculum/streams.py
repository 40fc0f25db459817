"""Events of streams groups (KIP-1071): heartbeats that fence a member or bring tasks that it does not learn of."""

from coordinator_testing.certify.curriculum import acts
from coordinator_testing.certify.curriculum.acts import RECONCILING, need_two
from coordinator_testing.certify.event import Allows, Source, event
from coordinator_testing.certify.stage import Stage

HEARTBEAT = "StreamsGroupHeartbeat"
FENCED = Source(
    "StreamsMembershipManager.onFenced",
    "releases its active tasks as lost (onAllTasksLost) and joins again with epoch 0",
)


@event(
    "tasks-answer-lost",
    protocols=("streams",),
    happens="Another member leaves, and the heartbeat answer that brings its tasks is lost with the connection.",
    right_client="connects again and sends a full heartbeat, which is answered with its tasks",
    provoked="an instance is stopped; a rule loses the answer to the first heartbeat of another one in Assigning or "
    "Reconciling",
    sources=(
        Source("StreamsGroupHeartbeatRequestManager.onFailure", "forgets what was sent, so the next heartbeat is full"),
    ),
    allows=Allows(rebalances=2, stall_s=40.0),
)
async def tasks_answer_lost(stage: Stage) -> None:
    need_two(stage)
    first, last = stage.instances[0], stage.instances[-1]
    fault = await stage.fault(first, api=HEARTBEAT, group_state=RECONCILING, lose="answer")
    await stage.kill(last)
    await stage.expire_session(last)
    await stage.acted(fault)
    await stage.progress()
    await stage.start(last)
    await stage.stable()


@event(
    "streams-fenced-member-epoch",
    protocols=("streams",),
    happens="A heartbeat is answered with FENCED_MEMBER_EPOCH.",
    right_client="gives its tasks up as lost, and joins again with epoch 0",
    provoked="a rule: the next heartbeat of one instance",
    sources=(FENCED,),
    allows=Allows(rebalances=1, stall_s=30.0),
)
async def streams_fenced_member_epoch(stage: Stage) -> None:
    fault = await stage.fault(stage.first, api=HEARTBEAT, error="FENCED_MEMBER_EPOCH")
    await stage.acted(fault)
    await stage.stable()


@event(
    "streams-member-removed",
    protocols=("streams",),
    happens="A member is removed: its next heartbeat is answered with UNKNOWN_MEMBER_ID, its commit, too.",
    right_client="gives its tasks up as lost, and joins again",
    provoked="the member of one instance is evicted",
    sources=(FENCED,),
    allows=Allows(rebalances=2, stall_s=40.0),
)
async def streams_member_removed(stage: Stage) -> None:
    await stage.evict(stage.first)
    await acts.answered_with(stage, stage.first, HEARTBEAT, "UNKNOWN_MEMBER_ID")
    await stage.stable()


@event(
    "streams-epoch-bumped-in-mid-commit",
    protocols=("streams",),
    happens="The member's epoch advances while its commit is on the way; with fencing policy strict it gets "
    "STALE_MEMBER_EPOCH.",
    right_client="commits again with its new epoch, or gives its tasks up and joins again",
    provoked="streams.fencing.policy=strict; a heartbeat is held while the epoch is bumped, until a commit "
    "waits after it",
    sources=(Source("CommitRequestManager.commitSyncExceptionForError", "STALE_MEMBER_EPOCH fails commitSync"),),
    allows=Allows(rebalances=3, stall_s=40.0),
)
async def streams_epoch_bumped(stage: Stage) -> None:
    acts.need_plain_commits(stage)
    await acts.bump_in_mid_commit(stage, "streams", "strict")


EVENTS = (tasks_answer_lost, streams_fenced_member_epoch, streams_member_removed, streams_epoch_bumped)
