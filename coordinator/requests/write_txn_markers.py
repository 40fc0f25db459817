"""WriteTxnMarkers (key 27): markers into partitions, on the word of the asker.

In Kafka it is what coordinators send to brokers; here it is left to an administrator (`abortTransaction`), who ends what hangs
in a partition after everything else has gone wrong. Nothing is asked of the transaction's coordinator and nothing is
repeated: every partition answers for itself.
"""

from typing import Any

from coordinator.api.access import ALTER_CLUSTER, CLUSTER_ACTION
from coordinator.api.declaration import Api
from coordinator.api.exchange import Exchange
from coordinator.api.server import Server
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from coordinator.runtime.result import Marker

_Result = WriteTxnMarkersResponse.WritableTxnMarkerResult
_Topic = WriteTxnMarkersResponse.WritableTxnMarkerTopicResult
_Partition = WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult


def handle(server: Server, exchange: Exchange[WriteTxnMarkersRequest]) -> None:
    request = exchange.request
    outcomes: dict[tuple[int, str, int], ErrorCode] = {}
    wanted = [
        (asked, topic.name, index)
        for asked in request.markers
        for topic in asked.topics
        for index in topic.partition_indexes
    ]
    left = len(wanted)

    def write(asked: Any, topic: str, index: int) -> None:
        def written(error: ErrorCode) -> None:
            nonlocal left
            outcomes[asked.producer_id, topic, index] = error
            left -= 1
            if not left:
                exchange.reply(_response(outcomes))

        marker = Marker(
            asked.producer_id,
            asked.producer_epoch,
            asked.transaction_result,
            asked.coordinator_epoch,
            asked.transaction_version,
        )
        server.markers.write_once(marker, topic, index, written)

    if not wanted:
        exchange.reply(WriteTxnMarkersResponse())
    for each in wanted:
        write(*each)


def refuse(request: WriteTxnMarkersRequest, error: KafkaError, _api_version: int) -> WriteTxnMarkersResponse:
    return _response(
        {
            (asked.producer_id, topic.name, index): error.code
            for asked in request.markers
            for topic in asked.topics
            for index in topic.partition_indexes
        }
    )


def _response(outcomes: dict[tuple[int, str, int], ErrorCode]) -> WriteTxnMarkersResponse:
    """One entry per producer, however many of its transactions were asked for, as in Kafka."""
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
)
