"""Which protocol the next generation uses.

Each member lists the protocols it offers, best first (for consumers: its assignors). Candidates are those that every member
offers; each member votes for the first candidate on its list; most votes win.

A tie falls to whatever comes first when Kafka walks a Java HashMap of the names. That order is part of the observable
behaviour (two members, two assignors, opposite preferences: the same one wins every time), so it is computed here.
"""

from collections.abc import Iterable

from coordinator.groups.classic.group import ClassicGroup
from coordinator.protocol.java import string_hash

_TABLE_INITIAL = 16


def select_protocol(group: ClassicGroup) -> str:
    """The protocol that the members would agree on now. There are members, and `supports` let each of them in."""
    members = len(group.members)
    candidates = [name for name, count in group.support.items() if count == members]
    assert candidates, f"{group.group_id}: members without a protocol in common"
    if len(candidates) == 1:
        return candidates[0]
    votes: dict[str, int] = {}
    shared = frozenset(candidates)
    for member in group.members.values():
        favourite = next(name for name, _ in member.protocols if name in shared)
        votes[favourite] = votes.get(favourite, 0) + 1
    # max keeps the first of equals.
    return max(in_java_order(votes), key=votes.__getitem__)


def in_java_order(names: Iterable[str]) -> list[str]:
    """Names in the order of java.util.HashMap, given in the order in which they were put."""
    listed = list(names)
    table = _TABLE_INITIAL
    while len(listed) * 4 > table * 3:
        table *= 2
    return sorted(listed, key=lambda name: _bucket(name, table))


def _bucket(name: str, table: int) -> int:
    value = string_hash(name) & 0xFFFFFFFF
    return (value ^ value >> 16) & (table - 1)
