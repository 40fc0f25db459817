"""Bytes written out by hand, for what must not move: our own fields, the dialect, and the traps of the format."""

import pytest

from coordinator.protocol.codec import Codec, DecodeError, EncodeError
from coordinator.protocol.messages import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupMemberMetadataValue,
    DescribeTopicPartitionsRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    OffsetFetchRequest,
)

CODEC = Codec.of()
PROTOCOL = JoinGroupRequest.JoinGroupRequestProtocol
JOIN = JoinGroupRequest(
    group_id="g",
    session_timeout_ms=10_000,
    rebalance_timeout_ms=60_000,
    member_id="m",
    protocol_type="consumer",
    protocols=[PROTOCOL("range", b"\x00\x01")],
    reason="why",
    generation_id=7,
)
BEFORE_TAGS = (
    "0267"  # GroupId "g"
    "00002710 0000ea60"  # session and rebalance timeout
    "026d"  # MemberId "m"
    "00"  # GroupInstanceId null
    "09636f6e73756d6572"  # ProtocolType "consumer"
    "02 0672616e6765 030001 00"  # one protocol: "range", its metadata, no tagged fields
    "04776879"  # Reason "why"
)


@pytest.mark.parametrize("version", [8, 9])
def test_generation_id_is_tagged_field_792_of_join_group(version: int):
    """KIP-792 as a tagged field: 0x98 0x06 is 792 as a varint, then size 4, then the generation."""
    frame = bytes.fromhex(BEFORE_TAGS + "01 9806 04 00000007")
    assert CODEC.encoder("JoinGroupRequest", version)(JOIN) == frame
    assert CODEC.decoder("JoinGroupRequest", version)(frame, 0) == (JOIN, len(frame))


def test_join_group_without_the_tagged_field_has_generation_minus_one():
    """What every client of today sends, and what it looks like: nothing is added to the frame."""
    frame = bytes.fromhex(BEFORE_TAGS + "00")
    request = CODEC.decoder("JoinGroupRequest", 8)(frame, 0)[0]
    assert request.generation_id == -1
    assert CODEC.encoder("JoinGroupRequest", 8)(request) == frame


@pytest.mark.parametrize("version", [6, 7])
def test_every_flexible_version_of_join_group_has_the_tagged_generation(version: int):
    """Versions 6 and 7 have no reason, and the same tag."""
    frame = bytes.fromhex(BEFORE_TAGS.removesuffix("04776879") + "01 9806 04 00000007")
    assert CODEC.encoder("JoinGroupRequest", version)(JOIN) == frame
    request, end = CODEC.decoder("JoinGroupRequest", version)(frame, 0)
    assert (request.generation_id, request.reason, end) == (7, None, len(frame))


def test_join_group_before_version_6_drops_the_generation():
    """The field is ignorable: a version without tagged fields is sent without it."""
    old = CODEC.decoder("JoinGroupRequest", 5)(CODEC.encoder("JoinGroupRequest", 5)(JOIN), 0)[0]
    assert (old.generation_id, old.reason) == (-1, None)


def test_kip_792_dialect_has_the_generation_as_a_plain_field_behind_the_group_id():
    """The KIP's own version 8 has the same class, so handlers see no difference."""
    dialect = Codec.of("kip-792")
    frame = bytes.fromhex("0267 00000007" + BEFORE_TAGS.removeprefix("0267") + "00")
    assert dialect.encoder("JoinGroupRequest", 8)(JOIN) == frame
    assert dialect.decoder("JoinGroupRequest", 8)(frame, 0) == (JOIN, len(frame))


def test_kip_792_dialect_is_kafka_elsewhere():
    """JoinGroup up to version 7 and every other message are unchanged; version 9 came later and is not supported."""
    dialect = Codec.of("kip-792")
    old = JoinGroupRequest("g", 1, 2, "m", None, "consumer", [])
    for version in range(8):
        assert dialect.encoder("JoinGroupRequest", version)(old) == CODEC.encoder("JoinGroupRequest", version)(old)
    assert dialect.versions("JoinGroupRequest").highest == 8
    beat = HeartbeatRequest("g", 1, "m")
    assert dialect.encoder("HeartbeatRequest", 4)(beat) == CODEC.encoder("HeartbeatRequest", 4)(beat)


def test_kip_792_dialect_refuses_to_lose_a_generation():
    """The KIP's field is not ignorable: a version without it cannot carry a generation."""
    with pytest.raises(EncodeError, match="generation_id is set"):
        Codec.of("kip-792").encoder("JoinGroupRequest", 7)(JOIN)


