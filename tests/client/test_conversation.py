"""Requests and responses as bytes, without I/O."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.client.conversation import (
    Conversation,
    NotAResponse,
    OutOfOrder,
    Splitter,
    common_version,
    request_frame,
)
from coordinator.protocol.codec import Codec
from coordinator.protocol.messages import ApiVersionsRequest, HeartbeatRequest, HeartbeatResponse, MetadataRequest

BEAT = HeartbeatRequest(group_id="g", member_id="m")


def framed(body):
    return len(body).to_bytes(4) + body


def answer(correlation_id, error_code=0, extra=b""):
    message = Codec.of().encoder("HeartbeatResponse", 4)(HeartbeatResponse(error_code=error_code))
    return framed(correlation_id.to_bytes(4) + b"\0" + message + extra)


@given(st.lists(st.binary(min_size=4, max_size=40), max_size=6), st.data())
def test_responses_are_found_wherever_the_stream_is_cut(bodies, data):
    stream, splitter, found = b"".join(map(framed, bodies)), Splitter(), []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        found += map(b"".join, splitter.split(stream[:size]))
        stream = stream[size:]
    assert found == [framed(body) for body in bodies]


@pytest.mark.parametrize("size", [-1, 0, 3, 101])
def test_a_size_that_no_response_has_or_may_have_is_refused(size):
    with pytest.raises(NotAResponse):
        list(Splitter(100).split(size.to_bytes(4, signed=True)))


def test_the_begin_of_a_large_response_is_reported_before_the_rest_arrives():
    splitter, sizes = Splitter(), []
    splitter.large_bytes, splitter.on_large = 50, sizes.append
    assert list(splitter.split(framed(bytes(46))[:10])) == []
    assert sizes == []
    assert len(list(splitter.split(bytes(40)))) == 1
    assert list(splitter.split(framed(bytes(47))[:10])) == []
    assert sizes == [51]


def test_each_response_goes_to_the_oldest_request_without_one():
    conversation = Conversation("test")
    conversation.request(BEAT, 4, "first")
    conversation.request(BEAT, 4, "second")
    assert [conversation.response(answer(1)).waiter, conversation.response(answer(2, 25)).waiter] == ["first", "second"]
    assert conversation.end() == []


def test_a_response_out_of_order_is_refused_and_its_request_still_waits():
    conversation = Conversation("test")
    with pytest.raises(OutOfOrder, match="sent response 1, None was expected"):
        conversation.response(answer(1))
    conversation.request(BEAT, 4, "waiter")
    with pytest.raises(OutOfOrder, match="sent response 2, 1 was expected"):
        conversation.response(answer(2))
    with pytest.raises(NotAResponse, match="not one to Heartbeat"):
        conversation.response(answer(1)[:-3])
    assert conversation.end() == ["waiter"]


def test_bytes_behind_a_message_are_counted():
    conversation = Conversation("test")
    conversation.request(BEAT, 4, None)
    assert conversation.response(answer(1, extra=b"abc")).extra_bytes == 3


def test_a_request_has_the_header_of_its_version():
    assert request_frame(BEAT, 0, 7, b"me")[:14] == bytes.fromhex("00000016 000c 0000 00000007 0002".replace(" ", ""))
    assert request_frame(BEAT, 4, 7, b"me")[14:17] == b"me\0", "KIP-482: no tagged fields"


def test_the_version_of_a_request_is_the_newest_that_both_sides_have():
    versions = {3: (0, 9), 18: (99, 100)}
    assert common_version(MetadataRequest, versions) == 9
    assert common_version(MetadataRequest, versions, 5) == 5
    assert common_version(ApiVersionsRequest, versions) == common_version(HeartbeatRequest, versions) == -1
