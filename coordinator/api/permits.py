"""What the client of one request may do.

    permits.require(READ_GROUP, request.group_id)     # or KafkaError(GROUP_AUTHORIZATION_FAILED)
    if permits.allows(DESCRIBE_TOPIC, name): ...      # half of a request, or of an answer

Without an authorizer everything is allowed. An API may ask only for what it declares (`Api.access`).
"""

from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.security import authorized_operations
from coordinator.security.access import Access, ResourceType
from coordinator.security.authorizer import CLUSTER_NAME, Authorizer
from coordinator.security.principal import Principal

DENIED = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
"""The error of a resource type."""
WORDS = {
    ResourceType.TOPIC: "Topic authorization failed.",
    ResourceType.GROUP: "Group authorization failed.",
    ResourceType.CLUSTER: "Cluster authorization failed.",
    ResourceType.TRANSACTIONAL_ID: "Transactional Id authorization failed.",
}
"""The message of that error, for the responses in which Kafka sends one (`Errors.message`)."""
_SUPPORTED = {
    ResourceType.TOPIC: authorized_operations.TOPIC,
    ResourceType.GROUP: authorized_operations.GROUP,
    ResourceType.CLUSTER: authorized_operations.CLUSTER,
}


def denial(resource_type: ResourceType) -> KafkaError:
    """The error of a resource type, with its message."""
    return KafkaError(DENIED[resource_type], WORDS[resource_type])


class Permits:
    """Asks the authorizer in the name of a client."""

    __slots__ = ("_api", "_authorizer", "_declared", "_host", "_principal")

    def __init__(
        self,
        authorizer: Authorizer | None,
        principal: Principal,
        host: str,
        declared: tuple[Access, ...],
        api: str = "",
    ) -> None:
        """`declared`: what may be asked for. `api`: the name of the API that asks."""
        self._authorizer = authorizer
        self._principal = principal
        self._host = host
        self._declared = declared
        self._api = api

    @property
    def everything(self) -> bool:
        """Whether nothing is refused, because there is no authorizer."""
        return self._authorizer is None

    def allows(self, access: Access, name: str = CLUSTER_NAME, *, quiet: bool = False) -> bool:
        """Whether the client may do this to the resource of this name. `quiet`: that is not audited."""
        if self._authorizer is None:
            return True
        assert access in self._declared, f"{access} is not declared"
        return self._authorizer.allows(self._principal, self._host, access, name, api=self._api, quiet=quiet)

    def allows_any(self, access: Access) -> bool:
        """Whether the client may do this to at least one resource of the type."""
        if self._authorizer is None:
            return True
        assert access in self._declared, f"{access} is not declared"
        return self._authorizer.allows_any(self._principal, self._host, access)

    def require(self, access: Access, name: str = CLUSTER_NAME) -> None:
        """Raises KafkaError, the resource type's authorization error, unless `allows`."""
        if not self.allows(access, name):
            raise KafkaError(DENIED[access.resource_type])

    def operations(self, resource_type: ResourceType, name: str = CLUSTER_NAME) -> int:
        """The bit field of authorized operations (KIP-430)."""
        if self._authorizer is None:
            return _SUPPORTED[resource_type]
        operations = self._authorizer.operations(self._principal, self._host, resource_type, name)
        return operations & _SUPPORTED[resource_type]
