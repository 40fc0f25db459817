"""ListTransactions' filters; tests/scenarios/txn_list.txt asks a live Kafka."""

import pytest

from coordinator.transactions.listing import matching, parse_filters
from tests.transactions.transactions_world import World


@pytest.fixture
def world():
    """Two ids with a transaction each, of which the second one began 10 ms later and has ended."""
    world = World()
    first, second = (world.init(transactional_id=name) for name in ("open", "ended"))
    world.add(first, ("t", 0), transactional_id="open")
    world.now_ms += 10
    world.add(second, ("t", 0), transactional_id="ended")
    world.end(second, transactional_id="ended")
    world.finish()
    world.init(transactional_id="new")
    return world


@pytest.mark.parametrize(
    ("states", "producers", "open_ms_min", "found"),
    [
        ([], [], -1, {"open", "ended", "new"}),
        (["Ongoing"], [], -1, {"open"}),
        (["Ongoing", "Empty"], [], -1, {"open", "new"}),
        (["Nothing"], [], -1, set()),
        ([], [1001], -1, {"ended"}),
        (["Ongoing"], [1001], -1, set()),
        ([], [], 0, {"open", "new"}),
        ([], [], 9, {"open", "new"}),
        ([], [], 10, {"new"}),
    ],
)
def test_an_id_is_listed_if_it_passes_every_filter(world, states, producers, open_ms_min, found):
    """An id without a transaction counts as begun before all time."""
    filters, _ = parse_filters(states, producers, open_ms_min)
    assert {each.transactional_id for each in matching(world.state, filters, world.now_ms)} == found


def test_names_that_are_no_states_are_returned_once():
    assert parse_filters(["Nothing", "Ongoing", "ongoing", "Nothing"], [], -1)[1] == ["Nothing", "ongoing"]
