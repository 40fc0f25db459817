"""Keeps the log of share states short (ShareCoordinatorService's two periodic jobs, ShareCoordinatorOffsetsManager).

    prune     deletes what lies before the last snapshot of every share partition
    cold      gives a share partition that is not written to a new snapshot, so that its last one does not hold up the others

While a shard has no state there is nothing to do and no timer.
"""

from collections.abc import Sequence
from functools import partial

from coordinator.runtime.result import Record, Result, Timer, TimerKey
from coordinator.share_state.records import snapshot_record
from coordinator.share_state.settings import ShareStateConfig
from coordinator.share_state.state import States

PRUNE: TimerKey = ("share-state-prune",)
COLD: TimerKey = ("share-state-cold",)


def timers(config: ShareStateConfig) -> Sequence[Timer]:
    """The timers of a shard that has states."""
    return (
        Timer(PRUNE, config.share_coordinator_state_topic_prune_interval_ms),
        Timer(COLD, config.share_coordinator_cold_partition_snapshot_interval_ms),
    )


def prune(states: States, _now_ms: int) -> Result:
    """Lets the log begin at the oldest of the last snapshots, once all of them are durable."""
    offset = min((each.snapshot_offset for each in states.by_key.values()), default=states.last_offset)
    again = [each for each in timers(states.config) if each.key == PRUNE] if states.by_key else ()
    return Result(after=[partial(states.prune, offset)], timers=again)


def renew_cold(states: States, now_ms: int) -> Result:
    """Writes a snapshot of every share partition whose last one is old, unless all of them are such snapshots."""
    config, records = states.config, list[Record]()
    if any(each.state.create_ms == each.state.write_ms for each in states.by_key.values()):
        oldest_ms = now_ms - config.share_coordinator_cold_partition_snapshot_interval_ms
        records = [
            snapshot_record(key, each.state._replace(snapshot_epoch=each.state.snapshot_epoch + 1, write_ms=now_ms))
            for key, each in states.by_key.items()
            if each.state.write_ms <= oldest_ms
        ]
    return Result(
        records=records, timers=[each for each in timers(config) if each.key == COLD] if states.by_key else ()
    )
