"""Any bytes give a message or DecodeError, at a cost that depends on their number and not on the sizes they claim."""

import tracemalloc
from random import Random

import construct
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.protocol.codec import Codec, DecodeError
from coordinator.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    FetchRequest,
    MetadataRequest,
    OffsetCommitRequest,
    StreamsGroupHeartbeatRequest,
)
from coordinator.protocol.primitives import Array, Body, MalformedError, Prefix
from coordinator.protocol.schema import SchemaFolder
from tests.protocol.message_making import EVERY_MESSAGE, EVERY_VERSION, SCHEMAS, as_plain, make_message

CODEC = Codec.of()


def decoded(name: str, version: int, data: bytes):
    """The message, or None if the bytes are refused; any other exception fails the test."""
    try:
        return CODEC.decoder(name, version)(data, 0)
    except DecodeError:
        return None


def mutated(data: bytes, random: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 4))):
        position = random.randrange(len(changed) + 1)
        match random.randrange(4):
            case 0:
                del changed[position:]
            case 1:
                changed[position:position] = random.choice((b"\xff", b"\xff\xff\xff\xff\x07", b"\x7f", b"\x00"))
            case 2:
                del changed[position : position + random.randrange(1, 9)]
            case _:
                changed[position : position + 1] = random.randbytes(1)
    return bytes(changed)


@settings(max_examples=300)
@given(which=st.sampled_from(EVERY_VERSION), data=st.binary(max_size=200))
def test_random_bytes_give_a_message_or_decode_error(which: tuple[str, int], data: bytes):
    """No IndexError, struct.error, MemoryError or RecursionError reaches the caller."""
    decoded(*which, data)


@pytest.mark.parametrize("name", EVERY_MESSAGE)
@settings(max_examples=6)
@given(random=st.randoms(use_true_random=True))
def test_mutated_messages_give_a_message_or_decode_error(name: str, random: Random):
    """Nearly valid bytes reach deep code. A decoded message ends inside the buffer."""
    for version in CODEC.versions(name):
        data = mutated(CODEC.encoder(name, version)(make_message(SCHEMAS[name], version, random)), random)
        result = decoded(name, version, data)
        assert result is None or result[1] <= len(data)


@settings(max_examples=150)
@given(which=st.sampled_from(EVERY_VERSION), random=st.randoms(use_true_random=True))
def test_the_declaration_refuses_the_same_bytes(which: tuple[str, int], random: Random):
    """Generated function and declaration agree on damaged bytes too: both refuse, or both read the same."""
    name, version = which
    data = mutated(CODEC.encoder(name, version)(make_message(SCHEMAS[name], version, random)), random)
    result = decoded(name, version, data)
    try:
        parsed = as_plain(CODEC.declaration(name, version).parse(data))
    except construct.ConstructError:
        assert result is None
    else:
        assert result is not None
        assert as_plain(result[0]) == parsed


@pytest.mark.parametrize("which", [("OffsetCommitRequest", 9), ("JoinGroupRequest", 5), ("FetchResponse", 16)])
def test_every_shorter_message_is_refused(which: tuple[str, int]):
    """A message cut at any byte is DecodeError, though no read checks a bound before it."""
    name, version = which
    data = CODEC.encoder(name, version)(make_message(SCHEMAS[name], version, Random(3)))
    for size in range(len(data)):
        with pytest.raises(DecodeError):
            CODEC.decoder(name, version)(data[:size], 0)


@pytest.mark.parametrize(
    ("name", "version", "data"),
    [
        ("MetadataRequest", 1, b"\x7f\xff\xff\xff" + bytes(1000)),
        ("MetadataRequest", 9, b"\xff\xff\xff\xff\x07" + bytes(1000)),
        ("OffsetFetchRequest", 1, b"\x00\x01g\x7f\xff\xff\xff" + bytes(1000)),
        ("ProduceRequest", 9, b"\x00\x00\x01\x00\x00\x00\x00\x80\x80\x80\x80\x04" + bytes(1000)),
        ("ListGroupsRequest", 4, b"\xe9\x07" + bytes(999)),
    ],
)
def test_a_count_beyond_the_bytes_is_refused_before_any_element(name: str, version: int, data: bytes):
    """An array that claims 2^31-1 elements costs nothing: neither time nor memory for one of them."""
    CODEC.decoder(name, version)
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError, match="claims"):
            CODEC.decoder(name, version)(data, 0)
        assert tracemalloc.get_traced_memory()[1] < 20_000
    finally:
        tracemalloc.stop()


