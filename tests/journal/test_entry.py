"""An entry of the journal: what was written is read, and nothing else is taken for an entry."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.journal.entry import ALL_BEFORE_DURABLE, HEADER_BYTES, Entry, Part, decode, encode, part_prefix, parts

SALT = b"saltsalt"
PARTS = st.lists(st.builds(Part, st.text(max_size=20), st.binary(max_size=200)), max_size=5)


def body(*contents):
    return [piece for part in contents for piece in (part_prefix(part.log, part.batches), part.batches)]


def entry(*contents, salt=SALT, sequence=7, flags=ALL_BEFORE_DURABLE):
    return encode(salt, sequence, flags, body(*contents))


TWO = entry(Part("groups-0", b"batches of the state"), Part("events-0", b"and their events"))


@given(PARTS, st.integers(0, 2**64 - 1), st.integers(0, 255), st.binary(max_size=30))
def test_what_was_encoded_is_decoded(contents, sequence, flags, before):
    encoded = entry(*contents, sequence=sequence, flags=flags)
    found = decode(before + encoded + b"behind", len(before), SALT)
    assert found is not None
    assert (found.sequence, found.flags, found.size_bytes) == (sequence, flags, len(encoded))
    assert list(parts(found.body)) == contents


@pytest.mark.parametrize("contents", [[], [Part("log", b"12345"), Part("a", b"6"), Part("", b"")]])
@pytest.mark.parametrize(("before", "behind"), [(b"", b""), (b"xyz", b"behind"), (bytes(50), b"")])
def test_an_entry_is_found_to_the_byte_wherever_it_stands(contents, before, behind):
    encoded = entry(*contents, sequence=2**63 + 258, flags=4)
    found = decode(before + encoded + behind, len(before), SALT)
    assert found == Entry(2**63 + 258, 4, b"".join(body(*contents)), len(encoded))
    assert list(parts(found.body)) == contents


@pytest.mark.parametrize(
    ("content", "reason"),
    [(bytes(5), "without its lengths"), (part_prefix("a", b"12") + b"1", "longer than its entry")],
)
def test_a_body_whose_lengths_make_no_sense_is_refused(content, reason):
    with pytest.raises(ValueError, match=reason):
        list(parts(content))


def test_every_flipped_bit_is_noticed():
    for position in range(len(TWO)):
        for bit in range(8):
            flipped = bytearray(TWO)
            flipped[position] ^= 1 << bit
            assert decode(bytes(flipped), 0, SALT) is None


def test_every_truncation_is_noticed_even_if_zeros_or_an_earlier_entry_follow():
    other = entry(Part("groups-0", b"x" * 500))
    for size in range(len(TWO)):
        assert decode(TWO[:size], 0, SALT) is None
        if any(TWO[size:]):
            assert decode(TWO[:size] + bytes(len(TWO)), 0, SALT) is None
        assert decode(TWO[:size] + other[size:], 0, SALT) in (None, decode(other, 0, SALT))


def test_an_entry_with_another_salt_is_none():
    assert decode(entry(Part("groups-0", b"x"), salt=b"pepper.."), 0, SALT) is None


@pytest.mark.parametrize("content", [b"", bytes(100), b"\xff" * 100, TWO[1:]])
def test_other_bytes_are_no_entry(content):
    assert decode(content, 0, SALT) is None


def test_a_length_beyond_the_buffer_is_no_entry():
    assert decode(TWO[:HEADER_BYTES], 0, SALT) is None
    assert decode(TWO, len(TWO), SALT) is None
