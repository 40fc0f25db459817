"""The kinds of groups, in one place.

A group id belongs to one kind of group at a time. Kafka calls the kind the *group type* and names it as `label` does; its
numbers here are those of the event log (docs/events.md).
"""

from enum import IntEnum


class Kind(IntEnum):
    """Which protocol the members of a group speak; an index into the tables of machine.py and classic_protocol.py."""

    CLASSIC = 0
    """JoinGroup and SyncGroup. A *simple* group, which only has offsets, is a classic group without members."""
    CONSUMER = 1
    """ConsumerGroupHeartbeat (KIP-848)."""
    STREAMS = 2
    """StreamsGroupHeartbeat (KIP-1071)."""
    SHARE = 3
    """ShareGroupHeartbeat (KIP-932)."""

    @property
    def label(self) -> str:
        """Kafka's name: in ListGroups, in `group.coordinator.rebalance.protocols`, in metrics and in views."""
        return LABELS[self]


LABELS = tuple(kind.name.lower() for kind in Kind)
"""Kafka's names of all kinds."""
