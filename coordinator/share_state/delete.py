"""DeleteShareGroupState, and the end of states whose topic is deleted (ShareCoordinatorShard)."""

from collections.abc import Collection
from typing import NamedTuple

from coordinator.runtime.internal_request import DONE
from coordinator.runtime.result import RequestContext, Result
from coordinator.share_state.records import tombstone
from coordinator.share_state.share_state import SharePartition
from coordinator.share_state.state import States, check_partition


class Deletion(NamedTuple):
    """What is asked for."""

    key: SharePartition


def delete(states: States, wanted: Deletion, _context: RequestContext, _now_ms: int) -> Result:
    """Replies DONE, also if there is no state. Raises INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION."""
    key = wanted.key
    check_partition(key)
    states.check_exists(key)
    return Result(DONE, [tombstone(key)] if key in states.by_key else ())


def topics_deleted(topic_ids: Collection[bytes], states: States, _now_ms: int) -> Result:
    """Deletes the states of topics that no longer exist: one that is made again has another id."""
    return Result(records=[tombstone(key) for key in states.by_key if key.topic_id in topic_ids])
