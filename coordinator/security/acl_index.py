"""Finds the ACLs that are about a resource, without a look at the others.

A name has its literal ACLs, those of `*`, and those of its prefixes. A prefix is found by its length: there are few different
lengths, and a name has one prefix of each.
"""

from bisect import insort
from collections import Counter
from collections.abc import Iterable, Iterator

from coordinator.security.access import ResourceType
from coordinator.security.acls import WILDCARD, Acl, AclFilter, PatternType

_Pattern = tuple[int, int, str]
"""Resource type, pattern type and name. Plain numbers, because the hash of an enumeration's member is slow."""


class AclIndex:
    """The ACLs by their pattern and principal. Each can have several ids; a log that Kafka has written has one for each."""

    def __init__(self) -> None:
        self.ids: dict[Acl, dict[bytes, None]] = {}
        self._of_pattern: dict[_Pattern, dict[str, list[Acl]]] = {}
        self._of_principal: dict[tuple[int, str], dict[Acl, None]] = {}
        self._prefix_lengths: dict[int, Counter[int]] = {}
        """Resource type -> length -> the number of prefixes."""

    def add(self, acl_id: bytes, acl: Acl) -> None:
        ids = self.ids.setdefault(acl, {})
        ids[acl_id] = None
        if len(ids) > 1:
            return
        pattern = _pattern(acl)
        if pattern not in self._of_pattern:
            self._of_pattern[pattern] = {}
            if acl.pattern_type == PatternType.PREFIXED:
                self._prefix_lengths.setdefault(pattern[0], Counter())[len(acl.resource_name)] += 1
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
            self._remove_pattern(pattern)

    def _remove_pattern(self, pattern: _Pattern) -> None:
        del self._of_pattern[pattern]
        resource_type, pattern_type, name = pattern
        if pattern_type == PatternType.PREFIXED:
            lengths = self._prefix_lengths[resource_type]
            lengths[len(name)] -= 1
            if not lengths[len(name)]:
                del lengths[len(name)]

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

    def about(self, resource_type: ResourceType, name: str, principals: tuple[str, ...]) -> Iterator[list[Acl]]:
        """For each pattern that the resource matches and that has ACLs, those of these principals, in Kafka's order.

        Longer names come first, and `*` comes last (`StandardAuthorizerData.checkSection`). None of them may be of these
        principals: the list is empty then.
        """
        for pattern in self._patterns(int(resource_type), name):
            of_pattern = self._of_pattern.get(pattern)
            if of_pattern is not None:
                found = [acl for principal in principals for acl in of_pattern.get(principal, ())]
                found.sort(key=_kafka_order)
                yield found

    def _patterns(self, resource_type: int, name: str) -> Iterator[_Pattern]:
        literal, prefixed = int(PatternType.LITERAL), int(PatternType.PREFIXED)
        yield resource_type, literal, name
        for length in sorted(self._prefix_lengths.get(resource_type, ()), reverse=True):
            if length <= len(name):
                yield resource_type, prefixed, name[:length]
        if name != WILDCARD:
            yield resource_type, literal, WILDCARD


def _pattern(acl: Acl) -> _Pattern:
    return int(acl.resource_type), int(acl.pattern_type), acl.resource_name


def _kafka_order(acl: Acl) -> tuple[int, str, str, int]:
    """The order of the ACLs of one pattern (`StandardAcl.compareTo`)."""
    return acl.operation, acl.principal, acl.host, acl.permission
