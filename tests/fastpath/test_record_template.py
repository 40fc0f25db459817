"""A record template adds the bytes that adding the records one by one would, wherever in a batch they begin."""

from struct import pack

from hypothesis import given
from hypothesis import strategies as st

from coordinator.fastpath.record_template import RecordTemplate
from coordinator.log.batch_builder import DELTAS, NEAR, BatchBuilder

CODES = {8: "q", 12: "qi"}
FIRST_MS, OTHER_MS = 0, 2**63 - 1


def records(keys, offsets, epochs, time_ms):
    return [
        (key, b"\0\4" + pack(">qi", offset, epoch) + b"\1" + pack(">q", time_ms) + key)
        for key, offset, epoch in zip(keys, offsets, epochs, strict=True)
    ]


def template_of(keys):
    zeros = [0] * len(keys)
    ones = [-1] * len(keys)
    samples = records(keys, zeros, zeros, FIRST_MS), records(keys, ones, ones, OTHER_MS)
    return RecordTemplate(lambda: samples, len(keys), CODES)


@given(
    st.lists(st.binary(max_size=80), min_size=1, max_size=12),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-(2**31), 2**31 - 1),
    st.sampled_from([0, 1, NEAR - 13, NEAR, NEAR + 1, 500, len(DELTAS) - 13]) | st.integers(0, len(DELTAS)),
)
def test_the_bytes_are_those_of_single_records(keys, offset, epoch, first):
    offsets, epochs = [offset ^ index for index in range(len(keys))], [epoch ^ index for index in range(len(keys))]
    one_by_one, together = BatchBuilder(first), BatchBuilder(first)
    one_by_one.add_all(records(keys, offsets, epochs, 1_234))
    added = template_of(keys).add_to(together, offsets, epochs, [1_234] * len(keys))
    if added:
        assert together.records() == one_by_one.records()
        assert (together.count, together.size_bytes) == (one_by_one.count, one_by_one.size_bytes)
    else:
        assert (together.count, together.records()) == (first, b"")
        last = first + len(keys) - 1
        assert first < NEAR - 1 <= last + 1 or first == NEAR - 1 or last >= len(DELTAS) - 1


def test_a_template_is_used_many_times():
    template, keys = template_of([b"a", b"bb"]), [b"a", b"bb"]
    one_by_one, together = BatchBuilder(), BatchBuilder()
    for number in range(200):
        offsets, epochs = [number, -number], [number, 0]
        one_by_one.add_all(records(keys, offsets, epochs, number))
        if not template.add_to(together, offsets, epochs, [number] * 2):
            together.add_all(records(keys, offsets, epochs, number))
    assert together.build(5, 6) == one_by_one.build(5, 6)
