"""Random histories of producers, lost answers, repeated requests, time-outs, reloads and crashes at every record.

The model knows nothing of epochs or states. It keeps what a person may hold the coordinator to:

- all writes of one transaction end the same way, in every partition, or are still open;
- a commit that was answered is a commit, an abort that was answered is an abort, for ever;
- a commit that was never asked for does not happen;
- an end that was refused at the first asking is no commit;
- no two producers are given the same producer id and epoch, unless one answer was lost and is repeated;
- what a load gives back is what memory held, up to what the crash took.

Partitions are as simple as they can be: a marker ends what its producer has open, an epoch behind the last marker's is refused.
"""

from dataclasses import dataclass, field

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from coordinator.protocol.errors import ErrorCode
from coordinator.runtime.internal_request import DONE
from coordinator.transactions import timeouts
from coordinator.transactions.complete import Completion, complete
from coordinator.transactions.transaction import EPOCH_EXHAUSTED
from tests.transactions.transactions_world import ID, World, durable_half

PARTITIONS = [("t", 0), ("t", 1), ("__consumer_offsets", 0)]
TIMEOUT_MS = 10_000
FATES = st.sampled_from(["heard", "heard", "lost", "crash"])


@dataclass(eq=False)
class Work:
    """One transaction as its producer sees it."""

    commit_asked: bool = False
    outcomes: set = field(default_factory=set)
    """How its writes ended."""
    answered: str | None = None
    refused: bool = False
    """Its end was refused when it was first asked for."""


@dataclass(eq=False)
class Client:
    """A producer process. `version`: of the protocol of transactions that it speaks."""

    transactional_id: str
    version: int
    producer: tuple | None = None
    work: Work | None = None
    ending: bool | None = None
    """An end whose answer was lost: it is asked for again before anything else."""
    asked_with: tuple | None = None
    """An InitProducerId whose answer was lost."""


def is_free(client):
    return client.ending is None


def has_no_producer(client):
    return client.producer is None and client.ending is None


def may_write(client):
    return client.producer is not None and client.ending is None


def may_write_by_the_older_protocol(client):
    return may_write(client) and client.version < 2


def may_end(client):
    return client.producer is not None and (client.work is not None or client.ending is not None)


class Partition:
    """Open writes by producer id, and the epoch of the last marker."""

    def __init__(self):
        self.open = {}
        self.epochs = {}

    def write(self, producer, work):
        if producer[1] < self.epochs.get(producer[0], -1):
            return False
        self.open.setdefault(producer[0], []).append(work)
        return True

    def mark(self, marker):
        if marker.producer_epoch < self.epochs.get(marker.producer_id, -1):
            return
        self.epochs[marker.producer_id] = marker.producer_epoch
        for work in self.open.pop(marker.producer_id, []):
            work.outcomes.add("commit" if marker.commit else "abort")


