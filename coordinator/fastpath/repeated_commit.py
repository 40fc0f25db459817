"""Repeated commits: a consumer commits the same partitions over and over, with other offsets, leader epochs and times.

The first such commits of a connection go the ordinary way, and a template is made of one of them. A later frame that matches
is neither decoded nor split into topics and partitions: its answer, the keys of its records, most bytes of their values and
most bytes of its event are those of the template. What may have changed is checked every time: whether the group lets the
member pass, whether the topics are the same (`Topics.version`), and whether the event would name the same committer. Where
there is an authorizer, the client's permissions are looked at again after each change of the ACLs (`Authorizer.version`); its
principal and its address stay the same on a connection.

Whatever does not fit is given back to the ordinary path: a topic that is missing or that the client may not read, a group with
pending offsets, a place in the batch for which there is no record template.
"""

from collections.abc import Iterator
from functools import partial
from struct import Struct
from typing import Any

from coordinator.api.exchange import Exchange, ReplyQueue
from coordinator.api.recognition import NO_TEMPLATE, LearnTemplate, NoTemplate
from coordinator.api.route import Route
from coordinator.api.server import Server
from coordinator.fastpath.byte_template import Match, MatchTemplate
from coordinator.fastpath.event_encoding import AcceptedTemplate
from coordinator.fastpath.record_template import Pairs, RecordTemplate
from coordinator.fastpath.renumbering import inverted, renumbered
from coordinator.groups.catalog import Catalog
from coordinator.groups.commit_events import refused_commit_facts
from coordinator.groups.fencing import fence_commit
from coordinator.groups.offsets.commit import ANSWERS
from coordinator.groups.offsets.records import OffsetCommits
from coordinator.groups.offsets.rewound import go_back, rewound_facts
from coordinator.groups.offsets.store import shared_partition
from coordinator.groups.offsets.topic_existence import fill_in_topics
from coordinator.groups.offsets.validate_partitions import validate_partitions
from coordinator.groups.offsets.value import NO_TOPIC_ID
from coordinator.groups.state import Groups
from coordinator.log.batch_builder import BatchBuilder
from coordinator.protocol.codec import Codec
from coordinator.protocol.errors import KafkaError
from coordinator.protocol.messages import OffsetCommitRequest
from coordinator.requests import offset_commit
from coordinator.runtime.result import Fact, Record, Records, RequestContext, Result

LEADER_EPOCHS_SINCE = 6
"""OffsetCommit before this version has no leader epochs, and may bring a retention time of its own."""
TEMPLATE_BYTES_MAX = 512
"""No template is made of a larger request: with everything that belongs to it, it takes forty times as much memory."""
PAYS_OFF_AFTER, MISSES_MAX = 8, 16
"""Making a template costs as much as a few matches save. A template that has paid off is replaced at the first mismatch; one
that has not, after MISSES_MAX mismatches: a client may commit other partitions each time."""
FIRST_AFTER = 2
"""The first template of a connection is made from its second commit."""

_FRAME_CODES = {4: "i", 8: "q", 12: "qi"}
"""The variable fields of a frame: the correlation id, an offset, an offset followed by a leader epoch."""
_RECORD_CODES = {8: "q", 12: "qi"}
"""The variable fields of a record's value: an offset followed by a leader epoch, the commit's time."""
_OTHER_TIME_MS = (1 << 63) - 1
"""Differs from zero in every byte."""
_OFFSETS, _EPOCHS = slice(1, None, 2), slice(2, None, 2)
"""Their places among the values of a match, the first of which is the correlation id."""
_CORRELATION_ID = Struct(">i").unpack_from


class RepeatedCommit(Match):
    """A commit that matched the template of its connection. `shared` is that `CommitTemplate`.

    It has the `topics` of an OffsetCommitRequest, so that the API can refuse it like one.
    """

    __slots__ = ()

    shared: "CommitTemplate"

    @property
    def topics(self) -> list[OffsetCommitRequest.OffsetCommitRequestTopic]:
        return self.shared.request.topics

    def message(self) -> OffsetCommitRequest:
        """The request as the codec would have decoded it."""
        values = self.values
        return renumbered(self.shared.request, iter(values[_OFFSETS]), iter(values[_EPOCHS]))


