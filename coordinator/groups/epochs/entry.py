"""The epochs that a member gets when it joins, or comes back after it left for a while.

RevocationEpoch < MemberEpoch holds from its first record on, and no record has the epoch 0 of its request: a member that joins
takes a step towards the target in the same operation. (Kafka first writes a record with member epoch 0.) Commits with earlier
epochs are refused for what targets took from it meanwhile, and for what the member that it replaces held before it.
"""

from collections.abc import Iterable, Mapping

from coordinator.groups.epochs.member import Place, is_unassigned


def entry_epoch(revocation_epoch: int, target_epoch: int, *, must_give_up: bool) -> int:
    """The member epoch that it joins at: that of the target, or if it must give something up first, an earlier one.

    If no epoch is left between, it is that of the target. The next target is due then, and the member holds on until it comes.
    """
    return max(target_epoch - 1, revocation_epoch + 1, 1) if must_give_up else target_epoch


def entry_revocation_epoch(
    known: int, epoch: int, held: Mapping[Place, Mapping[int, int]], kept: Iterable[Mapping[Place, Mapping[int, int]]]
) -> int:
    """The revocation epoch of a member that joins at this epoch; `known`: the one that it has.

    It becomes the epoch before this one if some of what it `held` is not among what it `kept`, if another member held it until
    now (`NOT_ASSIGNED_YET`), or if the log does not say when it last lost something.
    """
    if known >= 0 and not is_unassigned(held) and _contain(kept, held):
        return known
    return max(known, epoch - 1)


def _contain(kept: Iterable[Mapping[Place, Mapping[int, int]]], held: Mapping[Place, Mapping[int, int]]) -> bool:
    there = tuple(kept)
    return all(
        any(number in each.get(place, ()) for each in there) for place, numbers in held.items() for number in numbers
    )