class Histories(RuleBasedStateMachine):
    @initialize(version=st.sampled_from([0, 1, 2]), epoch=st.sampled_from([None, EPOCH_EXHAUSTED - 3]))
    def start(self, version, epoch):
        self.world = World(transaction_version=version)
        self.partitions = {name: Partition() for name in PARTITIONS}
        self.works = []
        self.taken_over = 0
        self.given = {}
        """(producer id, epoch) -> the client that was given it."""
        self.under_way = {}
        self.delayed = []
        """Batches of ended transactions of version 2 that are still on their way: (producer, partition)."""
        self.clients = [Client(ID, min(speaks, version)) for speaks in (1, 2)]
        if epoch is not None:
            self.world.init()
            self.world.sync()
            self.world.put(epoch=epoch)

    # --- answers and their fate ---------------------------------------------------------------------------------------

    def heard(self, ask, fate, data):
        """The answer, or None if it was lost; what was decided is durable, or a crash took some of it."""
        answer = ask()
        if fate == "crash":
            self.crash(data.draw(st.integers(self.world.durable, len(self.world.log))), forgets=True)
            return None
        self.sync()
        return answer if fate == "heard" else None

    def sync(self):
        self.world.sync()
        self.begin_deliveries()

    def begin_deliveries(self):
        for name, marker, left in self.world.deliveries:  # as MarkerDelivery: a delivery under way is not started again
            self.under_way.setdefault(Completion(name, *marker[:2], marker.coordinator_epoch), (marker, left))
        self.world.deliveries.clear()

    def crash(self, kept, forgets):
        """`forgets`: the whole process died; else only the shard was reloaded, and old deliveries continue."""
        whole = kept == len(self.world.log)
        before = durable_half(self.world.state)
        if forgets:
            self.under_way.clear()
        self.world.load(kept)
        if whole:
            assert durable_half(self.world.state) == before
        self.begin_deliveries()

    def some(self, data, fits):
        return data.draw(st.sampled_from([client for client in self.clients if fits(client)]))

    def any_client(self, fits):
        return any(fits(client) for client in getattr(self, "clients", ()))

    # --- what producers do --------------------------------------------------------------------------------------------

    @precondition(lambda self: self.any_client(has_no_producer))
    @rule(names_producer=st.booleans(), fate=FATES, data=st.data())
    def begins(self, names_producer, fate, data):
        self.asks_for_the_id(self.some(data, has_no_producer), names_producer, fate, data)

    @precondition(lambda self: self.any_client(is_free) and len(self.works) > 2 * self.taken_over)
    @rule(names_producer=st.booleans(), fate=FATES, data=st.data())
    def takes_over(self, names_producer, fate, data):
        self.taken_over += 1
        self.asks_for_the_id(self.some(data, is_free), names_producer, fate, data)

    def asks_for_the_id(self, client, names_producer, fate, data):
        named = client.producer if names_producer else None
        repeats = client.asked_with is not None and named == client.asked_with
        answer = self.heard(
            lambda: self.world.init(named, transactional_id=client.transactional_id, timeout_ms=TIMEOUT_MS), fate, data
        )
        if answer is None:
            client.asked_with = named
            return
        if isinstance(answer, int):
            if answer not in (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
                assert answer is ErrorCode.PRODUCER_FENCED
                assert named is not None
                client.producer, client.asked_with = None, None
            client.work = None
            return
        owner = self.given.setdefault(answer, client)
        assert owner is client or repeats, "an epoch is given twice"
        self.given[answer] = client
        client.producer, client.work, client.asked_with = answer, None, None

    @precondition(lambda self: self.any_client(may_write))
    @rule(where=st.sampled_from(PARTITIONS), fate=FATES, data=st.data())
    def writes(self, where, fate, data):
        client = self.some(data, may_write)
        work = client.work or Work()
        name, producer = client.transactional_id, client.producer
        added = self.heard(
            lambda: self.world.add(producer, where, version=client.version, transactional_id=name), fate, data
        )
        if added is not ErrorCode.NONE:
            if added in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING):
                client.producer = client.work = None
            return
        if client.version < 2:
            assert self.world.verify(producer, where, transactional_id=name) == {where: ErrorCode.NONE}
        if client.work is None:
            client.work = work
            self.works.append(work)
        assert self.partitions[where].write(producer, work), "the coordinator let a fenced producer write"

    @precondition(lambda self: self.any_client(may_write_by_the_older_protocol))
    @rule(where=st.sampled_from(PARTITIONS), data=st.data())
    def writes_without_adding(self, where, data):
        """A delayed batch of the older protocol: what the verification lets through must be part of the transaction."""
        client = self.some(data, may_write_by_the_older_protocol)
        verdict = self.world.verify(client.producer, where, transactional_id=client.transactional_id)
        if verdict != {where: ErrorCode.NONE}:
            return
        if client.work is None:  # it does not know that its addition was taken
            client.work = Work()
            self.works.append(client.work)
        assert self.partitions[where].write(client.producer, client.work)

    @precondition(lambda self: self.delayed)
    @rule(data=st.data())
    def a_delayed_batch_arrives(self, data):
        """By the newer protocol it would add its partition to a transaction that it is not part of."""
        producer, where = data.draw(st.sampled_from(self.delayed))
        assert self.world.add(producer, where) is not ErrorCode.NONE

    @precondition(lambda self: self.any_client(may_end))
    @rule(commit=st.booleans(), fate=FATES, data=st.data())
    def ends(self, commit, fate, data):
        client = self.some(data, may_end)
        first = client.ending is None
        commit = commit if first else client.ending
        work, name = client.work, client.transactional_id
        work.commit_asked |= commit
        answer = self.heard(
            lambda: self.world.end(client.producer, commit, 5 if client.version == 2 else 4, transactional_id=name),
            fate,
            data,
        )
        if answer is None or answer in (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
            client.ending = commit
            return
        client.ending = client.work = None
        if client.version == 2:
            self.delayed.append((client.producer, PARTITIONS[0]))
        if isinstance(answer, ErrorCode):
            work.refused = first
            client.producer = None
            return
        work.answered = "commit" if commit else "abort"
        if client.version == 2:
            owner = self.given.setdefault(answer, client)
            assert owner is client
            client.producer = answer

    # --- what happens to the coordinator ------------------------------------------------------------------------------

    @precondition(lambda self: self.under_way)
    @rule(data=st.data())
    def a_marker_arrives(self, data):
        self.a_marker_of(data.draw(st.sampled_from(sorted(self.under_way))), data)

    def a_marker_of(self, completion, data):
        marker, left = self.under_way[completion]
        if left:
            where = data.draw(st.sampled_from(sorted(left)))
            self.partitions[where].mark(marker)
            left.discard(where)
        if not left:
            del self.under_way[completion]
            assert self.world.do(complete, completion) is DONE
            self.sync()

    @precondition(lambda self: self.under_way)
    @rule(data=st.data())
    def all_markers_arrive(self, data):
        completion = data.draw(st.sampled_from(sorted(self.under_way)))
        for _ in range(len(self.under_way[completion][1]) or 1):
            self.a_marker_of(completion, data)

    @precondition(lambda self: self.under_way)
    @rule(data=st.data())
    def a_marker_arrives_and_its_news_are_lost(self, data):
        marker, left = self.under_way[data.draw(st.sampled_from(sorted(self.under_way)))]
        for where in sorted(left)[:1]:
            self.partitions[where].mark(marker)

    @rule(forgets=st.booleans())
    def it_is_loaded_again(self, forgets):
        self.crash(len(self.world.log), forgets)

    @precondition(lambda self: self.world.state.ongoing)
    @rule(is_enough=st.booleans())
    def time_passes(self, is_enough):
        self.world.now_ms += TIMEOUT_MS + is_enough
        self.world.fire(timeouts.TIMER)
        self.begin_deliveries()

    @rule(exhausted=st.booleans())
    def producer_ids_run_out(self, exhausted):
        self.world.ids.exhausted = exhausted

    # --- what must be true --------------------------------------------------------------------------------------------

    @invariant()
    def outcomes_are_what_was_asked_for_and_answered(self):
        for work in getattr(self, "works", ()):
            assert len(work.outcomes) <= 1, "one transaction, two outcomes"
            if "commit" in work.outcomes:
                assert work.commit_asked
                assert not work.refused
            if work.answered:
                assert work.outcomes <= {work.answered}

    @invariant()
    def the_indexes_are_a_recount(self):
        if not hasattr(self, "world"):
            return
        state = self.world.state
        for number, counted in state.states.items():
            assert counted == sum(each.state is number for each in state.by_id.values())
        assert {each for each, count in state.states.items() if count < 0} == set()

    def teardown(self):
        """In the end nothing hangs: every write of every transaction has ended, the same way everywhere."""
        if not hasattr(self, "world"):
            return
        self.world.ids.exhausted = False
        self.sync()
        for _ in range(3):
            self.world.now_ms += TIMEOUT_MS + 1
            self.world.fire(timeouts.TIMER)
            self.begin_deliveries()
            for completion, (marker, left) in list(self.under_way.items()):
                for where in left:
                    self.partitions[where].mark(marker)
                self.world.do(complete, completion)
            self.under_way.clear()
            self.sync()
        assert [partition.open for partition in self.partitions.values()] == [{}, {}, {}]
        for work in self.works:
            assert len(work.outcomes) == 1
            if work.answered:
                assert work.outcomes == {work.answered}
        self.outcomes_are_what_was_asked_for_and_answered()
        live = durable_half(self.world.state)
        self.world.load()
        assert durable_half(self.world.state) == live


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=60, stateful_step_count=60, suppress_health_check=[HealthCheck.too_slow])
