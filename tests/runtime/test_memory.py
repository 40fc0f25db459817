"""A request may begin while less than the limit is held; waiting ones are called in order when there is room."""

from coordinator.runtime.memory import Memory


def made(limit_bytes):
    soon = []
    return Memory(limit_bytes, soon.append), soon


def test_there_is_room_below_the_limit_and_none_at_it():
    memory, _ = made(100)
    memory.take(99)
    assert memory.has_room()
    memory.take(1)
    assert not memory.has_room()
    memory.give_back(1)
    assert memory.has_room()


def test_waiting_callbacks_are_called_once_in_order_and_only_while_there_is_room():
    memory, soon = made(100)
    memory.take(100)
    called = []

    def first():
        called.append(1)
        memory.take(100)

    def second():
        called.append(2)

    memory.wait(first)
    memory.wait(second)
    memory.wait(first)
    assert memory.waiting == 2
    memory.give_back(60)
    memory.give_back(40)
    assert len(soon) == 1, "in a later turn, once"
    soon.pop()()
    assert called == [1]
    memory.give_back(100)
    soon.pop()()
    assert called == [1, 2]
    assert memory.waiting == 0


def test_a_callback_that_was_removed_is_not_called():
    memory, soon = made(1)
    memory.take(1)
    memory.wait(soon.clear)
    memory.forget(soon.clear)
    memory.forget(soon.clear)
    memory.give_back(1)
    assert not soon
