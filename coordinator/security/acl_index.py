"""Finds the ACLs that are about a resource, without a look at the others.

A name has its literal ACLs, those of `*`, and those of its prefixes.
"""

from bisect import insort
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from coordinator.security.access import ResourceType
from coordinator.security.acls import Acl, AclFilter, PatternType
from coordinator.security.prefixes import Prefixes

_Pattern = tuple[int, int, str]
"""Resource type, pattern type and name. Plain numbers, because the hash of an enumeration's member is slow."""


class AclIndex:
    """The ACLs by their pattern and principal. Each can have several ids; a log that Kafka has written has one for each."""

    def __init__(self) -> None:
        self.ids: dict[Acl, dict[bytes, None]] = {}
        self._of_pattern: dict[_Pattern, dict[str, list[Acl]]] = {}
        self._of_principal: dict[tuple[int, str], dict[Acl, None]] = {}
        self._prefixes: dict[int, Prefixes] = {}
        """By resource type."""

    def add(self, acl_id: bytes, acl: Acl) -> None:
        ids = self.ids.setdefault(acl, {})
        ids[acl_id] = None
        if len(ids) > 1:
            return
        pattern = _pattern(acl)
        if pattern not in self._of_pattern:
            self._of_pattern[pattern] = {}
            if acl.pattern_type == PatternType.PREFIXED:
                self.prefixes(acl.resource_type).add(acl.resource_name)
        insort(self._of_pattern[pattern].setdefault(acl.principal, []), acl, key=_kafka_order)
        self._of_principal.setdefault((pattern[0], acl.principal), {})[acl] = None

    def remove(self, acl_id: bytes, acl: Acl) -> None:
        """Removes what was added."""
        del self.ids[acl][acl_id]
        if self.ids[acl]:
            return
        del self.ids[acl]
        pattern = _pattern(acl)
        of_pattern, of_principal = self._of_pattern[pattern], self._of_principal[pattern[0], acl.principal]
        of_pattern[acl.principal].remove(acl)
        if not of_pattern[acl.principal]:
            del of_pattern[acl.principal]
        del of_principal[acl]
        if not of_principal:
            del self._of_principal[pattern[0], acl.principal]
        if not of_pattern:
            del self._of_pattern[pattern]
            if acl.pattern_type == PatternType.PREFIXED:
                self.prefixes(acl.resource_type).remove(acl.resource_name)

    def candidates(self, chosen: AclFilter) -> Iterable[Acl]:
        """All ACLs that the filter may select: those of its pattern, if it names one."""
        name = chosen.resource_name
        if (
            name is None
            or chosen.pattern_type in (PatternType.ANY, PatternType.MATCH)
            or chosen.resource_type == ResourceType.ANY
        ):
            return self.ids
        of_pattern = self._of_pattern.get((int(chosen.resource_type), int(chosen.pattern_type), name), {})
        return [acl for acls in of_pattern.values() for acl in acls]

    def of_principals(self, resource_type: ResourceType, principals: tuple[str, ...]) -> Iterator[Acl]:
        """The ACLs of these principals that are about any resource of the type."""
        for principal in principals:
            yield from self._of_principal.get((int(resource_type), principal), ())

    def prefixes(self, resource_type: ResourceType) -> Prefixes:
        """The names of the PREFIXED ACLs of a resource type."""
        return self._prefixes.setdefault(int(resource_type), Prefixes())

    def of(
        self, resource_type: int, pattern_type: PatternType, name: str, principals: tuple[str, ...]
    ) -> Sequence[Acl] | None:
        """The ACLs of a pattern that have one of these principals, in Kafka's order; None if the pattern has no ACLs at all."""
        of_pattern = self._of_pattern.get((resource_type, pattern_type, name))
        if of_pattern is None:
            return None
        found = [acls for principal in principals if (acls := of_pattern.get(principal))]
        if len(found) > 1:
            return sorted(chain(*found), key=_kafka_order)
        return found[0] if found else ()


def _pattern(acl: Acl) -> _Pattern:
    return int(acl.resource_type), int(acl.pattern_type), acl.resource_name


def _kafka_order(acl: Acl) -> tuple[int, str, str, int]:
    """The order of the ACLs of one pattern (`StandardAcl.compareTo`)."""
    return acl.operation, acl.principal, acl.host, acl.permission
