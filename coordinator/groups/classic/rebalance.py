"""From one generation to the next: how members are called to rejoin and how a generation is formed.

    prepare_rebalance   PreparingRebalance begins: parked syncs are answered, heartbeats say REBALANCE_IN_PROGRESS from now on
    form_generation     all have joined, or time is up: members that did not join are removed, joins are answered, and the
                        responses leave when the generation is durable

An Empty group waits first (`group.initial.rebalance.delay.ms`): where one consumer starts, others follow, and each that came
later would cost a rebalance. New members extend the wait, up to the rebalance timeout. Any other rebalance ends as soon as
everybody has joined (members, and ids that were handed out), or after the longest rebalance timeout of the members.

Static members that did not join stay in the generation: their session decides when they are removed, not a rebalance. If no
member joined, nobody can lead, and the group waits once more.

The group remembers why it rebalanced, which members it waited for and how long it took (`group.rebalances`), and emits it.
"""

from coordinator.groups.classic.group import ClassicGroup
from coordinator.groups.classic.member import ClassicMember
from coordinator.groups.classic.owned_partitions import Reading, check_claims, read_metadata, unread
from coordinator.groups.classic.protocols import select_protocol
from coordinator.groups.classic.records import completed_generation, forming_generation
from coordinator.groups.classic.responses import join_response, members_for_leader, sync_error
from coordinator.groups.classic.resync import abort_resync
from coordinator.groups.classic.round import Cause, InitialDelay, Rebalance, Round, sync_key
from coordinator.groups.classic.states import State
from coordinator.groups.events import Completed, event_only, member_expired, rebalance_started
from coordinator.groups.fence import NO_FENCE
from coordinator.groups.group import waited_longest_for
from coordinator.groups.kinds import Kind
from coordinator.groups.state import Groups
from coordinator.groups.update import GroupUpdate
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.subscription import Subscription
from coordinator.runtime.result import Event

MEMBERS_NAMED_MAX = 10
"""A fact names at most this many members."""
SUBSCRIPTIONS_BYTES_MAX = 64 << 20
"""Subscriptions of a generation that would take more memory are not read, as if they were malformed. These are a million names
or owned partitions, which take half a second."""


def prepare_or_continue_rebalance(
    groups: Groups, group: ClassicGroup, cause: Cause, now_ms: int, update: GroupUpdate
) -> None:
    """The group needs a new generation: begins a rebalance, or continues the one in progress.

    Mirrors `GroupMetadataManager.maybePrepareRebalanceOrCompleteJoin`.
    """
    if group.state is State.PREPARING_REBALANCE:
        form_generation_if_all_joined(groups, group, now_ms, update)
    else:
        prepare_rebalance(groups, group, cause, now_ms, update)


def form_generation_if_all_joined(groups: Groups, group: ClassicGroup, now_ms: int, update: GroupUpdate) -> None:
    """Forms the generation if the last member has joined. The initial delay of an Empty group is not cut short."""
    if group.state is State.PREPARING_REBALANCE and group.initial_delay is None and group.have_all_joined:
        form_generation(groups, group, now_ms, update)


def prepare_rebalance(groups: Groups, group: ClassicGroup, cause: Cause, now_ms: int, update: GroupUpdate) -> None:
    """Begins a rebalance; if everybody has joined already, forms the generation at once.

    Mirrors `GroupMetadataManager.prepareRebalance`.
    """
    if group.state is State.COMPLETING_REBALANCE:
        _abort_sync_phase(group, update)
    abort_resync(group, update)
    group.failure = None
    _forget_pending_syncs(group, update)
    record_rebalance(group, cause, now_ms, update)
    if group.state is State.EMPTY:
        delay_ms = groups.config.group_initial_rebalance_delay_ms
        group.initial_delay = InitialDelay(delay_ms, max(group.rebalance_timeout_ms() - delay_ms, 0))
        group.enter(State.PREPARING_REBALANCE, now_ms)
        update.arm(group.join_timer_key, delay_ms)
        return
    group.enter(State.PREPARING_REBALANCE, now_ms)
    if group.have_all_joined:
        form_generation(groups, group, now_ms, update)
    else:
        update.arm(group.join_timer_key, group.rebalance_timeout_ms())


def form_generation(groups: Groups, group: ClassicGroup, now_ms: int, update: GroupUpdate) -> None:
    """Ends PreparingRebalance with the members that have joined.

    Mirrors `GroupMetadataManager.completeClassicGroupJoin`.
    """
    update.disarm(group.join_timer_key)
    removed = _remove_absent_members(group, now_ms, update)
    if group.members and not _elect_leader(group):
        update.arm(group.join_timer_key, group.rebalance_timeout_ms())
        update.emit("generation_postponed", generation=group.generation, reason="nobody joined")
        return
    _stop_waiting(group, now_ms)
    group.initial_delay = None
    group.generation += 1
    assert not group.pending_syncs
    if group.members:
        _start_sync_phase(groups, group, removed, now_ms, update)
    else:
        _become_empty(group, now_ms, update)


