"""What decides whether a principal may do something (Kafka: `Authorizer`)."""

from typing import Protocol

from coordinator.security.access import Access, ResourceType
from coordinator.security.principal import Principal

CLUSTER_NAME = "kafka-cluster"
"""The name of the one resource of type CLUSTER (`Resource.CLUSTER_NAME`)."""


class Authorizer(Protocol):
    """Asked about every request of a server that has one."""

    @property
    def version(self) -> int:
        """Rises with every change of the rules, so that a decision may be kept until then."""

    def allows(
        self, principal: Principal, host: str, access: Access, name: str, *, api: str = "", quiet: bool = False
    ) -> bool:
        """Whether the principal, from this host, may do this to the resource of this name.

        `api`: the name of the API, for the audit log. `quiet`: the decision is not written there, because nobody asked for
        this resource by name.
        """

    def allows_any(self, principal: Principal, host: str, access: Access) -> bool:
        """Whether the principal may do this to at least one resource of the type (`authorizeByResourceType`)."""

    def operations(self, principal: Principal, host: str, resource_type: ResourceType, name: str) -> int:
        """The operations that the principal may do to the resource: bit n stands for the AclOperation with code n."""
