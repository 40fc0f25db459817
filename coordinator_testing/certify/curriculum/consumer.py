"""Events of consumer groups (KIP-848): what a member's heartbeat may be answered, and what may happen between two of them."""

from coordinator_testing.certify.curriculum import acts
from coordinator_testing.certify.curriculum.acts import RECONCILING, need_two
from coordinator_testing.certify.event import Allows, Event, NotApplicable, Source, event
from coordinator_testing.certify.stage import Stage
from coordinator_testing.control import NotReached

HEARTBEAT = "ConsumerGroupHeartbeat"
FENCED = Source(
    "AbstractMembershipManager.transitionToFenced",
    "a member that gets FENCED_MEMBER_EPOCH or UNKNOWN_MEMBER_ID releases its assignment by onPartitionsLost and joins again",
)
FATAL = Source(
    "AbstractHeartbeatRequestManager.onErrorResponse",
    "UNSUPPORTED_ASSIGNOR, INVALID_REQUEST and GROUP_MAX_SIZE_REACHED are fatal: the application gets the error from poll",
)
FULL_HEARTBEAT = Source(
    "AbstractHeartbeatRequestManager.onFailure",
    "resets what it remembers as sent, so the next heartbeat says everything again, and the coordinator answers with the "
    "assignment",
)


@event(
    "assignment-answer-lost",
    protocols=("consumer",),
    happens="Another member leaves, and the heartbeat answer that brings its partitions is lost with the connection.",
    right_client="connects again and sends a full heartbeat, which is answered with the assignment",
    provoked="an instance is stopped; a rule loses the answer to the first heartbeat of another one in Assigning or "
    "Reconciling",
    sources=(FULL_HEARTBEAT,),
    allows=Allows(rebalances=2),
)
async def assignment_answer_lost(stage: Stage) -> None:
    need_two(stage)
    first, last = stage.instances[0], stage.instances[-1]
    fault = await stage.fault(first, api=HEARTBEAT, group_state=RECONCILING, lose="answer")
    await stage.stop(last)
    await stage.acted(fault)
    await stage.progress()
    await stage.start(last)
    await stage.stable()


@event(
    "assignment-answer-lost-twice",
    protocols=("consumer",),
    happens="The heartbeat answer that brings new partitions is lost, and so is the answer to the heartbeat that asks again.",
    right_client="asks until it is answered, and reads each partition from its committed offset",
    provoked="an instance is stopped while the heartbeats of another one are lost; a rule loses its next two answers",
    sources=(FULL_HEARTBEAT,),
    allows=Allows(rebalances=2, stall_s=30.0),
)
async def assignment_answer_lost_twice(stage: Stage) -> None:
    need_two(stage)
    first, last = stage.instances[0], stage.instances[-1]
    # Until both are set, no heartbeat may bring the assignment. When it has brought it, the group is Stable for the server.
    nothing = await stage.fault(first, api=HEARTBEAT, lose="request", until="cleared")
    await stage.stop(last)
    fault = await stage.fault(first, api=HEARTBEAT, lose="answer", times=2)
    await nothing.clear()
    await stage.acted(fault, 2)
    await stage.progress()
    await stage.start(last)
    await stage.stable()


@event(
    "heartbeat-fenced-member-epoch",
    protocols=("consumer",),
    happens="A heartbeat is answered with FENCED_MEMBER_EPOCH.",
    right_client="gives its partitions up as lost, without a commit, and joins again with epoch 0 and its member id",
    provoked="a rule: the next heartbeat of one instance",
    sources=(FENCED, Source("KIP-848", "a fenced member abandons its partitions and rejoins with epoch 0")),
    allows=Allows(rebalances=1),
)
async def heartbeat_fenced_member_epoch(stage: Stage) -> None:
    fault = await stage.fault(stage.first, api=HEARTBEAT, error="FENCED_MEMBER_EPOCH")
    await stage.acted(fault)
    await stage.stable()


@event(
    "unknown-member-in-mid-revocation",
    protocols=("consumer",),
    happens="A member is removed while it gives partitions up for a newcomer: the heartbeat that confirms it is answered with "
    "UNKNOWN_MEMBER_ID.",
    right_client="gives up everything that it has left as lost, and joins again",
    provoked="an instance leaves and comes back; another one's second heartbeat in Reconciling is held, its member "
    "evicted, and "
    "the heartbeat released",
    sources=(FENCED,),
    allows=Allows(rebalances=4, stall_s=30.0),
)
async def unknown_member_in_mid_revocation(stage: Stage) -> None:
    need_two(stage)
    first, last = stage.instances[0], stage.instances[-1]
    await stage.stop(last)
    await stage.stable()
    hold = await stage.fault(first, api=HEARTBEAT, group_state=RECONCILING, nth=2, hold="request")
    await stage.start(last)
    await stage.held(hold)
    await stage.evict(first)
    await hold.release()
    await acts.answered_with(stage, first, HEARTBEAT, "UNKNOWN_MEMBER_ID")
    await stage.stable()


