"""A template recognizes messages like its samples, reads their variable fields, and writes such messages with other values."""

from struct import pack

from hypothesis import given
from hypothesis import strategies as st

from coordinator.fastpath.byte_template import FillTemplate, MatchTemplate

CODES = {8: "q", 12: "qi"}
longs = st.integers(-(2**63), 2**63 - 1)
ints = st.integers(-(2**31), 2**31 - 1)


def message(first, middle, last, *, head=b"head", inner=b"-", tail=b""):
    return head + pack(">q", first) + inner + pack(">qi", *middle) + inner + pack(">q", last) + tail


def inverted(first, middle, last, **constant):
    return message(~first, [~each for each in middle], ~last, **constant)


triples = st.tuples(longs, st.tuples(longs, ints), longs)


@given(triples, triples, st.binary(max_size=9), st.binary(min_size=1, max_size=9))
def test_what_is_written_is_read_and_is_the_ordinary_bytes(sample, others, tail, inner):
    constant = {"tail": tail, "inner": inner}
    samples = message(*sample, **constant), inverted(*sample, **constant)
    reads, writes = MatchTemplate(*samples, CODES), FillTemplate(*samples, CODES)
    first, (middle, epoch), last = others
    wanted = message(*others, **constant)
    assert len(wanted) == reads.size_bytes
    assert reads.match(wanted).values == (first, middle, epoch, last)
    for field, value in zip(writes.fields, (first, middle, epoch, last), strict=True):
        writes.parts[field] = value
    assert writes.pack(*writes.parts) == wanted


@given(triples, triples, st.data())
def test_a_message_that_differs_outside_the_variable_fields_does_not_match(sample, others, data):
    constant = {"head": b"head", "tail": b"tail"}
    template = MatchTemplate(message(*sample, **constant), inverted(*sample, **constant), CODES)
    other = bytearray(message(*others, **constant))
    fixed = [place for place in range(len(other)) if not (4 <= place < 12 or 13 <= place < 25 or 26 <= place < 34)]
    place = data.draw(st.sampled_from(fixed))
    other[place] ^= data.draw(st.integers(1, 255))
    assert template.match(bytes(other)) is None
