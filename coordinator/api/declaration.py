"""How one file of this package declares its Kafka API.

    API = Api(
        key=12, name="Heartbeat", versions=(0, 4), access=Access(Operation.READ, Resource.GROUP),
        handle=handle, refuse=refuse,
    )

`handle(server, exchange)` answers by `exchange.reply(message)`, now or later, once; a coordinator API hands the request to
its group's shard: `server.groups.submit(group_id, operation, exchange)`. A `KafkaError` that escapes becomes
`refuse(request, error, api_version)`, the API's answer in the shape of that version. ApiVersions is derived from these
declarations and from nothing else.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from coordinator.protocol.errors import KafkaError
from coordinator.protocol.messages import Message


class Resource(StrEnum):
    """What an access rule is about, in Kafka's words."""

    CLUSTER = "Cluster"
    GROUP = "Group"
    TOPIC = "Topic"
    TRANSACTIONAL_ID = "TransactionalId"
    NONE = "None"


class Operation(StrEnum):
    """What a principal may do to a resource, in Kafka's words."""

    READ = "Read"
    WRITE = "Write"
    CREATE = "Create"
    DELETE = "Delete"
    ALTER = "Alter"
    DESCRIBE = "Describe"
    DESCRIBE_CONFIGS = "DescribeConfigs"
    ALTER_CONFIGS = "AlterConfigs"
    IDEMPOTENT_WRITE = "IdempotentWrite"
    ANY = "Any"


@dataclass(frozen=True, slots=True)
class Access:
    """The permission that Kafka asks for (KafkaApis.scala)."""

    operation: Operation
    resource: Resource


@dataclass(frozen=True, slots=True)
class Api:
    """One Kafka API: key, name (message names are `<name>Request`, `<name>Response`), first and last version spoken."""

    key: int
    name: str
    versions: tuple[int, int]
    access: Access
    handle: Callable[[Any, Any], None]
    refuse: Callable[[Any, KafkaError, int], Message]
    repeats: bool = False
    """Whether clients send the same request over and over, so that it is worth keeping decoded. Nobody may change it."""
    form: Callable[[Any, int], tuple[Message, Any] | None] | None = None
    """Where clients send a request over and over with other numbers: `form(request, api_version)` is a second sample of it
    (protocol/form.py), and the content of the `Filled` by which `handle` gets the next ones; None: this one is not such."""
    writes: bool = True
    """Whether it may change durable state; a shard whose disk is full still serves those that do not."""