def test_revocation_epoch_is_tagged_field_19779():
    """KAFKA-19779 in a log record: 0xc3 0x9a 0x01 is 19779 as a varint."""
    value = ConsumerGroupCurrentMemberAssignmentValue(member_epoch=5, previous_member_epoch=4, revocation_epoch=3)
    encoded = CODEC.encoder("ConsumerGroupCurrentMemberAssignmentValue", 0)(value)
    assert encoded == bytes.fromhex("00000005 00000004 00 01 01 01 c39a01 04 00000003")


@pytest.mark.parametrize("data", ["01 05 03 aabbcc", "02 05 00 9806 01 ff"])
def test_unknown_tagged_fields_are_skipped(data: str):
    """A newer client may send more than we know."""
    frame = bytes.fromhex("0267 00000001 026d 00" + data)
    assert CODEC.decoder("HeartbeatRequest", 4)(frame, 0) == (HeartbeatRequest("g", 1, "m"), len(frame))


def test_a_tagged_field_must_fill_its_size():
    """A known tag whose value is shorter or longer than announced would shift everything behind it."""
    for tag in ("01 9806 05 00000007 00", "01 9806 03 000007"):
        with pytest.raises(DecodeError):
            CODEC.decoder("JoinGroupRequest", 8)(bytes.fromhex(BEFORE_TAGS + tag), 0)


def test_a_bare_null_default_is_not_null():
    """It means empty: null is written out, and a record without the tag has the empty value."""
    encode = CODEC.encoder("ConsumerGroupMemberMetadataValue", 0)
    decode = CODEC.decoder("ConsumerGroupMemberMetadataValue", 0)
    fields = "01 01 01 01 01 01 ffffffff 01"
    null = ConsumerGroupMemberMetadataValue(classic_member_metadata=None)
    null_frame = bytes.fromhex(fields + "01 00 01 00")
    assert encode(null) == null_frame
    assert decode(null_frame, 0)[0].classic_member_metadata is None
    absent_frame = bytes.fromhex(fields + "00")
    empty = ConsumerGroupMemberMetadataValue.ClassicMemberMetadata(0, [])
    assert decode(absent_frame, 0)[0].classic_member_metadata == empty
    assert encode(ConsumerGroupMemberMetadataValue(classic_member_metadata=empty)) == absent_frame


def test_a_nullable_structure_is_marked_by_varint_if_tagged_by_int8_if_not():
    """Two markers for the same thing: 1 and 0 in a tagged field, 1 and -1 elsewhere."""
    classic = ConsumerGroupMemberMetadataValue.ClassicMemberMetadata(5, [])
    tagged = CODEC.encoder("ConsumerGroupMemberMetadataValue", 0)(
        ConsumerGroupMemberMetadataValue(classic_member_metadata=classic)
    )
    assert tagged.endswith(bytes.fromhex("01 00 07 01 00000005 01 00"))
    untagged = CODEC.encoder("DescribeTopicPartitionsRequest", 0)
    assert untagged(DescribeTopicPartitionsRequest()) == bytes.fromhex("01 000007d0 ff 00")
    cursor = DescribeTopicPartitionsRequest.Cursor("t", 1)
    assert untagged(DescribeTopicPartitionsRequest(cursor=cursor)) == bytes.fromhex(
        "01 000007d0 01 0274 00000001 00 00"
    )
    assert CODEC.encoder("ConsumerGroupHeartbeatResponse", 0)(ConsumerGroupHeartbeatResponse()).endswith(b"\xff\x00")


def test_a_value_without_a_field_in_the_version_is_refused():
    """OffsetFetch has no groups before v8, and dropping them would change the request."""
    request = OffsetFetchRequest(groups=[OffsetFetchRequest.OffsetFetchRequestGroup("g", topics=None)])
    with pytest.raises(EncodeError, match="groups is set, and OffsetFetchRequest has no such field in version 7"):
        CODEC.encoder("OffsetFetchRequest", 7)(request)


@pytest.mark.parametrize(
    "response", [HeartbeatResponse(error_code=40_000), HeartbeatResponse(error_code=None), HeartbeatResponse("x")]
)
def test_a_value_that_does_not_fit_is_an_encode_error(response: HeartbeatResponse):
    """Never a struct.error: the message and version are named."""
    with pytest.raises(EncodeError, match="HeartbeatResponse v4"):
        CODEC.encoder("HeartbeatResponse", 4)(response)


def test_generated_source_is_in_tracebacks():
    """A failure inside a generated function shows its line, in a file named after the definition."""
    import traceback

    try:
        CODEC.decoder("HeartbeatRequest", 4)(b"\x02g", 0)
    except DecodeError as error:
        frames = traceback.extract_tb(error.__cause__.__traceback__)
    assert frames[-1].filename == "protocol_schemas/HeartbeatRequest.json/v4/decode.py"
    assert frames[-1].line in CODEC.source("HeartbeatRequest", 4)
