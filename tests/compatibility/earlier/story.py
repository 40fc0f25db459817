"""What a user of a client library does with a broker, for any library: prints a JSON line for each outcome.

`play(library)` runs the story. A library is a class of its own for each client, whose methods do what they say and raise what
the client raises; what the client cannot do is None. The Java program EarlierClient plays it as well. It runs on Python 3.8.
"""

import json
import queue
import sys
import threading
import time

PARTITIONS = 4
WITHIN_S = 60


class Member:
    """A member in a thread of its own, as a client library wants it."""

    def __init__(self, library, name, instance=None):
        self.owned, self.values, self.rebalances = set(), set(), 0
        self._commands = queue.Queue()
        self._done = queue.Queue()
        self._consumer = library.member(name, instance, self)
        self._poll = library.poll
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def assigned(self, partitions):
        self.rebalances += 1
        self.owned |= set(partitions)

    def revoked(self, partitions):
        self.owned -= set(partitions)

    def do(self, action):
        """Runs `action(consumer)` in the member's thread and returns what it returns, or raises what it raises."""
        self._commands.put(action)
        result, error = self._done.get(timeout=WITHIN_S)
        if error is not None:
            raise error
        return result

    def leave(self):
        self.do(lambda consumer: consumer.close())
        self._commands.put(None)
        self._thread.join(WITHIN_S)

    def _run(self):
        is_open = True
        while True:
            if is_open:
                self.values.update(self._poll(self._consumer))
            try:
                action = self._commands.get(timeout=0.01)
            except queue.Empty:
                continue
            if action is None:
                return
            try:
                self._done.put((action(self._consumer), None))
            except Exception as error:  # the story shows it
                self._done.put((None, error))
            is_open = "close" not in action.__code__.co_names


def wait_for(condition):
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    raise TimeoutError("in vain")


def say(what, outcome):
    try:
        said = outcome()
    except Exception as error:
        said = describe(error)
    print(json.dumps([what, said]), flush=True)


def describe(error):
    """The name of an error: of librdkafka's code, or of the exception's class."""
    given = error.args[0] if error.args else None
    return given.name() if hasattr(given, "name") else type(error).__name__


def play(library):
    say("topic", lambda: library.make_topic(PARTITIONS))
    say("produced", lambda: library.produce([(n % PARTITIONS, f"v{n}") for n in range(40)], "none"))
    one = Member(library, "one")
    say("alone", lambda: wait_for(lambda: len(one.owned) == PARTITIONS) and sorted(one.owned))
    say("read", lambda: wait_for(lambda: len(one.values) == 40) and len(one.values))
    say("committed", lambda: one.do(library.commit) or one.do(library.committed))
    two = Member(library, "two", "static" if library.has_static_members else None)
    say("shared", lambda: wait_for(lambda: len(one.owned) == len(two.owned) == 2) and sorted(one.owned | two.owned))
    say("described", library.describe)
    say("outsider commits", library.commit_of_an_outsider)
    if library.delete_group is not None:
        say("deleted in use", library.delete_group)
    if library.has_static_members:
        rebalances, had = one.rebalances, set(two.owned)
        two.leave()
        two = Member(library, "two", "static")
        say("static member returned", lambda: wait_for(lambda: two.owned == had) and one.rebalances - rebalances)
    read = one.values | two.values
    say("compressed", lambda: library.produce([(n % PARTITIONS, f"z{n}") for n in range(20)], "gzip"))
    say("read compressed", lambda: wait_for(lambda: len((one.values | two.values) - read) == 20))
    for member in (one, two):
        say("last commit", lambda member=member: member.do(library.commit))
        member.leave()
    if library.transactions is not None:
        library.transactions(say)
    say("offsets", library.offsets)
    say("listed", library.is_listed)
    sys.stdout.flush()
