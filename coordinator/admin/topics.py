"""`GET /v1/topics`: the topics of this server, with the offsets at which their partitions begin and end."""

from base64 import urlsafe_b64encode
from typing import Any

from msgspec import Struct

from coordinator.admin.endpoint import Endpoint, RefusedRequest, Request
from coordinator.admin.paging import Page, listed
from coordinator.admin.server_view import ServerView

PARTITIONS_MAX = 10_000
"""Partitions of one page. A page ends after the topic that reaches it."""


class PartitionOffsets(Struct):
    """A partition."""

    partition: int
    start_offset: int | None
    end_offset: int | None
    """Both are null if the partition is offline, or not known here."""
    stable_offset: int | None
    """The last stable offset, before which no transaction is open."""
    size_bytes: int | None


class TopicOffsets(Struct):
    """A topic."""

    name: str
    id: str
    """As Kafka's tools print it."""
    partitions: list[PartitionOffsets]
    elsewhere: bool = False
    """Whether the records are in a cluster. Then null is not known here, and no sign that a partition is offline."""


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


def records_are_elsewhere(server: ServerView) -> bool:
    """Whether the records of topics are in a cluster: that in front of which the server stands, or that it watches."""
    return bool(server.unknown or server.config.overlay.data_bootstrap_servers)


def _row(server: ServerView, name: str) -> TopicOffsets:
    topic = server.topics.registry.topics[name]
    is_elsewhere = records_are_elsewhere(server)
    partitions = []
    for index in range(topic.partitions):
        partition = None if is_elsewhere else server.topics.user_partition(name, index)
        if partition is None or partition.is_offline:
            end_offset = server.end_offset(name, index) if is_elsewhere else None
            partitions.append(PartitionOffsets(index, None, end_offset, None, None))
            continue
        size_bytes = 0 if partition.log is None else partition.log.size_bytes
        offsets = (partition.start_offset, partition.high_watermark, partition.last_stable_offset)
        partitions.append(PartitionOffsets(index, *offsets, size_bytes))
    return TopicOffsets(name, urlsafe_b64encode(topic.topic_id).decode().rstrip("="), partitions, is_elsewhere)


def describe_topic(server: ServerView, request: Request) -> TopicOffsets:
    """One topic, with the offsets and sizes of its partitions.

    Raises RefusedRequest: 404 there is none, or it is one of Kafka's internal ones.
    """
    topic = server.topics.registry.topics.get(request.parameters["topic"])
    if topic is None or topic.is_internal:
        raise RefusedRequest(404, "no such topic here")
    return _row(server, request.parameters["topic"])


ENDPOINTS = (
    Endpoint(
        "GET", "/v1/topics/{topic}", "get a topic; offsets and sizes of its partitions", describe_topic,
        name="getTopic", returns=TopicOffsets, refusals=(404, 503),
    ),
    Endpoint(
        "GET", "/v1/topics", "list topics with the offsets of their partitions; ?limit=100&after=NAME selects a page",
        list_topics, name="listTopics", query=Page, returns=TopicList,
    ),
)  # fmt: skip
