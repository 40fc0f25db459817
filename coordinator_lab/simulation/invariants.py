"""Invariants of the server and its disk, checked from the inside.

- I1: the state in memory equals the log. The log is replayed with the server's own code, and the result is compared with
  the live state: the durable parts of all groups, and all offsets including pending ones.
- I2: compaction is invisible. Replaying every record ever appended, in order, yields the same state.
- I3: records reported as durable are in the log after a crash.
- I4: a log contains only records that were appended to it, each at its offset.
- I6: see expiry.py. I16, I18, I31 and I33: see derived_state_invariants.py. I21 and I22: see event_log_invariants.py.
  I23 and I24: see epoch_invariants.py. I44 to I49: see share_invariants.py.

For I2 and I4, every append to a shard's log is recorded when it happens. If a log continues from an earlier offset, because
a crash or a full disk cost it its tail, the recorded tail is dropped too. The log is read by separate code: a walk over the
segments, batch by batch.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from coordinator.groups.classic.states import State
from coordinator.groups.machine import RECORD_KEYS, GroupMachine
from coordinator.log.batch import CONTROL, TRANSACTIONAL, BatchHeader, key_values, read_header, verify
from coordinator.log.end_transaction_marker import read_end_transaction
from coordinator.log.log import Log
from coordinator.log.segment import Segment
from coordinator.protocol.codec import Codec
from coordinator.runtime.result import Marker, Producer
from coordinator.runtime.serde import Serde
from coordinator.runtime.shard import Shard, Status
from coordinator.server.composition import OFFSETS_TOPIC, Server
from coordinator_lab.simulation import derived_state_invariants
from coordinator_lab.simulation.epoch_invariants import EpochsOfMembers
from coordinator_lab.simulation.event_log_invariants import EventLogInvariants
from coordinator_lab.simulation.expiry import Appended, Expiry
from coordinator_lab.simulation.history import FORCED, OnBroken
from coordinator_lab.simulation.share_invariants import ShareHistory, ShareStateInvariants


def read_batches(content: bytes) -> Iterator[tuple[BatchHeader, list[Appended]]]:
    """Yields the batches of a file with their records. Raises CorruptBatch."""
    at = 0
    while at < len(content):
        header = read_header(content, at)
        verify(content, at, header)
        producer = Producer(header.producer_id, header.producer_epoch)
        attributes = header.attributes & (TRANSACTIONAL | CONTROL)
        yield header, [Appended(*record, producer, attributes) for record in key_values(content, at, header)]
        at += header.size_bytes


def content_of(log: Log, segment: Segment) -> bytes:
    """The batches of a segment, also those that are in memory."""
    content = segment.file.pread(0, segment.size_bytes)
    if segment is not log.segments[-1]:
        segment.close_if_unheld()
    return content


def durable_state(groups: GroupMachine) -> dict[str, Any]:
    """The part of a shard's state that the log must be able to restore."""
    stored = {group_id: group.durable for group_id, group in groups.by_id.items() if group.durable is not None}
    offsets = groups.offsets.by_group
    pending = {
        group_id: {
            (partition, producer_id): each.committed
            for partition, producers in partitions.items()
            for producer_id, each in producers.items()
        }
        for group_id, partitions in groups.offsets.pending.by_group.items()
    }
    return {
        group_id: (stored.get(group_id), offsets.get(group_id, {}), pending.get(group_id, {}))
        for group_id in sorted({*stored, *offsets, *pending})
    }