@event(
    "revocation-too-slow",
    protocols=("consumer",),
    happens="A member that must give partitions up does not within its rebalance timeout, because it is busy with a record. It "
    "sends heartbeats all the time; the coordinator removes it.",
    right_client="learns it by its next heartbeat (UNKNOWN_MEMBER_ID), gives its partitions up as lost and joins again; the "
    "commit that it is about to send counts for nothing",
    provoked="an instance leaves and comes back while what another one writes to the output topic is held; the server's clock "
    "is advanced beyond the rebalance timeout, with heartbeats in between",
    sources=(
        Source(
            "GroupMetadataManager.scheduleConsumerGroupRebalanceTimeout",
            "a member that fails to transition from its epoch within the rebalance timeout is fenced",
        ),
        FENCED,
    ),
    allows=Allows(rebalances=4, stall_s=90.0),
    is_alone=True,
    time_limit_s=240.0,
)
async def revocation_too_slow(stage: Stage) -> None:
    need_two(stage)
    acts.need_plain_commits(stage)
    if stage.output_topic is None:
        raise NotApplicable("it needs an output topic")
    first, last = stage.instances[0], stage.instances[-1]
    await stage.stop(last)
    await stage.stable()
    hold = await stage.fault(first, api="Produce", hold="request", until="cleared")
    await stage.held(hold)
    await stage.start(last)
    await acts.in_state(stage, RECONCILING)
    await acts.age_until_removed(stage, first)
    await hold.clear()
    await stage.stable()


@event(
    "pause-and-zombie-commit",
    protocols=("consumer", "streams"),
    happens="An instance is stopped for longer than its session, so its partitions go to others. Then it goes on, a zombie.",
    right_client="drops what it owned when its requests are refused, and joins again; its late commit counts for nothing",
    provoked="SIGSTOP, the session expires by command, the others read on, SIGCONT",
    sources=(FENCED,),
    allows=Allows(rebalances=2, stall_s=40.0),
)
async def pause_and_zombie_commit(stage: Stage) -> None:
    need_two(stage)
    zombie = stage.first
    stage.pause(zombie)
    await stage.expire_session(zombie)
    await stage.progress()
    stage.resume(zombie)
    await stage.stable()


@event(
    "unreleased-instance-id",
    protocols=("consumer",),
    happens="A second process starts with the instance id of a member that lives.",
    right_client="the second ends, or reports the fatal error UNRELEASED_INSTANCE_ID; the first is not disturbed",
    provoked="the last instance is stopped, its member removed, and it starts again with the instance id of the first",
    sources=(
        Source(
            "GroupMetadataManager.throwIfInstanceIdIsUnreleased",
            "a member cannot join while another one owns its instance id",
        ),
        Source("ConsumerHeartbeatRequestManager.handleSpecificError", "UNRELEASED_INSTANCE_ID is fatal"),
    ),
    allows=Allows(rebalances=2, may_end=True),
    is_static=True,
)
async def unreleased_instance_id(stage: Stage) -> None:
    need_two(stage)
    first, last = stage.instances[0], stage.instances[-1]
    await acts.need_static(stage)
    own = last.environment["GROUP_INSTANCE_ID"]
    await stage.stop(last)
    await stage.expire_session(last)
    await stage.progress()
    last.environment["GROUP_INSTANCE_ID"] = first.environment["GROUP_INSTANCE_ID"]
    await stage.start(last)
    await acts.answered_with(stage, last, HEARTBEAT, "UNRELEASED_INSTANCE_ID")
    await stage.progress()
    await acts.restart(stage, last, {"GROUP_INSTANCE_ID": own})
    await stage.stable()


@event(
    "static-member-back-in-time",
    protocols=("consumer",),
    happens="A static member stops and is back before its session ends.",
    right_client="leaves with epoch -2, returns with epoch 0 and gets its partitions back; no partition moves to another "
    "member",
    provoked="one instance is stopped and started again",
    sources=(
        Source("ConsumerMembershipManager.leaveGroupEpoch", "a static member leaves with epoch -2, any other with -1"),
    ),
    allows=Allows(rebalances=0),
    is_static=True,
)
async def static_member_back_in_time(stage: Stage) -> None:
    await acts.need_static(stage)
    await acts.restart(stage, stage.first)
    await stage.stable()


