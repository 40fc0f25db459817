"""Where the state of share partitions is kept, as far as share groups need to know (KIP-932).

A share partition is a partition of a topic as one share group reads it. Its state, the start offset and what became of the
records after it, is not the group's: the share coordinator keeps it. The group has it made before it gives the partition to a
member, and removed when the group is deleted. Mirrors Kafka's `Persister`, of which a group coordinator uses this part.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from coordinator.protocol.errors import ErrorCode

NO_START_OFFSET = -1
"""The leader of the share partition chooses one by `share.auto.offset.reset`."""

SharePartition = tuple[bytes, int]
"""Topic id and partition."""


class ShareStates(Protocol):
    """The share coordinator."""

    def initialize(
        self,
        group_id: str,
        state_epoch: int,
        start_offsets: Mapping[SharePartition, int],
        done: Callable[[ErrorCode], None],
    ) -> None:
        """Makes the states of share partitions, with this epoch and these start offsets.

        `done` gets NONE when all of them are durable, or the error of one; it may be called at once.
        """

    def delete(self, group_id: str, partitions: Collection[SharePartition]) -> None:
        """Deletes the states of share partitions, in the turn in which it is called."""


class NoShareStates(ShareStates):
    """In the place of a share coordinator, where nothing is kept for share partitions."""

    def initialize(
        self,
        group_id: str,  # noqa: ARG002 - as ShareStates has it
        state_epoch: int,  # noqa: ARG002
        start_offsets: Mapping[SharePartition, int],  # noqa: ARG002
        done: Callable[[ErrorCode], None],
    ) -> None:
        done(ErrorCode.NONE)

    def delete(self, group_id: str, partitions: Collection[SharePartition]) -> None:
        pass


NO_SHARE_STATES = NoShareStates()
