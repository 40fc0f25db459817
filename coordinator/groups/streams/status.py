"""The statuses of a streams group, which its members receive beside errors (KIP-1071)."""

from enum import IntEnum
from typing import NamedTuple


class StatusCode(IntEnum):
    """Kafka's numbers."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5
    MISSING_CLIENT_TAGS = 6


class Status(NamedTuple):
    """One status that members receive about their group."""

    code: StatusCode
    detail: str
