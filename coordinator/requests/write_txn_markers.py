"""WriteTxnMarkers (key 27): writes transaction markers to partitions, as the client says.

In Kafka, transaction coordinators send it to brokers. Here it serves administrators (`abortTransaction`, KIP-664), who end a
hanging transaction of a partition. The transaction's coordinator is not consulted and nothing is retried: every partition
answers for itself.
"""

from coordinator.api import Api, Exchange, Permits, Pieces, Server
from coordinator.api.error_families import APPEND_ERRORS
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from coordinator.runtime.result import Marker
from coordinator.security.access import ALTER_CLUSTER, CLUSTER_ACTION

_Result = WriteTxnMarkersResponse.WritableTxnMarkerResult
_Topic = WriteTxnMarkersResponse.WritableTxnMarkerTopicResult
_PIECE_MARKERS = 20
"""Markers that are written in about a millisecond."""
_Partition = WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult


def handle(server: Server, exchange: Exchange[WriteTxnMarkersRequest]) -> None:
    request = exchange.request
    outcomes: dict[tuple[int, str, int], ErrorCode] = {}
    markers = [
        (marker, topic.name, index)
        for marker in request.markers
        for topic in marker.topics
        for index in topic.partition_indexes
    ]
    left = len(markers)

    def write(requested: WriteTxnMarkersRequest.WritableTxnMarker, topic: str, index: int) -> None:
        def written(error: ErrorCode) -> None:
            nonlocal left
            outcomes[requested.producer_id, topic, index] = error
            left -= 1
            if not left:
                exchange.reply(_response(outcomes))

        marker = Marker(
            requested.producer_id,
            requested.producer_epoch,
            requested.transaction_result,
            requested.coordinator_epoch,
            requested.transaction_version,
        )
        server.markers.write_once(marker, topic, index, written)

    if not markers:
        exchange.reply(WriteTxnMarkersResponse())

    def pieces() -> Pieces:
        for number, each in enumerate(markers, 1):
            write(*each)
            if not number % _PIECE_MARKERS:
                yield

    exchange.run_in_slices(pieces(), even_if_lost=True)


def guard(server: Server, exchange: Exchange[WriteTxnMarkersRequest], permits: Permits) -> None:
    if not permits.allows(ALTER_CLUSTER, quiet=True):
        permits.require(CLUSTER_ACTION)
    handle(server, exchange)


def refuse(request: WriteTxnMarkersRequest, error: KafkaError, _api_version: int) -> WriteTxnMarkersResponse:
    return _response(
        {
            (marker.producer_id, topic.name, index): error.code
            for marker in request.markers
            for topic in marker.topics
            for index in topic.partition_indexes
        }
    )


def _response(outcomes: dict[tuple[int, str, int], ErrorCode]) -> WriteTxnMarkersResponse:
    """Makes one entry per producer, however many of its transactions the request names, as in Kafka."""
    producers: dict[int, dict[str, list[_Partition]]] = {}
    for (producer_id, topic, index), error in outcomes.items():
        producers.setdefault(producer_id, {}).setdefault(topic, []).append(_Partition(index, error))
    return WriteTxnMarkersResponse(
        markers=[
            _Result(producer_id, [_Topic(topic, partitions) for topic, partitions in topics.items()])
            for producer_id, topics in producers.items()
        ]
    )


API = Api(
    key=27,
    name="WriteTxnMarkers",
    versions=(1, 2),
    access=(ALTER_CLUSTER, CLUSTER_ACTION),
    handle=handle,
    refuse=refuse,
    guard=guard,
    errors=APPEND_ERRORS | {ErrorCode.TRANSACTION_COORDINATOR_FENCED},
    elements=("markers.topics.partition_indexes",),
    quotas=frozenset(),
)
