"""An event names the state that it was decided on: replaying the log up to its state offset and deciding again gives the same
event, whatever happened before and after."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.groups.machine import GroupMachine
from coordinator.groups.offsets.commit import commit
from coordinator.groups.settings import FENCING_POLICIES
from coordinator.protocol.errors import KafkaError
from coordinator.protocol.messages import OffsetCommitRequest
from coordinator.protocol.releases import AS_NEWEST
from coordinator.runtime.result import NO_LINK
from tests.groups.consumer.consumer_world import ChangeableSettings, ConsumerHarness, Modern

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("beat"), st.integers(0, 2)),
        st.tuples(st.just("beat"), st.integers(0, 2)),
        st.tuples(st.just("leave"), st.integers(0, 2)),
        st.tuples(
            st.just("commit"), st.integers(0, 3), st.integers(-3, 1), st.integers(1, 15), st.sampled_from([8, 9])
        ),
        st.tuples(st.just("commit"), st.integers(0, 3), st.integers(-3, 1), st.integers(1, 15), st.just(9)),
        st.tuples(st.just("admin"), st.integers(0, 3)),
        st.tuples(st.just("wait"), st.sampled_from([10, 1_000, 50_000])),
    ),
    max_size=40,
)


@pytest.mark.long
@given(STEPS, st.sampled_from(FENCING_POLICIES), st.booleans())
@settings(max_examples=100)
def test_deciding_again_on_the_state_of_an_event_gives_the_same_event(steps, policy, owns):
    h = ConsumerHarness()
    h.groups.settings = chosen = ChangeableSettings(h.config)
    chosen.set("g", consumer_fencing_policy=policy, consumer_fencing_require_ownership=str(owns).lower())
    members = [Modern(h, "a"), Modern(h, "b"), Modern(h, "c", topics=("t", "u"))]
    for step in steps:
        match step:
            case ("beat", who):
                members[who].beat()
            case ("leave", who) if members[who].is_in:
                h.beat("g", members[who].id, -1)
                members[who].forget()
            case ("commit", who, behind, which, version):
                epoch = members[who].epoch if who < len(members) else 2
                name = members[who].id if who < len(members) else "zombie"
                partitions = [("t", index) for index in range(4) if which >> index & 1]
                h.commit("g", name, max(epoch + behind, -1), partitions, version)
            case ("admin", index):
                h.commit("g", "", -1, [("t", index)])
            case ("wait", ms):
                h.advance(ms)
    decided = h.events_of("CommitDecided")
    versions = [step[4] if step[0] == "commit" else 9 for step in steps if step[0] in ("commit", "admin")]
    for event, version in zip(decided, versions, strict=True):
        assert decide_again(h, chosen, event, version) == event


def decide_again(h, chosen, event, version):
    """Sends the same request to a shard that has loaded the log up to the state offset of the event."""
    groups = GroupMachine(h.config, h.catalog, settings=chosen)
    for record in h.records[: event.state_offset]:
        groups.replay(record)
    request = OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=event.generation_id_or_member_epoch,
        member_id=event.member_id,
        group_instance_id=event.group_instance_id,
        topics=[
            OffsetCommitRequest.OffsetCommitRequestTopic(
                topic.topic_name,
                topic.topic_id,
                [
                    OffsetCommitRequest.OffsetCommitRequestPartition(each.partition, each.committed_offset, -1, "")
                    for each in topic.partitions
                ],
            )
            for topic in event.topics
        ],
    )
    call = Caller(version, event.client_id)
    try:
        facts = commit(groups, request, call, event.time_ms).facts
    except KafkaError as error:
        facts = error.facts
    (fact,) = (each for each in facts if each.event is not None)
    return fact.event.record(event.state_offset, event.time_ms).value


class Caller:
    client_host = "/127.0.0.1"
    link = NO_LINK
    dialect = None
    behaviours = AS_NEWEST
    fresh_id = ""

    def __init__(self, api_version, client_id):
        self.api_version = api_version
        self.client_id = client_id
