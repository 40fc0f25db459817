"""A commit of more than a thousand partitions (OffsetCommit, TxnOffsetCommit), which is prepared in slices.

The group decides about the whole commit, and its records are one batch: that takes place at once. What comes before depends on
the request, the topics and the permissions alone, and leaves time to others in between. So the offsets have the time at which
that began, and a topic that is deleted meanwhile is committed as if the group had been asked first, as in Kafka.
"""

from collections.abc import Generator
from typing import Any

from coordinator.api.exchange import Exchange
from coordinator.api.guards import allowed_in_pieces
from coordinator.api.server import Server
from coordinator.api.topic_existence import Commit, fill_in_topics, split_commit
from coordinator.groups.offsets.partial_commit import PartialCommit
from coordinator.groups.offsets.validate_partitions import Answers, Validated, validate_in_pieces
from coordinator.security.access import READ_TOPIC

LARGE_ELEMENTS = 1_000
"""Topics and partitions of a commit that takes about a millisecond."""


def is_large(request: Commit) -> bool:
    """Whether the commit is to be prepared in slices."""
    elements = len(request.topics)
    for topic in request.topics:
        elements += len(topic.partitions)
    return elements > LARGE_ELEMENTS


def prepare(
    server: Server,
    exchange: Exchange[Any],
    answers: Answers,
    *,
    by_id: bool,
    now_ms: int,
    expire_timestamp_ms: int | None,
) -> Generator[None, None, tuple[PartialCommit, Validated]]:
    """Refuses and validates partitions, some in each step. What is left is for the group."""
    request = exchange.request
    yield  # decoding has taken some milliseconds
    fill_in_topics(request, server.topics, by_id=by_id)
    yield
    names = list(dict.fromkeys(topic.name for topic in request.topics))
    allowed = yield from allowed_in_pieces(exchange.permits, READ_TOPIC, names)
    denied = set(names) - allowed
    partial = split_commit(request, server.topics, answers, by_id=by_id, denied=denied)
    exchange.with_request(partial)  # an error answers the partitions that are refused here as well
    yield
    metadata_max = server.groups.shard_of(request.group_id).state.config.offset_metadata_max_bytes
    validated = yield from validate_in_pieces(partial.rest, answers, metadata_max, now_ms, expire_timestamp_ms)
    return partial, validated
