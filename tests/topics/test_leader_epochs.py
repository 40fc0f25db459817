"""Where leader epochs end, as Kafka's LeaderEpochFileCache.endOffsetFor says it."""

import pytest

from coordinator.protocol.errors import ErrorCode
from coordinator.topics.leader_epochs import LeaderEpochs


@pytest.fixture
def epochs() -> LeaderEpochs:
    """Epoch 0 begins at 0, epoch 2 at 10, epoch 5 at 20."""
    found = LeaderEpochs()
    found.begin(2, 10)
    found.begin(5, 20)
    return found


@pytest.mark.parametrize(
    ("epoch", "end"),
    [
        (-2, (-2, 3)),
        (-1, (-1, -1)),
        (0, (0, 10)),
        (1, (0, 10)),
        (2, (2, 20)),
        (4, (2, 20)),
        (5, (5, 30)),
        (6, (-1, -1)),
    ],
)
def test_an_epoch_ends_where_the_next_one_begins(epochs: LeaderEpochs, epoch: int, end: tuple[int, int]) -> None:
    assert epochs.end_of(epoch, 3, 30) == end


def test_an_epoch_without_records_leaves_no_trace(epochs: LeaderEpochs) -> None:
    epochs.begin(6, 20)
    assert epochs.current == 6
    assert epochs.end_of(5, 0, 30) == (2, 20)


def test_an_offset_has_the_epoch_in_which_it_was_written(epochs: LeaderEpochs) -> None:
    assert [epochs.at(offset) for offset in (0, 9, 10, 19, 20, 99)] == [0, 0, 2, 2, 5, 5]


def test_a_client_with_an_older_epoch_is_fenced_and_one_with_a_newer_one_unknown(epochs: LeaderEpochs) -> None:
    known = {-1: ErrorCode.NONE, 5: ErrorCode.NONE, 2: ErrorCode.FENCED_LEADER_EPOCH, 6: ErrorCode.UNKNOWN_LEADER_EPOCH}
    assert {epoch: epochs.check(epoch) for epoch in known} == known
