"""ACLs: who may, or may not, do what to which resources (Kafka: `StandardAcl`, `AclBindingFilter`).

User:alice   may        READ   the topics whose names begin with orders-    from every host
principal    permission        resource type, pattern type, name            host
"""

from typing import NamedTuple

from coordinator.protocol.messages import AccessControlEntryRecord
from coordinator.security.access import AclOperation, Code, ResourceType

WILDCARD = "*"
"""The name that stands for every resource of a type (as a literal), and the host that stands for every host."""
EVERYONE = "User:*"
"""The principal that stands for every principal."""


class PatternType(Code):
    """How the name of an ACL is compared with that of a resource, in Kafka's codes. ANY and MATCH are for filters."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class PermissionType(Code):
    """Whether an ACL allows or denies, in Kafka's codes (`AclPermissionType`). ANY is for filters."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class Acl(NamedTuple):
    """One rule. Its fields, and those of a filter, are in the order in which every message about ACLs has them."""

    resource_type: ResourceType
    resource_name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: AclOperation
    permission: PermissionType

    @property
    def is_for_all(self) -> bool:
        """Whether it is about every resource of the type."""
        return self.pattern_type == PatternType.LITERAL and self.resource_name == WILDCARD

    def __str__(self) -> str:
        return (
            f"StandardAcl[resourceType={self.resource_type.name}, resourceName={self.resource_name},"
            f" patternType={self.pattern_type.name}, principal={self.principal}, host={self.host},"
            f" operation={self.operation.name}, permissionType={self.permission.name}]"
        )


class AclFilter(NamedTuple):
    """Selects ACLs. None and ANY select all; MATCH selects those that are about the resource of this name."""

    resource_type: ResourceType
    resource_name: str | None
    pattern_type: PatternType
    principal: str | None
    host: str | None
    operation: AclOperation
    permission: PermissionType

    def selects(self, acl: Acl) -> bool:
        """Whether the ACL is one of those."""
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission in (PermissionType.ANY, acl.permission)
            and self._selects_pattern(acl)
        )

    def _selects_pattern(self, acl: Acl) -> bool:
        name = self.resource_name
        if self.pattern_type != PatternType.MATCH:
            return self.pattern_type in (PatternType.ANY, acl.pattern_type) and name in (None, acl.resource_name)
        if name is None or acl.is_for_all:
            return True
        return (
            name.startswith(acl.resource_name)
            if acl.pattern_type == PatternType.PREFIXED
            else name == acl.resource_name
        )


def acl_of(record: AccessControlEntryRecord) -> Acl:
    """The ACL that a record of the metadata log keeps."""
    return Acl(
        ResourceType(record.resource_type),
        record.resource_name,
        PatternType(record.pattern_type),
        record.principal,
        record.host,
        AclOperation(record.operation),
        PermissionType(record.permission_type),
    )
