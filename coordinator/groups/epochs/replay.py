"""Applies the log records that both kinds of groups have to the state, in the same way live and at load.

Records come in any order and some may be missing: a compacted log keeps the last record of each key, and while it is being
compacted a reader may meet a member's later record before the earlier one of another. So every record stands on its own. It
creates its group or member if that does not exist yet, and a tombstone of something unknown has no effect. What one record
cannot know, because a later one says it, has a harmless value until then.

Group ids are shared by all kinds of groups: a record of one kind says that the id now belongs to a group of that kind. The
offsets committed under the id stay where they are.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from coordinator.groups.epochs.group import EPOCH_AT_FIRST, ModernGroup

Place = TypeVar("Place", bytes, str)


def drop_member(group: ModernGroup[Any, Any, Any] | None, member_id: str) -> None:
    """The tombstone of a member's metadata: the member is gone."""
    if group is not None:
        group.drop(member_id)


def clear_holdings(group: ModernGroup[Any, Any, Any] | None, member_id: str) -> None:
    """The tombstone of a member's assignment, which comes before that of its metadata."""
    member = None if group is None else group.members.get(member_id)
    if group is not None and member is not None:
        group.put(member.removed())


def clear_target_epoch(group: ModernGroup[Any, Any, Any] | None) -> None:
    if group is not None:
        group.set_target_epoch(EPOCH_AT_FIRST, 0)


def clear_target(group: ModernGroup[Any, Any, Any] | None, member_id: str) -> None:
    if group is not None:
        group.set_target(member_id, None)


def with_epochs(
    held: Iterable[tuple[Place, list[int], list[int] | None]], member_epoch: int
) -> Mapping[Place, Mapping[int, int]]:
    """Topic or subtopology -> number -> assignment epoch.

    Where the epochs are missing (a Kafka before 4.3 wrote the record) they are the member's, but never negative.
    """
    known = {}
    for place, numbers, epochs in held:
        if epochs is None or len(epochs) != len(numbers):
            known[place] = dict.fromkeys(numbers, max(member_epoch, 0))
        else:
            known[place] = dict(zip(numbers, epochs, strict=True))
        if not numbers:
            del known[place]
    return known
