"""What the ACLs say to one client that asks for one permission, name by name.

Names that have the same longest prefix differ in their literal ACLs only. So what prefixes and `*` say is found once for each
longest prefix and kept, and a decision needs a look at the literal ACLs of the name. What the next shorter prefix says is kept
on the way, so prefixes that begin with each other are looked at once.
"""

from collections.abc import Callable

from coordinator.security import hosts
from coordinator.security.access import Access, AclOperation
from coordinator.security.acl_index import AclIndex
from coordinator.security.acls import WILDCARD, PatternType, PermissionType
from coordinator.security.audit import Decision

NONE_APPLIES = Decision(False, "DefaultDeny")
"""There are ACLs about the resource, but not about this client and permission."""
_IMPLIED_BY = {
    AclOperation.DESCRIBE: (AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER),
    AclOperation.DESCRIBE_CONFIGS: (AclOperation.ALTER_CONFIGS,),
}
"""The operations of ACLs that allow these two. An ACL that denies implies nothing."""


class Verdicts:
    """The decisions for a client and a permission. They count until an ACL changes."""

    def __init__(
        self, index: AclIndex, principals: tuple[str, ...], host: str, access: Access, make_room: Callable[[], None]
    ) -> None:
        """`principals`: those of the ACLs that are about the client. `make_room` is called before an entry is kept."""
        self._index = index
        self._principals = principals
        self._host = host
        self._resource_type = int(access.resource_type)
        self._denying = 1 << access.operation | 1 << AclOperation.ALL
        self._allowing = self._denying | sum(1 << each for each in _IMPLIED_BY.get(access.operation, ()))
        """Bit n stands for the operation with code n."""
        self._prefixes = index.prefixes(access.resource_type)
        self._without_literals: dict[str | None, Decision | None] = {}
        """By longest prefix."""
        self._make_room = make_room

    def about(self, name: str) -> Decision | None:
        """The decision about a resource; None if it has no ACLs."""
        literal = self._of(PatternType.LITERAL, name)
        if _is_denied(literal):
            return literal
        prefix = self._prefixes.longest(name)
        kept = self._without_literals
        return _joined(literal, kept[prefix] if prefix in kept else self._of_prefixes_and_wildcard(prefix))

    def _of_prefixes_and_wildcard(self, longest: str | None) -> Decision | None:
        kept, prefix = self._without_literals, longest
        unknown = []
        while prefix is not None and prefix not in kept:
            unknown.append(prefix)
            prefix = self._prefixes.shorter(prefix)
        is_kept = prefix in kept
        decision = kept[prefix] if is_kept else self._keep(None, self._of(PatternType.LITERAL, WILDCARD))
        for each in reversed(unknown):
            decision = self._keep(each, _joined(self._of(PatternType.PREFIXED, each), decision))
        return decision

    def _keep(self, prefix: str | None, decision: Decision | None) -> Decision | None:
        self._make_room()
        self._without_literals[prefix] = decision
        return decision

    def forget(self) -> None:
        """Forgets what prefixes say; it is found again."""
        self._without_literals.clear()

    def _of(self, pattern_type: PatternType, name: str) -> Decision | None:
        """What the ACLs of one pattern say: one that denies wins, else the last one that allows."""
        acls = self._index.of(self._resource_type, pattern_type, name, self._principals)
        if acls is None:
            return None
        decision = NONE_APPLIES
        for acl in acls:
            is_allowing = acl.permission == PermissionType.ALLOW
            operations = self._allowing if is_allowing else self._denying
            if not operations >> acl.operation & 1 or not hosts.matches(acl.host, self._host):
                continue
            decision = Decision(is_allowing, acl)
            if not is_allowing:
                break
        return decision


def _joined(first: Decision | None, rest: Decision | None) -> Decision | None:
    """The decision of some patterns and of those behind them: the first ACL that denies wins, else the last that allows."""
    if _is_denied(first) or rest is None or (rest is NONE_APPLIES and first is not None):
        return first
    return rest


def _is_denied(decision: Decision | None) -> bool:
    """Whether an ACL denies it, so that no other ACL matters."""
    return decision is not None and not decision.is_allowed and decision is not NONE_APPLIES
