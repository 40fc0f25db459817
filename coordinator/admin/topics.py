"""`GET /v1/topics`: the topics of this server, with the offsets at which their partitions begin and end."""

from base64 import urlsafe_b64encode
from typing import Any

from msgspec import Struct

from coordinator.admin.endpoint import Endpoint, Request
from coordinator.admin.paging import Page, listed
from coordinator.admin.server_view import ServerView

PARTITIONS_MAX = 10_000
"""Partitions of one page. A page ends after the topic that reaches it."""


class PartitionOffsets(Struct):
    """A partition."""

    partition: int
    start_offset: int | None
    end_offset: int | None
    """Both are null if the partition is offline."""


class TopicOffsets(Struct):
    """A topic."""

    name: str
    id: str
    """As Kafka's tools print it."""
    partitions: list[PartitionOffsets]


class TopicList(Struct, omit_defaults=True):
    """A page of topics."""

    topics: list[TopicOffsets]
    next: str | None = None
    """The `after` of the page that follows; left out on the last one."""


def list_topics(server: ServerView, request: Request) -> dict[str, Any]:
    """A page of the topics in the order of their names, without Kafka's internal ones."""
    names = (name for name, topic in server.topics.registry.topics.items() if not topic.is_internal)
    page = listed("topics", request.query, names, lambda name: name)
    rows, count = [], 0
    for name in page["topics"]:
        rows.append(_row(server, name))
        count += len(rows[-1].partitions)
        if count >= PARTITIONS_MAX and name != page["topics"][-1]:
            page["next"] = name
            break
    return page | {"topics": rows}


def _row(server: ServerView, name: str) -> TopicOffsets:
    partitions = []
    topic = server.topics.registry.topics[name]
    for index in range(topic.partitions):
        partition = server.topics.user_partition(name, index)
        is_known = partition is not None and not partition.is_offline
        partitions.append(
            PartitionOffsets(index, partition.start_offset, partition.high_watermark)
            if partition is not None and is_known
            else PartitionOffsets(index, None, None)
        )
    return TopicOffsets(name, urlsafe_b64encode(topic.topic_id).decode().rstrip("="), partitions)


ENDPOINTS = (
    Endpoint(
        "GET",
        "/v1/topics",
        "all topics with the start and end offsets of their partitions; ?limit=100&after=NAME selects a page",
        list_topics,
        query=Page,
        returns=TopicList,
    ),
)
