"""The encoders of events produce what the codec makes of the events' records, for every class that has one.

The harness of the group tests (groups/harness.py) compares the two as well, for every event that any of those tests produces.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.fastpath.event_encoding import EVENT_ENCODERS, AcceptedTemplate, RepeatedDecision
from coordinator.groups.commit_events import CommitDecision
from coordinator.groups.committer import classic_committer
from coordinator.groups.consumer.member import ConsumerMember
from coordinator.groups.events import EVENT_KEYS, ClassicDelivery, Completed, Holding, Joined
from coordinator.groups.kinds import Kind
from coordinator.groups.offsets.partial_commit import RefusedPartition
from coordinator.groups.settings import FENCING_POLICIES
from coordinator.groups.streams.committer import StreamsCommitter
from coordinator.protocol.codec import Codec
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    AssignmentAcknowledgedKey,
    AssignmentAcknowledgedValue,
    AssignmentDeliveredKey,
    AssignmentDeliveredValue,
    OffsetCommitRequest,
    TxnOffsetCommitRequest,
)
from coordinator.protocol.subscription import Assignment, encode_assignment
from coordinator.runtime.serde import Serde
from tests.groups.harness import GroupHarness, SentRequest
from tests.support.catalog import Catalog

SERDE = Serde(Codec.of(), EVENT_KEYS)
CATALOG = Catalog({"t": 4, "a topic with a long name" * 9: 200})
TOPIC_IDS = [CATALOG.topic_id(name) for name in CATALOG.topics]

texts = st.text(max_size=20) | st.text(min_size=120, max_size=300)
names = st.none() | texts
ints = st.integers(-(2**31), 2**31 - 1)
longs = st.integers(-(2**63), 2**63 - 1)
kinds = st.sampled_from(Kind)
epochs_by_topic = st.dictionaries(
    st.sampled_from([*TOPIC_IDS, b"deleted since   "]),
    st.dictionaries(st.integers(0, 2**31 - 1), ints, min_size=1, max_size=200),
    max_size=3,
)
assignments = st.builds(
    lambda partitions, user_data, version: encode_assignment(Assignment(partitions, user_data, version)),
    st.dictionaries(texts, st.lists(ints, max_size=200).map(tuple), max_size=3),
    st.none() | st.binary(max_size=5),
    st.integers(0, 3),
)
damaged_assignments = st.one_of(
    assignments,
    st.binary(max_size=40),
    st.tuples(assignments, st.binary(max_size=6)).map(b"".join),
    st.tuples(assignments, st.integers(0, 60)).map(lambda cut: cut[0][: cut[1]]),
    st.tuples(assignments, st.integers(0, 60), st.binary(min_size=1, max_size=4)).map(
        lambda changed: changed[0][: changed[1]] + changed[2] + changed[0][changed[1] + len(changed[2]) :]
    ),
)
committers = (
    st.none()
    | st.builds(classic_committer, st.integers(-1, 9))
    | st.builds(
        ConsumerMember,
        member_id=texts,
        member_epoch=st.integers(0, 9),
        revocation_epoch=st.integers(-1, 9),
        assigned=epochs_by_topic,
        pending_revocation=epochs_by_topic,
    )
    | st.builds(StreamsCommitter, texts, st.integers(0, 9), st.integers(-1, 9), epochs_by_topic, epochs_by_topic)
)
policies = st.none() | st.builds(
    GroupHarness(group_consumer_fencing_policy="strict").groups.settings.consumer("g").__class__,
    session_timeout_ms=st.just(1),
    heartbeat_interval_ms=st.just(1),
    assignment_interval_ms=st.just(1),
    fencing_policy=st.sampled_from(FENCING_POLICIES),
    require_ownership=st.booleans(),
    require_member=st.booleans(),
)
refused = st.builds(
    RefusedPartition,
    texts,
    st.sampled_from([bytes(16), *TOPIC_IDS]),
    ints,
    longs,
    st.sampled_from(
        [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    ),
)


def topics_of(request):
    """Topics of OffsetCommitRequest or TxnOffsetCommitRequest."""
    name = request.__name__
    partition = st.builds(
        getattr(request, f"{name}Partition"),
        partition_index=st.integers(0, 2**31 - 1),
        committed_offset=longs,
        committed_leader_epoch=ints,
        committed_metadata=names,
    )
    few = st.lists(partition, min_size=1, max_size=5)
    return st.lists(
        st.builds(
            getattr(request, f"{name}Topic"),
            name=texts,
            topic_id=st.sampled_from([bytes(16), *TOPIC_IDS]),
            partitions=few | st.builds(lambda some, count: (some * count)[:count], few, st.integers(130, 140)),
        ),
        max_size=3,
    )


commits = st.builds(
    OffsetCommitRequest, texts, st.integers(-1, 9), texts, names, topics=topics_of(OffsetCommitRequest)
) | st.builds(
    TxnOffsetCommitRequest, texts, texts, longs, st.integers(-1, 9), st.integers(-1, 9), texts, names,
    topics_of(TxnOffsetCommitRequest),
)  # fmt: skip
contexts = st.builds(lambda client_id, host: SentRequest(None, 9, client_id, host, ""), names, texts)


origins = st.tuples(kinds, committers, policies)


@st.composite
def repeated_decisions(draw):
    topics = draw(topics_of(OffsetCommitRequest))
    for topic in topics:
        topic.partitions = topic.partitions[:5]
        for partition in topic.partitions:
            partition.committed_metadata = ""
    request = OffsetCommitRequest(draw(texts), draw(st.integers(-1, 9)), draw(texts), draw(names), topics=topics)
    offsets = tuple(draw(longs) for topic in topics for _ in topic.partitions)
    return RepeatedDecision(AcceptedTemplate(request, draw(contexts), draw(origins)), offsets)


def holdings(key, value):
    return st.builds(Holding, *map(st.just, (key, value)), kinds, texts, st.just(CATALOG), texts, ints, epochs_by_topic)


EVENTS = {
    Joined: st.builds(Joined, texts, kinds, texts, names, contexts, ints),
    Completed: st.builds(
        Completed,
        texts,
        kinds,
        ints,
        duration_ms=longs,
        cause=texts,
        member_id=texts,
        members=st.integers(0, 2**31 - 1),
        waits=st.dictionaries(texts, longs, max_size=5),
        delay_ms=st.just(0) | longs,
        is_overtaken=st.booleans(),
    ),
    ClassicDelivery: st.builds(ClassicDelivery, texts, texts, ints, damaged_assignments, st.just(CATALOG)),
    Holding: holdings(AssignmentDeliveredKey, AssignmentDeliveredValue)
    | holdings(AssignmentAcknowledgedKey, AssignmentAcknowledgedValue),
    CommitDecision: st.builds(
        CommitDecision,
        commits,
        names,
        st.sampled_from(
            [ErrorCode.NONE, ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNSUPPORTED_VERSION]
        ),
        st.integers(0, 400),
        kinds,
        committers,
        policies,
        st.lists(refused, max_size=3),
    ),
    RepeatedDecision: repeated_decisions(),
}


def test_every_class_that_has_an_encoder_is_tested():
    assert EVENTS.keys() == EVENT_ENCODERS.keys()


@pytest.mark.long
@pytest.mark.parametrize("event_class", EVENTS, ids=lambda each: each.__name__)
@given(data=st.data(), state_offset=longs, time_ms=longs, state_end=st.integers(-1, 2**40))
def test_the_encoder_produces_the_bytes_of_the_record(event_class, data, state_offset, time_ms, state_end):
    event = data.draw(EVENTS[event_class])
    record = event.record(state_offset, time_ms)
    record.value.state_end_offset = state_end
    assert EVENT_ENCODERS[event_class](event, state_offset, time_ms, state_end) == SERDE.encode(record)
