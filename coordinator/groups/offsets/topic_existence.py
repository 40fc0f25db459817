"""Whether the topics and partitions of a commit exist, and the client may read them, for OffsetCommit and TxnOffsetCommit.

That is decided before the group is asked, and if nothing is left the group does not see the request
(`KafkaApis.handleOffsetCommitRequest`). Nearly all commits name existing partitions only, so that is checked first. A client
that may not read a topic does not learn whether it exists, unless it knows the topic's id.
"""

from collections.abc import Collection
from math import inf
from typing import Any

from coordinator.groups.catalog import Catalog
from coordinator.groups.offsets.partial_commit import PartialCommit, RefusedPartition
from coordinator.groups.offsets.validate_partitions import Answers
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import OffsetCommitRequest, TxnOffsetCommitRequest

Commit = OffsetCommitRequest | TxnOffsetCommitRequest
NO_TOPIC_ID = bytes(16)
NONE_DENIED: Collection[str] = frozenset()


def fill_in_topics(request: Commit, catalog: Catalog, *, by_id: bool, elements_max: float = inf) -> bool:
    """Fills in the name or the id of every topic that exists, whichever the request's version does not carry.

    Returns whether the request names partitions, and all of them exist; False as soon as there are too many.
    """
    all_exist = bool(request.topics)
    elements = 0
    for topic in request.topics:
        if by_id:
            topic.name = catalog.topic_name(topic.topic_id) or ""
        else:
            topic.topic_id = catalog.topic_id(topic.name) or NO_TOPIC_ID
        count = catalog.partition_count(topic.name) or 0
        elements += 1 + len(topic.partitions)
        if elements > elements_max:
            return False
        if not topic.partitions:
            all_exist = False
        for partition in topic.partitions:
            if not 0 <= partition.partition_index < count:
                all_exist = False
    return all_exist


def split_commit(
    request: Commit, catalog: Catalog, answers: Answers, *, by_id: bool, denied: Collection[str] = NONE_DENIED
) -> PartialCommit:
    """Splits a request whose topics were filled in. The request keeps the partitions that exist, of topics not `denied`.

    Others are refused: with UNKNOWN_TOPIC_ID if the version names topics by id (`by_id`) and there is no topic with that id,
    else with TOPIC_AUTHORIZATION_FAILED if the topic is denied, else with UNKNOWN_TOPIC_OR_PARTITION.
    """
    left: list[Any] = []
    refused_topics: dict[tuple[str, bytes], Any] = {}
    refused: list[RefusedPartition] = []
    for topic in request.topics:
        name, topic_id = topic.name, topic.topic_id
        count = catalog.partition_count(name)
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if by_id and count is None:
            code = ErrorCode.UNKNOWN_TOPIC_ID
        elif name in denied:
            code, count = ErrorCode.TOPIC_AUTHORIZATION_FAILED, None
        there: list[Any] = []
        others = []
        for partition in topic.partitions:
            if count is not None and 0 <= partition.partition_index < count:
                there.append(partition)
            else:
                others.append(partition)
        if there:
            left.append(type(topic)(name, topic_id, there))
        if others or count is None:
            answer = refused_topics.setdefault((name, topic_id), answers.topic(name, topic_id, []))
            answer.partitions += [answers.partition(each.partition_index, code) for each in others]
            refused += [
                RefusedPartition(name, topic_id, each.partition_index, each.committed_offset, code) for each in others
            ]
    request.topics = left
    return PartialCommit(request, answers, refused, list(refused_topics.values()))