class Invariants:
    """Checks one server after another, on the same disk."""

    def __init__(
        self,
        log_dir: str,
        broken: OnBroken,
        expiry: Expiry,
        wall_ms: Callable[[], int],
        forced_epoch: Callable[[str], int],
        shares: ShareHistory,
    ) -> None:
        """`forced_epoch(group_id)`: the generation or epoch to which acknowledged rebalances from outside lead; 0 for none."""
        self.checks = 0
        self._forced_epoch = forced_epoch
        self._expiry = expiry
        self._wall_ms = wall_ms
        self._prefix = f"{log_dir}/{OFFSETS_TOPIC}-"
        self._broken = broken
        self._serde = Serde(Codec.of(None), RECORD_KEYS)
        self._appended: dict[int, list[Appended]] = {}
        self._durable: dict[int, int] = {}
        self.share_states = ShareStateInvariants(log_dir, shares, read_batches)
        self._event_logs = EventLogInvariants(read_batches, content_of, self._appended, broken)

    def appended(self, folder: str, data: bytes) -> None:
        """Records batches that were appended to the log in a folder."""
        self.share_states.appended(folder, data)
        if not folder.startswith(self._prefix):
            return
        index = int(folder[len(self._prefix) :])
        for header, records in read_batches(data):
            self._forget_from(index, header.base_offset)
            before = self._appended[index]
            self._expiry.appended(before, records, self._wall_ms())
            before += records

    def _forget_from(self, index: int, offset: int) -> None:
        """Drops the recorded records at and after an offset."""
        del self._appended.setdefault(index, [])[offset:]

    def before_crash(self, server: Server) -> None:
        """Must be called when the process dies, before the disk loses anything."""
        for shard in server.groups.shards:
            self._durable[shard.index] = shard.offset_durable

    def after_start(self, server: Server) -> None:
        """Checks a server that has loaded its logs and answered no request yet."""
        for shard in server.groups.shards:
            end, durable = shard.log.end_offset, self._durable.get(shard.index, 0)
            if end < durable:
                self._broken("I3 acknowledged is durable", f"shard {shard.index} ends at {end}, {durable} was durable")
            if end > len(self._appended.get(shard.index, ())):
                self._broken("I4 nothing from nowhere", f"shard {shard.index} ends at {end}")
            self._forget_from(shard.index, end)
            self._check_forced(shard.state)
        if server.topics.offline:
            self._broken("a crash is never taken for damage", f"offline: {server.topics.offline}")
        self.check(server)
        self._event_logs.check(server)

    def _check_forced(self, groups: GroupMachine) -> None:
        """Checks that no crash takes back a rebalance from outside: it has happened, or the members are called to it again.

        A group whose members an administrator has evicted meanwhile has nobody to call.
        """
        for group in groups.by_id.values():
            epoch = self._forced_epoch(group.group_id)
            if group.epoch < epoch and group.state not in (State.PREPARING_REBALANCE, State.EMPTY):
                self._broken(FORCED, f"{group.group_id} is {group.state} in {group.epoch} after a load, not in {epoch}")

    def check_events(self, server: Server) -> set[int]:
        """Checks the event logs of a running server, and returns the shards. Must be called between two callbacks."""
        for shard in server.groups.shards:
            self._forget_from(shard.index, shard.log.end_offset)
        return self._event_logs.check(server)

    @property
    def reported(self) -> int:
        """How many committed offsets had a valid event when the event logs were checked last."""
        return sum(self._event_logs.reported.values())

    def check(self, server: Server) -> None:
        """Checks a running server. Must be called between two callbacks."""
        derived_state_invariants.check(server, self._broken)
        self.share_states.check(server)
        for shard in server.groups.shards:
            if (
                shard.status in (Status.FAILED, Status.LOADING) or shard.has_unwritten
            ):  # the live state is ahead of the log
                continue
            self.checks += 1
            self._forget_from(shard.index, shard.log.end_offset)
            appended = self._appended[shard.index]
            assert isinstance(shard.state, GroupMachine)
            live = durable_state(shard.state)
            self._compare(shard, live, "I1 replay equals live", self._on_disk(shard.log, appended), server)
            self._compare(shard, live, "I2 compaction is invisible", appended, server)

    def _on_disk(self, log: Log, appended: list[Appended]) -> Iterator[Appended]:
        """Yields the records of a log on disk; each of them must have been appended."""
        next_offset = 0
        for segment in log.segments:
            for header, records in read_batches(content_of(log, segment)):
                if header.base_offset < next_offset:
                    self._broken("I4 nothing from nowhere", f"{segment.path}: {header.base_offset} after {next_offset}")
                next_offset = header.next_offset
                for record in records:
                    if appended[record.offset] != record:
                        self._broken(
                            "I4 nothing from nowhere", f"{segment.path}: {record}, not {appended[record.offset]}"
                        )
                    yield record

    def _compare(
        self,
        shard: Shard[GroupMachine],
        live: dict[str, Any],
        invariant: str,
        records: Iterable[Appended],
        server: Server,
    ) -> None:
        epochs = EpochsOfMembers(self._broken) if records is self._appended.get(shard.index) else None
        state = self._replay(records, server, epochs)
        replayed = durable_state(state)
        if live == replayed and shard.state.offsets.count == state.offsets.count:
            return
        for group_id in sorted(live.keys() | replayed.keys()):
            if live.get(group_id) != replayed.get(group_id):
                self._broken(
                    invariant,
                    f"shard {shard.index}, {group_id}: live {live.get(group_id)}, replayed {replayed.get(group_id)}",
                )
        self._broken(invariant, f"shard {shard.index}: the count of offsets is wrong")

    def _replay(
        self, records: Iterable[Appended], server: Server, epochs: EpochsOfMembers | None = None
    ) -> GroupMachine:
        """The groups of a shard whose log has these records; `epochs` sees them, too."""
        state = GroupMachine(server.config.groups, server.topics)
        for offset, key, value, producer, attributes in records:
            if attributes & CONTROL:
                end = read_end_transaction(key, value)
                assert end is not None
                state.replay_marker(Marker(*producer, *end))
                continue
            record = None if key is None else self._serde.decode(key, value)
            if record is not None:
                if epochs is not None:
                    epochs.see(offset, record)
                if attributes & TRANSACTIONAL:
                    state.replay_pending(record, producer)
                else:
                    state.replay(record)
        return state
