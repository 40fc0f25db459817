"""Classic groups in a given state, as the operations of classic groups would leave them."""

from coordinator.groups.classic.group import ClassicGroup
from coordinator.groups.classic.member import ClassicMember
from coordinator.groups.classic.records import group_metadata
from coordinator.groups.classic.states import State
from coordinator.groups.fence import NO_FENCE
from coordinator.protocol.subscription import Subscription, encode_subscription
from tests.groups.offsets.offset_coordinator import OffsetCoordinator

SESSION_MS = 30_000
GENERATION = 5
MEMBER = "member"
STATIC = "static-member"
INSTANCE = "instance"


def live_group(
    coordinator: OffsetCoordinator,
    group_id: str,
    state: State = State.STABLE,
    *,
    protocol_type: str = "consumer",
    topics: tuple[str, ...] | None = (),
) -> ClassicGroup:
    """Generation 5 with a dynamic and a static member that subscribe to `topics` (None: unreadable subscriptions).

    Its record is in the log; a restart brings it back Stable.
    """
    shard = coordinator.groups.shard_of(group_id)
    group = shard.state.by_id.get(group_id)
    if group is None:
        group = shard.state.by_id[group_id] = ClassicGroup(group_id, coordinator.now_ms, NO_FENCE)
    metadata = b"\xff" if topics is None else encode_subscription(Subscription(topics, None, {}, -1, None, 1))
    for member_id, instance_id in ((MEMBER, None), (STATIC, INSTANCE)):
        protocols = (("range", metadata),)
        member = ClassicMember(
            group_id, member_id, instance_id, "client", "/127.0.0.1", protocols, b"", SESSION_MS, SESSION_MS
        )
        group.add(member, protocol_type)
    group.generation = max(group.generation, GENERATION)
    group.protocol_name = "range"
    group.state = state
    group.state_timestamp_ms = coordinator.now_ms
    if protocol_type == "consumer" and topics is not None:
        group.subscribed_topics = frozenset(topics)
    shard.append(group_metadata(group))
    return group


def emptied_group(coordinator: OffsetCoordinator, group_id: str, *, protocol_type: str = "consumer") -> ClassicGroup:
    """A group whose members have just left."""
    group = live_group(coordinator, group_id, protocol_type=protocol_type)
    all_leave(coordinator, group)
    return group


def all_leave(coordinator: OffsetCoordinator, group: ClassicGroup) -> None:
    for member_id in list(group.members):
        group.remove(member_id)
    group.generation += 1
    group.protocol_name = None
    group.subscribed_topics = frozenset() if group.uses_consumer_protocol else None
    group.state = State.EMPTY
    group.state_timestamp_ms = coordinator.now_ms
    coordinator.groups.shard_of(group.group_id).append(group_metadata(group))
