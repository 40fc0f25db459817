"""A commit like one before: of the same member, in the same generation, of the same partitions, without metadata.

That is what consumers do all day, and only offsets, leader epochs and the time are new. So the answer, the keys of the records
and most of their bytes, and what the event says of the committer are made once (`CommitForm`), by the code that every other
commit takes, and then filled in (protocol/form.py). What may have changed since is asked each time: whether the caller may
commit, and by the caller whether the topics are still the same. Tests say that it all comes to the same.
"""

from collections.abc import Callable, Iterator
from functools import partial
from sys import intern
from typing import TYPE_CHECKING

from coordinator.groups.commit_events import AcceptedForm, commit_decided
from coordinator.groups.fencing import fence_commit
from coordinator.groups.offsets.commit import ANSWERS
from coordinator.groups.offsets.records import NO_TIMESTAMP, NO_TOPIC_ID, OffsetCommits
from coordinator.groups.offsets.validate_partitions import accept
from coordinator.log.batch_builder import BatchBuilder
from coordinator.log.record_form import Pairs, RecordsForm
from coordinator.protocol.errors import KafkaError
from coordinator.protocol.form import Filled
from coordinator.protocol.messages import Message, OffsetCommitRequest, OffsetCommitValue
from coordinator.runtime.result import Fact, Record, Records, RequestContext, Result

if TYPE_CHECKING:
    from coordinator.groups.state import Catalog, Groups

_Topic = OffsetCommitRequest.OffsetCommitRequestTopic
_Partition = OffsetCommitRequest.OffsetCommitRequestPartition
_BLANKS = {8: "q", 12: "qi"}
"""A time; an offset and a leader epoch."""
_OTHER_TIME_MS = (1 << 63) - 1
"""Differs from zero in every byte."""
_OFFSETS, _EPOCHS = slice(1, None, 2), slice(2, None, 2)
"""Where they are among a form's numbers."""
_new = object.__new__


def renumbered(request: OffsetCommitRequest, offsets: Iterator[int], epochs: Iterator[int]) -> OffsetCommitRequest:
    """The same request with other offsets and leader epochs."""
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
    """The same request with the complements of its numbers, which differ in every byte."""
    partitions = [each for topic in request.topics for each in topic.partitions]
    return renumbered(
        request,
        iter([~each.committed_offset for each in partitions]),
        iter([~each.committed_leader_epoch for each in partitions]),
    )


class CommitForm:
    """What such commits have in common. `numbers`: the correlation id, then offset and leader epoch of each partition."""

    __slots__ = (
        "accepted",
        "answer",
        "catalog_version",
        "count",
        "group_id",
        "ids",
        "partitions",
        "records",
        "request",
    )

    answer: bytes
    """The body of the answer if all is accepted."""
    partitions: list[tuple[str, int]]
    ids: list[bytes]
    """Their topics'."""
    records: RecordsForm

    def __init__(self, request: OffsetCommitRequest) -> None:
        """To be prepared before it is used, and whenever the topics have changed."""
        self.request = request
        self.group_id = request.group_id
        self.count = sum(len(topic.partitions) for topic in request.topics)
        self.catalog_version: int | None = None
        self.accepted: AcceptedForm | None = None

    def prepare(self, catalog: "Catalog", encode: Callable[[Message], bytes]) -> None:
        """Every topic of the request has its name and its id now, and every partition exists. `encode`: an answer's body."""
        self.answer = encode(accept(self.request, ANSWERS, 0, 0, None)[0])
        self.records = RecordsForm(partial(_samples, self.request), self.count, _BLANKS)
        topics = self.request.topics
        self.partitions = [(intern(topic.name), each.partition_index) for topic in topics for each in topic.partitions]
        self.ids = [catalog.topic_id(topic.name) or NO_TOPIC_ID for topic in topics for _ in topic.partitions]
        self.accepted = None
        self.catalog_version = catalog.version

    def message(self, numbers: tuple[int, ...]) -> OffsetCommitRequest:
        """The commit with these numbers, as it would have been decoded."""
        return renumbered(self.request, iter(numbers[_OFFSETS]), iter(numbers[_EPOCHS]))


def _samples(request: OffsetCommitRequest) -> tuple[Pairs, Pairs]:
    """The records of the request and of an inverted one."""
    _, records, _ = accept(request, ANSWERS, 0, 0, None)
    _, others, _ = accept(inverted(request), ANSWERS, 0, _OTHER_TIME_MS, None)
    return records.encoded(), others.encoded()


class OffsetCommitsAgain(Records):
    """The records of one such commit."""

    __slots__ = ("_epochs", "_form", "_now_ms", "_offsets")

    def __init__(self, form: CommitForm, offsets: tuple[int, ...], epochs: tuple[int, ...], now_ms: int) -> None:
        self._form = form
        self._offsets = offsets
        self._epochs = epochs
        self._now_ms = now_ms

    def __len__(self) -> int:
        return self._form.count

    def __iter__(self) -> Iterator[Record]:
        return iter(self._ordinary())

    def replay(self, state: "Groups") -> None:
        form, now_ms, offsets = self._form, self._now_ms, state.offsets
        committed = offsets.by_group.get(form.group_id)
        if committed is None or form.group_id in offsets.pending.by_group:
            self._ordinary().replay(state)
            return
        count = len(committed)
        for partition, topic_id, offset, epoch in zip(form.partitions, form.ids, self._offsets, self._epochs):  # noqa: B905
            # As the constructor would, which is a call.
            value = _new(OffsetCommitValue)
            value.offset = offset
            value.leader_epoch = epoch
            value.metadata = ""
            value.commit_timestamp = now_ms
            value.expire_timestamp = NO_TIMESTAMP
            value.topic_id = topic_id
            committed[partition] = value
        offsets.count += len(committed) - count

    def add_to(self, batch: BatchBuilder) -> None:
        form = self._form
        if not form.records.add_to(batch, self._offsets, self._epochs, [self._now_ms] * form.count):
            self._ordinary().add_to(batch)

    def _ordinary(self) -> OffsetCommits:
        request = renumbered(self._form.request, iter(self._offsets), iter(self._epochs))
        return accept(request, ANSWERS, 0, self._now_ms, None)[1]


def commit_again(groups: "Groups", filled: Filled, context: RequestContext, now_ms: int) -> Result:
    """As `commit`, for a form that is prepared."""
    form: CommitForm
    form, numbers = filled
    try:
        timers = fence_commit(groups, form.request, context.api_version)
    except KafkaError as error:
        error.facts = commit_decided(groups, form.message(numbers), context, error.code, partly_refused=False)
        raise
    offsets = numbers[_OFFSETS]
    groups.counters.offsets += form.count
    facts: tuple[Fact, ...] = ()
    if groups.emits_accepted:
        if form.accepted is None or not form.accepted.is_of(groups):
            form.accepted = AcceptedForm(groups, form.request, inverted(form.request), context)
        facts = form.accepted.told(offsets)
    return Result(form.answer, OffsetCommitsAgain(form, offsets, numbers[_EPOCHS], now_ms), timers, (), facts)
