"""A server with a data plane, and requests without a socket; every response goes through the codec, as a client's does."""

from types import SimpleNamespace

from coordinator import requests
from coordinator.api.cluster import OneNode
from coordinator.api.declaration import supported_apis
from coordinator.api.server import Endpoint
from coordinator.config.settings import ServerConfig
from coordinator.protocol import messages
from coordinator.protocol.codec import Codec
from coordinator.protocol.errors import KafkaError
from coordinator.protocol.releases import AS_NEWEST
from coordinator.runtime.result import NO_LINK
from coordinator.topics.encoded_topics import EncodedTopics
from tests.support.permitting import EVERYTHING
from tests.topics.data_plane import FOLDER, DataPlane

CLUSTER_ID = "x1yZ2nQGS_mE4bIq5yQZ0A"


class Server:
    """What the handlers of this package use of the composition root."""

    def __init__(self, **settings):
        self.plane = DataPlane(**settings)
        self.topics = self.plane.topics
        self.apis = supported_apis(requests)
        self.config = ServerConfig(log_dir=FOLDER, topics=self.topics.config)
        self.cluster_id = CLUSTER_ID
        self.cluster = OneNode(1)
        self.groups = self.transactions = SimpleNamespace(shard_of=lambda _key: SimpleNamespace(index=0))
        self.node_id = self.controller_id = 1
        self.endpoints = [Endpoint("PLAINTEXT", ("0.0.0.0", 9092), ("kafka.example", 9092))]
        self.encoded_topics = EncodedTopics()
        self.verification = SimpleNamespace(check=None)


class ReplyTarget:
    """An exchange: keeps the answer as it would be read on the other side, in the version of the request."""

    advertised = ("kafka.example", 9092)
    client_id = "test"
    client_host = "/127.0.0.1"
    link = NO_LINK
    dialect = None
    behaviours = AS_NEWEST
    permits = EVERYTHING
    admits = None

    def __init__(self, api, version, request, apis):
        self.api = api
        self.supported = {key: each.versions for key, each in apis.items()}
        self.api_version = version
        self.request = request
        self.payload = None
        self.answer = None
        self.closed = None
        self.on_close = None
        self.pieces = 0
        """The pieces after which a request that is handled in slices let others have their turn."""
        self.route = SimpleNamespace(api=api, encode=Codec.of().encoder(f"{api.name}Response", version))

    def allows_mutation(self, partitions):
        return True

    def reply(self, message):
        self.reply_encoded(message, [self.route.encode(message)])

    reply_in_parts = reply

    def reply_encoded(self, message, parts):
        assert self.payload is None, "one answer"
        self.payload = b"".join(parts)
        self.answer, end = Codec.of().decoder(f"{self.api.name}Response", self.api_version)(self.payload, 0)
        assert end == len(self.payload)

    @property
    def is_over(self):
        return self.payload is not None

    def wait(self):
        pass

    def reply_in_slices(self, message):
        self.reply(message)

    def run_in_slices(self, pieces, *, even_if_lost=False):
        self.pieces = sum(1 for _ in pieces)

    def count_mutation(self, partitions):
        pass

    def no_reply(self):
        self.payload = b""

    def close(self, reason):
        self.closed = reason


def ask(server, name, version, **fields):
    """The exchange after its request was handled; `answer` is None while it waits."""
    api = next(api for api in server.apis.values() if api.name == name)
    request = getattr(messages, f"{name}Request")(**fields)
    exchange = ReplyTarget(api, version, request, server.apis)
    try:
        api.handle(server, exchange)
    except KafkaError as error:
        exchange.reply(api.refusal(request, error, version))
    return exchange


def answer(server, name, version, **fields):
    """The answer to a request that is answered at once."""
    exchange = ask(server, name, version, **fields)
    assert exchange.answer is not None
    return exchange.answer
