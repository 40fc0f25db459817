"""The permissions of Kafka's access control: an operation on a type of resource.

Every API declares the permissions that it asks an authorizer about (`Api.access`). The names are those of Kafka's
`AclOperation` and `ResourceType`.
"""

from enum import IntEnum
from typing import NamedTuple


class AclOperation(IntEnum):
    """What a principal does to a resource. The number is Kafka's code, and the bit in a field of authorized operations."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


class ResourceType(IntEnum):
    """What an access rule protects, in Kafka's codes. (The resources that have configs are `ConfigResourceType`.)"""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


class Access(NamedTuple):
    """One permission."""

    operation: AclOperation
    resource_type: ResourceType


READ_TOPIC = Access(AclOperation.READ, ResourceType.TOPIC)
WRITE_TOPIC = Access(AclOperation.WRITE, ResourceType.TOPIC)
CREATE_TOPIC = Access(AclOperation.CREATE, ResourceType.TOPIC)
DELETE_TOPIC = Access(AclOperation.DELETE, ResourceType.TOPIC)
ALTER_TOPIC = Access(AclOperation.ALTER, ResourceType.TOPIC)
DESCRIBE_TOPIC = Access(AclOperation.DESCRIBE, ResourceType.TOPIC)
DESCRIBE_TOPIC_CONFIGS = Access(AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC)
ALTER_TOPIC_CONFIGS = Access(AclOperation.ALTER_CONFIGS, ResourceType.TOPIC)

READ_GROUP = Access(AclOperation.READ, ResourceType.GROUP)
DELETE_GROUP = Access(AclOperation.DELETE, ResourceType.GROUP)
DESCRIBE_GROUP = Access(AclOperation.DESCRIBE, ResourceType.GROUP)
DESCRIBE_GROUP_CONFIGS = Access(AclOperation.DESCRIBE_CONFIGS, ResourceType.GROUP)
ALTER_GROUP_CONFIGS = Access(AclOperation.ALTER_CONFIGS, ResourceType.GROUP)

CREATE_CLUSTER = Access(AclOperation.CREATE, ResourceType.CLUSTER)
DELETE_CLUSTER = Access(AclOperation.DELETE, ResourceType.CLUSTER)
ALTER_CLUSTER = Access(AclOperation.ALTER, ResourceType.CLUSTER)
DESCRIBE_CLUSTER = Access(AclOperation.DESCRIBE, ResourceType.CLUSTER)
CLUSTER_ACTION = Access(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER)
DESCRIBE_CLUSTER_CONFIGS = Access(AclOperation.DESCRIBE_CONFIGS, ResourceType.CLUSTER)
ALTER_CLUSTER_CONFIGS = Access(AclOperation.ALTER_CONFIGS, ResourceType.CLUSTER)
IDEMPOTENT_WRITE = Access(AclOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER)

WRITE_TRANSACTIONAL_ID = Access(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID)
DESCRIBE_TRANSACTIONAL_ID = Access(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID)
