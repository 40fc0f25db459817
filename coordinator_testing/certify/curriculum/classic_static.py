"""Classic groups: static members (KIP-345)."""

from coordinator_testing.certify.curriculum import acts
from coordinator_testing.certify.event import Allows, Source, event
from coordinator_testing.certify.stage import Stage

_STATIC = Source("KIP-345", "a static member that is back within its session gets its assignment without a rebalance")
_RETURNS = Source(
    "org.apache.kafka.coordinator.group.GroupMetadataManager.updateStaticMemberThenRebalanceOrCompleteJoin",
    "in Stable, a static member that replaces its predecessor does not trigger a rebalance",
)
_FENCED = Source(
    "org.apache.kafka.clients.consumer.internals.AbstractCoordinator.JoinGroupResponseHandler",
    "FENCED_INSTANCE_ID is fatal: the exception reaches the program",
)

_FENCED_BY_RULE = Allows(rebalances=None, stall_s=45.0, may_end=True)
"""Its member stays in the group, so that its partitions wait until it is back."""


@event(
    "static-member-back-in-time",
    protocols=("classic",),
    happens="A static member is killed and is back before its session ends.",
    right_client="gets the partitions that it had, and the group does not rebalance",
    provoked="kill -9, and a start with the same GROUP_INSTANCE_ID",
    sources=(_STATIC, _RETURNS),
    allows=Allows(rebalances=0),
    is_static=True,
)
async def static_member_back_in_time(stage: Stage) -> None:
    await acts.need_static(stage)
    member = await stage.follower()
    await stage.kill(member)
    mark = stage.mark()
    await stage.start(member)
    await stage.request("SyncGroup", member, since=mark)
    await stage.stable()


@event(
    "static-member-restarted",
    protocols=("classic",),
    happens="A static member is stopped in an orderly way and is back before its session ends.",
    right_client="does not leave the group when it is stopped, so there is no rebalance",
    provoked="SIGTERM, and a start with the same GROUP_INSTANCE_ID",
    sources=(_STATIC, _RETURNS),
    allows=Allows(rebalances=0),
    is_static=True,
)
async def static_member_restarted(stage: Stage) -> None:
    await acts.need_static(stage)
    member = await stage.follower()
    await stage.stop(member)
    mark = stage.mark()
    await stage.start(member)
    await stage.request("SyncGroup", member, since=mark)
    await stage.stable()


@event(
    "fenced-instance-id",
    protocols=("classic",),
    happens="Two processes have one instance id: the second one takes the place of the first, which is fenced.",
    right_client="stops when it is refused, instead of fencing the other one in turn",
    provoked="an instance leaves, and starts with the GROUP_INSTANCE_ID of another that runs; that one is watched, and stopped",
    sources=(_STATIC, _FENCED),
    allows=Allows(rebalances=None, may_end=True),
    is_static=True,
)
async def fenced_instance_id(stage: Stage) -> None:
    await acts.need_static(stage)
    fenced = await stage.follower()
    second = next(each for each in stage.instances if each is not fenced)
    member_id = await stage.member_of(second)
    await stage.stop(second)
    await stage.remove_if_member(member_id)
    await stage.stable(len(stage.instances) - 1)
    second.environment["GROUP_INSTANCE_ID"] = fenced.environment["GROUP_INSTANCE_ID"]
    mark = stage.mark()
    await stage.start(second)
    await stage.request("SyncGroup", second, since=mark)
    # Commits and heartbeats of some libraries name no instance id, so that their answers do not say why.
    await stage.answered(fenced, "FENCED_INSTANCE_ID", "UNKNOWN_MEMBER_ID")
    await stage.quiet(fenced)
    if fenced.runs:
        await stage.stop(fenced)


@event(
    "heartbeat-fenced-instance-id",
    protocols=("classic",),
    happens="A heartbeat is answered with FENCED_INSTANCE_ID: another process had the instance id for a moment.",
    right_client="stops, and does not join again until it is started",
    provoked="a rule: the next Heartbeat of an instance; it is watched, stopped, and started again",
    sources=(
        Source(
            "org.apache.kafka.clients.consumer.internals.AbstractCoordinator.HeartbeatResponseHandler",
            "FENCED_INSTANCE_ID is fatal: the exception reaches the program",
        ),
    ),
    allows=_FENCED_BY_RULE,
    is_static=True,
    time_limit_s=150.0,
)
async def heartbeat_fenced_instance_id(stage: Stage) -> None:
    await _fence_by_rule(stage, "Heartbeat")


@event(
    "commit-fenced-instance-id",
    protocols=("classic",),
    happens="A commit is answered with FENCED_INSTANCE_ID: another process had the instance id for a moment.",
    right_client="stops, and neither repeats the commit nor joins again until it is started",
    provoked="a rule: the next OffsetCommit of an instance; it is watched, stopped, and started again",
    sources=(
        Source(
            "org.apache.kafka.clients.consumer.internals.ConsumerCoordinator.OffsetCommitResponseHandler",
            "FENCED_INSTANCE_ID is fatal: the commit raises it",
        ),
    ),
    allows=_FENCED_BY_RULE,
    is_static=True,
    time_limit_s=150.0,
)
async def commit_fenced_instance_id(stage: Stage) -> None:
    acts.need_plain_commits(stage)
    await _fence_by_rule(stage, "OffsetCommit")


async def _fence_by_rule(stage: Stage, api: str) -> None:
    await acts.need_static(stage)
    fenced = await stage.follower()
    await stage.acted(await stage.fault(fenced, api=api, error="FENCED_INSTANCE_ID"))
    await stage.quiet(fenced)
    if fenced.runs:
        await stage.stop(fenced)
    mark = stage.mark()
    await stage.start(fenced)
    await stage.request("SyncGroup", fenced, since=mark)
    await stage.stable()


EVENTS = (
    static_member_back_in_time,
    static_member_restarted,
    fenced_instance_id,
    heartbeat_fenced_instance_id,
    commit_fenced_instance_id,
)
