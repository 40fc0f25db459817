"""The end of a producer's transaction in the log of one shard (`GroupCoordinatorService.completeTransaction`; KIP-98).

The transaction's coordinator has decided by then, and repeats the marker until it hears that the marker is durable. A marker
for a producer that has nothing pending here, or is unknown, is written as well: it may say more than the first one did, namely
that earlier epochs are over. Markers of earlier transactions are refused, because they would end the wrong one (KAFKA-19999).
"""

from coordinator.groups.state import Groups
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import WriteTxnMarkersResponse
from coordinator.runtime.result import Marker, RequestContext, Result

EPOCH_BUMPED_SINCE = 2
"""The transaction.version since which a marker has a higher epoch than the records of its transaction (KIP-890)."""
EPOCH_MAX = 32_767


def write_marker(groups: Groups, marker: Marker, context: RequestContext, now_ms: int) -> Result:
    """Writes the marker. Raises INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED for one that comes too late."""
    pending = groups.offsets.pending
    known = pending.known.get(marker.producer_id)
    if known is not None:
        if marker.producer_epoch < known.epoch or _is_of_an_earlier_transaction(groups, marker, known.epoch):
            raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)
        if marker.coordinator_epoch < known.coordinator_epoch:
            raise KafkaError(ErrorCode.TRANSACTION_COORDINATOR_FENCED)
    return Result(WriteTxnMarkersResponse(), marker=marker)


def _is_of_an_earlier_transaction(groups: Groups, marker: Marker, epoch: int) -> bool:
    return (
        marker.transaction_version >= EPOCH_BUMPED_SINCE
        and marker.producer_epoch == epoch
        and marker.producer_epoch != EPOCH_MAX
        and marker.producer_id in groups.offsets.pending.by_producer
    )
