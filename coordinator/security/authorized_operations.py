"""The bit fields of authorized operations (KIP-430): bit n stands for the AclOperation with code n.

Without an authorizer a principal may do everything that Kafka supports on the resource
(`AclEntry.supportedOperations`).
"""

from coordinator.security.access import SUPPORTED, ResourceType


def _all(resource_type: ResourceType) -> int:
    return sum(1 << operation for operation in SUPPORTED[resource_type])


NOT_REQUESTED = -(2**31)
"""The field's value where the request did not ask for it."""
CLUSTER = _all(ResourceType.CLUSTER)
TOPIC = _all(ResourceType.TOPIC)
GROUP = _all(ResourceType.GROUP)
