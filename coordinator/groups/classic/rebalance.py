"""From one generation to the next: how members are called together and how a generation is formed.

    call_together      Preparing begins: parked syncs are sent back to join; heartbeats say REBALANCE_IN_PROGRESS from now
    form_generation    all have joined, or time is up: members that did not come are given up, joins are answered

An Empty group waits first (`group.initial.rebalance.delay.ms`), because where one consumer starts others follow, and each
that came later would cost a rebalance. While new members keep coming the wait is extended, up to the rebalance timeout.
Any other rebalance ends as soon as everybody has joined: members and those that were only given an id; or after the longest
rebalance timeout of the members.

Static members that did not come are kept in the generation: their session says when they are gone, not a rebalance. If
nobody came at all there is no one to lead, and the group waits once more.

Why a group rebalanced, whom it waited for and how long it took is kept (`group.rebalances`) and told.
"""

from typing import TYPE_CHECKING

from coordinator.groups.classic.answers import for_leader, joined, sync_refused
from coordinator.groups.classic.effects import Effects
from coordinator.groups.classic.group import (
    Cause,
    ClassicGroup,
    ClassicMember,
    InitialDelay,
    Rebalance,
    State,
    sync_key,
)
from coordinator.groups.classic.owned_partitions import Reading, examine, read
from coordinator.groups.classic.protocols import select_protocol
from coordinator.groups.classic.records import group_metadata
from coordinator.groups.events import Completed, event_only, member_expired, rebalance_started
from coordinator.groups.kinds import Kind
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.subscription import Subscription
from coordinator.runtime.result import Event

if TYPE_CHECKING:
    from coordinator.groups.state import Groups

MEMBERS_TOLD_MAX = 10
"""A fact names so many members at most."""


def rebalance_or_go_on(groups: "Groups", group: ClassicGroup, cause: Cause, now_ms: int, effects: Effects) -> None:
    """Something happened that needs a new generation: begins a rebalance, or goes on with the one that is on."""
    if group.state is State.PREPARING_REBALANCE:
        go_on(groups, group, now_ms, effects)
    else:
        call_together(groups, group, cause, now_ms, effects)


def go_on(groups: "Groups", group: ClassicGroup, now_ms: int, effects: Effects) -> None:
    """Forms the generation if the last one has joined; the wait of an Empty group is not cut short by it."""
    if group.state is State.PREPARING_REBALANCE and group.initial_delay is None and group.has_everybody_joined:
        form_generation(groups, group, now_ms, effects)


def call_together(groups: "Groups", group: ClassicGroup, cause: Cause, now_ms: int, effects: Effects) -> None:
    """Begins a rebalance; if everybody has joined already, the generation is formed at once."""
    if group.state is State.COMPLETING_REBALANCE:
        _send_back_to_join(group, effects)
    _stop_waiting_for_syncs(group, effects)
    _remember(group, cause, now_ms, effects)
    if group.state is State.EMPTY:
        delay_ms = groups.config.group_initial_rebalance_delay_ms
        group.initial_delay = InitialDelay(delay_ms, max(group.rebalance_timeout_ms() - delay_ms, 0))
        group.enter(State.PREPARING_REBALANCE, now_ms)
        effects.arm(group.join_timer_key, delay_ms)
        return
    group.enter(State.PREPARING_REBALANCE, now_ms)
    if group.has_everybody_joined:
        form_generation(groups, group, now_ms, effects)
    else:
        effects.arm(group.join_timer_key, group.rebalance_timeout_ms())


def form_generation(groups: "Groups", group: ClassicGroup, now_ms: int, effects: Effects) -> None:
    """Ends Preparing with whoever has joined."""
    effects.disarm(group.join_timer_key)
    given_up = _give_up_absent_members(group, now_ms, effects)
    if group.members and not _elect_leader(group):
        effects.arm(group.join_timer_key, group.rebalance_timeout_ms())
        effects.emit(
            "generation_postponed", group_id=group.group_id, generation=group.generation, reason="nobody joined"
        )
        return
    group.initial_delay = None
    group.generation += 1
    assert not group.pending_syncs
    if group.members:
        _ask_leader(groups, group, given_up, now_ms, effects)
    else:
        _be_empty(group, now_ms, effects)


def _ask_leader(
    groups: "Groups", group: ClassicGroup, given_up: tuple[str, ...], now_ms: int, effects: Effects
) -> None:
    group.protocol_name = select_protocol(group)
    group.enter(State.COMPLETING_REBALANCE, now_ms)
    _check_claims(groups, group, effects)
    leader_id = group.leader_id
    for member_id, member in group.members.items():
        context = group.unpark_join(member)
        if context is not None:
            members = for_leader(group) if member_id == leader_id else []
            answer = joined(group, member_id, members, leader_id=leader_id, skip_assignment=False)
            effects.replies.append((context, answer))
        effects.timers.append(member.session_timer)
        member.is_new = False
        group.pending_syncs[member_id] = None
    effects.arm(sync_key(group), group.rebalance_timeout_ms())
    _tell_formed(group, given_up, now_ms, effects)


def _be_empty(group: ClassicGroup, now_ms: int, effects: Effects) -> None:
    group.protocol_name = None
    group.claims = None
    read_subscriptions(group)
    group.enter(State.EMPTY, now_ms)
    if group.rebalances:
        group.rebalances[-1].ended_ms = now_ms
        group.rebalances[-1].completed = True
    effects.write(group_metadata(group))
    effects.emit("group_emptied", tell_completed(group, now_ms), group_id=group.group_id, generation=group.generation)


