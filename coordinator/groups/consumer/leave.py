"""How members get out of a consumer group: they leave, time out, or an administrator removes them.

If those who stay all speak the classic protocol, the group becomes a classic one (migration/downgrade.py).
"""

from collections.abc import Sequence

from coordinator.groups.consumer.member import ConsumerMember
from coordinator.groups.consumer.update import ConsumerUpdate


def remove(update: ConsumerUpdate, members: Sequence[ConsumerMember], cause: str) -> None:
    """Removes members, which are all different; does nothing if there are none.

    Kafka: `GroupMetadataManager.consumerGroupFenceMembers`.
    """
    if members:
        update.dismiss(members, cause)
        if not update.groups.migration.downgrades_without(update, members):
            update.write_removal(members, cause)
