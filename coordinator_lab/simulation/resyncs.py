"""What a leader's resyncs make of one generation: one assignment after the other, each recognized by its token (I8, I9).

The invariants of a generation hold for each of its assignments, and over them:

- Once a member has received a part of an assignment, nobody who asks after that receives a part of an earlier one.
- A partition that goes from one member to another is given up first: the earlier owner has joined again.
- Once a member has received a part of an assignment, no commit of a partition is accepted that was sent after that by a member
  to which an earlier assignment gave the partition, and this one does not.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

Partition = tuple[str, int]
UNKNOWN = b""
"""The token of an assignment that was made before the history began: a refused deletion of the group restarts it."""


@dataclass(slots=True)
class Assignments:
    """The assignments of one generation. Members are named by identity (`History._identity`). Times are ticks."""

    tokens: list[bytes] = field(default_factory=list)
    """In the order in which the leader made them; the first is that of the rebalance."""
    known: dict[bytes, int] = field(default_factory=dict)
    """Token -> when a member first received a part."""
    owners: dict[bytes, dict[Partition, str]] = field(default_factory=dict)
    """Token -> the owner of each partition, as far as members have received their parts."""
    held: dict[str, tuple[bytes, frozenset[Partition]]] = field(default_factory=dict)
    """Member -> what it received last and has not given up."""

    def resync(self, token: bytes) -> None:
        """The leader is about to replace the assignment by another one."""
        if not self.tokens:
            self.tokens.append(UNKNOWN)
        self.tokens.append(token)

    def received(
        self, identity: str, token: bytes, partitions: Iterable[Partition], asked: int, now: int
    ) -> str | None:
        """Records what a member received that asked at tick `asked`; returns what is wrong with it."""
        if not token:  # the leader did not know the member
            return None
        if not self.tokens:
            self.tokens.append(token)
        if token not in self.tokens and self.tokens[0] == UNKNOWN:
            self.tokens[0] = token
        if token not in self.tokens:
            return f"has two assignments: {self.tokens[0]!r} {token!r}"
        later = self.tokens[self.tokens.index(token) + 1 :]
        if any(self.known.get(each, asked) < asked for each in later):
            return f"gave {token!r} to {identity} after {later}"
        self.known.setdefault(token, now)
        parts = frozenset(partitions)
        owners = self.owners.setdefault(token, {})
        for partition in parts:
            owner = owners.setdefault(partition, identity)
            if owner != identity:
                return f"has two owners of {partition}: {owner} and {identity}"
        for other, (other_token, other_parts) in self.held.items():
            if other != identity and other_token != token and other_parts & parts:
                return f"gave {other_parts & parts} to {identity} while {other} has not joined again"
        self.held[identity] = (token, parts)
        return None

    def given_up(self, identity: str) -> None:
        """The member is about to join again."""
        self.held.pop(identity, None)

    def commit_accepted(self, identity: str, partitions: Iterable[Partition], asked: int) -> str | None:
        """Checks a commit that the member sent at tick `asked`; returns what is wrong with it."""
        current = [each for each in self.tokens if self.known.get(each, asked) < asked]
        if len(current) < 2:
            return None
        owners = self.owners[current[-1]]
        lost = [each for each in partitions if owners.get(each, identity) != identity]
        return f"accepted a commit of {lost} from {identity}, which had lost them in a resync" if lost else None
