"""Share partitions on a simulated data plane, with a share coordinator that answers when its loop runs."""

import asyncio

from coordinator.protocol.errors import ErrorCode
from coordinator.share_state.share_state import ShareState
from coordinator.topics.share.dead_letters import NO_QUEUE
from coordinator.topics.share.fetch import FetchWanted, ShareFetch
from coordinator.topics.share.machine import Acknowledgement, Limits, Wanted
from coordinator.topics.share.manager import GroupShareSettings, ShareManager
from coordinator.topics.share.sessions import PartitionKey, SessionKey
from tests.topics.data_plane import DataPlane

LIMITS = Limits(lock_ms=10_000, delivery_count=5, locks=200, renews=True)


class Loop:
    """As much of an event loop as a future needs."""

    def __init__(self):
        self._ready = []

    def get_debug(self):
        return False

    def call_soon(self, callback, *arguments, context=None):
        self._ready.append((callback, arguments))

    def run(self):
        """Does everything that is due."""
        while self._ready:
            callback, arguments = self._ready.pop(0)
            callback(*arguments)


class States:
    """A share coordinator whose answers come when the loop runs: from `refuses`, or from what was written."""

    def __init__(self, loop):
        self._loop = loop
        self.states = {}
        self.writes = []
        self.refuses = []

    def _answer(self, outcome):
        future = asyncio.Future(loop=self._loop)
        future.set_result(self.refuses.pop(0) if self.refuses else outcome)
        return future

    def read(self, key, leader_epoch):
        return self._answer(self.states.get(key, ShareState(0, 0, 0, [])))

    def write(self, key, state_epoch, leader_epoch, start_offset, delivery_complete_count, batches):
        self.writes.append((start_offset, delivery_complete_count, [tuple(map(int, each)) for each in batches]))
        return self._answer(ErrorCode.NONE)


class Connection:
    on_lost = None


class World:
    """A data plane with topic t, a share coordinator and the group's settings."""

    def __init__(self, partitions=2, **settings):
        self.loop = Loop()
        self.plane = DataPlane(**settings.get("config", {}))
        self.plane.create("t", partitions)
        self.states = States(self.loop)
        self.settings = GroupShareSettings(
            settings.get("limits", LIMITS),
            settings.get("committed", False),
            lambda _: settings.get("start", 0),
            settings.get("queue", NO_QUEUE),
        )
        self.manager = ShareManager(
            self.plane.topics,
            self.states,
            lambda future, then: future.add_done_callback(lambda done: then(done.result())),
            lambda _group_id: self.settings,
            self.plane.clock,
            self.plane._schedule,
            settings.get("sessions", 10),
            on_fact=self.plane.facts.append,
        )
        self.id = self.plane.topics.topic_id("t")
        self.connection = Connection()

    def run(self):
        self.loop.run()

    def key(self, index=0):
        return PartitionKey(self.id, index)

    def later(self, *indexes, member="m", wait_ms=500, least=1, most=1_000_000, records=1_000, group="g"):
        """A fetch, and the list that will hold its answer."""
        answers = []

        def run_pieces(pieces):
            for _ in pieces:
                pass

        wanted = FetchWanted(group, Wanted(member, records, 1_000, False), wait_ms, least, most)
        fetch = ShareFetch(self.manager, wanted, [self.key(i) for i in indexes or (0,)], answers.append, run_pieces)
        self.run()
        return fetch, answers

    def fetch(self, *indexes, **options):
        """What a fetch gets that waits at most for the share partition to be loaded."""
        _, answers = self.later(*indexes, **options)
        if not answers:
            self.plane.advance(options.get("wait_ms", 500))
            self.run()
        return shown(answers[0])

    def ack(self, first, last, kind, member="m"):
        """Acknowledges; the name of the error, or None."""
        results = []
        acks = {self.key(): [Acknowledgement(first, last, [kind])]}
        self.manager.acknowledge(SessionKey("g", member), acks, results.append)
        self.run()
        error = results[0][self.key()]
        return error and error.code.name


def shown(answer):
    """[(partition, error's name or acquired records)] of an answer."""
    return [
        (
            key.partition,
            ErrorCode(data.error_code).name
            if data.error_code
            else [(each.first_offset, each.last_offset, each.delivery_count) for each in data.acquired_records],
        )
        for key, data in answer.items()
    ]


def begin(world, member="m", connection=None, group="g"):
    return world.manager.fetch_session(
        SessionKey(group, member), 0, [world.key()], [], connection or world.connection, has_acknowledgements=False
    )
