"""Static members of a consumer group: epochs/static_members.py, and holders that speak the other protocol.

A holder that speaks the classic protocol is replaced by a member of the consumer protocol, and the other way round, without
having left for a while: a process that was upgraded, or rolled back, has no way to say it.
"""

from coordinator.groups.consumer.member import ConsumerMember
from coordinator.groups.consumer.update import ConsumerUpdate
from coordinator.groups.epochs.static_members import join_static
from coordinator.groups.events import member_fenced
from coordinator.protocol.errors import ErrorCode
from coordinator.runtime.result import Event


def join(update: ConsumerUpdate, member_id: str, instance_id: str, *, speaks_classic: bool) -> ConsumerMember:
    """The member as it joins: new, or in the place of the holder of its instance id. Raises UNRELEASED_INSTANCE_ID."""

    def replaced(holder: ConsumerMember) -> Event | None:
        if not speaks_classic and holder.classic is None:
            return None
        return member_fenced(
            update.group_id,
            update.KIND,
            holder.member_id,
            holder.instance_id,
            holder.member_epoch,
            ErrorCode.FENCED_INSTANCE_ID,
            "JoinGroup" if speaks_classic else "ConsumerGroupHeartbeat",
        )

    return join_static(update, member_id, instance_id, replaced)
