"""Counts the memory that groups keep for their clients, so that it can be bounded.

A client decides how many members a group has, what they subscribe to and how long their ids are, and a group keeps all of it,
in memory and in the log. So every group counts what it holds, as it changes and without iterating over its members:

    held_bytes      what its members sent and its leader assigned: ids, subscriptions, metadata, assignments, topologies.
                    `limit.group.bytes` bounds it, and so the records and responses that contain it
    derived_bytes   what the coordinator made of that: the record of the last generation, subscriptions that were parsed,
                    target assignments, the topics that a pattern matches

The groups of all shards count both together; `limit.groups.bytes` bounds the sum. A shard that is loaded again starts from
zero. The counts are estimates: a text counts its characters, and a fixed number of bytes stands for the objects around it.

Only requests that make a group larger are refused. The derived part is counted before it is made only if it is large, such
as a target of thousands of partitions; the rest grows without being asked for, and the next request that grows a group pays
for it. A member is charged for `SMALL_BYTES` at least. So a small one that is in the group can join again,
subscribe to another topic and be assigned something, however much other clients have taken meanwhile.
"""

from collections.abc import Iterable

GROUP_BYTES = 1_024
"""A group without members, besides its id."""
MEMBER_BYTES = 512
"""A member, or an id that was handed out, besides what it says and is assigned: objects, entries of indexes, timers."""
SMALL_BYTES = 1_024
"""What a member may say and be assigned at no further charge."""
NAME_BYTES = 64
"""A name in a collection, or an entry of parsed metadata, besides its characters."""
STORED_MEMBER_BYTES = 256
"""A member in the record of a classic group's generation, besides its texts."""
PARTITION_BYTES = 256
"""A partition or a task in a target assignment, with its holder and its epochs."""
SMALL_DERIVED_BYTES = 256 * PARTITION_BYTES
"""What the coordinator may derive for a group in one operation however much others hold: a target of 256 partitions."""
_WIDE = 4


def text_bytes(text: str) -> int:
    """The bytes that a text takes at most, in memory and as UTF-8."""
    return len(text) if text.isascii() else len(text) * _WIDE


def member_bytes(content_bytes: int) -> int:
    """The charge for a member that said, and was assigned, so many bytes."""
    return MEMBER_BYTES + max(content_bytes, SMALL_BYTES)


def names_bytes(names: Iterable[str]) -> int:
    """The bytes that a collection of names takes."""
    return sum(NAME_BYTES + text_bytes(name) for name in names)


class HeldBytes:
    """The bytes that the groups of all shards hold."""

    __slots__ = ("_shares", "total")

    def __init__(self) -> None:
        self.total = 0
        self._shares: dict[int, ShardHeldBytes] = {}

    def of_shard(self, index: int) -> "ShardHeldBytes":
        """The count of a shard that is about to be loaded; it replaces the one from before."""
        earlier = self._shares.get(index)
        if earlier is not None:
            self.total -= earlier.count
        share = self._shares[index] = ShardHeldBytes(self)
        return share


class ShardHeldBytes:
    """The bytes that the groups of one shard hold, as part of those of all shards."""

    __slots__ = ("all_shards", "count")

    def __init__(self, all_shards: HeldBytes) -> None:
        self.all_shards = all_shards
        self.count = 0

    def add(self, count_bytes: int) -> None:
        """Counts bytes; a negative number takes them off again."""
        self.count += count_bytes
        self.all_shards.total += count_bytes
