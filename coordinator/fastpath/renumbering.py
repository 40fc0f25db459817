"""OffsetCommit requests with other integers: the second sample that a byte template needs, and the message of a match."""

from collections.abc import Iterator

from coordinator.protocol.messages import OffsetCommitRequest

_Topic = OffsetCommitRequest.OffsetCommitRequestTopic
_Partition = OffsetCommitRequest.OffsetCommitRequestPartition


def renumbered(request: OffsetCommitRequest, offsets: Iterator[int], epochs: Iterator[int]) -> OffsetCommitRequest:
    """The same request with other offsets and leader epochs, one of each per partition."""
    return OffsetCommitRequest(
        request.group_id,
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id,
        request.retention_time_ms,
        [
            _Topic(
                topic.name,
                topic.topic_id,
                [
                    _Partition(each.partition_index, next(offsets), next(epochs), each.committed_metadata)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def inverted(request: OffsetCommitRequest) -> OffsetCommitRequest:
    """The same request with the complements of its offsets and leader epochs, which differ in every byte."""
    partitions = [each for topic in request.topics for each in topic.partitions]
    return renumbered(
        request,
        iter([~each.committed_offset for each in partitions]),
        iter([~each.committed_leader_epoch for each in partitions]),
    )
