"""Topics as they are encoded in Metadata responses: once per change of the topic, not once per request.

A response of a topic with 5,000 partitions takes 18 ms to build and encode, and 130 kB of its bytes are the same each time. So
the bytes of each topic are kept, by the form of the response (version and dialect, authorized operations), and a response is
put together from them. A topic that is not kept is encoded in pieces, between which others have their turn.

The encoder knows whole responses only. The bytes of a topic are therefore cut out of a response with this topic alone; what is
behind the arrays has a fixed size in each version (`_topic_tail_bytes`, `_response_tail_bytes`).
"""

from collections.abc import Callable, Collection, Generator, Sequence
from typing import NamedTuple

from coordinator.protocol.messages import MetadataResponse
from coordinator.protocol.wire import size_prefix
from coordinator.topics.registry import Topic

KEPT_BYTES_MAX = 32 << 20
PIECE_ELEMENTS = 126
"""Elements that are encoded together. Their number takes one byte in a flexible version."""
_FLEXIBLE_SINCE = 9

Encode = Callable[[MetadataResponse], bytes]
ResponseTopic = MetadataResponse.MetadataResponseTopic
ResponsePartition = MetadataResponse.MetadataResponsePartition


class Form(NamedTuple):
    """What makes the same topic look different in two responses."""

    encode: Encode
    """That of the version and dialect."""
    version: int
    operations: int
    """The authorized operations, or the number that says that they were not requested."""


class _Kept(NamedTuple):
    topic: Topic
    offline: Collection[int]
    encoded: bytes


class EncodedTopics:
    """The encoded topics of one server. When they are too many, all are dropped."""

    def __init__(self) -> None:
        self.kept_bytes = 0
        self._kept: dict[tuple[Form, str], _Kept] = {}

    def get(self, form: Form, topic: Topic, offline: Collection[int]) -> bytes | None:
        """The bytes of the topic, unless it or the list of its offline partitions has changed."""
        kept = self._kept.get((form, topic.name))
        return kept.encoded if kept is not None and kept.topic is topic and kept.offline == offline else None

    def keep(self, form: Form, topic: Topic, offline: Collection[int], encoded: bytes) -> None:
        before = self._kept.get((form, topic.name))
        self.kept_bytes += len(encoded) - (len(before.encoded) if before is not None else 0)
        if self.kept_bytes > KEPT_BYTES_MAX:
            self._kept.clear()
            self.kept_bytes = len(encoded)
        self._kept[form, topic.name] = _Kept(topic, offline, encoded)


def encode_topic(
    form: Form, described: ResponseTopic, partitions: int, describe: Callable[[int], ResponsePartition]
) -> Generator[None, None, bytes]:
    """Returns the bytes of a topic; yields after each piece. `described`: the topic without partitions."""
    bare = encode_topics(form, [described])
    tail_bytes = _topic_tail_bytes(form.version)
    head_bytes = len(bare) - tail_bytes - len(_count(0, form.version))
    parts = [bare[:head_bytes], _count(partitions, form.version)]
    before_elements = len(bare) - tail_bytes
    for first in range(0, partitions, PIECE_ELEMENTS):
        described.partitions = [describe(index) for index in range(first, min(partitions, first + PIECE_ELEMENTS))]
        piece = encode_topics(form, [described])
        parts.append(piece[before_elements : len(piece) - tail_bytes])
        yield
    parts.append(bare[len(bare) - tail_bytes :])
    return b"".join(parts)


def encode_topics(form: Form, topics: Sequence[ResponseTopic]) -> bytes:
    """The elements of an array of topics, at most `PIECE_ELEMENTS`, without their number. Raises EncodeError."""
    tail_bytes = _response_tail_bytes(form.version)
    bare, body = form.encode(MetadataResponse()), form.encode(MetadataResponse(topics=list(topics)))
    return body[len(bare) - tail_bytes : len(body) - tail_bytes]


def around_topics(form: Form, response: MetadataResponse, count: int) -> tuple[bytes, bytes]:
    """What is before and behind the topics in a response with so many; `response` has none. Raises EncodeError."""
    body = form.encode(response)
    behind = len(body) - _response_tail_bytes(form.version)
    return body[: behind - len(_count(0, form.version))] + _count(count, form.version), body[behind:]


def _count(count: int, version: int) -> bytes:
    return size_prefix(count) if version >= _FLEXIBLE_SINCE else count.to_bytes(4)


def _topic_tail_bytes(version: int) -> int:
    """TopicAuthorizedOperations and the tags."""
    return 4 * (version >= 8) + (version >= _FLEXIBLE_SINCE)


def _response_tail_bytes(version: int) -> int:
    """ClusterAuthorizedOperations, ErrorCode and the tags."""
    return 4 * (8 <= version <= 10) + 2 * (version >= 13) + (version >= _FLEXIBLE_SINCE)
