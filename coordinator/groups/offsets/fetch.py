"""OffsetFetch (key 9): the last committed offsets (`OffsetMetadataManager.fetchOffsets` and `fetchAllOffsets` in Kafka).

There is no "not found" here. A group or partition without an offset is answered with offset -1 and no error, and the consumer
falls back on its auto.offset.reset; so an existing offset must never be missed. `require_stable` (v7, KIP-447) excludes offsets
that an open transaction may still replace: such a partition is answered with UNSTABLE_OFFSET_COMMIT, and the client retries.
Other clients get the offset from before the transaction.

A request for all offsets (topics null) lists those that the group has. They are sorted, so that the response is the same before
and after a restart; Kafka's order is that of a hash table.

Version 8 packs several groups into one request and nests the response one level deeper; version 10 names topics by id. A
classic group ignores the member and epoch of v9: everybody may read its offsets. A group with epochs checks them (fencing.py).
"""

from collections.abc import Collection
from itertools import groupby
from operator import itemgetter

from coordinator.groups.catalog import Catalog
from coordinator.groups.fencing import fence_fetch
from coordinator.groups.offsets.pending import Partition
from coordinator.groups.offsets.value import NO_LEADER_EPOCH, NO_TOPIC_ID, FetchedOffset, StoredOffset, fetched
from coordinator.groups.state import Groups
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import OffsetFetchRequest, OffsetFetchResponse
from coordinator.runtime.result import RequestContext, Result

_RequestedGroup = OffsetFetchRequest.OffsetFetchRequestGroup
_RequestedTopic = OffsetFetchRequest.OffsetFetchRequestTopics
_Group = OffsetFetchResponse.OffsetFetchResponseGroup
_GroupTopic = OffsetFetchResponse.OffsetFetchResponseTopics
_GroupPartition = OffsetFetchResponse.OffsetFetchResponsePartitions
_Topic = OffsetFetchResponse.OffsetFetchResponseTopic
_Partition = OffsetFetchResponse.OffsetFetchResponsePartition

NO_OFFSET = -1
_NONE_COMMITTED: dict[Partition, StoredOffset] = {}


def fetch(groups: Groups, request: OffsetFetchRequest, context: RequestContext, now_ms: int) -> Result:
    """Versions 1 to 7: the offsets of one group. Never fails as a whole."""
    committed = groups.offsets.by_group.get(request.group_id, _NONE_COMMITTED)
    unstable = _unstable(groups, request.group_id, require_stable=request.require_stable)
    if request.topics is None:
        topics = [
            _Topic(name, [_Partition(*_answer(key, fetched(committed[key]), unstable)) for key in partitions])
            for name, partitions in groupby(sorted(committed), itemgetter(0))
        ]
    else:
        topics = [
            _Topic(
                topic.name,
                [
                    _Partition(*_answer(key, _find(committed, key), unstable))
                    for key in ((topic.name, index) for index in topic.partition_indexes)
                ],
            )
            for topic in request.topics
        ]
    return Result(OffsetFetchResponse(topics=topics))


def fetch_group(groups: Groups, requested: _RequestedGroup, *, by_id: bool, require_stable: bool) -> _Group:
    """Version 8 and later: the offsets of one of the requested groups, which may fail by itself with an error of `fence_fetch`.

    `by_id` (version 10): topics are named by id. Unknown ones come last, with UNKNOWN_TOPIC_ID.
    """
    try:
        fence_fetch(groups, requested.group_id, requested.member_id, requested.member_epoch)
    except KafkaError as error:
        return _Group(requested.group_id, [], error.code)
    committed = groups.offsets.by_group.get(requested.group_id, _NONE_COMMITTED)
    unstable = _unstable(groups, requested.group_id, require_stable=require_stable)
    if requested.topics is None:
        topics = _all_topics(committed, unstable, groups.catalog, by_id=by_id)
    else:
        topics, unknown = [], []
        for topic in requested.topics:
            name = groups.catalog.topic_name(topic.topic_id) if by_id else topic.name
            if name is None:
                unknown.append(_unknown_topic(topic))
            else:
                topics.append(_one_topic(committed, unstable, name, topic.topic_id, topic.partition_indexes))
        topics += unknown
    return _Group(requested.group_id, topics, ErrorCode.NONE)


def _unstable(groups: Groups, group_id: str, *, require_stable: bool) -> Collection[Partition]:
    """The partitions that must be answered with UNSTABLE_OFFSET_COMMIT."""
    return groups.offsets.pending.partitions(group_id) if require_stable else ()


def _all_topics(
    committed: dict[Partition, StoredOffset], unstable: Collection[Partition], catalog: Catalog, *, by_id: bool
) -> list[_GroupTopic]:
    """All committed offsets. Partitions that have only pending offsets are left out, as in Kafka."""
    topics = []
    for name, partitions in groupby(sorted(committed), itemgetter(0)):
        topic_id = catalog.topic_id(name)
        if topic_id is None and by_id:
            continue  # The topic was deleted, and without an id the response cannot name it.
        answers = [_GroupPartition(*_answer(key, fetched(committed[key]), unstable)) for key in partitions]
        topics.append(_GroupTopic(name, topic_id or NO_TOPIC_ID, answers))
    return topics


def _one_topic(
    committed: dict[Partition, StoredOffset],
    unstable: Collection[Partition],
    name: str,
    topic_id: bytes,
    indexes: list[int],
) -> _GroupTopic:
    """An offset that was committed for an earlier topic of the same name does not count."""
    answers = []
    for index in indexes:
        found = _find(committed, (name, index))
        if found is not None and found[3] != topic_id and NO_TOPIC_ID not in (found[3], topic_id):
            found = None
        answers.append(_GroupPartition(*_answer((name, index), found, unstable)))
    return _GroupTopic(name, topic_id, answers)


def _find(committed: dict[Partition, StoredOffset], partition: Partition) -> FetchedOffset | None:
    stored = committed.get(partition)
    return None if stored is None else fetched(stored)


def _unknown_topic(topic: _RequestedTopic) -> _GroupTopic:
    code = ErrorCode.UNKNOWN_TOPIC_ID
    answers = [_GroupPartition(index, NO_OFFSET, NO_LEADER_EPOCH, "", code) for index in topic.partition_indexes]
    return _GroupTopic("", topic.topic_id, answers)


def _answer(
    partition: Partition, committed: FetchedOffset | None, unstable: Collection[Partition]
) -> tuple[int, int, int, str, int]:
    """The fields of a partition of the response, in the order of the schema, which all versions share."""
    index = partition[1]
    if unstable and partition in unstable:
        return index, NO_OFFSET, NO_LEADER_EPOCH, "", ErrorCode.UNSTABLE_OFFSET_COMMIT
    if committed is None:
        return index, NO_OFFSET, NO_LEADER_EPOCH, "", ErrorCode.NONE
    offset, leader_epoch, metadata, _ = committed
    return index, offset, leader_epoch, metadata, ErrorCode.NONE
