"""All codecs are compatible with Kafka's clients in both directions; oversized or invalid data is rejected."""

from random import Random
from struct import pack

import pytest
from aiokafka import codec as aiokafka
from google_crc32c import value as crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.log.batch import RECORDS_MAX, OversizeBatch, decode_records, key_values, read_header
from coordinator.log.codecs import DECOMPRESSED_BYTES_MAX, NAMES, BadCompression, compress, decompress
from coordinator_lab.simulation.disk import SimulatedDisk
from tests.log.log_helpers import append, at_time, open_log

CODECS = range(1, len(NAMES))
TEXT = b"".join(b"key %d and some value %d " % (number, number * 7919 % 65_521) for number in range(10_000))
NOISE = Random(1).randbytes(200_000)
THEIRS = {
    "gzip": (aiokafka.gzip_encode, aiokafka.gzip_decode),
    "snappy": (aiokafka.snappy_encode, aiokafka.snappy_decode),
    "lz4": (aiokafka.lz4_encode, aiokafka.lz4_decode),
    "zstd": (aiokafka.zstd_encode, aiokafka.zstd_decode),
}


@pytest.mark.parametrize("codec", CODECS, ids=NAMES.__getitem__)
@pytest.mark.parametrize(
    "plain", [b"", b"x", TEXT, NOISE, TEXT + NOISE], ids=["nothing", "byte", "text", "noise", "both"]
)
def test_both_directions_and_against_another_client(codec, plain):
    encode, decode = THEIRS[NAMES[codec]]
    made = compress(codec, plain)
    assert decompress(codec, made) == plain
    assert decompress(codec, bytes(encode(plain))) == plain
    if plain:
        assert bytes(decode(made)) == plain
    assert len(made) < len(plain) + 1_000


def test_snappy_without_blocks_is_read_too():
    """librdkafka and franz-go write snappy as one plain block."""
    assert decompress(2, bytes(aiokafka.snappy_encode(TEXT, xerial_compatible=False))) == TEXT


def test_lz4_has_independent_blocks_and_the_checksum_of_its_header():
    """Kafka's Java reader accepts no other LZ4 frames."""
    import xxhash

    made = compress(3, TEXT)
    assert made[:4] == b"\x04\x22\x4d\x18"
    assert made[4] & 0x20
    assert made[6] == xxhash.xxh32(made[4:6]).intdigest() >> 8 & 0xFF


@pytest.mark.parametrize("codec", CODECS, ids=NAMES.__getitem__)
def test_data_up_to_the_limit_is_decompressed_and_one_byte_more_is_rejected(codec):
    most = bytes(DECOMPRESSED_BYTES_MAX)
    assert len(decompress(codec, compress(codec, most))) == len(most)
    with pytest.raises(BadCompression):
        decompress(codec, compress(codec, most + b"\0"))


@pytest.mark.parametrize("codec", CODECS, ids=NAMES.__getitem__)
def test_invalid_data_raises_bad_compression_only(codec):
    chance, whole = Random(codec), compress(codec, TEXT)
    refused = 0
    for _ in range(2_000):
        harmed = bytearray(whole[: chance.randrange(1, len(whole))] if chance.random() < 0.3 else whole)
        for _ in range(chance.randrange(1, 6)):
            harmed[chance.randrange(min(len(harmed), 80) if chance.random() < 0.5 else len(harmed))] = chance.randrange(
                256
            )
        try:
            decompress(codec, bytes(harmed))
        except BadCompression:
            refused += 1
    assert refused > 1_000


@settings(max_examples=200)
@given(content=st.binary(max_size=80), codec=st.sampled_from(CODECS))
def test_any_bytes_decompress_or_raise_bad_compression(content, codec):
    try:
        decompress(codec, content)
    except BadCompression:
        return


@pytest.mark.parametrize("codec", NAMES[1:])
def test_a_batch_of_too_many_records_is_not_decompressed_and_one_of_the_limit_is(codec, monkeypatch):
    """A batch of a hundred kilobytes can have six million records."""
    number = NAMES.index(codec)
    record = b"\x0c\0\0\0\x01\x01\0"

    def sealed(count):
        plain = record * count
        body = pack(">hiqqqhii", number, count - 1, 0, 5, -1, -1, -1, count) + compress(number, plain)
        return pack(">qiibI", 7, len(body) + 9, -1, 2, crc32c(body)) + body

    batch = sealed(RECORDS_MAX)
    assert len(key_values(batch, 0, read_header(batch))) == RECORDS_MAX
    batch = sealed(RECORDS_MAX + 1)
    monkeypatch.setattr("coordinator.log.codecs.decompress", lambda *_: pytest.fail("it was decompressed"))
    for read in (key_values, decode_records):
        with pytest.raises(OversizeBatch):
            read(batch, 0, read_header(batch))
    disk = SimulatedDisk()
    log = open_log(disk)
    for offset in range(7):
        append(log, (b"k", b"v"), timestamp=offset % 2)
    log.append(batch, RECORDS_MAX + 1, 5)
    assert at_time(log, 5).offset == 7
