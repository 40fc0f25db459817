"""The permissions of Kafka's access control: an operation on a type of resource.

Every API declares the permissions that it asks an authorizer about (`Api.access`). The names and codes are those of Kafka's
`AclOperation` and `ResourceType`. UNKNOWN, ANY and ALL, and what this server does not have, occur in ACLs and filters only.
"""

from enum import IntEnum
from typing import NamedTuple, Self


class Code(IntEnum):
    """A code of Kafka's protocol. 0 is called UNKNOWN, and so is every number without a name."""

    @classmethod
    def _missing_(cls, _value: object) -> Self:
        return cls(0)


class AclOperation(Code):
    """What a principal does to a resource. The number is Kafka's code, and the bit in a field of authorized operations."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
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
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class ResourceType(Code):
    """What an access rule protects, in Kafka's codes. (The resources that have configs are `ConfigResourceType`.)"""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


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

DESCRIBE_DELEGATION_TOKEN = Access(AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN)
CREATE_TOKENS_OF_USER = Access(AclOperation.CREATE_TOKENS, ResourceType.USER)
DESCRIBE_TOKENS_OF_USER = Access(AclOperation.DESCRIBE_TOKENS, ResourceType.USER)

SUPPORTED = {
    ResourceType.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        AclOperation.READ,
        AclOperation.DELETE,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        AclOperation.CREATE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
    ),
}
"""What can be done to a resource whose authorized operations clients may ask for (`AclEntry.supportedOperations`)."""
