"""Request headers are read as they are defined."""

from random import Random

import pytest

from coordinator.protocol.codec import Codec, DecodeError
from coordinator.protocol.header import decode_request_header
from coordinator.protocol.messages import RequestHeader

CODEC = Codec.of()


@pytest.mark.parametrize("client_id", ["", "rpc", "ß" * 200, None])
def test_every_api_and_version_is_read_as_defined(client_id: str | None):
    """Header v2 where the request is flexible, else v1: hand-written and generated code agree."""
    for api_key, name in CODEC.schemas.request_names.items():
        for version in CODEC.versions(name):
            header = RequestHeader(api_key, version, 77, client_id)
            data = CODEC.encoder("RequestHeader", 2 if CODEC.is_flexible(name, version) else 1)(header)
            expected = (api_key, version, 77, client_id, len(data))
            assert decode_request_header(data + b"body") == expected


def test_tagged_fields_of_a_header_are_skipped():
    """The body follows them."""
    assert decode_request_header(bytes.fromhex("000c 0004 00000001 0001 61 01 05 02 aabb 99")) == (12, 4, 1, "a", 16)


def test_an_unknown_version_of_api_versions_is_read():
    """It gets a response, which needs the correlation id: 32767 is read as flexible, -1 as not."""
    assert decode_request_header(bytes.fromhex("0012 7fff 00000005 ffff 00"))[:3] == (18, 32767, 5)
    assert decode_request_header(bytes.fromhex("0012 ffff 00000005 ffff"))[:3] == (18, -1, 5)


def test_an_unknown_api_is_read_without_tagged_fields():
    """The caller refuses it."""
    assert decode_request_header(bytes.fromhex("2710 0000 00000005 0001 61")) == (10_000, 0, 5, "a", 11)


@pytest.mark.parametrize("size", [0, 1, 3, 8, 9, 10, 11])
def test_a_short_header_is_refused(size: int):
    """Frames of 0 or 3 bytes are not requests."""
    with pytest.raises(DecodeError, match="header is truncated"):
        decode_request_header(bytes.fromhex("000c 0004 00000001 0002 6162 00")[:size][:11] if size else b"")


def test_random_bytes_give_a_header_or_decode_error():
    """Any input gives one or the other."""
    random = Random(1)
    for _ in range(3000):
        data = random.randbytes(random.randrange(24))
        try:
            end = decode_request_header(data)[4]
        except DecodeError:
            continue
        assert end <= len(data)