def _start_sync_phase(
    groups: Groups, group: ClassicGroup, removed: tuple[str, ...], now_ms: int, update: GroupUpdate
) -> None:
    """Answers all joins; the leader's response asks it for the assignment."""
    group.protocol_name = select_protocol(group)
    group.enter(State.COMPLETING_REBALANCE, now_ms)
    _check_claims(groups, group, update)
    leader_id = group.leader_id
    for member_id, member in group.members.items():
        context = group.unpark_join(member)
        if context is not None:
            members = members_for_leader(group) if member_id == leader_id else []
            answer = join_response(group, member_id, members, leader_id=leader_id, skip_assignment=False)
            update.replies.append((context, answer))
        update.timers.append(member.session_timer)
        member.is_new = False
        group.pending_syncs[member_id] = None
    update.records += forming_generation(group, now_ms)
    update.arm(sync_key(group), group.rebalance_timeout_ms())
    _emit_generation_formed(group, removed, now_ms, update)


def _become_empty(group: ClassicGroup, now_ms: int, update: GroupUpdate) -> None:
    group.protocol_name = None
    group.claims = None
    group.invalid_assignment = None
    read_subscriptions(group)
    group.enter(State.EMPTY, now_ms)
    if group.rebalances:
        group.rebalances[-1].end(now_ms)
        group.rebalances[-1].completed = True
    update.records += completed_generation(group, NO_FENCE)
    update.emit("group_emptied", rebalance_completed(group, now_ms), generation=group.generation)


def _remove_absent_members(group: Round, now_ms: int, update: GroupUpdate) -> tuple[str, ...]:
    """Removes the dynamic members that did not join."""
    if group.awaiting_joins == len(group.members):
        return ()
    absent = tuple(
        member_id
        for member_id, member in group.members.items()
        if member.awaiting_join is None and not member.is_static
    )
    for member_id in absent:
        member = group.remove(member_id)
        assert member is not None
        update.disarm(member.session_timer.key)
        group.stop_waiting_for(member_id, now_ms)
        update.facts.append(event_only(_member_expired(group, member, "rebalance", member.rebalance_timeout_ms)))
    return absent


def _stop_waiting(group: Round, now_ms: int) -> None:
    """The generation is formed without the static members and the holders of handed-out ids that did not join."""
    if group.initial_delay is not None:
        if group.rebalances:
            group.rebalances[-1].delay_ms = now_ms - group.rebalances[-1].started_ms
    elif not group.have_all_joined:
        for member_id, member in group.members.items():
            if member.awaiting_join is None:
                group.stop_waiting_for(member_id, now_ms)
        for member_id in group.pending_joins:
            group.stop_waiting_for(member_id, now_ms)


def _elect_leader(group: Round) -> bool:
    """Keeps a leader that has joined, or elects the first member that has. Returns False if no member has joined.

    Mirrors `ClassicGroup.maybeElectNewJoinedLeader`.
    """
    if group.leader_id is not None and group.members[group.leader_id].awaiting_join is not None:
        return True
    for member_id, member in group.members.items():
        if member.awaiting_join is not None:
            group.leader_id = member_id
            return True
    return False


