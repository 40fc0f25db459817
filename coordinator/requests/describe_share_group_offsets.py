"""DescribeShareGroupOffsets (key 90): where the share partitions of groups start, and their lags (KIP-932, KIP-1226).

Topics may be named, or null: then they are those for which the group has states. As in Kafka, named topics are looked up
whether there is such a group or not, a partition without a state starts at -1, and so does one whose state cannot be read now.

The worker that leads a partition is asked where it ends. The lag is unknown (-1) if that worker does not answer.
"""

from collections.abc import Mapping
from functools import partial

from coordinator.api import Api, Coordinator, Exchange, Overlay, Server
from coordinator.api.error_families import GROUP_ERRORS
from coordinator.api.guards import allowed_names, serves
from coordinator.api.permits import WORDS
from coordinator.groups.kinds import Kind
from coordinator.groups.share.initialized import Topics
from coordinator.groups.share.offsets import initialized_partitions
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse
from coordinator.runtime.internal_request import InternalRequest
from coordinator.security.access import DESCRIBE_GROUP, DESCRIBE_TOPIC, ResourceType
from coordinator.share_state.coordinator import ask_in_pieces
from coordinator.share_state.share_state import UNINITIALIZED_START_OFFSET, UNKNOWN_COUNT, SharePartition, Summary

_Asked = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
_AskedTopic = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestTopic
_Group = DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup
_Topic = DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseTopic
_Partition = DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponsePartition
_Wanted = Mapping[bytes, tuple[str, list[int]]]
_Outcomes = Mapping[tuple[bytes, int], Summary | ErrorCode]
_NO_ID = bytes(16)
_UNKNOWN_LAG = -1
_UNEXPECTED = "The server experienced an unexpected error when processing the request."


def handle(server: Server, exchange: Exchange[DescribeShareGroupOffsetsRequest]) -> None:
    asked = exchange.request.groups
    if not serves(server, Kind.SHARE):
        exchange.reply(DescribeShareGroupOffsetsResponse(groups=_refused(asked, ErrorCode.UNSUPPORTED_VERSION)))
        return
    groups: list[_Group | None] = [None] * len(asked)
    left = len(asked) + 1

    def described(position: int | None, group: _Group | None) -> None:
        nonlocal left
        if position is not None:
            groups[position] = group
        left -= 1
        if not left:
            exchange.reply_in_slices(DescribeShareGroupOffsetsResponse(groups=[each for each in groups if each]))

    for position, each in enumerate(asked):
        _GroupOffsets(server, exchange, each, partial(described, position)).begin()
    described(None, None)


