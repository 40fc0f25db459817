"""Group ids that pass between streams groups and groups of other kinds; requests of the wrong kind."""

import pytest

from coordinator.groups.classic.group import find_classic_group
from coordinator.groups.consumer.heartbeat import consumer_group_heartbeat
from coordinator.groups.delete_groups import delete_groups
from coordinator.groups.offsets.records import offset_commit_tombstone
from coordinator.groups.streams.group import find_streams_group
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import ConsumerGroupHeartbeatRequest, OffsetCommitKey, OffsetCommitValue
from coordinator.requests import consumer_group_heartbeat as consumer_api
from coordinator.runtime.internal_request import InternalRequest
from coordinator.runtime.result import Record, Result
from tests.groups.streams.streams_world import DELAY_MS, StreamsHarness


class Harness(StreamsHarness):
    def join_consumer(self):
        request = ConsumerGroupHeartbeatRequest("g", "c", 0, None, None, 60_000, ["t"], None, None, [])
        return self.call(consumer_group_heartbeat, request, 1, consumer_api.API)

    def write(self, *records):
        self._apply(Result(records=records))


@pytest.fixture
def h():
    return Harness()


OFFSET = Record(OffsetCommitKey("g", "t", 0), OffsetCommitValue(offset=5))


def test_an_empty_classic_group_becomes_a_streams_group_and_keeps_its_offsets(h):
    (member_id,) = h.stable(members=1)
    h.write(OFFSET)
    h.leave("g", member_id)
    assert h.arrive().ok
    assert find_classic_group(h.groups, "g") is None
    assert h.groups.offsets.get("g", "t", 0).offset == 5
    assert h.durable() == h.durable(h.records)


def test_a_simple_group_becomes_a_streams_group(h):
    h.write(OFFSET)
    assert h.arrive().ok
    assert find_classic_group(h.groups, "g") is None


def test_a_classic_group_with_members_does_not_become_a_streams_group(h):
    h.stable(members=1)
    request = h.arrive()
    assert (request.error, request.reply.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Group g is not a streams group.",
    )


def test_a_consumer_group_does_not_become_a_streams_group_even_without_members(h):
    h.join_consumer()
    assert h.arrive().error is ErrorCode.GROUP_ID_NOT_FOUND
    assert h.beat("m", 1).reply.error_message == "Group g is not a streams group."


def test_a_streams_group_does_not_become_a_consumer_group(h):
    h.arrive()
    request = h.join_consumer()
    assert (request.error, request.reply.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Group g is not a consumer group.",
    )


def test_classic_members_are_refused_by_a_streams_group_with_members(h):
    h.arrive()
    request = h.join()
    assert (request.error, request.reply.member_id) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
    assert h.heartbeat("g", "m", 1).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert h.sync("g", "m", 1).error is ErrorCode.UNKNOWN_MEMBER_ID
    (left,) = h.leave("g", "m").reply.members
    assert left.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert h.streams().members.keys() == {"m"}


def test_an_empty_streams_group_is_replaced_by_a_classic_one(h):
    h.arrive()
    h.write(OFFSET)
    h.beat("m", -1)
    h.stable(members=1)
    assert find_streams_group(h.groups, "g") is None
    assert h.groups.offsets.get("g", "t", 0).offset == 5
    assert h.durable() == h.durable(h.records)


@pytest.mark.parametrize(
    "end", [lambda h: h.stable(members=1), lambda h: h._apply(delete_groups(h.groups, ["g"], None, h.now_ms))]
)
def test_a_running_initial_delay_does_not_outlive_its_group(end):
    h = Harness(group_streams_initial_rebalance_delay_ms=DELAY_MS)
    h.arrive()
    h.beat("m", -1)
    end(h)
    assert all(key[0] != "streams-delay" for key in h.timers)


def test_a_deleted_streams_group_leaves_nothing(h):
    h.arrive()
    h.write(OFFSET)
    h.beat("m", -1)
    result = delete_groups(h.groups, ["g"], InternalRequest(None, print), h.now_ms)
    h._apply(result)
    assert h.groups.by_id.get("g") is None
    assert h.durable() == h.durable(h.records)
    assert offset_commit_tombstone("g", "t", 0) in result.records


def test_a_streams_group_with_members_is_not_deleted(h):
    h.arrive()
    (result,) = delete_groups(h.groups, ["g"], None, h.now_ms).reply.results
    assert result.error_code == ErrorCode.NON_EMPTY_GROUP
