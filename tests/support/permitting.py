"""An authorizer that a test fills by hand, and a server that asks it."""

from collections.abc import Iterable
from typing import Any

from coordinator.api.permits import Permits
from coordinator.security.access import Access, ResourceType
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


def use_authorizer(server: Any, authorizer: Any) -> None:
    """Lets every listener of a server in this process ask the authorizer; no request may have come before."""
    for listener in server.listeners:
        dispatcher = listener.dispatcher
        assert not dispatcher.routes
        dispatcher._authorizer = authorizer
