"""OffsetFetch (key 9): the offsets last committed.

There is no "not found" here. A group or partition without an offset answers offset -1 and no error, and the consumer
falls back on its auto.offset.reset; so an offset that exists must never be missed. `require_stable` (v7) asks not to be told
an offset that an open transaction may still change (KIP-447): such a partition is answered UNSTABLE_OFFSET_COMMIT, for the
client to ask again. Others are told the offset from before the transaction.

Asked for all offsets (topics null) a group lists those it has. They come sorted, so that the answer is the same before
and after a restart; Kafka's order is that of a hash table.

v8 packs several groups into one request and nests the answer one level deeper; v10 knows topics by id. A classic group
does not check member and epoch of v9: its members' offsets are anybody's to read. A consumer group does (fencing.py).
"""

from collections.abc import Collection
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from coordinator.groups.fencing import fence_fetch
from coordinator.groups.offsets.pending import Partition
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import OffsetCommitValue, OffsetFetchRequest, OffsetFetchResponse
from coordinator.runtime.result import RequestContext, Result

if TYPE_CHECKING:
    from coordinator.groups.catalog import Catalog
    from coordinator.groups.state import Groups

_AskedGroup = OffsetFetchRequest.OffsetFetchRequestGroup
_AskedTopic = OffsetFetchRequest.OffsetFetchRequestTopics
_Group = OffsetFetchResponse.OffsetFetchResponseGroup
_GroupTopic = OffsetFetchResponse.OffsetFetchResponseTopics
_GroupPartition = OffsetFetchResponse.OffsetFetchResponsePartitions
_Topic = OffsetFetchResponse.OffsetFetchResponseTopic
_Partition = OffsetFetchResponse.OffsetFetchResponsePartition

NO_OFFSET = -1
NO_LEADER_EPOCH = -1
NO_TOPIC_ID = bytes(16)
_NONE_COMMITTED: dict[Partition, OffsetCommitValue] = {}


def fetch(groups: "Groups", request: OffsetFetchRequest, context: RequestContext, now_ms: int) -> Result:
    """v1-7: one group."""
    committed = groups.offsets.by_group.get(request.group_id, _NONE_COMMITTED)
    unstable = _unstable(groups, request.group_id, require_stable=request.require_stable)
    if request.topics is None:
        topics = [
            _Topic(name, [_Partition(*_answer(key, committed[key], unstable)) for key in partitions])
            for name, partitions in groupby(sorted(committed), itemgetter(0))
        ]
    else:
        topics = [
            _Topic(
                topic.name,
                [
                    _Partition(*_answer(key, committed.get(key), unstable))
                    for key in ((topic.name, index) for index in topic.partition_indexes)
                ],
            )
            for topic in request.topics
        ]
    return Result(OffsetFetchResponse(topics=topics))


def fetch_group(groups: "Groups", asked: _AskedGroup, *, by_id: bool, require_stable: bool) -> _Group:
    """v8+: one of the groups asked for. `by_id` (v10): topics are known by id, and those that are not come last."""
    try:
        fence_fetch(groups, asked.group_id, asked.member_id, asked.member_epoch)
    except KafkaError as error:
        return _Group(asked.group_id, [], error.code)
    committed = groups.offsets.by_group.get(asked.group_id, _NONE_COMMITTED)
    unstable = _unstable(groups, asked.group_id, require_stable=require_stable)
    if asked.topics is None:
        topics = _all_topics(committed, unstable, groups.catalog, by_id=by_id)
    else:
        topics, unknown = [], []
        for topic in asked.topics:
            name = groups.catalog.topic_name(topic.topic_id) if by_id else topic.name
            if name is None:
                unknown.append(_unknown_topic(topic))
            else:
                topics.append(_one_topic(committed, unstable, name, topic.topic_id, topic.partition_indexes))
        topics += unknown
    return _Group(asked.group_id, topics, ErrorCode.NONE)


def _unstable(groups: "Groups", group_id: str, *, require_stable: bool) -> Collection[Partition]:
    """The partitions that may not be told: what their offset will be is not decided."""
    return groups.offsets.pending.partitions(group_id) if require_stable else ()


def _all_topics(
    committed: dict[Partition, OffsetCommitValue], unstable: Collection[Partition], catalog: "Catalog", *, by_id: bool
) -> list[_GroupTopic]:
    """Partitions that have pending offsets only are left out, as in Kafka."""
    topics = []
    for name, partitions in groupby(sorted(committed), itemgetter(0)):
        topic_id = catalog.topic_id(name)
        if topic_id is None and by_id:
            continue  # The topic is no more; without an id there is no way to name it.
        answers = [_GroupPartition(*_answer(key, committed[key], unstable)) for key in partitions]
        topics.append(_GroupTopic(name, topic_id or NO_TOPIC_ID, answers))
    return topics


def _one_topic(
    committed: dict[Partition, OffsetCommitValue],
    unstable: Collection[Partition],
    name: str,
    topic_id: bytes,
    indexes: list[int],
) -> _GroupTopic:
    """An offset committed to an earlier topic of the same name is not this topic's."""
    answers = []
    for index in indexes:
        found = committed.get((name, index))
        if found is not None and found.topic_id != topic_id and NO_TOPIC_ID not in (found.topic_id, topic_id):
            found = None
        answers.append(_GroupPartition(*_answer((name, index), found, unstable)))
    return _GroupTopic(name, topic_id, answers)


def _unknown_topic(topic: _AskedTopic) -> _GroupTopic:
    code = ErrorCode.UNKNOWN_TOPIC_ID
    answers = [_GroupPartition(index, NO_OFFSET, NO_LEADER_EPOCH, "", code) for index in topic.partition_indexes]
    return _GroupTopic("", topic.topic_id, answers)


def _answer(
    partition: Partition, committed: OffsetCommitValue | None, unstable: Collection[Partition]
) -> tuple[int, int, int, str, int]:
    """The fields of an answered partition, in the schema's order, which v1-7 and v8+ share."""
    index = partition[1]
    if unstable and partition in unstable:
        return index, NO_OFFSET, NO_LEADER_EPOCH, "", ErrorCode.UNSTABLE_OFFSET_COMMIT
    if committed is None:
        return index, NO_OFFSET, NO_LEADER_EPOCH, "", ErrorCode.NONE
    return index, committed.offset, committed.leader_epoch, committed.metadata, ErrorCode.NONE
