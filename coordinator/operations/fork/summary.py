"""What a fork has copied and what it has left out, for people."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from coordinator.groups.kinds import Kind
from coordinator.operations.fork.groups_read import PendingOffset

_SHOWN = 10
"""At most so many names are listed."""


@dataclass(slots=True)
class Summary:
    """Counts and names."""

    source: str
    members_are_kept: bool
    groups: dict[Kind, int] = field(default_factory=dict)
    members: int = 0
    offsets: int = 0
    records_read: int = 0
    partitions_read: int = 0
    partition_count: int | None = None
    topics: int = 0
    topic_partitions: int = 0
    inferred_topics: list[str] = field(default_factory=list)
    share_partitions: int = 0
    misplaced_groups: list[str] = field(default_factory=list)
    unknown_types: dict[int, int] = field(default_factory=dict)
    pending: list[PendingOffset] = field(default_factory=list)
    refused_configs: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        """The summary, line by line."""
        kinds = ", ".join(f"{self.groups[kind]} {kind.label}" for kind in Kind if self.groups.get(kind))
        total = "all" if self.partition_count is None else f"of {self.partition_count}"
        read = f"{self.partitions_read} partitions ({total}), {self.records_read} records"
        yield f"forked {self.source}: {kinds or 'no'} groups and {self.offsets} offsets, from {read}"
        if self.share_partitions:
            yield f"share partitions: {self.share_partitions}, with their start offsets and delivery counts"
        yield f"topics: {self.topics} with {self.topic_partitions} partitions, without their records"
        if self.members:
            fate = "kept: their sessions begin now" if self.members_are_kept else "left out: their groups are empty"
            yield f"members: {self.members}, {fate}"
        yield from self._left_out()

    def _left_out(self) -> Iterator[str]:
        pending = sorted({f"{each.group_id} (producer {each.producer_id})" for each in self.pending})
        yield from _listed("left out, offsets of transactions that were not decided", pending)
        yield from _listed("left out, groups in partitions in which no server looks for them", self.misplaced_groups)
        for number, count in sorted(self.unknown_types.items()):
            yield f"left out, {count} records of the unknown type {number}"
        yield from _listed("left out, configs that this server does not know or accept", self.refused_configs)
        yield from _listed("made from committed offsets, because the source names no topics", self.inferred_topics)
        yield from self.notes


def _listed(what: str, names: list[str]) -> Iterator[str]:
    if names:
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        yield f"{what}: {', '.join(names[:_SHOWN])}{more}"
