"""Topics as they are encoded in Metadata responses: once per change of the topic, not once per request.

A response of a topic with 5,000 partitions takes 18 ms to build and encode, and 130 kB of its bytes are the same each time. So
the bytes of each topic are kept, by the form of the response (version and dialect, authorized operations), and a response is
put together from them. A topic that is not kept is encoded in pieces, between which others have their turn.

What is behind the arrays has a fixed size in each version (`_topic_tail_bytes`, `_response_tail_bytes`; spliced_array.py).
"""

from collections.abc import Callable, Collection, Generator, Sequence
from copy import copy
from typing import NamedTuple

from coordinator.protocol.messages import MetadataResponse
from coordinator.protocol.spliced_array import PIECE_ELEMENTS, SplicedArray
from coordinator.topics.registry import Topic

KEPT_BYTES_MAX = 32 << 20
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
    in_topic = SplicedArray(
        lambda topic: encode_topics(form, [topic]), form.version >= _FLEXIBLE_SINCE, _topic_tail_bytes(form.version)
    )
    before, behind = in_topic.around(described, partitions)
    parts = [before]
    for first in range(0, partitions, PIECE_ELEMENTS):
        piece = copy(described)
        piece.partitions = [describe(index) for index in range(first, min(partitions, first + PIECE_ELEMENTS))]
        parts.append(in_topic.elements(piece, described))
        yield
    parts.append(behind)
    return b"".join(parts)


def encode_topics(form: Form, topics: Sequence[ResponseTopic]) -> bytes:
    """The elements of an array of topics, at most `PIECE_ELEMENTS`, without their number. Raises EncodeError."""
    return _in_response(form).elements(MetadataResponse(topics=list(topics)), MetadataResponse())


def around_topics(form: Form, response: MetadataResponse, count: int) -> tuple[bytes, bytes]:
    """What is before and behind the topics in a response with so many; `response` has none. Raises EncodeError."""
    return _in_response(form).around(response, count)


def _in_response(form: Form) -> SplicedArray:
    return SplicedArray(form.encode, form.version >= _FLEXIBLE_SINCE, _response_tail_bytes(form.version))


def _topic_tail_bytes(version: int) -> int:
    """TopicAuthorizedOperations and the tags."""
    return 4 * (version >= 8) + (version >= _FLEXIBLE_SINCE)


def _response_tail_bytes(version: int) -> int:
    """ClusterAuthorizedOperations, ErrorCode and the tags."""
    return 4 * (8 <= version <= 10) + 2 * (version >= 13) + (version >= _FLEXIBLE_SINCE)
