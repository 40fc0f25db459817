"""A request that a client repeats is decoded once, and never mistaken for another."""

from operator import attrgetter

from coordinator.api.declaration import Api
from coordinator.api.guards import guarded_by
from coordinator.api.recognition import CACHED_REQUEST_BYTES_MAX, NO_CACHED_REQUEST, NO_TEMPLATE
from coordinator.client.conversation import request_frame
from coordinator.network.dispatch import Dispatcher
from coordinator.protocol.codec import Codec
from coordinator.protocol.messages import HeartbeatRequest, HeartbeatResponse
from coordinator.runtime.result import NO_LINK
from coordinator.security.access import READ_GROUP
from coordinator.security.principal import ANONYMOUS
from tests.support.permitting import Allowed

CODEC = Codec.of(None)


class Client:
    """A connection that keeps its exchanges."""

    client_host = "/127.0.0.1"
    link = NO_LINK
    principal = ANONYMOUS

    def __init__(self, *, is_cacheable=True, handle=lambda server, exchange: None, authorizer=None):
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
            guard=guarded_by(READ_GROUP, attrgetter("group_id"), handle),
            is_guarded_whole=True,
            is_cacheable=is_cacheable,
        )
        self.dispatcher = Dispatcher(None, {12: api}, CODEC, authorizer=authorizer)

    def ready(self):
        pass

    def ask(self, correlation_id, version=4, **fields):
        request = HeartbeatRequest(**{"group_id": "g", "generation_id": 1, "member_id": "m", **fields})
        self.dispatcher.dispatch(request_frame(request, version, correlation_id, b"test")[4:], self)
        exchange = self.exchanges[-1]
        assert (exchange.request, exchange.correlation_id) == (request, correlation_id)
        assert (exchange.api_version, exchange.client_id) == (version, "test")
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


class Counting(Allowed):
    """An authorizer that counts how often it is asked."""

    asked = 0

    def allows(self, *arguments, **options):
        self.asked += 1
        return super().allows(*arguments, **options)


def test_the_authorizer_is_asked_again_about_a_cached_request_when_the_acls_change():
    handled = []
    authorizer = Counting()
    client = Client(handle=lambda server, exchange: handled.append(exchange.correlation_id), authorizer=authorizer)
    for correlation_id in (1, 2):
        client.ask(correlation_id)
    assert (handled, authorizer.asked) == ([], 2)  # a refusal is not kept
    authorizer.allow(READ_GROUP, "g")
    for correlation_id in range(3, 10):
        client.ask(correlation_id)
    assert (handled, authorizer.asked) == ([3, 4, 5, 6, 7, 8, 9], 3)
    authorizer.forbid(READ_GROUP, "g")
    client.ask(10)
    assert handled[-1] == 9
    assert client.exchanges[-1].payload is not None


def test_what_a_client_may_do_to_one_group_says_nothing_about_another():
    handled = []
    authorizer = Counting()
    authorizer.allow(READ_GROUP, "g")
    client = Client(handle=lambda server, exchange: handled.append(exchange.request.group_id), authorizer=authorizer)
    for group in ("g", "g", "other", "other", "g", "g"):
        client.ask(1, group_id=group)
    assert handled == ["g"] * 4
