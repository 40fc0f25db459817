"""The state machine of share partitions with a log in memory: requests, lost records, crashes, pruning and loads.

It does not use the real shard on purpose: it tests the pure core without a shell, and cuts the log after any record.
"""

from coordinator.protocol.codec import Codec
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.runtime.internal_request import DONE
from coordinator.runtime.serde import Serde
from coordinator.share_state.delete import Deletion, delete
from coordinator.share_state.initialize import Initialization, initialize
from coordinator.share_state.machine import RECORD_KEYS, ShareStateMachine
from coordinator.share_state.read import Read, read
from coordinator.share_state.settings import ShareStateConfig
from coordinator.share_state.share_state import Batch, SharePartition
from coordinator.share_state.summary import SummaryWanted, read_summary
from coordinator.share_state.write import Write, write

TOPIC, GONE = b"T" * 16, b"G" * 16
KEY = SharePartition("g", TOPIC, 0)


class World:
    """`log` holds encoded records from `begin` on; those from `durable` on are lost by a crash."""

    def __init__(self, **settings):
        self.config = ShareStateConfig(**settings)
        self.serde = Serde(Codec.of(None), RECORD_KEYS)
        self.topics = {TOPIC: 3}
        self.log = []
        self.begin = 0
        self.durable = 0
        self.position = 0
        self.after = []
        self.timers = {}
        self.now_ms = 1_000_000
        self.state = self.fresh()

    def partitions_of(self, topic_id):
        return self.topics.get(topic_id, 0)

    def fresh(self):
        return ShareStateMachine(self.config, self, lambda: self.position, self.prune)

    def prune(self, offset):
        assert offset <= self.durable, "what replaces the deleted records is durable"
        if offset > self.begin:
            del self.log[: offset - self.begin]
            self.begin = offset

    @property
    def end(self):
        return self.begin + len(self.log)

    def do(self, operation, request):
        """The reply; raises what the operation raises. Its records are in the log, and not durable yet."""
        return self.apply(operation(self.state, request, None, self.now_ms))

    def apply(self, result):
        for record in result.records:
            self.position = self.end
            encoded = self.serde.encode(record)
            self.state.replay(record)
            self.log.append(encoded)
        self.timers |= dict(result.timers)
        self.after += result.after
        return result.reply

    def sync(self):
        self.durable = self.end
        after, self.after = self.after, []
        for each in after:
            each()

    def fire(self, key):
        """A timer fires, if it is armed; returns whether it was."""
        if self.timers.pop(key, None) is None:
            return False
        self.apply(self.state.fire(key, self.now_ms))
        self.sync()
        return True

    def crash(self, kept=None):
        """A crash that keeps this many records of the log, and a new start."""
        del self.log[max(self.durable, self.begin + kept) - self.begin if kept is not None else len(self.log) :]
        self.after, self.timers, self.state = [], {}, self.fresh()
        for position, (key, value) in enumerate(self.log, self.begin):
            self.position = position
            self.state.replay(self.serde.decode(key, value))
        self.apply(self.state.loaded(self.now_ms))
        self.sync()

    # --- what brokers ask ---------------------------------------------------------------------------------------------

    def initialize(self, state_epoch=0, start_offset=0, key=KEY):
        return said(lambda: self.do(initialize, Initialization(key, state_epoch, start_offset)))

    def write(self, *batches, state_epoch=0, leader_epoch=0, start_offset=-1, count=-1, key=KEY):
        wanted = Write(key, state_epoch, leader_epoch, start_offset, count, [Batch(*each) for each in batches])
        return said(lambda: self.do(write, wanted))

    def read(self, leader_epoch=0, key=KEY):
        return said(lambda: self.do(read, Read(key, leader_epoch)))

    def summary(self, key=KEY):
        return said(lambda: self.do(read_summary, SummaryWanted(key, 0)))

    def delete(self, key=KEY):
        return said(lambda: self.do(delete, Deletion(key)))

    # --- what is there ------------------------------------------------------------------------------------------------

    @property
    def types(self):
        """The type of each record in the log: S for a snapshot, u for an update, - for a tombstone."""
        return "".join("-" if value is None else "Su"[key[1]] for key, value in self.log)

    @property
    def durable_half(self):
        return {
            key: (kept.state, kept.leader_epoch, kept.state_epoch, kept.updates)
            for key, kept in self.state.by_key.items()
        }


def said(ask):
    try:
        reply = ask()
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE if reply is DONE else reply
