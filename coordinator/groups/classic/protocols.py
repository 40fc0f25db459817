"""Which protocol the next generation uses.

Each member lists the protocols it offers, best first (for consumers: its assignors). Candidates are those that every member
offers; each member votes for the first candidate on its list; the protocol with most votes wins.

Kafka breaks a tie by the iteration order of a Java HashMap of the names. Clients can observe that order (of two assignors with
opposite preferences the same one wins every time), so it is computed here.
"""

from coordinator.groups.classic.round import Round
from coordinator.protocol.java import hash_map_order


def select_protocol(group: Round) -> str:
    """The protocol that the members agree on now (mirrors `ClassicGroup.selectProtocol`).

    The group has members, and `supports` accepted each of them.
    """
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
    return max(hash_map_order(votes), key=votes.__getitem__)
