"""Classic groups: errors for a member that is out of date, or not welcome."""

from coordinator_testing.certify.curriculum import acts
from coordinator_testing.certify.event import Allows, Source, event
from coordinator_testing.certify.stage import Stage

_HEARTBEAT = Source(
    "org.apache.kafka.clients.consumer.internals.AbstractCoordinator.HeartbeatResponseHandler",
    "ILLEGAL_GENERATION and UNKNOWN_MEMBER_ID: resets the generation, keeps the member id in the first case, and joins again",
)
_COMMIT = Source(
    "org.apache.kafka.clients.consumer.internals.ConsumerCoordinator.OffsetCommitResponseHandler",
    "ILLEGAL_GENERATION and UNKNOWN_MEMBER_ID: the commit fails for good, and the member joins again",
)
_JOIN = Source(
    "org.apache.kafka.clients.consumer.internals.AbstractCoordinator.JoinGroupResponseHandler",
    "GROUP_MAX_SIZE_REACHED is fatal: the exception reaches the program",
)
_MAX_SIZE = Source("KIP-389", "a group that is full refuses newcomers, which must not try again")


@event(
    "heartbeat-answer-lost",
    protocols=("classic",),
    happens="The answer to a heartbeat is lost with the connection.",
    right_client="connects again and goes on: its session is alive",
    provoked="a rule: lose the next Heartbeat answer of an instance",
    sources=(
        Source(
            "org.apache.kafka.clients.consumer.internals.AbstractCoordinator.HeartbeatThread.run",
            "looks the coordinator up again and heartbeats on; only a session that is over makes the member rejoin",
        ),
    ),
    allows=Allows(rebalances=0),
)
async def heartbeat_answer_lost(stage: Stage) -> None:
    instance = await stage.follower()
    mark = stage.mark()
    fault = await stage.fault(instance, api="Heartbeat", lose="answer")
    await stage.acted(fault)
    await stage.request("Heartbeat", instance, since=mark)


@event(
    "heartbeat-illegal-generation",
    protocols=("classic",),
    happens="A heartbeat is answered with ILLEGAL_GENERATION.",
    right_client="gives its partitions up as lost and joins again, with the member id that it has",
    provoked="a rule: the next Heartbeat of an instance",
    sources=(_HEARTBEAT,),
    allows=Allows(rebalances=1),
)
async def heartbeat_illegal_generation(stage: Stage) -> None:
    instance = await stage.follower()
    mark = stage.mark()
    fault = await stage.fault(instance, api="Heartbeat", error="ILLEGAL_GENERATION")
    await stage.acted(fault)
    await stage.joins_again(instance, mark)
    await stage.stable()


@event(
    "heartbeat-unknown-member",
    protocols=("classic",),
    happens="A member was removed: its heartbeat is answered with UNKNOWN_MEMBER_ID.",
    right_client="gives its partitions up as lost and joins as a new member",
    provoked="POST /v1/groups/{group}/members/{member}/evict; meanwhile a rule answers its commits with "
    "COORDINATOR_LOAD_IN_PROGRESS",
    sources=(_HEARTBEAT,),
    allows=Allows(rebalances=2),
)
async def heartbeat_unknown_member(stage: Stage) -> None:
    instance = await stage.follower()
    commits = await stage.fault(instance, api="OffsetCommit", error="COORDINATOR_LOAD_IN_PROGRESS", until="cleared")
    mark = stage.mark()
    await stage.evict(instance)
    await stage.answered(instance, "UNKNOWN_MEMBER_ID")
    await commits.clear()
    await stage.request("JoinGroup", instance, since=mark)
    await stage.stable(len(stage.instances))


@event(
    "commit-illegal-generation",
    protocols=("classic",),
    happens="A commit is answered with ILLEGAL_GENERATION.",
    right_client="does not repeat the commit and joins again; what it had read is read again",
    provoked="a rule: the next OffsetCommit of an instance",
    sources=(_COMMIT,),
    allows=Allows(rebalances=1),
)
async def commit_illegal_generation(stage: Stage) -> None:
    acts.need_plain_commits(stage)
    instance = await stage.follower()
    mark = stage.mark()
    fault = await stage.fault(instance, api="OffsetCommit", error="ILLEGAL_GENERATION")
    await stage.acted(fault)
    await stage.joins_again(instance, mark)
    await stage.stable()


@event(
    "commit-unknown-member",
    protocols=("classic",),
    happens="A member was removed and learns it from its next request, which is nearly always a commit: UNKNOWN_MEMBER_ID.",
    right_client="does not repeat the commit and joins as a new member",
    provoked="POST /v1/groups/{group}/members/{member}/evict",
    sources=(_COMMIT,),
    allows=Allows(rebalances=2),
)
async def commit_unknown_member(stage: Stage) -> None:
    instance = await stage.follower()
    mark = stage.mark()
    await stage.evict(instance)
    await stage.answered(instance, "UNKNOWN_MEMBER_ID")
    await stage.request("JoinGroup", instance, since=mark)
    await stage.stable(len(stage.instances))


@event(
    "group-is-full",
    protocols=("classic",),
    happens="A newcomer's JoinGroup is answered with GROUP_MAX_SIZE_REACHED.",
    right_client="reports it and joins no more",
    provoked="an instance is stopped, and started with a rule for its JoinGroup",
    sources=(_MAX_SIZE, _JOIN),
    allows=Allows(rebalances=1, may_end=True),
)
async def group_is_full(stage: Stage) -> None:
    newcomer = await stage.follower()
    await stage.stop(newcomer)
    await stage.stable()
    fault = await stage.fault(newcomer, api="JoinGroup", error="GROUP_MAX_SIZE_REACHED", until="cleared")
    await stage.start(newcomer)
    await stage.acted(fault)
    await stage.quiet(newcomer)


EVENTS = (
    heartbeat_answer_lost,
    heartbeat_illegal_generation,
    heartbeat_unknown_member,
    commit_illegal_generation,
    commit_unknown_member,
    group_is_full,
)