def test_elements_of_all_arrays_together_are_limited():
    """A mebibyte of tiny elements, in one array or in many, stops at the codec's limit; one fewer is read."""
    codec = Codec(SchemaFolder(), elements_max=100)
    partition = OffsetCommitRequest.OffsetCommitRequestPartition
    topic = OffsetCommitRequest.OffsetCommitRequestTopic

    def request(topics: int, partitions: int) -> bytes:
        entries = [topic(partitions=[partition() for _ in range(partitions)]) for _ in range(topics)]
        return codec.encoder("OffsetCommitRequest", 8)(OffsetCommitRequest(topics=entries))

    decode = codec.decoder("OffsetCommitRequest", 8)
    assert len(decode(request(10, 9), 0)[0].topics) == 10
    for shape in ((101, 0), (10, 10)):
        with pytest.raises(DecodeError, match="claims"):
            decode(request(*shape), 0)


def test_a_member_may_own_more_partitions_than_a_request_has_elements():
    codec = Codec(SchemaFolder(), elements_max=100)
    topic = ConsumerGroupHeartbeatRequest.TopicPartitions

    def request(partitions: int) -> bytes:
        owned = ConsumerGroupHeartbeatRequest(topic_partitions=[topic(partitions=list(range(partitions)))])
        return codec.encoder("ConsumerGroupHeartbeatRequest", 1)(owned)

    decode = codec.decoder("ConsumerGroupHeartbeatRequest", 1)
    assert len(decode(request(999), 0)[0].topic_partitions[0].partitions) == 999
    with pytest.raises(DecodeError, match="claims"):
        decode(request(1_000), 0)


def test_a_member_of_a_streams_group_may_own_as_many_tasks():
    codec = Codec(SchemaFolder(), elements_max=100)
    tasks = StreamsGroupHeartbeatRequest.TaskIds("0", list(range(999)))
    encoded = codec.encoder("StreamsGroupHeartbeatRequest", 1)(StreamsGroupHeartbeatRequest(active_tasks=[tasks]))
    assert codec.decoder("StreamsGroupHeartbeatRequest", 1)(encoded, 0)[0].active_tasks == [tasks]


def test_only_messages_from_clients_are_limited():
    """Records of our own log and responses are not limited: they were made within other limits."""
    codec = Codec(SchemaFolder(), elements_max=1)
    encoded = codec.encoder("FetchRequest", 4)(FetchRequest(topics=[FetchRequest.FetchTopic() for _ in range(2)]))
    with pytest.raises(DecodeError):
        codec.decoder("FetchRequest", 4)(encoded, 0)
    for name in ("MetadataResponse", "GroupMetadataValue", "ConsumerGroupTargetAssignmentMemberValue"):
        assert "left" not in codec.source(name, 0 if name != "MetadataResponse" else 9)


def test_an_array_of_empty_elements_cannot_be_declared():
    """Elements without bytes would cost their sender nothing: 300,000 of them fit in a count of four bytes."""
    with pytest.raises(MalformedError, match="without bytes"):
        Array(Prefix.INT32, Body("Empty", [], [], flexible=False), nullable=False)


def test_null_where_none_is_allowed_is_refused():
    """GroupId null, in the old encoding and the compact one."""
    for version, data in ((3, b"\xff\xff"), (4, b"\x00")):
        with pytest.raises(DecodeError, match="is null"):
            CODEC.decoder("HeartbeatRequest", version)(data + bytes(20), 0)


def test_text_that_is_not_utf8_is_decoded_with_replacement_characters():
    """As Kafka does: such a group id is a strange name, not a broken frame."""
    request = CODEC.decoder("HeartbeatRequest", 4)(b"\x04a\xff\xfe\x00\x00\x00\x01\x02m\x00\x00", 0)[0]
    assert (request.group_id, request.member_id) == ("a\ufffd\ufffd", "m")


def test_a_compact_string_longer_than_any_old_one_is_refused():
    """The limit is 32,767 bytes, in both directions."""
    from coordinator.protocol.codec import EncodeError

    encode, decode = CODEC.encoder("MetadataRequest", 9), CODEC.decoder("MetadataRequest", 9)
    topic = MetadataRequest.MetadataRequestTopic
    longest = MetadataRequest(topics=[topic(name="n" * 32767)])
    encoded = encode(longest)
    assert decode(encoded, 0)[0] == longest
    with pytest.raises(EncodeError, match="32768 bytes"):
        encode(MetadataRequest(topics=[topic(name="n" * 32768)]))
    with pytest.raises(DecodeError, match="at most 32767"):
        decode(b"\x02\x81\x80\x02" + b"n" * 32768 + bytes(5), 0)
