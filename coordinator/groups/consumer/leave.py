"""How members get out of a consumer group: they leave, time out, or an administrator removes them.

If those who stay all speak the classic protocol, the group becomes a classic one (downgrade.py).
"""

from collections.abc import Sequence

from coordinator.groups.consumer.downgrade import downgrade_without, may_downgrade_without
from coordinator.groups.consumer.member import ConsumerMember
from coordinator.groups.consumer.update import ConsumerUpdate


def remove(update: ConsumerUpdate, members: Sequence[ConsumerMember], cause: str) -> None:
    """Removes members, which are all different; does nothing if there are none.

    Kafka: `GroupMetadataManager.consumerGroupFenceMembers`.
    """
    if members and may_downgrade_without(update.groups, update.group, members):
        update.dismiss(members, cause)
        downgrade_without(update, members)
    else:
        update.remove(members, cause)
