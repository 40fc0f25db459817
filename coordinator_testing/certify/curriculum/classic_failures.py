"""Members that die, fall silent, come back as zombies, and hear nothing."""

from contextlib import suppress

from coordinator_testing.certify.curriculum import acts
from coordinator_testing.certify.curriculum.output import need_output
from coordinator_testing.certify.event import PROTOCOLS, TIME_LIMIT_S, Allows, NotApplicable, Source, event
from coordinator_testing.certify.stage import Stage
from coordinator_testing.control import NotReached

MAX_POLL_INTERVAL_MS = 46_000
"""Longer than the default session of every client library: some refuse a poll interval below it."""
_LEAVES_WITHIN_S = 10.0
_HEARTBEATS_WITHIN_S = 8.0
"""Longer than the heartbeat interval of every client library."""

_SESSION = Source(
    "org.apache.kafka.coordinator.group.GroupMetadataManager.expireClassicGroupMemberHeartbeat",
    "removes a member that was silent for its session timeout, and prepares a rebalance",
)
_COMMIT_REFUSED = Source(
    "org.apache.kafka.clients.consumer.internals.ConsumerCoordinator.OffsetCommitResponseHandler",
    "UNKNOWN_MEMBER_ID: the member resets its generation and must join again",
)
_WITH_TRANSACTION_S = TIME_LIMIT_S + 70.0
"""A killed process may leave a transaction open, until transaction.timeout.ms (60 s) and the next look for such ones."""


@event(
    "follower-killed",
    protocols=("classic",),
    happens="kill -9 of an instance whose member does not lead the group; its session expires.",
    right_client="reads the partitions of the dead member from their committed offsets",
    provoked="kill -9, then the session expires by command",
    sources=(_SESSION,),
    allows=Allows(rebalances=1),
    time_limit_s=_WITH_TRANSACTION_S,
)
async def follower_killed(stage: Stage) -> None:
    follower = await stage.follower()
    member_id = await stage.member_of(follower)
    await stage.kill(follower)
    await stage.expire_member(member_id)
    await stage.stable()


@event(
    "leader-killed",
    protocols=("classic",),
    happens="kill -9 of the instance whose member leads the group; its session expires.",
    right_client="lets another member lead, and reads the partitions of the dead one from their committed offsets",
    provoked="kill -9, then the session expires by command",
    sources=(_SESSION,),
    allows=Allows(rebalances=1),
    time_limit_s=_WITH_TRANSACTION_S,
)
async def leader_killed(stage: Stage) -> None:
    leader = await stage.leader()
    member_id = await stage.member_of(leader)
    await stage.kill(leader)
    await stage.expire_member(member_id)
    await stage.stable()


@event(
    "rolling-restart",
    protocols=PROTOCOLS,
    happens="The instances are stopped and started one after the other, in an orderly way.",
    right_client="commits what it has processed, leaves the group and ends; the others take over at once",
    provoked="SIGTERM and a start, for each instance",
    sources=(
        Source(
            "org.apache.kafka.clients.consumer.internals.ConsumerCoordinator.close",
            "commits synchronously where auto-commit is on, and leaves the group",
        ),
    ),
    allows=Allows(rebalances=0, rebalances_per_instance=2),
)
async def rolling_restart(stage: Stage) -> None:
    for each in stage.instances:
        await stage.stop(each)
        await stage.stable()
        await stage.start(each)
        await stage.stable()


@event(
    "pause-and-zombie-commit",
    protocols=("classic",),
    happens="An instance is stopped for longer than its session, so its partitions go to others. Then it goes on, a zombie.",
    right_client="drops what it owned when its requests are refused with UNKNOWN_MEMBER_ID, and joins again",
    provoked="SIGSTOP, the session expires by command, the others read on, SIGCONT",
    sources=(_SESSION, _COMMIT_REFUSED),
    allows=Allows(rebalances=2),
)
async def pause_and_zombie_commit(stage: Stage) -> None:
    zombie = await stage.follower()
    stage.pause(zombie)
    await stage.expire_member(await stage.member_of(zombie))
    await stage.stable(len(stage.instances) - 1)
    await stage.progress()
    stage.resume(zombie)
    await stage.stable(len(stage.instances))


