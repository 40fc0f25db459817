"""What the ACLs say to one client that asks for one permission, name by name.

Names that have the same longest prefix differ in their literal ACLs only. So what prefixes and `*` say is found once for each
longest prefix and kept, and a decision needs a look at the literal ACLs of the name.
"""

from coordinator.security import hosts
from coordinator.security.access import Access, AclOperation
from coordinator.security.acl_index import AclIndex
from coordinator.security.acls import WILDCARD, PatternType, PermissionType
from coordinator.security.audit import Decision

KEPT_MAX = 256
"""The longest prefixes for which it is kept what the ACLs say."""
NONE_APPLIES = Decision(False, "DefaultDeny")
"""There are ACLs about the resource, but not about this client and permission."""
_IMPLIED_BY = {
    AclOperation.DESCRIBE: (AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER),
    AclOperation.DESCRIBE_CONFIGS: (AclOperation.ALTER_CONFIGS,),
}
"""The operations of ACLs that allow these two. An ACL that denies implies nothing."""


class Verdicts:
    """The decisions for a client and a permission. They count until an ACL changes."""

    def __init__(self, index: AclIndex, principals: tuple[str, ...], host: str, access: Access) -> None:
        """`principals`: those of the ACLs that are about the client."""
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

    def about(self, name: str) -> Decision | None:
        """The decision about a resource; None if it has no ACLs."""
        literal = self._joined(None, PatternType.LITERAL, name)
        if _is_denied(literal):
            return literal
        prefix = self._prefixes.longest(name)
        kept = self._without_literals
        rest = kept[prefix] if prefix in kept else self._keep(prefix)
        return literal if rest is None or (rest is NONE_APPLIES and literal is not None) else rest

    def _keep(self, prefix: str | None) -> Decision | None:
        if len(self._without_literals) >= KEPT_MAX:
            self._without_literals.clear()
        decision = self._without_literals[prefix] = self._of_prefixes_and_wildcard(prefix)
        return decision

    def _of_prefixes_and_wildcard(self, longest: str | None) -> Decision | None:
        decision: Decision | None = None
        for prefix in self._prefixes.from_longest(longest):
            decision = self._joined(decision, PatternType.PREFIXED, prefix)
            if _is_denied(decision):
                return decision
        return self._joined(decision, PatternType.LITERAL, WILDCARD)

    def _joined(self, before: Decision | None, pattern_type: PatternType, name: str) -> Decision | None:
        """The decision with the ACLs of one more pattern: one that denies wins, else the last one that allows."""
        acls = self._index.of(self._resource_type, pattern_type, name, self._principals)
        if acls is None:
            return before
        decision = before or NONE_APPLIES
        for acl in acls:
            is_allowing = acl.permission == PermissionType.ALLOW
            operations = self._allowing if is_allowing else self._denying
            if not operations >> acl.operation & 1 or not hosts.matches(acl.host, self._host):
                continue
            decision = Decision(is_allowing, acl)
            if not is_allowing:
                break
        return decision


def _is_denied(decision: Decision | None) -> bool:
    """Whether an ACL denies it, so that no other ACL matters."""
    return decision is not None and not decision.is_allowed and decision is not NONE_APPLIES
