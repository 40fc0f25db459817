"""The simple assignor of share groups: every partition has a reader, members have equally many, and little moves."""

import random
from collections import Counter

from coordinator.groups.assignors.simple import assign

TOPICS = [bytes([number] * 16) for number in range(3)]


def groups():
    """Random groups: subscriptions by member, partitions by topic, and a target from before, which may be of no use."""
    for seed in range(300):
        rng = random.Random(seed)
        partitions = {topic_id: frozenset(range(rng.randrange(8))) for topic_id in TOPICS}
        shared = rng.sample(TOPICS, rng.randint(1, 3)) if rng.random() < 0.5 else None
        topics = {
            f"m{number}": frozenset(shared or rng.sample(TOPICS, rng.randint(1, 3)))
            for number in range(rng.randint(1, 9))
        }
        before = {
            member_id: {topic_id: frozenset(rng.choices(range(10), k=3)) for topic_id in rng.sample(TOPICS, 2)}
            for member_id in [*topics, "gone"]
            if rng.random() < 0.5
        }
        yield topics, partitions, before


def test_every_partition_has_as_many_readers_as_its_share_and_members_equally_many():
    for topics, partitions, before in groups():
        target = assign(topics, partitions, before)
        assert target.keys() == topics.keys()
        readers = Counter(
            (topic_id, number) for part in target.values() for topic_id, numbers in part.items() for number in numbers
        )
        assert readers.keys() <= {(each, number) for each, numbers in partitions.items() for number in numbers}
        for member_id, part in target.items():
            assert part.keys() <= topics[member_id]
            assert all(part.values())
        same = len(set(topics.values())) == 1
        for pool in [sorted(set().union(*topics.values()))] if same else [[each] for each in TOPICS]:
            subscribers = [member_id for member_id in topics if topics[member_id] & set(pool)]
            pooled = [(each, number) for each in pool for number in partitions[each]]
            if not subscribers or not pooled:
                continue
            sharing = -(-len(subscribers) // len(pooled))
            assert all(1 <= readers[each] <= sharing for each in pooled)
            counts = [sum(len(target[each].get(topic_id, ())) for topic_id in pool) for each in subscribers]
            assert max(counts) <= -(-sharing * len(pooled) // len(subscribers))
            assert min(counts) >= 1 or len(pooled) < len(subscribers)


def test_an_assignment_is_kept_in_whatever_order_members_are_listed():
    for topics, partitions, before in groups():
        target = assign(topics, partitions, before)
        assert assign(topics, partitions, target) == target
        assert assign(dict(reversed(topics.items())), partitions, before) == target


def test_a_newcomer_takes_from_who_has_most():
    all_four = {TOPICS[0]: frozenset(range(4))}
    target = assign({"a": {TOPICS[0]}, "b": {TOPICS[0]}}, all_four, {"a": all_four})
    assert {member_id: len(part[TOPICS[0]]) for member_id, part in target.items()} == {"a": 2, "b": 2}
