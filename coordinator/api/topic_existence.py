"""Whether the topics and partitions of a commit exist: decided before the group is asked, for OffsetCommit and TxnOffsetCommit.

A partition that does not exist is refused whoever commits it, and if nothing else is left the group does not see the request
(`KafkaApis.handleOffsetCommitRequest`). Nearly all commits name existing partitions only, so that is checked first.
"""

from typing import Any

from coordinator.groups.catalog import Catalog
from coordinator.groups.offsets.partial_commit import MissingPartition, PartialCommit
from coordinator.groups.offsets.validate_partitions import Answers
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import OffsetCommitRequest, TxnOffsetCommitRequest

Commit = OffsetCommitRequest | TxnOffsetCommitRequest
NO_TOPIC_ID = bytes(16)


def fill_in_topics(request: Commit, catalog: Catalog, *, by_id: bool) -> bool:
    """Fills in the name or the id of every topic that exists, whichever the request's version does not carry.

    Returns whether the request names partitions, and all of them exist.
    """
    all_exist = bool(request.topics)
    for topic in request.topics:
        if by_id:
            topic.name = catalog.topic_name(topic.topic_id) or ""
        else:
            topic.topic_id = catalog.topic_id(topic.name) or NO_TOPIC_ID
        count = catalog.partition_count(topic.name) or 0
        if not topic.partitions:
            all_exist = False
        for partition in topic.partitions:
            if not 0 <= partition.partition_index < count:
                all_exist = False
    return all_exist


def split_by_existence(request: Commit, catalog: Catalog, answers: Answers, *, by_id: bool) -> PartialCommit:
    """Splits a request whose topics were filled in. The request keeps the partitions that exist.

    Others are refused with UNKNOWN_TOPIC_ID if the version names topics by id (`by_id`) and there is no topic with that id,
    with UNKNOWN_TOPIC_OR_PARTITION otherwise.
    """
    existing: list[Any] = []
    refused: dict[tuple[str, bytes], Any] = {}
    missing: list[MissingPartition] = []
    for topic in request.topics:
        name, topic_id = topic.name, topic.topic_id
        count = catalog.partition_count(name)
        there: list[Any] = []
        absent = []
        for partition in topic.partitions:
            if count is not None and 0 <= partition.partition_index < count:
                there.append(partition)
            else:
                absent.append(partition)
        if there:
            existing.append(type(topic)(name, topic_id, there))
        if absent or count is None:
            unknown_id = by_id and count is None
            code = ErrorCode.UNKNOWN_TOPIC_ID if unknown_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            answer = refused.setdefault((name, topic_id), answers.topic(name, topic_id, []))
            answer.partitions += [answers.partition(each.partition_index, code) for each in absent]
            missing += [
                MissingPartition(name, topic_id, each.partition_index, each.committed_offset, code) for each in absent
            ]
    request.topics = existing
    return PartialCommit(request, answers, missing, list(refused.values()))
