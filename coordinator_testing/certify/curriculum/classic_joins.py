"""Classic groups: rebalances whose requests and answers get lost, and members that do not finish them."""

from coordinator_testing.certify.event import Allows, NotApplicable, Source, event
from coordinator_testing.certify.judge.entries import errors
from coordinator_testing.certify.stage import Stage

_DISCONNECTED = Source(
    "org.apache.kafka.clients.consumer.internals.AbstractCoordinator.CoordinatorResponseHandler.onFailure",
    "a disconnect makes the coordinator unknown; the member finds it again and sends JoinGroup with its member id",
)
_JOIN_KNOWN_MEMBER = Source(
    "org.apache.kafka.coordinator.group.GroupMetadataManager.classicGroupJoinExistingMember",
    "in CompletingRebalance a follower that joins again unchanged gets the same generation; in Stable too",
)
_SYNC_RETRY = Source(
    "org.apache.kafka.clients.consumer.internals.AbstractCoordinator.SyncGroupResponseHandler",
    "REBALANCE_IN_PROGRESS, UNKNOWN_MEMBER_ID and ILLEGAL_GENERATION: the member joins again",
)
_SESSION = Source(
    "org.apache.kafka.coordinator.group.GroupMetadataManager.expireClassicGroupMemberHeartbeat",
    "a member whose session is over is removed, and a round that waited for it ends",
)
_MEMBER_ID_REQUIRED = Source(
    "KIP-394",
    "a member without an id gets one with MEMBER_ID_REQUIRED and joins with it; an unused id expires",
)


@event(
    "rebalance-forced",
    protocols=("classic", "consumer", "streams"),
    happens="An administrator makes the group rebalance.",
    right_client="follows, and loses nothing that it was processing",
    provoked="POST /v1/groups/{group}/rebalance",
    sources=(Source("KIP-568", "a member rejoins on request, and the rebalance is like any other"),),
    allows=Allows(rebalances=1),
)
async def rebalance_forced(stage: Stage) -> None:
    await stage.rebalance()
    await stage.stable()


@event(
    "join-answer-lost",
    protocols=("classic",),
    happens="The group rebalances, and the answer to one member's JoinGroup is lost with the connection.",
    right_client="connects again and joins with the member id that it has",
    provoked="a rule: lose the next JoinGroup answer of an instance; a forced rebalance",
    sources=(_DISCONNECTED, _JOIN_KNOWN_MEMBER),
    allows=Allows(rebalances=3),
)
async def join_answer_lost(stage: Stage) -> None:
    fault = await stage.fault(await stage.follower(), api="JoinGroup", lose="answer")
    await stage.rebalance()
    await stage.acted(fault)
    await stage.stable()


@event(
    "first-join-answer-lost",
    protocols=("classic",),
    happens="A newcomer's first JoinGroup is answered with a member id, and that answer is lost: no member joins with the id.",
    right_client="asks for another id and joins with it",
    provoked="a rule loses the first JoinGroup answer of an instance that starts; the unused id expires with its session",
    sources=(_MEMBER_ID_REQUIRED, _DISCONNECTED),
    allows=Allows(rebalances=4, stall_s=75),
    time_limit_s=150,
)
async def first_join_answer_lost(stage: Stage) -> None:
    newcomer = await stage.follower()
    await stage.stop(newcomer)
    await stage.stable()
    fault = await stage.fault(newcomer, api="JoinGroup", lose="answer")
    mark = stage.mark()
    await stage.start(newcomer)
    await stage.acted(fault)
    await stage.request("JoinGroup", newcomer, since=mark)
    entry = stage.observation.last(lambda each: each.fault == fault.id)
    if entry is None or "MEMBER_ID_REQUIRED" not in errors(entry):
        raise NotApplicable("its first JoinGroup is of a version without MEMBER_ID_REQUIRED")
    await stage.stable(within_s=75)


@event(
    "sync-answer-lost",
    protocols=("classic",),
    happens="The group rebalances, and the assignment of one member is lost with the connection.",
    right_client="joins again, because it does not know what it owns",
    provoked="a rule: lose the next SyncGroup answer of an instance; a forced rebalance",
    sources=(_DISCONNECTED, _JOIN_KNOWN_MEMBER),
    allows=Allows(rebalances=3),
)
async def sync_answer_lost(stage: Stage) -> None:
    fault = await stage.fault(await stage.follower(), api="SyncGroup", lose="answer")
    await stage.rebalance()
    await stage.acted(fault)
    await stage.stable()


@event(
    "leader-sync-answer-lost",
    protocols=("classic",),
    happens="The leader's assignment takes effect, and the answer to its SyncGroup is lost with the connection.",
    right_client="joins again; a leader's join makes the group rebalance",
    provoked="a rule: lose the next SyncGroup answer of the leader; a forced rebalance",
    sources=(_DISCONNECTED, _JOIN_KNOWN_MEMBER),
    allows=Allows(rebalances=3),
)
async def leader_sync_answer_lost(stage: Stage) -> None:
    fault = await stage.fault(await stage.leader(), api="SyncGroup", lose="answer")
    await stage.rebalance()
    await stage.acted(fault)
    await stage.stable()