@event(
    "answers-fall-silent",
    protocols=("classic", "consumer"),
    happens="The network loses what the server sends to one instance, on connections that stay open: its requests arrive and "
    "take effect, and nothing comes back, until its session is over and others have its partitions.",
    right_client="connects again and learns that it is no member, drops what it owned and joins; a commit that was not "
    "answered may count",
    provoked="a rule holds all answers to one instance, and its session expires by command; when the others have read on, "
    "its connections end",
    sources=(
        Source(
            "NetworkClient.handleTimedOutRequests",
            "a connection whose oldest request has had no answer for request.timeout.ms is closed, and its requests fail",
        ),
        _COMMIT_REFUSED,
    ),
    allows=Allows(rebalances=2, stall_s=40.0),
)
async def answers_fall_silent(stage: Stage) -> None:
    acts.need_two(stage)
    # What it has in an open transaction keeps its partitions from the others until that times out (KIP-447).
    acts.need_plain_commits(stage)
    member_id = await stage.member_of(stage.first)
    silence = await stage.fault(stage.first, hold="answer", lose="answer", until="cleared")
    await stage.held(silence)
    await stage.expire_member(member_id)
    await stage.stable(len(stage.instances) - 1)
    await stage.progress()
    await silence.clear()
    await stage.stable()


@event(
    "poll-interval-exceeded",
    protocols=("classic", "consumer"),
    happens="An instance is busy with a record for longer than its max.poll.interval.ms: its client leaves the group, or "
    "sends no more heartbeats, and others read its partitions. Then it goes on.",
    right_client="commits nothing of it, because the commit is refused, and joins again with its next poll",
    provoked=f"an instance starts again with MAX_POLL_INTERVAL_MS={MAX_POLL_INTERVAL_MS}; a rule holds what it writes to the "
    "output topic until its member is gone (the session of one that is only silent expires by command) and the others have "
    "read on",
    sources=(
        Source(
            "AbstractCoordinator.HeartbeatThread.run",
            "when the time between two polls is over, the member leaves the group; it joins again when the program polls",
        ),
        _COMMIT_REFUSED,
    ),
    allows=Allows(rebalances=4, stall_s=120.0),
    time_limit_s=240.0,
)
async def poll_interval_exceeded(stage: Stage) -> None:
    acts.need_two(stage)
    # Its open transaction would keep its partitions from the others until it times out (KIP-447).
    acts.need_plain_commits(stage)
    need_output(stage)
    await stage.stop(stage.first)
    stage.first.environment["MAX_POLL_INTERVAL_MS"] = str(MAX_POLL_INTERVAL_MS)
    mark = stage.mark()
    await stage.start(stage.first)
    joined = await stage.request(("JoinGroup", acts.HEARTBEATS["consumer"]), stage.first, since=mark)
    # Most libraries give the group as much time to rebalance as the program has between two polls; aiokafka less.
    if joined.request.get("rebalance_timeout_ms", 0) > MAX_POLL_INTERVAL_MS:
        raise NotApplicable("the program ignores MAX_POLL_INTERVAL_MS")
    await stage.stable()
    await stage.progress()
    member_id = await stage.member_of(stage.first)
    busy = await stage.fault(stage.first, api="Produce", hold="request", until="cleared")
    await stage.held(busy)

    async def left() -> bool:
        return all(each["member_id"] != member_id for each in (await stage.group_view())["members"])

    with suppress(NotReached):
        await stage.until(left, "the end of the membership", MAX_POLL_INTERVAL_MS / 1000 + _LEAVES_WITHIN_S)
    if not await left():
        await _need_silence(stage)
        await stage.remove_if_member(member_id)
    await stage.progress()
    await busy.clear()
    await stage.stable()


async def _need_silence(stage: Stage) -> None:
    """Raises NotApplicable if the first instance still sends heartbeats."""
    with suppress(NotReached):
        await stage.request(acts.heartbeat_of(stage.first), stage.first, within_s=_HEARTBEATS_WITHIN_S)
        raise NotApplicable("its member stays, however long the program takes")


EVENTS = (
    rolling_restart,
    follower_killed,
    leader_killed,
    pause_and_zombie_commit,
    answers_fall_silent,
    poll_interval_exceeded,
)
