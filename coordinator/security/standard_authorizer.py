"""Decides by ACLs as Kafka does (`StandardAuthorizer`, `StandardAuthorizerData`).

    super user                                            allowed
    an ACL about the resource denies it                   denied, whatever else allows it
    an ACL about the resource allows it                   allowed
    the resource has ACLs, but none of them applies       denied
    the resource has no ACLs                              allow.everyone.if.no.acl.found

A decision is kept until an ACL changes. The memory for decisions is bounded, because clients choose the names in them. One
that is not kept costs about 1 us more than one that is (`Verdicts`).
"""

from collections.abc import Collection, Mapping

from coordinator.security import hosts
from coordinator.security.access import SUPPORTED, Access, AclOperation, ResourceType
from coordinator.security.acl_index import AclIndex
from coordinator.security.acls import EVERYONE, Acl, AclFilter, PatternType, PermissionType
from coordinator.security.audit import AuditLog, Decision, Question, is_silent_about_allowed
from coordinator.security.prefixes import Prefixes
from coordinator.security.principal import Principal
from coordinator.security.verdicts import NONE_APPLIES, Verdicts

DECISIONS_MAX = 16_384
CLIENTS_MAX = 1_024
"""Clients and permissions of which it is kept which ACLs matter."""
KEPT_MAX = 65_536
"""The prefixes for which it is kept what they say, each with the clients and permissions that have asked."""
NAME_CHARACTERS_MAX = 255
"""A decision about a longer name is not kept. Names of topics are not longer."""
_SUPER_USER = Decision(True, "SuperUser")
_ANYTHING = "hardcode"
"""The name of a resource that stands for any (`Authorizer.authorizeByResourceType`)."""

_Key = tuple[Principal, str, int, str]
"""Of a decision: client, permission, and the name of the resource."""