# --- learning and matching --------------------------------------------------------------------------------------------


def template_learners(codec: Codec) -> dict[int, LearnTemplate]:
    """API key -> what makes templates of its requests, for one dialect."""
    return {offset_commit.API.key: partial(learn_template, codec)}


class CommitTemplate(MatchTemplate):
    """What repeated commits of one connection share: the request, its answer, its records and its event.

    The values of a match are the correlation id, and then the offset and the leader epoch of each partition.
    """

    __slots__ = (
        "accepted", "answer", "catalog_version", "client_id", "count", "group_id", "partitions", "records", "request",
        "route",
    )  # fmt: skip

    made = staticmethod(partial(tuple.__new__, RepeatedCommit))
    answer: bytes
    """The body of the answer that accepts every partition."""
    partitions: list[tuple[str, int]]
    records: RecordTemplate

    def __init__(
        self, sample: bytes, other: bytes, route: Route, client_id: str | None, request: OffsetCommitRequest
    ) -> None:
        """`sample` is the frame of `request`. `prepare` must be called before the first use, and whenever topics change."""
        super().__init__(sample, other, _FRAME_CODES)
        self.route = route
        self.client_id = client_id
        self.request = request
        self.group_id = request.group_id
        self.count = sum(len(topic.partitions) for topic in request.topics)
        self.catalog_version: int | None = None
        self.accepted: AcceptedTemplate | None = None

    def handle(self, server: Server, exchange: Exchange[RepeatedCommit]) -> None:
        """Hands a match to its group's shard, as `offset_commit.handle` does with other commits."""
        if self.catalog_version == server.topics.version or self.prepare(server.topics, exchange.route):
            server.groups.submit(self.group_id, commit_repeated, exchange)
        else:
            self.give_back(server, exchange)

    def give_back(self, server: Server, exchange: Exchange[RepeatedCommit]) -> None:
        """Lets the commit take the ordinary path."""
        exchange.route.handle(server, exchange.with_request(exchange.request.message()))

    def prepare(self, catalog: Catalog, route: Route) -> bool:
        """Makes the template ready for the topics as they are now.

        Returns False if a partition does not exist or a topic has no id.
        """
        request = self.request
        if not fill_in_topics(request, catalog, by_id=route.version >= offset_commit.TOPIC_IDS_SINCE):
            return False
        if NO_TOPIC_ID in [catalog.topic_id(topic.name) or NO_TOPIC_ID for topic in request.topics]:
            return False
        self.answer = route.encode(validate_partitions(request, ANSWERS, 0, 0, None)[0])
        self.records = RecordTemplate(partial(_samples, request), self.count, _RECORD_CODES)
        topics = request.topics
        self.partitions = [
            shared_partition(topic.name, each.partition_index) for topic in topics for each in topic.partitions
        ]
        self.accepted = None
        self.catalog_version = catalog.version
        return True


class PermittedTemplate(CommitTemplate):
    """The template of a connection of a server that has an authorizer."""

    __slots__ = ("_permitted",)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._permitted: int | None = None
        """The version of the ACLs that permit all of it."""

    def handle(self, server: Server, exchange: Exchange[RepeatedCommit]) -> None:
        authorizer = self.route.authorizer
        assert authorizer is not None
        if self._permitted != authorizer.version:
            # The names of topics are known once the template is prepared.
            if self.catalog_version is None and not self.prepare(server.topics, self.route):
                self.give_back(server, exchange)
                return
            if not offset_commit.permits_all(self.request, exchange.permits):
                self.give_back(server, exchange)
                return
            self._permitted = authorizer.version
        super().handle(server, exchange)


_NONE_FITS = NoTemplate()
"""For a connection whose last commit was not fit for a template: unlike NO_TEMPLATE, it stays for MISSES_MAX commits."""


