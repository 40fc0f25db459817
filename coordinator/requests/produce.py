"""Produce: see topics/produce.py for what is checked and when the answer leaves.

With acks=0 there is no answer, so the only way to tell a producer that something went wrong is to close its connection;
Kafka does the same, and the producer then looks for new metadata. Versions 0-2 are advertised (api_versions.py says
why) but not spoken: the connection is closed, as Kafka 4 closes it.
"""

from typing import Any

from coordinator.api.access import WRITE_TOPIC, WRITE_TRANSACTIONAL_ID
from coordinator.api.declaration import Api
from coordinator.api.exchange import Exchange
from coordinator.api.server import Server
from coordinator.protocol.errors import KafkaError
from coordinator.protocol.messages import ProduceRequest, ProduceResponse
from coordinator.runtime.memory import COUNTED_BYTES
from coordinator.topics.produce import produce, refusal


def handle(server: Server, exchange: Exchange[ProduceRequest]) -> None:
    request = exchange.request
    size = sum(len(data.records or b"") for topic in request.topic_data for data in topic.partition_data)
    counted_bytes = size if size > COUNTED_BYTES else 0
    replied = False

    def reply(response: ProduceResponse, failed: bool) -> None:
        nonlocal replied
        replied = True
        if counted_bytes:
            server.memory.give_back(counted_bytes)
        if request.acks != 0:
            exchange.reply(response)
        elif failed:
            exchange.close("a batch sent with acks=0 was refused")
        else:
            exchange.no_reply()

    def verify(*arguments: Any, **options: Any) -> None:
        server.verification.check(*arguments, **options)

    if counted_bytes:
        server.memory.take(counted_bytes)
    try:
        waits = produce(server.topics, request, exchange.api_version, verify, reply)
    except KafkaError:
        if counted_bytes:
            server.memory.give_back(counted_bytes)
        if request.acks:
            raise
        exchange.close("a request sent with acks=0 was refused")
        return
    if waits and not replied:
        exchange.wait()


def refuse(request: ProduceRequest, error: KafkaError, _api_version: int) -> ProduceResponse:
    return refusal(request, error)


API = Api(
    key=0,
    name="Produce",
    versions=(3, 13),
    access=(WRITE_TRANSACTIONAL_ID, WRITE_TOPIC),
    handle=handle,
    refuse=refuse,
)
