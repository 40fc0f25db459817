"""An authorizer that a test fills by hand, and a server that asks it."""

from collections.abc import Iterable
from typing import Any

from coordinator.api.guards import Guards
from coordinator.api.permits import Permits
from coordinator.api.route import PERMITS
from coordinator.security.access import Access, ResourceType
from coordinator.security.acls import Acl, PatternType, PermissionType
from coordinator.security.audit import Decision, Question
from coordinator.security.principal import ANONYMOUS, Principal

ANY_NAME = "*"
EVERYTHING = Permits(None, ANONYMOUS, "", ())
"""For a stand-in of an exchange: there is no authorizer."""

Rule = tuple[Principal, Access, str]


class Allowed:
    """Allows exactly these rules: (principal, access, name). The name `ANY_NAME` stands for every resource of the type.

    No operation implies another one.
    """

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self._rules = set(rules)
        self.version = 0
        self.denied: list[tuple[Access, str]] = []
        """The denials that are audited, in order."""

    def allow(self, access: Access, *names: str, principal: Principal = ANONYMOUS) -> None:
        self._rules |= {(principal, access, name) for name in names}
        self.version += 1

    def forbid(self, access: Access, *names: str, principal: Principal = ANONYMOUS) -> None:
        self._rules -= {(principal, access, name) for name in names}
        self.version += 1

    def allows(
        self, principal: Principal, host: str, access: Access, name: str, *, api: str = "", quiet: bool = False
    ) -> bool:
        allowed = not self._rules.isdisjoint({(principal, access, name), (principal, access, ANY_NAME)})
        if not allowed and not quiet:
            self.denied.append((access, name))
        return allowed

    def allows_any(self, principal: Principal, host: str, access: Access) -> bool:
        return any(rule[:2] == (principal, access) for rule in self._rules)

    def operations(self, principal: Principal, host: str, resource_type: ResourceType, name: str) -> int:
        bits = 0
        for of, (operation, of_type), of_name in self._rules:
            if of == principal and of_type == resource_type and of_name in (name, ANY_NAME):
                bits |= 1 << operation
        return bits


class AllowedByAcls:
    """The same with the ACLs of a server that has Kafka's authorizer. There, operations imply others."""

    shows_allowed = False

    def __init__(self, authorizer: Any) -> None:
        self._authorizer = authorizer
        self._ids: dict[Acl, bytes] = {}
        self.denied: list[tuple[Access, str]] = []
        """The denials that are audited, in order."""
        authorizer.audit = self

    def allow(self, access: Access, *names: str, principal: Principal = ANONYMOUS) -> None:
        for name in names:
            acl = _acl(access, name, principal)
            self._authorizer.add(self._ids.setdefault(acl, len(self._ids).to_bytes(16)), acl)

    def forbid(self, access: Access, *names: str, principal: Principal = ANONYMOUS) -> None:
        for name in names:
            self._authorizer.remove(self._ids[_acl(access, name, principal)])

    def note(self, question: Question, decision: Decision) -> None:
        if not decision.is_allowed:
            self.denied.append((question.access, question.name))


def _acl(access: Access, name: str, principal: Principal) -> Acl:
    operation, resource_type = access
    return Acl(resource_type, name, PatternType.LITERAL, str(principal), "*", operation, PermissionType.ALLOW)


def use_authorizer(server: Any, authorizer: Any) -> None:
    """Lets every listener of a server in this process ask the authorizer; no request may have come before."""
    for listener in server.listeners:
        dispatcher = listener.dispatcher
        assert not dispatcher.routes
        dispatcher._authorizer = authorizer
        dispatcher.put(PERMITS, Guards(authorizer))