def learn_template(
    codec: Codec, queue: ReplyQueue, frame: bytes, position: int, route: Route, client_id: str | None
) -> None:
    """Makes the connection's template from a frame that did not match the current one, if that is likely to pay off.

    `position`: where the request's body begins in the frame.
    """
    if len(frame) > TEMPLATE_BYTES_MAX:
        return
    queue.template_misses += 1
    current = queue.template
    limit = FIRST_AFTER if current is NO_TEMPLATE else MISSES_MAX
    served = current.served if isinstance(current, CommitTemplate) else 0
    if queue.template_misses < limit and served < PAYS_OFF_AFTER:
        return
    queue.template_misses = 0
    queue.template = _NONE_FITS
    request: OffsetCommitRequest = route.decode(frame, position)[0]
    encode = codec.encoder("OffsetCommitRequest", route.version)
    if (
        not _fits(request, route.version) or encode(request) != frame[position:]
    ):  # the frame may have unknown tagged fields
        return
    inverted_id = (~_CORRELATION_ID(frame, 4)[0]).to_bytes(4, signed=True)
    other = frame[:4] + inverted_id + frame[8:position] + encode(inverted(request))
    kind = CommitTemplate if route.authorizer is None else PermittedTemplate
    queue.template = kind(frame, other, route, client_id, request)


def _fits(request: OffsetCommitRequest, api_version: int) -> bool:
    """Whether only offsets and leader epochs vary: there is no metadata, and no retention time."""
    return api_version >= LEADER_EPOCHS_SINCE and not any(
        each.committed_metadata for topic in request.topics for each in topic.partitions
    )


# --- committing -------------------------------------------------------------------------------------------------------


def commit_repeated(groups: Groups, commit: RepeatedCommit, context: RequestContext, now_ms: int) -> Result:
    """Does what `commit` does, for a match of a template that is prepared. Raises the errors of `fence_commit`."""
    template: CommitTemplate
    template, values = commit
    try:
        origin, timers = fence_commit(groups, template.request, context)
    except KafkaError as error:
        error.facts = refused_commit_facts(groups, commit.message(), context, error.code, ())
        raise
    offsets = values[_OFFSETS]
    groups.counters.offsets += template.count
    facts: tuple[Fact, ...] = ()
    if groups.emits_accepted:
        accepted = template.accepted
        if accepted is None or accepted.origin != origin:
            accepted = template.accepted = AcceptedTemplate(template.request, context, origin)
        facts = accepted.facts(offsets)
    records = RepeatedOffsets(template, offsets, values[_EPOCHS], now_ms)
    if go_back(groups, template.group_id, template.partitions, offsets):
        facts = (*facts, *rewound_facts(groups, template.request, records.ordinary(), context))
    return Result(template.answer, records, timers, (), facts)


class RepeatedOffsets(Records):
    """The records of a repeated commit."""

    __slots__ = ("_epochs", "_now_ms", "_offsets", "_template", "_values")

    def __init__(
        self, template: CommitTemplate, offsets: tuple[int, ...], epochs: tuple[int, ...], now_ms: int
    ) -> None:
        self._template = template
        self._offsets = offsets
        self._epochs = epochs
        self._now_ms = now_ms
        self._values: list[bytes] | None = None
        """Those of the encoded records, if the template encoded them."""

    def __len__(self) -> int:
        return self._template.count

    def __iter__(self) -> Iterator[Record]:
        return iter(self.ordinary())

    def replay(self, state: Groups) -> None:
        template, values, offsets = self._template, self._values, state.offsets
        committed = offsets.by_group.get(template.group_id)
        if committed is None or values is None or template.group_id in offsets.pending.by_group:
            self.ordinary().replay(state)
            return
        count = len(committed)
        committed.update(zip(template.partitions, values))  # noqa: B905 - costs time on every commit
        offsets.count += len(committed) - count

    def add_to(self, batch: BatchBuilder) -> None:
        template = self._template
        self._values = template.records.add_to(batch, self._offsets, self._epochs, [self._now_ms] * template.count)
        if self._values is None:
            self.ordinary().add_to(batch)

    def ordinary(self) -> OffsetCommits:
        """The records as `commit` makes them."""
        request = renumbered(self._template.request, iter(self._offsets), iter(self._epochs))
        return validate_partitions(request, ANSWERS, 0, self._now_ms, None)[1]


def _samples(request: OffsetCommitRequest) -> tuple[Pairs, Pairs]:
    """The records of the request, and those of the inverted one."""
    _, records, _ = validate_partitions(request, ANSWERS, 0, 0, None)
    _, others, _ = validate_partitions(inverted(request), ANSWERS, 0, _OTHER_TIME_MS, None)
    return records.encoded(), others.encoded()