def _epoch_bumped(policy: str, then: str, right_client: str, source: Source) -> Event:
    @event(
        f"epoch-bumped-in-mid-commit-{policy}",
        protocols=("consumer",),
        happens=f"The member's epoch advances while its commit is on the way; with fencing policy {policy} {then}.",
        right_client=right_client,
        provoked=f"consumer.fencing.policy={policy}; a heartbeat is held while the epoch is bumped, until a commit waits "
        "after it",
        sources=(source,),
        allows=Allows(rebalances=1),
    )
    async def bumped(stage: Stage) -> None:
        acts.need_plain_commits(stage)
        await acts.bump_in_mid_commit(stage, "consumer", policy)

    return bumped


epoch_bumped_strict = _epoch_bumped(
    "strict",
    "the commit is refused with STALE_MEMBER_EPOCH",
    "commits again with the new epoch, or reports the failure and commits with later records",
    Source(
        "CommitRequestManager.commitSyncExceptionForError",
        "STALE_MEMBER_EPOCH is a CommitFailedException of commitSync",
    ),
)
_ACCEPTED = "goes on: its commit is accepted, because it has held the partitions since then"
epoch_bumped_revocation = _epoch_bumped(
    "revocation-epoch",
    "the commit is accepted",
    _ACCEPTED,
    Source("KAFKA-19779", "relaxes the check of offset commit epochs"),
)
epoch_bumped_assignment = _epoch_bumped(
    "assignment-epoch", "the commit is accepted", _ACCEPTED, Source("KIP-1251", "assignment epochs for consumer groups")
)


@event(
    "regex-matches-new-topic",
    protocols=("consumer",),
    happens="The program subscribes to a pattern, and a topic that matches it is made.",
    right_client="leaves the pattern to the coordinator and reads the topic that it is assigned",
    provoked="all instances start again with TOPIC=^TOPIC.*, and a second topic is made and written to",
    sources=(Source("KIP-848, SubscribedTopicRegex", "the coordinator resolves the pattern and assigns new topics"),),
    allows=Allows(rebalances=None, stall_s=40.0),
)
async def regex_matches_new_topic(stage: Stage) -> None:
    for instance in stage.instances:
        await acts.restart(stage, instance, {"TOPIC": f"^{stage.topic}.*"})
    await stage.stable()
    await stage.progress()
    await acts.read_new_topic(stage, f"{stage.topic}-new")


@event(
    "assignor-not-supported",
    protocols=("consumer",),
    happens="A member joins and the coordinator does not know the assignor that it names.",
    right_client="ends or reports the fatal error; the other members are not disturbed",
    provoked="the last instance is stopped and started again; a rule answers its heartbeats with UNSUPPORTED_ASSIGNOR",
    sources=(FATAL,),
    allows=Allows(rebalances=2, may_end=True),
)
async def assignor_not_supported(stage: Stage) -> None:
    need_two(stage)
    last = stage.instances[-1]
    await stage.stop(last)
    fault = await stage.fault(last, api=HEARTBEAT, error="UNSUPPORTED_ASSIGNOR", until="cleared")
    await stage.start(last)
    await stage.acted(fault)
    await stage.progress()
    await fault.clear()
    await acts.restart(stage, last)
    await stage.stable()


@event(
    "server-assignor-switched",
    protocols=("consumer",),
    happens="A member comes that asks for another assignor of the coordinator, which the group has then; it leaves again.",
    right_client="gives up what it is to give up, and reads what it is assigned, whichever assignor decides",
    provoked="a member that reads no topic of the program joins with another ServerAssignor, and leaves",
    sources=(
        Source(
            "ConsumerGroup.preferredServerAssignor",
            "the assignor that most members ask for; a change bumps the group epoch",
        ),
    ),
    allows=Allows(rebalances=4, stall_s=30.0),
)
async def server_assignor_switched(stage: Stage) -> None:
    before = (await stage.group_view())["assignor"]
    other = next(name for name in ("uniform", "range") if name != before)
    member_id = await acts.join_with_assignor(stage, other)
    try:

        async def switched() -> bool:
            return str((await stage.group_view())["assignor"]) == other

        try:
            await stage.until(switched, f"assignor {other}", within_s=5.0)
        except NotReached:
            raise NotApplicable("its members name their assignor themselves") from None
        await stage.reads_on()
    finally:
        await acts.leave_group(stage, member_id)
    await stage.stable()
    await stage.reads_on()


EVENTS = (
    assignment_answer_lost,
    assignment_answer_lost_twice,
    heartbeat_fenced_member_epoch,
    unknown_member_in_mid_revocation,
    revocation_too_slow,
    pause_and_zombie_commit,
    unreleased_instance_id,
    static_member_back_in_time,
    epoch_bumped_strict,
    epoch_bumped_revocation,
    epoch_bumped_assignment,
    regex_matches_new_topic,
    assignor_not_supported,
    server_assignor_switched,
)
