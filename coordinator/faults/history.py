"""What the clients saw, and what they can conclude from it.

Nothing here looks into the server. A client tells when it sends a request and when it has the answer; a request whose
answer never came may have taken effect at any time since, or never. Time is a count of such events, so that two things
of the same instant have an order.

- I5 (and I3): a committed offset is a register. A read may return what some attempt wrote, unless something else is
  *known* to have been written after that attempt and before the read began. Known is what was acknowledged, and what
  somebody has read: a read shows only what is durable. An attempt that was refused is never read.
- I7: the generations whose assignments are handed out only grow. An assignment is durable before anybody gets it, so
  no crash takes its generation back.
- I8: in one generation nobody is given what another was given, and all are given parts of the same assignment.
- I9: once an assignment of a generation is out, whoever asks with an older one is refused; and once a static member has
  been given its assignment under a new id, so is whoever still uses the old one.

A group that is deleted, or of which nothing is left, starts anew: around that nothing is concluded about generations.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

OnBroken = Callable[[str, str], None]
"""`broken(invariant, what happened)`."""

FOREVER = 1 << 62
Key = tuple[str, str, int]
"""Group, topic, partition."""


@dataclass(slots=True)
class Attempt:
    """A write of one offset, or (`offset` None) a deletion."""

    key: Key
    offset: int | None
    started: int
    ended: int = FOREVER
    """When it is known to have happened; FOREVER while that is not known."""
    refused: bool = False


@dataclass(slots=True)
class _Register:
    known: int = -1
    """Start of the latest write that is known to have happened."""
    deletions: list[Attempt] = field(default_factory=list)


@dataclass(slots=True)
class _GroupHistory:
    """What is known of a group's generations since it was last deleted."""

    since: int = 0
    """What was asked before may be an answer of the group that was deleted."""
    generation: int = -1
    known_at: int = 0
    tokens: dict[int, bytes] = field(default_factory=dict)
    owners: dict[int, dict[tuple[str, int], str]] = field(default_factory=dict)
    holders: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Instance id -> the member id that was last given an assignment, and since when that is known."""
    replaced: dict[str, int] = field(default_factory=dict)
    """Member ids that were replaced, and since when that is known."""


class History:
    """Everything the clients saw in one run."""

    def __init__(self, broken: OnBroken) -> None:
        self.now = 0
        self.acknowledged = 0
        self.reads = 0
        self.assignments = 0
        self._broken = broken
        self._registers: dict[Key, _Register] = {}
        self._attempts: dict[str, Attempt] = {}
        self._groups: dict[str, _GroupHistory] = {}
        self._deletions_in_doubt: dict[str, int] = {}
        """Groups of which a deletion is under way (or was, and nobody knows how it ended)."""

    def tick(self) -> int:
        self.now += 1
        return self.now

    # --- offsets ------------------------------------------------------------------------------------------------------

    def commit_started(self, key: Key, offset: int) -> tuple[str, Attempt]:
        """A commit sets out; the text is to be its metadata, by which a read tells whose offset it is."""
        attempt = Attempt(key, offset, self.tick())
        name = f"a{attempt.started}"
        self._attempts[name] = attempt
        self._register(key)
        return name, attempt

    def deletion_started(self, keys: Iterable[Key]) -> list[Attempt]:
        """A deletion of offsets sets out."""
        started = self.tick()
        attempts = []
        for key in keys:
            attempts.append(Attempt(key, None, started))
            self._register(key).deletions.append(attempts[-1])
        return attempts

    def may_be_deleted(self, key: Key) -> bool:
        """Whether somebody has asked for it to be deleted and does not know what came of that."""
        deletions = self._register(key).deletions
        return any(each.ended == FOREVER and not each.refused for each in deletions)

    def expired(self, key: Key) -> None:
        """The server let an offset go that nobody needs."""
        now = self.tick()
        self._register(key).deletions.append(Attempt(key, None, now, now))

    def keys_of(self, group_id: str) -> list[Key]:
        """Every offset of a group that anybody tried to commit."""
        return [key for key in self._registers if key[0] == group_id]

    def groups(self) -> list[str]:
        """Every group that anybody tried to commit for."""
        return list(dict.fromkeys(key[0] for key in self._registers))

    def took_effect(self, attempt: Attempt) -> None:
        """The write was acknowledged, or its effect was seen."""
        attempt.ended = min(attempt.ended, self.tick())
        register = self._register(attempt.key)
        register.known = max(register.known, attempt.started)

    def acknowledge(self, attempt: Attempt) -> None:
        self.acknowledged += 1
        self.took_effect(attempt)

    def refuse(self, attempt: Attempt) -> None:
        """The answer says that it was not done."""
        attempt.refused = True

    def read_started(self, keys: Iterable[Key]) -> dict[Key, int]:
        """A read begins: what is known by now, to be handed to `read`."""
        self.tick()
        return {key: self._register(key).known for key in keys}

    def read_answered(self, key: Key, known: int, offset: int, metadata: str, who: str) -> None:
        """A read has its answer: -1 for no offset."""
        self.reads += 1
        where = f"{who} read {offset} {metadata!r} of {key}"
        if offset == -1 and not metadata:
            deletions = [each for each in self._register(key).deletions if not each.refused]
            if known >= 0 and all(each.ended < known for each in deletions):
                self._broken("I5 offsets answer", f"{where}, but the write begun at {known} was acknowledged")
            return
        attempt = self._attempts.get(metadata)
        if attempt is None or attempt.key != key or attempt.offset != offset:
            self._broken("I5 offsets answer", f"{where}, which nobody has written")
        elif attempt.refused:
            self._broken("I5 offsets answer", f"{where}, a commit that was refused")
        elif attempt.ended < known:
            self._broken("I5 offsets answer", f"{where} ({attempt}), older than the write begun at {known}")
        else:
            self.took_effect(attempt)

    def _register(self, key: Key) -> _Register:
        register = self._registers.get(key)
        if register is None:
            register = self._registers[key] = _Register()
        return register

    # --- generations --------------------------------------------------------------------------------------------------

    def group_deletion_begins(self, group_id: str) -> None:
        self._deletions_in_doubt[group_id] = self._deletions_in_doubt.get(group_id, 0) + 1
        self._groups.pop(group_id, None)

    def group_deletion_ends(self, group_id: str) -> None:
        """It was done, or it was refused: from now on the group is one again."""
        self._groups[group_id] = _GroupHistory(since=self.tick())
        self._deletions_in_doubt[group_id] -= 1

    def group_may_be_deleted(self, group_id: str) -> bool:
        """Whether somebody has asked for that and does not know what came of it."""
        return self._deletions_in_doubt.get(group_id, 0) > 0

    def group_expired(self, group_id: str) -> None:
        """The server let a group go of which nothing was left."""
        self._groups[group_id] = _GroupHistory(since=self.tick())

    def joined(self, group_id: str, generation: int, asked: int, who: str) -> None:
        """A join that was sent at `asked` was answered with this generation."""
        group = self._conclusive(group_id, asked)
        if group is not None and group.known_at < asked and generation < group.generation:
            self._broken(
                "I7 generations grow", f"{who} joined generation {generation} of {group_id} after {group.generation}"
            )

    def assigned(
        self,
        group_id: str,
        generation: int,
        member_id: str,
        instance_id: str | None,
        token: bytes,
        partitions: Iterable[tuple[str, int]],
        asked: int,
    ) -> None:
        """A sync was answered: part of the assignment that bears this token."""
        self.assignments += 1
        self.accepted(group_id, generation, member_id, asked, "sync")
        group = self._conclusive(group_id, asked)
        if group is None:
            return
        first = group.tokens.setdefault(generation, token)
        if token != first and token:
            self._broken(
                "I8 single owner", f"generation {generation} of {group_id} has two assignments: {first!r} {token!r}"
            )
        identity = instance_id if instance_id is not None else member_id
        owners = group.owners.setdefault(generation, {})
        for partition in partitions:
            owner = owners.setdefault(partition, identity)
            if owner != identity:
                self._broken(
                    "I8 single owner", f"{partition} of {group_id} generation {generation}: {owner} and {identity}"
                )
        now = self.tick()
        if generation > group.generation:
            group.generation, group.known_at = generation, now
        if instance_id is not None:
            self._record_holder(group, instance_id, member_id, asked, now)

    def _record_holder(self, group: _GroupHistory, instance_id: str, member_id: str, asked: int, now: int) -> None:
        """One of two that were given assignments at the same time replaced the other: which one is not known."""
        replaced, since = group.holders.get(instance_id, (member_id, 0))
        if replaced == member_id or since < asked:
            group.holders[instance_id] = (member_id, now)
            if replaced != member_id:
                group.replaced[replaced] = now
        else:
            del group.holders[instance_id]

    def accepted(self, group_id: str, generation: int, member_id: str, asked: int, what: str) -> None:
        """A request of a member, sent at `asked`, was not refused."""
        group = self._conclusive(group_id, asked)
        if group is None:
            return
        if group.known_at < asked and generation < group.generation:
            self._broken(
                "I9 fencing",
                f"{what} of {member_id} in generation {generation} of {group_id} passed after {group.generation}",
            )
        replaced_at = group.replaced.get(member_id)
        if replaced_at is not None and replaced_at < asked:
            self._broken("I9 fencing", f"{what} of {member_id} of {group_id} passed after it had been replaced")

    def _conclusive(self, group_id: str, asked: int) -> _GroupHistory | None:
        """What is known of the group, if an answer to a request sent at `asked` says something about it."""
        if self.group_may_be_deleted(group_id):
            return None
        group = self._groups.setdefault(group_id, _GroupHistory())
        return group if asked > group.since else None
