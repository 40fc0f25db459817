"""The last batch that the journal and the segments both have decides whether they agree."""

import pytest

from coordinator.log.batch import DELETE_HORIZON, read_header
from coordinator.log.journal_overlap import conflict_reason, find_conflict
from tests.log.log_helpers import make_batch


def header(base_offset, records=3):
    return read_header(make_batch(base_offset, [(b"key", b"value %d" % each) for each in range(records)]), 0)


def conflict(journaled, segments, *, first_offset=0, active_offset=0):
    """`journaled`, `segments`: headers by offset."""
    return find_conflict(
        reversed(journaled),
        first_offset,
        active_offset,
        lambda offset: next((each for each in segments if each.next_offset > offset), None),
    )


ONE, TWO, THREE = header(0), header(3), header(6)
OTHER = TWO._replace(crc=TWO.crc ^ 1)


def test_segments_that_end_before_the_journal_begins_agree_with_it():
    assert conflict([ONE, TWO], []) is None
    assert conflict([TWO, THREE], [ONE]) is None


def test_the_last_batch_that_both_have_decides():
    assert conflict([ONE, TWO, THREE], [ONE, TWO]) is None
    assert conflict([ONE, TWO, THREE], [ONE, OTHER]) is TWO
    assert conflict([ONE, OTHER, THREE], [ONE, TWO, THREE]) is None
    assert conflict_reason(TWO) == "the journal has another batch at offset 3: another server has written here"


def test_batches_before_the_first_segment_are_not_missed():
    assert conflict([OTHER], [THREE], first_offset=4) is None
    assert conflict([OTHER], [TWO], first_offset=3) is OTHER


@pytest.mark.parametrize(
    ("left", "agrees"),
    [
        (TWO._replace(record_count=2, crc=1), True),
        (TWO._replace(attributes=DELETE_HORIZON, crc=1), True),
        (TWO._replace(record_count=2, crc=1, producer_id=7), False),
        (TWO._replace(record_count=2, crc=1, last_offset_delta=1), False),
        (OTHER, False),
        (TWO._replace(record_count=4, crc=1), False),
    ],
)
def test_compaction_may_reduce_a_batch_of_a_closed_segment(left, agrees):
    assert conflict([TWO], [ONE, left, THREE], active_offset=6) is (None if agrees else TWO)
    assert conflict([TWO], [ONE, left], active_offset=3) is TWO


def test_compaction_may_drop_a_batch_of_a_closed_segment():
    assert conflict([ONE, TWO], [ONE, THREE], active_offset=6) is None
    assert conflict([OTHER, TWO], [THREE], active_offset=6) is None
    assert conflict([TWO], [THREE], active_offset=3) is TWO
    assert conflict([TWO], [header(5)], active_offset=6) is TWO
