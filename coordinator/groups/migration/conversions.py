"""The conversions that operations on consumer groups ask for, as machine.py plugs them into the state (`state.Migration`)."""

from collections.abc import Sequence

from coordinator.groups.consumer.member import ConsumerMember
from coordinator.groups.consumer.update import ConsumerUpdate
from coordinator.groups.migration.downgrade import downgrade_without, may_downgrade_without
from coordinator.groups.migration.upgrade import group_to_join
from coordinator.groups.state import Groups
from coordinator.protocol.releases import Behaviours


class Conversions:
    """Online migration between the classic and the consumer protocol, both ways."""

    def update_to_join(
        self, groups: Groups, group_id: str, member_id: str, behaviours: Behaviours, now_ms: int
    ) -> ConsumerUpdate:
        return group_to_join(groups, group_id, member_id, behaviours, now_ms)

    def downgrades_without(self, update: ConsumerUpdate, leaving: Sequence[ConsumerMember]) -> bool:
        if not may_downgrade_without(update.groups, update.group, leaving):
            return False
        downgrade_without(update, leaving)
        return True