def _abort_sync_phase(group: Round, update: GroupUpdate) -> None:
    """The generation will not be assigned any more: answers parked syncs and clears assignments."""
    group.set_assignments({})
    for member in group.members.values():
        context = group.unpark_sync(member)
        if context is not None:
            update.answer(context, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
            update.timers.append(member.session_timer)


def _forget_pending_syncs(group: Round, update: GroupUpdate) -> None:
    if group.state is not State.EMPTY:
        group.pending_syncs.clear()
        update.disarm(sync_key(group))


# --- subscriptions and claims -----------------------------------------------------------------------------------------


def read_subscriptions(group: Round) -> list[tuple[str, Subscription]]:
    """Sets the topics of the current generation; returns the readable subscriptions by member id."""
    group.subscribed_topics = None
    if not group.uses_consumer_protocol:
        return []
    topics: set[str] = set()
    readable = True
    subscriptions = []
    # Members that claim no partitions have equal metadata: parse it once.
    readings: dict[tuple[bytes, str | None], Reading] = {}
    held_bytes = 0
    for member_id, member in group.members.items():
        metadata, dialect = member.metadata(group.protocol_name) or b"", member.dialect
        reading = member.reading
        if reading is None or reading.metadata != metadata or reading.dialect != dialect:
            reading = readings.get((metadata, dialect))
            if reading is None:
                is_read = held_bytes < SUBSCRIPTIONS_BYTES_MAX
                reading = readings[metadata, dialect] = (read_metadata if is_read else unread)(metadata, dialect)
            group.set_reading(member, reading)
        held_bytes += reading.held_bytes
        if reading.topics is None:
            readable = False
        else:
            topics |= reading.topics
        if reading.subscription is not None:
            subscriptions.append((member_id, reading.subscription))
    if readable:
        group.subscribed_topics = frozenset(topics)
    return subscriptions


def read_claims(groups: Groups, group: ClassicGroup) -> None:
    """Sets the topics of the generation that was just formed, and the invalid claims that its members make (KIP-792)."""
    group.claims = check_claims(
        read_subscriptions(group),
        forming=group.generation,
        assigned=group.assigned_generation,
        assignor=group.protocol_name,
        sanitize=groups.config.group_classic_sanitize_owned_partitions,
    )


def _check_claims(groups: Groups, group: ClassicGroup, update: GroupUpdate) -> None:
    read_claims(groups, group)
    claims = group.claims
    if claims is not None:
        group.claims_stale += claims.stale_count
        group.claims_contested += claims.contested_count
        update.emit(
            "owned_partitions_wrong",
            generation=group.generation,
            stale=claims.stale_count,
            contested=claims.contested_count,
            cleared=len(claims.cleared),
            members=[claim.member_id for claim in claims.stale[:MEMBERS_NAMED_MAX]],
        )
    unread = [each.member_id for each in group.members.values() if each.reading and each.reading.is_in_kip_order]
    if unread:
        group.claims_in_kip_order += len(unread)
        update.emit(
            "subscriptions_in_kip_order",
            generation=group.generation,
            subscriptions=len(unread),
            members=unread[:MEMBERS_NAMED_MAX],
        )


# --- facts and events -------------------------------------------------------------------------------------------------


def record_rebalance(group: Round, cause: Cause, now_ms: int, update: GroupUpdate) -> None:
    """Remembers and emits that a rebalance begins; one in progress is overtaken."""
    if group.rebalances and group.rebalances[-1].ended_ms is None:
        group.rebalances[-1].end(now_ms)
        update.facts.append(event_only(_ended(group, now_ms, is_overtaken=True)))
    member = group.members.get(cause.member_id)
    waits = {cause.member_id: 0} if member is not None and member.awaiting_join is not None else {}
    group.rebalances.append(Rebalance(cause, group.state, group.generation, now_ms, waits=waits))
    update.emit(
        "rebalance_started",
        rebalance_started(
            group.group_id, Kind.CLASSIC, group.generation + 1, cause.what, cause.member_id, cause.reason
        ),
        kind="classic",
        generation=group.generation,
        state=group.state.value,
        cause=cause.what,
        member_id=cause.member_id,
        reason=cause.reason,
    )


def rebalance_completed(group: Round, now_ms: int) -> Event:
    """The event for the rebalance that has just ended. Its start is unknown if the process started later."""
    return _ended(group, now_ms, is_overtaken=False)


def _ended(group: Round, now_ms: int, *, is_overtaken: bool) -> Event:
    rebalance = group.rebalances[-1] if group.rebalances else None
    return Completed(
        group.group_id,
        Kind.CLASSIC,
        group.generation,
        duration_ms=-1 if rebalance is None else now_ms - rebalance.started_ms,
        cause="" if rebalance is None else rebalance.cause.what,
        member_id="" if rebalance is None else rebalance.cause.member_id,
        members=len(group.members),
        waits={} if rebalance is None else rebalance.waits,
        delay_ms=0 if rebalance is None else rebalance.delay_ms,
        is_overtaken=is_overtaken,
    )


def _member_expired(group: Round, member: ClassicMember, timeout: str, timeout_ms: int) -> Event:
    return member_expired(group, member.member_id, member.group_instance_id, group.generation, timeout, timeout_ms)


def emit_member_expired(
    group: Round, member: ClassicMember, timeout: str, timeout_ms: int, update: GroupUpdate
) -> None:
    """A member was removed because this timeout passed ("session", "sync")."""
    event = _member_expired(group, member, timeout, timeout_ms)
    update.emit("member_expired", event, member_id=member.member_id, timeout=timeout)


def _emit_generation_formed(group: Round, removed: tuple[str, ...], now_ms: int, update: GroupUpdate) -> None:
    waited_ms, delay_ms, waited_for = 0, 0, ""
    if group.rebalances:
        rebalance = group.rebalances[-1]
        rebalance.form(group.leader_id or "", removed, now_ms)
        waited_ms, delay_ms = now_ms - rebalance.started_ms, rebalance.delay_ms
        waited_for = waited_longest_for(rebalance.waits)
    update.emit(
        "generation_formed",
        generation=group.generation,
        members=len(group.members),
        leader=group.leader_id,
        protocol=group.protocol_name,
        waited_ms=waited_ms,
        delay_ms=delay_ms,
        waited_longest_for=waited_for,
        given_up=len(removed),
        given_up_members=removed[:MEMBERS_NAMED_MAX],
    )
