"""Response headers are as defined, except that of ApiVersions."""

from coordinator import requests
from coordinator.api.declaration import supported_apis
from coordinator.network.dispatch import API_VERSIONS, Dispatcher
from coordinator.protocol.codec import Codec
from coordinator.protocol.messages import ResponseHeader

CODEC = Codec.of()
SIZE_BYTES = 4


def test_responses_have_the_header_of_their_version():
    """A client that does not know our ApiVersions must be able to read its answer: no tagged fields (KIP-511)."""
    apis = supported_apis(requests)
    dispatcher = Dispatcher(None, apis, CODEC)
    for api in apis.values():
        first, last = api.versions
        for version in range(first, last + 1):
            flexible = CODEC.is_flexible(f"{api.name}Response", version) and api.key != API_VERSIONS
            expected = CODEC.encoder("ResponseHeader", int(flexible))(ResponseHeader(9))
            route = dispatcher._route(api.key, version)
            head = route.head(7, 9)
            assert (head[:SIZE_BYTES], head[SIZE_BYTES:]) == ((7).to_bytes(SIZE_BYTES), expected)
            assert route.head_bytes == len(expected)