class _GroupOffsets:
    """The description of one group; `done` gets it."""

    def __init__(
        self, server: Server, exchange: Exchange[DescribeShareGroupOffsetsRequest], asked: _Asked, done: "partial[None]"
    ) -> None:
        self._server = server
        self._exchange = exchange
        self._asked = asked
        self._done = done
        self._behind: list[_Topic] = []
        """The topics that are answered behind those that have states: unknown ones, then those that are denied."""

    def begin(self) -> None:
        asked, permits = self._asked, self._exchange.permits
        if not permits.allows(DESCRIBE_GROUP, asked.group_id):
            self._done(_Group(group_id=asked.group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED))
        elif asked.topics is None:
            request = InternalRequest(asked.group_id, self._initialized, writes=False)
            self._server.groups.submit(asked.group_id, initialized_partitions, request)
        else:
            self._named(asked.topics)

    def _initialized(self, reply: Topics | KafkaError) -> None:
        if isinstance(reply, KafkaError):
            self._done(*_refused([self._asked], reply.code, reply.message))
            return
        name_of = self._server.topics.topic_name
        known = {topic_id: name_of(topic_id) for topic_id in reply}
        visible = allowed_names(self._exchange.permits, DESCRIBE_TOPIC, filter(None, known.values()))
        self._ask({
            topic_id: (name, sorted(reply[topic_id].partitions))
            for topic_id, name in known.items()
            if name is not None and name in visible
        })  # fmt: skip

    def _named(self, topics: list[_AskedTopic]) -> None:
        allowed = allowed_names(self._exchange.permits, DESCRIBE_TOPIC, [each.topic_name for each in topics])
        wanted: dict[bytes, tuple[str, list[int]]] = {}
        denied = []
        for topic in topics:
            topic_id = self._server.topics.topic_id(topic.topic_name)
            if topic.topic_name not in allowed:
                denied.append(_no_offsets(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED, WORDS[ResourceType.TOPIC]))
            elif topic_id is None:
                self._behind.append(_no_offsets(topic, ErrorCode.NONE, None))
            else:
                wanted.setdefault(topic_id, (topic.topic_name, []))[1].extend(topic.partitions)
        self._behind += denied
        self._ask(wanted)

    def _ask(self, wanted: _Wanted) -> None:
        group_id, summary = self._asked.group_id, self._server.share_states.summary
        if wanted and not (group_id and all(indexes and min(indexes) >= 0 for _, indexes in wanted.values())):
            # Kafka's broker refuses to ask the share coordinator.
            self._done(*_refused([self._asked], ErrorCode.UNKNOWN_SERVER_ERROR, _UNEXPECTED))
            return
        asks = {
            (topic_id, index): partial(summary, SharePartition(group_id, topic_id, index), 0)
            for topic_id, (_, partitions) in wanted.items()
            for index in partitions
        }
        self._exchange.run_in_slices(ask_in_pieces(asks, partial(self._answered, wanted)))

    def _answered(self, wanted: _Wanted, outcomes: _Outcomes) -> None:
        local, ask = self._server.share_partitions.end_offset, self._server.share_states.end_offsets_elsewhere
        ends: dict[tuple[str, int], int] = {}
        elsewhere: dict[str, list[int]] = {}
        for topic_id, (name, partitions) in wanted.items():
            for index in dict.fromkeys(partitions):
                end = local(name, index)
                if end is not None:
                    ends[name, index] = end
                elif _has_lag(outcomes[topic_id, index]):
                    elsewhere.setdefault(name, []).append(index)
        if elsewhere and ask is not None:
            ask(elsewhere, lambda found: self._describe(wanted, outcomes, {**ends, **found}))
        else:
            self._describe(wanted, outcomes, ends)

    def _describe(self, wanted: _Wanted, outcomes: _Outcomes, ends: Mapping[tuple[str, int], int]) -> None:
        topics = [
            _Topic(
                topic_name=name,
                topic_id=topic_id,
                partitions=[
                    _described(index, outcomes[topic_id, index], ends.get((name, index)))
                    for index in dict.fromkeys(partitions)
                ],
            )
            for topic_id, (name, partitions) in wanted.items()
        ]
        self._done(_Group(group_id=self._asked.group_id, topics=topics + self._behind))


def _has_lag(outcome: Summary | ErrorCode) -> bool:
    """Whether the lag follows from where the partition ends."""
    if isinstance(outcome, ErrorCode):
        return False
    return outcome.start_offset >= 0 and outcome.delivery_complete_count != UNKNOWN_COUNT


def _described(index: int, outcome: Summary | ErrorCode, end_offset: int | None) -> _Partition:
    if isinstance(outcome, ErrorCode):
        return _Partition(partition_index=index, start_offset=UNINITIALIZED_START_OFFSET)
    lag = _UNKNOWN_LAG
    if end_offset is not None and _has_lag(outcome):
        lag = end_offset - outcome.start_offset - outcome.delivery_complete_count
    return _Partition(
        partition_index=index, start_offset=outcome.start_offset, leader_epoch=outcome.leader_epoch, lag=lag
    )


def _no_offsets(topic: _AskedTopic, error: ErrorCode, text: str | None) -> _Topic:
    partitions = [
        _Partition(partition_index=each, start_offset=UNINITIALIZED_START_OFFSET, error_code=error, error_message=text)
        for each in topic.partitions
    ]
    return _Topic(topic_name=topic.topic_name, topic_id=_NO_ID, partitions=partitions)


def _refused(groups: list[_Asked], error: ErrorCode, text: str | None = None) -> list[_Group]:
    return [_Group(group_id=each.group_id, error_code=error, error_message=text) for each in groups]


def refuse(
    request: DescribeShareGroupOffsetsRequest, error: KafkaError, api_version: int
) -> DescribeShareGroupOffsetsResponse:
    return DescribeShareGroupOffsetsResponse(groups=_refused(request.groups, error.code, error.message))


API = Api(
    key=90,
    name="DescribeShareGroupOffsets",
    versions=(0, 1),
    access=(DESCRIBE_GROUP, DESCRIBE_TOPIC),
    handle=handle,
    refuse=refuse,
    writes=False,
    errors=GROUP_ERRORS | {ErrorCode.TOPIC_AUTHORIZATION_FAILED},
    elements=("groups.topics.partitions",),
    coordinator=Coordinator.GROUP,
    overlay=Overlay.HIDDEN,
)
