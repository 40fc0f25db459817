"""The state machine of transactional ids with a log in memory: requests, lost records, crashes and loads.

It does not use the real shard on purpose: it tests the pure core without a shell, and cuts the log after any record.
tests/runtime/test_shard_transactions.py tests the shell.
"""

from dataclasses import replace
from itertools import count

from coordinator.protocol import messages
from coordinator.protocol.codec import Codec
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.releases import AS_NEWEST
from coordinator.runtime.result import NO_LINK, Producer
from coordinator.runtime.serde import Serde
from coordinator.transactions.add_partitions import Addition, add_partitions
from coordinator.transactions.complete import Completion, complete
from coordinator.transactions.end import end
from coordinator.transactions.init_producer_id import init_producer_id
from coordinator.transactions.machine import RECORD_KEYS, TransactionMachine
from coordinator.transactions.settings import TransactionsConfig
from coordinator.transactions.verify import verify_partitions

ID = "payments"
TIMEOUT_MS = 60_000


class RequestContext:
    client_id = "test"
    client_host = "/127.0.0.1"
    link = NO_LINK
    dialect = None
    behaviours = AS_NEWEST
    fresh_id = ""

    def __init__(self, api_version):
        self.api_version = api_version


class Ids:
    """Producer ids from 1000 on; none while `exhausted`."""

    def __init__(self):
        self.numbers = count(1000)
        self.exhausted = False

    def take(self):
        return None if self.exhausted else next(self.numbers)


class World:
    """`log` holds encoded records; those from `durable` on are lost by a crash."""

    def __init__(self, **settings):
        self.config = TransactionsConfig(**settings)
        self.serde = Serde(Codec.of(None), RECORD_KEYS)
        self.ids = Ids()
        self.log = []
        self.durable = 0
        self.after = []
        """(log length at which it is done, callable)"""
        self.deliveries = []
        """(transactional id, marker, partitions without it), in the order in which they began."""
        self.facts = []
        self.timers = {}
        self.now_ms = 1_000_000
        self.state = self.fresh()

    def fresh(self):
        return TransactionMachine(self.config, self.ids, lambda *delivery: self.deliveries.append(delivery))

    def do(self, operation, request, version=0):
        """The reply; raises what the operation raises. Its records are in the log, and not durable yet."""
        return self.apply(operation(self.state, request, RequestContext(version), self.now_ms))

    def apply(self, result):
        for record in result.records:
            self.state.replay(record)
            self.log.append(self.serde.encode(record))
        self.timers |= dict(result.timers)
        self.facts += result.facts
        self.after += [(len(self.log), each) for each in result.after]
        return result.reply

    def sync(self):
        self.durable = len(self.log)
        after, self.after = self.after, []
        for _, each in after:
            each()

    def fire(self, key):
        self.apply(self.state.fire(key, self.now_ms))
        self.sync()

    def load(self, kept=None):
        """A crash that keeps so many records of the log, and a new start."""
        self.log = self.log[: len(self.log) if kept is None else max(kept, self.durable)]
        self.after = []
        self.state = self.fresh()
        for key, value in self.log:
            self.state.replay(self.serde.decode(key, value))
        self.apply(self.state.loaded(self.now_ms))
        self.sync()

    def finish(self):
        """Every marker is written and every transaction completed."""
        self.sync()
        while self.deliveries:
            transactional_id, marker, left = self.deliveries.pop(0)
            left.clear()
            self.do(complete, Completion(transactional_id, *marker[:2], marker.coordinator_epoch))
            self.sync()

    # --- what producers ask -------------------------------------------------------------------------------------------

    def init(self, producer=None, transactional_id=ID, timeout_ms=TIMEOUT_MS):
        """(producer id, epoch), or the error."""
        producer = producer or (-1, -1)
        request = messages.InitProducerIdRequest(transactional_id, timeout_ms, *producer)
        reply = said(lambda: self.do(init_producer_id, request))
        if isinstance(reply, ErrorCode):
            return reply
        return reply.error_code or (reply.producer_id, reply.producer_epoch)

    def add(self, producer, *partitions, version=2, transactional_id=ID):
        """NONE or the error."""
        addition = Addition(transactional_id, Producer(*producer), partitions, version)
        reply = said(lambda: self.do(add_partitions, addition))
        return reply if isinstance(reply, ErrorCode) else ErrorCode.NONE

    def verify(self, producer, *partitions, transactional_id=ID):
        addition = Addition(transactional_id, Producer(*producer), partitions, 0)
        return said(lambda: self.do(verify_partitions, addition))

    def end(self, producer, commit=True, version=5, transactional_id=ID):
        """(producer id, epoch) to go on with, or the error."""
        request = messages.EndTxnRequest(transactional_id, *producer, commit)
        reply = said(lambda: self.do(end, request, version))
        return reply if isinstance(reply, ErrorCode) else (reply.producer_id, reply.producer_epoch)

    # --- what is there ------------------------------------------------------------------------------------------------

    @property
    def known(self):
        return self.state.by_id.get(ID)

    def put(self, **fields):
        """Changes what is known of the id, by a record: what cannot be reached in a few requests."""
        from coordinator.transactions.records import transaction_record

        record = transaction_record(replace(self.known, **fields), self.config.transaction_version)
        self.state.replay(record)
        self.log.append(self.serde.encode(record))
        self.sync()


def said(ask):
    try:
        return ask()
    except KafkaError as error:
        return error.code


def durable_half(state):
    return (
        state.by_id,
        state.states,
        state.ongoing,
        state.prepared,
    )