def _give_up_absent_members(group: ClassicGroup, now_ms: int, effects: Effects) -> tuple[str, ...]:
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
        effects.disarm(member.session_timer.key)
        if group.rebalances:
            rebalance = group.rebalances[-1]
            rebalance.waits[member_id] = now_ms - rebalance.started_ms
        event = member_expired(
            group.group_id, Kind.CLASSIC, member_id, member.group_instance_id, group.generation, "rebalance"
        )
        effects.facts.append(event_only(event))
    return absent


def _elect_leader(group: ClassicGroup) -> bool:
    """Keeps a leader that has joined, or takes the first member that has. False: none has."""
    if group.leader_id is not None and group.members[group.leader_id].awaiting_join is not None:
        return True
    for member_id, member in group.members.items():
        if member.awaiting_join is not None:
            group.leader_id = member_id
            return True
    return False


def _send_back_to_join(group: ClassicGroup, effects: Effects) -> None:
    """A generation that nobody will assign any more: parked syncs are answered, nobody owns anything of it."""
    for member in group.members.values():
        member.assignment = b""
        context = group.unpark_sync(member)
        if context is not None:
            effects.answer(context, sync_refused(ErrorCode.REBALANCE_IN_PROGRESS))
            effects.timers.append(member.session_timer)


def _stop_waiting_for_syncs(group: ClassicGroup, effects: Effects) -> None:
    if group.state is not State.EMPTY:
        group.pending_syncs.clear()
        effects.disarm(sync_key(group))


# --- what the coordinator reads ---------------------------------------------------------------------------------------


def read_subscriptions(group: ClassicGroup) -> list[tuple[str, Subscription]]:
    """Learns the topics of the current generation; returns the subscriptions by member id, those that can be read."""
    group.subscribed_topics = None
    if not group.uses_consumer_protocol:
        return []
    topics: set[str] = set()
    readable = True
    subscriptions = []
    readings: dict[bytes, Reading] = {}  # Where nobody says what it owns, all say the same.
    for member_id, member in group.members.items():
        metadata = member.metadata(group.protocol_name) or b""
        reading = member.reading
        if reading is None or reading.metadata != metadata:
            reading = readings.get(metadata)
            if reading is None:
                reading = readings[metadata] = read(metadata)
            member.reading = reading
        if reading.topics is None:
            readable = False
        else:
            topics |= reading.topics
        if reading.subscription is not None:
            subscriptions.append((member_id, reading.subscription))
    if readable:
        group.subscribed_topics = frozenset(topics)
    return subscriptions


def _check_claims(groups: "Groups", group: ClassicGroup, effects: Effects) -> None:
    group.claims = claims = examine(
        read_subscriptions(group),
        forming=group.generation,
        assigned=group.stored.generation if group.stored is not None else 0,
        sanitize=groups.config.group_classic_sanitize_owned_partitions,
    )
    if claims is not None:
        group.claims_stale += claims.stale_count
        group.claims_contested += claims.contested_count
        effects.emit(
            "owned_partitions_wrong",
            group_id=group.group_id,
            generation=group.generation,
            stale=claims.stale_count,
            contested=claims.contested_count,
            cleared=len(claims.cleared),
            members=[claim.member_id for claim in claims.stale[:MEMBERS_TOLD_MAX]],
        )


# --- what a person may want to know -----------------------------------------------------------------------------------


def _remember(group: ClassicGroup, cause: Cause, now_ms: int, effects: Effects) -> None:
    if group.rebalances and group.rebalances[-1].ended_ms is None:
        group.rebalances[-1].ended_ms = now_ms
    member = group.members.get(cause.member_id)
    last_joined = cause.member_id if member is not None and member.awaiting_join is not None else ""
    waits = {last_joined: 0} if last_joined else {}
    group.rebalances.append(
        Rebalance(cause, group.state, group.generation, now_ms, last_joined=last_joined, waits=waits)
    )
    effects.emit(
        "rebalance_started",
        rebalance_started(
            group.group_id, Kind.CLASSIC, group.generation + 1, cause.what, cause.member_id, cause.client_reason
        ),
        kind="classic",
        group_id=group.group_id,
        generation=group.generation,
        state=group.state.value,
        cause=cause.what,
        member_id=cause.member_id,
        client_reason=cause.client_reason,
    )


def tell_completed(group: ClassicGroup, now_ms: int) -> Event:
    """The rebalance that has just ended. One that began before this process did is not remembered."""
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
    )


def tell_expired(group: ClassicGroup, member: ClassicMember, timeout: str, effects: Effects) -> None:
    """A member was removed because a timeout of this kind ran out."""
    event = member_expired(
        group.group_id, Kind.CLASSIC, member.member_id, member.group_instance_id, group.generation, timeout
    )
    effects.emit("member_expired", event, group_id=group.group_id, member_id=member.member_id, timeout=timeout)


def _tell_formed(group: ClassicGroup, given_up: tuple[str, ...], now_ms: int, effects: Effects) -> None:
    waited_ms, last_joined = 0, ""
    if group.rebalances:
        rebalance = group.rebalances[-1]
        rebalance.formed_ms = now_ms
        rebalance.given_up = given_up
        waited_ms, last_joined = now_ms - rebalance.started_ms, rebalance.last_joined
    effects.emit(
        "generation_formed",
        group_id=group.group_id,
        generation=group.generation,
        members=len(group.members),
        leader=group.leader_id,
        protocol=group.protocol_name,
        waited_ms=waited_ms,
        last_joined=last_joined,
        given_up=len(given_up),
        given_up_members=given_up[:MEMBERS_TOLD_MAX],
    )
