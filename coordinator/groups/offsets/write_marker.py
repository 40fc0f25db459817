"""The end of a producer's transaction, as it reaches the groups of one shard: a marker into their log.

The coordinator of the transaction has decided by then, and repeats the marker until it learns that it is durable; a marker
for a producer that has nothing pending here, or has never been heard of, is written all the same. It may say more than the
first one did: that the epochs before its own are over. Refused are markers of the past, which would end a transaction
that they are not about (KAFKA-19999).
"""

from typing import TYPE_CHECKING

from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import WriteTxnMarkersResponse
from coordinator.runtime.result import Marker, RequestContext, Result

if TYPE_CHECKING:
    from coordinator.groups.state import Groups

EPOCH_BUMPED_SINCE = 2
"""transaction.version from which a transaction ends with a higher epoch than its records have."""
EPOCH_MAX = 32_767


def write_marker(groups: "Groups", marker: Marker, context: RequestContext, now_ms: int) -> Result:
    """Raises INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED for a marker that comes too late."""
    pending = groups.offsets.pending
    known = pending.known.get(marker.producer_id)
    if known is not None:
        if marker.producer_epoch < known.epoch or _is_of_an_earlier_transaction(groups, marker, known.epoch):
            raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)
        if marker.coordinator_epoch < known.coordinator_epoch:
            raise KafkaError(ErrorCode.TRANSACTION_COORDINATOR_FENCED)
    return Result(WriteTxnMarkersResponse(), marker=marker)


def _is_of_an_earlier_transaction(groups: "Groups", marker: Marker, epoch: int) -> bool:
    return (
        marker.transaction_version >= EPOCH_BUMPED_SINCE
        and marker.producer_epoch == epoch
        and marker.producer_epoch != EPOCH_MAX
        and marker.producer_id in groups.offsets.pending.by_producer
    )