@event(
    "sync-rebalance-in-progress",
    protocols=("classic",),
    happens="Another rebalance begins before a member has its assignment: its SyncGroup is answered REBALANCE_IN_PROGRESS.",
    right_client="joins again",
    provoked="a rule: the next SyncGroup of an instance; a forced rebalance",
    sources=(_SYNC_RETRY,),
    allows=Allows(rebalances=3),
)
async def sync_rebalance_in_progress(stage: Stage) -> None:
    fault = await stage.fault(await stage.follower(), api="SyncGroup", error="REBALANCE_IN_PROGRESS")
    await stage.rebalance()
    await stage.acted(fault)
    await stage.stable()


@event(
    "leader-dies-before-it-assigns",
    protocols=("classic",),
    happens="All members have joined, and the leader is killed before its assignment arrives.",
    right_client="waits in SyncGroup, is sent back to JoinGroup, and gets its partitions from another leader",
    provoked="a rule holds the leader's SyncGroup; kill -9 of the leader; its session expires by command",
    sources=(
        _SYNC_RETRY,
        Source(
            "org.apache.kafka.coordinator.group.GroupMetadataManager.removeMemberAndUpdateClassicGroup",
            "in CompletingRebalance the group goes back to PreparingRebalance when a member is removed",
        ),
    ),
    allows=Allows(rebalances=3),
)
async def leader_dies_before_it_assigns(stage: Stage) -> None:
    leader = await stage.leader()
    member_id = await stage.member_of(leader)
    fault = await stage.fault(leader, api="SyncGroup", hold="request")
    await stage.rebalance()
    await stage.held(fault)
    await stage.kill(leader)
    await fault.clear()
    await stage.expire_member(member_id)
    await stage.stable()


@event(
    "follower-dies-while-joining",
    protocols=("classic",),
    happens="The group waits in PreparingRebalance for a member that is killed before it joins.",
    right_client="gets its partitions when the dead member's session is over",
    provoked="SIGSTOP of a follower, a forced rebalance, the others join; kill -9; its session expires by command",
    sources=(_SESSION,),
    allows=Allows(rebalances=2),
)
async def follower_dies_while_joining(stage: Stage) -> None:
    follower = await stage.follower()
    member_id = await stage.member_of(follower)
    stage.pause(follower)
    await stage.rebalance()
    await stage.joined(len(stage.instances) - 1)
    await stage.kill(follower)
    await stage.expire_member(member_id)
    await stage.stable()


@event(
    "one-joins-too-late",
    protocols=("classic",),
    happens="The group rebalances and waits for a member that is silent, until its session is over. Then it comes back.",
    right_client="learns UNKNOWN_MEMBER_ID, drops what it owned and joins as a new member",
    provoked="SIGSTOP, a forced rebalance, the others join, the clock advances by the session timeout, SIGCONT",
    sources=(_SESSION,),
    allows=Allows(rebalances=3),
    is_alone=True,
)
async def one_joins_too_late(stage: Stage) -> None:
    late = await stage.follower()
    timeout_ms = await stage.session_timeout_ms()
    stage.pause(late)
    await stage.rebalance()
    await stage.joined(len(stage.instances) - 1)
    await stage.advance_clock(timeout_ms)
    await stage.stable(len(stage.instances) - 1)
    stage.resume(late)
    await stage.stable(len(stage.instances))


@event(
    "nobody-joins-in-time",
    protocols=("classic",),
    happens="The group rebalances and all members are silent, until their sessions are over. Then all come back.",
    right_client="drops what it owned and joins as a new member, and reads on from the committed offsets",
    provoked="SIGSTOP of all, a forced rebalance, the clock advances by the session timeout, SIGCONT",
    sources=(_SESSION,),
    allows=Allows(rebalances=2, rebalances_per_instance=1),
    is_alone=True,
)
async def nobody_joins_in_time(stage: Stage) -> None:
    timeout_ms = await stage.session_timeout_ms()
    for each in stage.instances:
        stage.pause(each)
    await stage.rebalance()
    await stage.advance_clock(timeout_ms)
    await stage.control.group(stage.group).wait(state="Empty")
    for each in stage.instances:
        stage.resume(each)
    await stage.stable()


EVENTS = (
    rebalance_forced,
    join_answer_lost,
    first_join_answer_lost,
    sync_answer_lost,
    leader_sync_answer_lost,
    sync_rebalance_in_progress,
    leader_dies_before_it_assigns,
    follower_dies_while_joining,
    one_joins_too_late,
    nobody_joins_in_time,
)
