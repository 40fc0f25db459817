"""What must be true of the server and its disk, checked from the inside.

- I1: what a shard has in memory is what its log says. A state is made from the log, by the code that loads it, and
  compared with the live one: the durable halves of all groups, and all offsets.
- I4: a log only grows. After a crash it is a beginning of what had been written, and has at least what had been announced
  as durable; offsets are dense and batches whole.

The logs are read from the disk by code of its own: a walk over the segment files, batch by batch.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from coordinator.groups.groups import RECORD_KEYS, Groups
from coordinator.log.batch import CorruptBatch, key_values, read_header, verify
from coordinator.protocol.codec import Codec
from coordinator.runtime.serde import Serde
from coordinator.runtime.shard import Shard, Status
from coordinator.server import OFFSETS_TOPIC, Server
from coordinator.world.disk import Disk

Broken = Callable[[str, str], None]


class Batch(NamedTuple):
    """A whole batch on the disk."""

    base_offset: int
    next_offset: int
    content: bytes


def batches_on(disk: Disk, folder: str) -> list[Batch]:
    """The whole batches of a log, in order, up to the first that is not whole or does not follow."""
    if not disk.exists(folder):
        return []
    batches: list[Batch] = []
    for name in disk.list(folder):
        if not name.endswith(".log"):
            continue
        content, at = disk.read(f"{folder}/{name}"), 0
        while at < len(content):
            try:
                header = read_header(content, at)
                if at + header.size_bytes > len(content):
                    return batches
                verify(content, at, header)
            except CorruptBatch:
                return batches
            if batches and header.base_offset != batches[-1].next_offset:
                return batches
            batches.append(Batch(header.base_offset, header.next_offset, content[at : at + header.size_bytes]))
            at += header.size_bytes
    return batches


def durable_half(groups: Groups) -> dict[str, Any]:
    """What of a shard's state the log must be able to bring back."""
    ids = dict.fromkeys([*groups.classic, *groups.offsets.by_group])
    return {
        group_id: (stored, groups.offsets.by_group.get(group_id, {}))
        for group_id in sorted(ids)
        if (stored := groups.classic[group_id].stored if group_id in groups.classic else None) is not None
        or group_id in groups.offsets.by_group
    }


class Invariants:
    """Checks one server after the other, on the same disk."""

    def __init__(self, disk: Disk, log_dir: str, broken: Broken) -> None:
        self.checks = 0
        self._disk = disk
        self._log_dir = log_dir
        self._broken = broken
        self._serde = Serde(Codec.of(None), RECORD_KEYS)
        self._written: dict[int, list[Batch]] = {}
        self._durable: dict[int, int] = {}

    def _folder(self, index: int) -> str:
        return f"{self._log_dir}/{OFFSETS_TOPIC}-{index}"

    def before_death(self, server: Server) -> None:
        """To be called at the very moment, before the disk has lost anything."""
        for shard in server.groups.shards:
            self._written[shard.index] = batches_on(self._disk, self._folder(shard.index))
            self._durable[shard.index] = shard.offset_durable

    def after_start(self, server: Server) -> None:
        """The server has loaded everything and answered nobody yet."""
        for shard in server.groups.shards:
            written, now = self._written.get(shard.index, []), batches_on(self._disk, self._folder(shard.index))
            if written[: len(now)] != now:
                first = next((pair for pair in zip(written, now, strict=False) if pair[0] != pair[1]), None)
                self._broken("I4 nothing from nowhere", f"shard {shard.index} holds what nobody wrote: {first}")
            end, durable = (now[-1].next_offset if now else 0), self._durable.get(shard.index, 0)
            if end < durable:
                self._broken("I3 acknowledged is durable", f"shard {shard.index} ends at {end}, {durable} was durable")
            if end != shard.log.end_offset:
                self._broken("I4 nothing from nowhere", f"shard {shard.index}: {end} on disk, {shard.log.end_offset}")
        self.check(server)

    def check(self, server: Server) -> None:
        """Between two callbacks of a running server."""
        for shard in server.groups.shards:
            if shard.status is not Status.FAILED and not shard._batch.count:  # noqa: SLF001 - a state not written is no state
                self._check_replay(shard, server)

    def _check_replay(self, shard: Shard, server: Server) -> None:
        self.checks += 1
        state = Groups(server.config.groups, server.topics)
        for batch in batches_on(self._disk, self._folder(shard.index)):
            for _, key, value in key_values(batch.content, 0, read_header(batch.content)):
                record = None if key is None else self._serde.decode(key, value)
                if record is not None:
                    state.replay(record)
        assert isinstance(shard.state, Groups)
        live, replayed = durable_half(shard.state), durable_half(state)
        for group_id in sorted(live.keys() | replayed.keys()):
            if live.get(group_id) != replayed.get(group_id):
                self._broken(
                    "I1 replay equals live",
                    f"shard {shard.index}, {group_id}: live {live.get(group_id)}, replayed {replayed.get(group_id)}",
                )
        if shard.state.offsets.count != state.offsets.count:
            self._broken("I1 replay equals live", f"shard {shard.index}: {shard.state.offsets.count} offsets counted")
        if shard.parked.oldest_ms is not None and shard.offset_durable == shard._offset_written:  # noqa: SLF001
            self._broken("I14 answered", f"shard {shard.index} holds a reply that nothing holds up")
