"""The order of Java's hash maps and priority queues, which decides between equals."""

from hypothesis import given
from hypothesis import strategies as st

from coordinator.protocol.java import PriorityQueue, copied_map_capacity, hash_map_order, timeline_map_order


def test_a_hash_map_lists_its_keys_by_bucket():
    # 'A' is 65: place 1 of 16, and so on; 'P' is 80: place 0.
    assert hash_map_order("PBA") == ["P", "A", "B"]


def test_keys_of_one_bucket_keep_their_order_of_insertion():
    # "A" and "Q" differ by 16.
    assert hash_map_order(["A", "Q"]) == ["A", "Q"]
    assert hash_map_order(["Q", "A"]) == ["Q", "A"]
    assert hash_map_order(["Q", "A"], computed=True) == ["A", "Q"]


def test_a_map_grows_when_it_is_three_quarters_full():
    few, many = list("ABCDEFGHIJKL"), list("ABCDEFGHIJKLM")
    assert hash_map_order([*few[:-1], "Q"])[:2] == ["A", "Q"]
    assert hash_map_order([*many[:-1], "Q"])[-1] == "Q"
    assert hash_map_order("ABCD", capacity=4) == ["A", "B", "C", "D"]
    assert hash_map_order("ABCD", capacity=4, computed=True) == ["D", "A", "B", "C"]


def test_a_copy_of_a_map_has_room_for_a_third_more():
    assert [copied_map_capacity(size) for size in range(8)] == [16, 2, 3, 5, 6, 7, 9, 10]
    # "range" and "uniform" share a bucket of 2 and of 4, and not one of 16.
    assert hash_map_order(["uniform", "range"], copied_map_capacity(2)) == ["uniform", "range"]
    assert hash_map_order(["range", "uniform"], copied_map_capacity(2)) == ["range", "uniform"]
    assert hash_map_order(["range", "uniform"]) == ["uniform", "range"]


def test_a_timeline_map_lists_its_keys_by_slot_and_the_latest_of_a_slot_first():
    assert timeline_map_order(["range", "uniform"]) == timeline_map_order(["uniform", "range"]) == ["uniform", "range"]
    # "Aa" and "BB" have the same hash.
    assert timeline_map_order(["Aa", "BB"]) == ["BB", "Aa"]


def test_of_equals_the_last_leaf_takes_the_place_of_the_first():
    queue = PriorityQueue((0, each) for each in "ABC")
    assert [queue.pop() for _ in "ABC"] == ["A", "C", "B"]


def test_an_item_pushed_again_is_popped_after_its_equals():
    queue = PriorityQueue((0, each) for each in "AB")
    first = queue.pop()
    queue.push(0, first)
    assert queue.pop() == "B"


@given(st.lists(st.integers(0, 5)))
def test_items_are_popped_in_ascending_order(numbers):
    queue = PriorityQueue((number, number) for number in numbers)
    assert [queue.pop() for _ in numbers] == sorted(numbers)
    assert not queue
