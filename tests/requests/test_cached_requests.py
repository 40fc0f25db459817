"""A request that a client repeats is decoded once, and never mistaken for another."""

from coordinator.api.declaration import Api
from coordinator.api.dispatch import CACHED_REQUEST_BYTES_MAX, NO_CACHED_REQUEST, Dispatcher
from coordinator.api.exchange import NO_TEMPLATE
from coordinator.bench.load import frame
from coordinator.protocol.codec import Codec
from coordinator.protocol.messages import HeartbeatRequest, HeartbeatResponse
from coordinator.security.access import READ_GROUP

CODEC = Codec.of(None)


class Client:
    """A connection that keeps its exchanges."""

    def __init__(self, *, is_cacheable=True, handle=lambda server, exchange: None):
        self.cached_request = NO_CACHED_REQUEST
        self.template = NO_TEMPLATE
        self.exchanges = []
        api = Api(
            key=12,
            name="Heartbeat",
            versions=(0, 4),
            access=(READ_GROUP,),
            handle=handle,
            refuse=lambda request, error, version: HeartbeatResponse(error_code=error.code),
            is_cacheable=is_cacheable,
        )
        self.dispatcher = Dispatcher(None, {12: api}, CODEC)

    def expect(self, exchange):
        self.exchanges.append(exchange)

    def ready(self):
        pass

    def ask(self, correlation_id, version=4, **fields):
        request = HeartbeatRequest(**{"group_id": "g", "generation_id": 1, "member_id": "m", **fields})
        self.dispatcher.dispatch(frame(CODEC, "HeartbeatRequest", version, correlation_id, request)[4:], self)
        exchange = self.exchanges[-1]
        assert (exchange.request, exchange.correlation_id) == (request, correlation_id)
        assert (exchange.api_version, exchange.client_id) == (version, "bench")
        return exchange.request


def test_only_the_correlation_id_may_differ():
    client = Client()
    first = client.ask(7)
    assert client.ask(2**31 - 1) is first
    assert client.ask(8, generation_id=2) is not first
    assert client.ask(9, generation_id=2) is client.exchanges[-2].request
    assert client.ask(10) is not first


def test_equal_bytes_of_another_version_are_another_request():
    """v1 and v2 have the same encoding."""
    client = Client()
    first = client.ask(1, version=2)
    assert client.ask(2, version=1) is not first


def test_large_requests_and_those_of_other_apis_are_not_cached():
    client = Client()
    assert client.ask(1, member_id="m" * CACHED_REQUEST_BYTES_MAX) is not client.ask(
        2, member_id="m" * CACHED_REQUEST_BYTES_MAX
    )
    assert client.cached_request is NO_CACHED_REQUEST
    client = Client(is_cacheable=False)
    assert client.ask(1) is not client.ask(2)


def test_a_cached_request_that_runs_into_a_bug_is_answered_like_the_first(caplog):
    def fails(server, exchange):
        raise RuntimeError("a bug")

    client = Client(handle=fails)
    for correlation_id in (1, 2):
        client.ask(correlation_id)
        assert client.exchanges[-1].payload is not None
    assert caplog.text.count("event=request_failed api=Heartbeat version=4") == 2