class StandardAuthorizer:
    """The authorizer of a server."""

    def __init__(
        self,
        super_users: Collection[str] = (),
        *,
        allow_if_none: bool = False,
        acls: Mapping[bytes, Acl] | None = None,
        audit: AuditLog | None = None,
    ) -> None:
        """`super_users`: principals such as "User:alice". `acls`: by their ids."""
        self.audit = audit
        self.version = 0
        """Rises with every change of the ACLs."""
        self._super_users = frozenset(super_users)
        self._without_acl = Decision(True, "DefaultAllow") if allow_if_none else NONE_APPLIES
        self._decisions: dict[_Key, Decision] = {}
        self._verdicts: dict[tuple[Principal, str, int], Verdicts] = {}
        self._kept = 0
        self._any: dict[tuple[Principal, str, int], bool] = {}
        self.replace(acls or {})

    # --- rules --------------------------------------------------------------------------------------------------------

    def has(self, acl: Acl) -> bool:
        """Whether there is this ACL."""
        return acl in self._index.ids

    def candidates(self, chosen: AclFilter) -> list[Acl]:
        """ACLs that the filter may select, among them all that it does: those of its pattern if it names one, else all."""
        return list(self._index.candidates(chosen))

    def ids(self, acl: Acl) -> list[bytes]:
        """The ids of an ACL; none if there is no such ACL."""
        return list(self._index.ids.get(acl, ()))

    def replace(self, acls: Mapping[bytes, Acl]) -> None:
        """Has these ACLs, and no others."""
        self._acls: dict[bytes, Acl] = {}
        self._index = AclIndex()
        for acl_id, acl in acls.items():
            self.add(acl_id, acl)
        self._changed()

    def add(self, acl_id: bytes, acl: Acl) -> None:
        """Adds an ACL, in the place of the one with this id."""
        self.remove(acl_id)
        self._acls[acl_id] = acl
        self._index.add(acl_id, acl)
        self._changed()

    def remove(self, acl_id: bytes) -> None:
        """Removes the ACL with this id, if there is one."""
        acl = self._acls.pop(acl_id, None)
        if acl is not None:
            self._index.remove(acl_id, acl)
            self._changed()

    def _changed(self) -> None:
        self.version += 1
        self._decisions.clear()
        self._verdicts.clear()
        self._kept = 0
        self._any.clear()

    # --- decisions ----------------------------------------------------------------------------------------------------

    def allows(
        self, principal: Principal, host: str, access: Access, name: str, *, api: str = "", quiet: bool = False
    ) -> bool:
        """As `Authorizer.allows`."""
        key = principal, host, access[1] << 8 | access[0], name
        decision = self._decisions.get(key) or self._decide(key, access)
        if not quiet and self.audit is not None and not (decision[0] and is_silent_about_allowed()):
            self.audit.note(Question(principal, host, access, name, api), decision)
        return decision[0]

    def decide(self, principal: Principal, host: str, access: Access, name: str) -> Decision:
        """Whether the principal may do this, and why."""
        key = principal, host, access[1] << 8 | access[0], name
        return self._decisions.get(key) or self._decide(key, access)

    def allows_any(self, principal: Principal, host: str, access: Access) -> bool:
        """As `Authorizer.allows_any`."""
        key = principal, host, access[1] << 8 | access[0]
        allowed = self._any.get(key)
        if allowed is None:
            # Asked as Kafka asks: a super user, or everyone if there are no ACLs, may do everything.
            allowed = self.decide(principal, host, access, _ANYTHING).is_allowed or self._allows_some(
                principal, host, access
            )
            if len(self._any) >= DECISIONS_MAX:
                self._any.clear()
            self._any[key] = allowed
        return allowed

    def operations(self, principal: Principal, host: str, resource_type: ResourceType, name: str) -> int:
        """As `Authorizer.operations`."""
        return sum(
            1 << operation
            for operation in SUPPORTED[resource_type]
            if self.decide(principal, host, Access(operation, resource_type), name).is_allowed
        )

    def _decide(self, key: _Key, access: Access) -> Decision:
        """Decides, and keeps it."""
        name = key[3]
        verdicts = self._verdicts.get(key[:3]) or self._verdicts_for(key, access)
        decision = _SUPER_USER if verdicts is None else verdicts.about(name) or self._without_acl
        if len(name) <= NAME_CHARACTERS_MAX:
            if len(self._decisions) >= DECISIONS_MAX:
                self._decisions.clear()
            self._decisions[key] = decision
        return decision

    def _verdicts_for(self, key: _Key, access: Access) -> Verdicts | None:
        """What the ACLs say to a client; None if no ACL matters to it."""
        principal, host, _, _ = key
        user = str(principal)
        if user in self._super_users:
            return None
        if len(self._verdicts) >= CLIENTS_MAX:
            self._verdicts.clear()
            self._kept = 0
        verdicts = Verdicts(self._index, _principals(user), host, access, self._make_room)
        self._verdicts[key[:3]] = verdicts
        return verdicts

    def _make_room(self) -> None:
        if self._kept >= KEPT_MAX:
            self._kept = 0
            for verdicts in self._verdicts.values():
                verdicts.forget()
        self._kept += 1

    def _allows_some(self, principal: Principal, host: str, access: Access) -> bool:
        """Whether ACLs allow it for a resource that no ACL denies it for. Implied operations do not count, as in Kafka."""
        acls = [
            acl
            for acl in self._index.of_principals(access.resource_type, _principals(str(principal)))
            if acl.operation in (access.operation, AclOperation.ALL) and hosts.matches(acl.host, host)
        ]
        denied = [acl for acl in acls if acl.permission == PermissionType.DENY]
        if any(acl.is_for_all for acl in denied):
            return False
        literals = {acl.resource_name for acl in denied if acl.pattern_type == PatternType.LITERAL}
        prefixes = Prefixes()
        for acl in denied:
            if acl.pattern_type == PatternType.PREFIXED:
                prefixes.add(acl.resource_name)
        for acl in acls:
            name = acl.resource_name
            is_denied = acl.pattern_type == PatternType.LITERAL and name in literals
            if acl.permission == PermissionType.ALLOW and (
                acl.is_for_all or not (is_denied or prefixes.longest(name) is not None)
            ):
                return True
        return False


def _principals(user: str) -> tuple[str, ...]:
    """The principals of the ACLs that are about this user."""
    return (user,) if user == EVERYONE else (user, EVERYONE)
