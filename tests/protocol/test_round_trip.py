"""Every message, every version: what is encoded is decoded again, and generated code does what the declaration says."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.protocol.codec import Codec
from tests.protocol.message_making import EVERY_MESSAGE, SCHEMAS, as_plain, make_message

CODEC = Codec.of()
chance = st.randoms(use_true_random=True)


@pytest.mark.parametrize("name", EVERY_MESSAGE)
@settings(max_examples=4)
@given(random=chance)
def test_decoding_an_encoding_gives_the_message(name: str, random: Random):
    """decode(encode(m)) == m, and decode ends where encode ended."""
    for version in CODEC.versions(name):
        message = make_message(SCHEMAS[name], version, random)
        encoded = CODEC.encoder(name, version)(message)
        assert CODEC.decoder(name, version)(encoded, 0) == (message, len(encoded))
        assert CODEC.decoder(name, version)(b"????" + encoded + b"surplus", 4) == (message, 4 + len(encoded))


@pytest.mark.parametrize("name", EVERY_MESSAGE)
@settings(max_examples=2)
@given(random=chance)
def test_generated_functions_equal_the_declaration(name: str, random: Random):
    """The `construct` declaration builds the same bytes and parses them to the same values."""
    for version in CODEC.versions(name):
        declaration = CODEC.declaration(name, version)
        message = make_message(SCHEMAS[name], version, random)
        encoded = CODEC.encoder(name, version)(message)
        assert declaration.build(as_plain(message)) == encoded
        assert as_plain(declaration.parse(encoded)) == as_plain(message)


@settings(max_examples=20)
@given(random=chance)
def test_the_parts_of_an_encoding_hold_large_values_uncopied(random: Random):
    for version in CODEC.versions("FetchResponse"):
        message = make_message(SCHEMAS["FetchResponse"], version, random)
        parts = CODEC.parts_encoder("FetchResponse", version)(message)
        assert b"".join(parts) == CODEC.encoder("FetchResponse", version)(message)
        for topic in message.responses:
            for partition in topic.partitions:
                assert not partition.records or any(part is partition.records for part in parts)


@pytest.mark.parametrize("name", EVERY_MESSAGE)
def test_a_default_message_survives_the_round_trip_in_every_version(name: str):
    """No version refuses a default, and each decodes to it."""
    message = SCHEMAS[name]
    from coordinator.protocol.messages import message_class

    for version in message.versions:
        fresh = message_class(name)()
        encoded = CODEC.encoder(name, version)(fresh)
        assert CODEC.decoder(name, version)(encoded, 0) == (fresh, len(encoded))


def test_defaults_are_not_shared_between_messages():
    """Changing one message's empty list leaves the next one's empty."""
    from coordinator.protocol.messages import ConsumerGroupMemberMetadataValue, JoinGroupRequest

    JoinGroupRequest().protocols.append("changed")
    assert JoinGroupRequest().protocols == []
    ConsumerGroupMemberMetadataValue().classic_member_metadata.session_timeout_ms = 5
    assert ConsumerGroupMemberMetadataValue().classic_member_metadata.session_timeout_ms == 0
