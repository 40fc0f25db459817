"""The simple assignor of share groups: every partition has a reader, members have equally many, and little moves."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from coordinator.groups.assignors.simple import assign

TOPICS = {bytes([number] * 16): number for number in range(3)}


@st.composite
def groups(draw):
    """Subscriptions by member, partitions by topic, and a target from before."""
    partitions = {topic_id: frozenset(range(draw(st.integers(0, 7)))) for topic_id in TOPICS}
    same = draw(st.booleans())
    some = st.sets(st.sampled_from(sorted(TOPICS)), min_size=1)
    shared = draw(some)
    topics = {f"m{number}": frozenset(shared if same else draw(some)) for number in range(draw(st.integers(1, 9)))}
    before = {
        member_id: {
            topic_id: frozenset(draw(st.sets(st.integers(0, 9), min_size=1)))
            for topic_id in draw(st.sets(st.sampled_from(sorted(TOPICS))))
        }
        for member_id in draw(st.sets(st.sampled_from([*sorted(topics), "gone"])))
    }
    return topics, partitions, before


@given(groups())
def test_every_partition_has_as_many_readers_as_its_share_and_members_equally_many(case):
    topics, partitions, before = case
    target = assign(topics, partitions, before)
    assert target.keys() == topics.keys()
    readers = Counter(
        (topic_id, number) for part in target.values() for topic_id, numbers in part.items() for number in numbers
    )
    for member_id, part in target.items():
        assert part.keys() <= topics[member_id]
        assert all(part.values())
    assert readers.keys() <= {(each, number) for each, numbers in partitions.items() for number in numbers}
    same = len(set(topics.values())) == 1
    pools = [sorted(set().union(*topics.values()))] if same else [[each] for each in TOPICS]
    for pool in pools:
        subscribers = [member_id for member_id in topics if topics[member_id] & set(pool)]
        pooled = [(each, number) for each in pool for number in partitions[each]]
        if not subscribers or not pooled:
            continue
        sharing = -(-len(subscribers) // len(pooled))
        assert all(1 <= readers[each] <= sharing for each in pooled)
        counts = [sum(len(target[each].get(topic_id, ())) for topic_id in pool) for each in subscribers]
        assert max(counts) <= -(-sharing * len(pooled) // len(subscribers))
        assert min(counts) >= 1 or len(pooled) < len(subscribers)


@given(groups())
def test_an_assignment_is_kept(case):
    topics, partitions, before = case
    target = assign(topics, partitions, before)
    assert assign(topics, partitions, target) == target
    assert assign(dict(reversed(topics.items())), partitions, before) == target


def test_a_newcomer_takes_from_who_has_most():
    topic_id = next(iter(TOPICS))
    all_four = {topic_id: frozenset(range(4))}
    target = assign({"a": {topic_id}, "b": {topic_id}}, all_four, {"a": all_four})
    assert {member_id: len(part[topic_id]) for member_id, part in target.items()} == {"a": 2, "b": 2}
