"""Logs are spread evenly, with few moves, and by every worker in the same way."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from coordinator.cluster.engine.engine import Worker
from coordinator.cluster.workers.assignment import assign

LOGS = [f"__consumer_offsets-{index}" for index in range(50)]


def workers_of(node_ids):
    return [Worker(f"id-{node_id}", node_id, "localhost", node_id) for node_id in node_ids]


node_ids = st.lists(st.integers(1, 30), min_size=1, max_size=8, unique=True)
owned = st.dictionaries(st.sampled_from(LOGS), st.integers(1, 30).map("id-{}".format))


@given(node_ids, owned)
def test_every_log_has_a_living_worker_and_no_worker_has_two_more_than_another(living, owners):
    counts = Counter(assign(LOGS, owners, workers_of(living)).values())
    shares = [counts[worker.id] for worker in workers_of(living)]
    assert sum(shares) == len(LOGS)
    assert max(shares) - min(shares) <= 1


@given(node_ids, owned, st.randoms())
def test_the_order_of_the_list_does_not_matter(living, owners, random):
    shuffled = random.sample(living, len(living))
    assert assign(LOGS, owners, workers_of(living)) == assign(LOGS, owners, workers_of(shuffled))


@given(node_ids, owned)
def test_an_even_spread_stays(living, owners):
    once = assign(LOGS, owners, workers_of(living))
    assert assign(LOGS, once, workers_of(living)) == once


@given(node_ids, owned)
def test_nothing_moves_from_a_worker_that_has_not_more_than_its_share(living, owners):
    wanted = assign(LOGS, owners, workers_of(living))
    share = len(LOGS) // len(living)
    held = Counter(owners.values())
    for log, worker_id in owners.items():
        if worker_id in {worker.id for worker in workers_of(living)} and held[worker_id] <= share:
            assert wanted[log] == worker_id


@given(node_ids, owned)
def test_only_the_logs_of_a_dead_worker_move(living, owners):
    before = assign(LOGS, owners, workers_of(living))
    survivors = workers_of(living)[1:]
    after = assign(LOGS, before, survivors)
    for log, worker_id in before.items():
        if survivors and worker_id != workers_of(living)[0].id:
            assert after[log] == worker_id


def test_without_workers_nobody_has_a_log():
    assert assign(LOGS, {}, []) == {}
