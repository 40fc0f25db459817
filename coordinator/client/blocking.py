"""A blocking connection to one server: one request at a time, in the newest version that both sides support."""

import socket
from contextlib import suppress
from typing import Self

from coordinator.client.conversation import Conversation, LinkFailed, NotAResponse, Splitter, common_version
from coordinator.client.login.sasl import VERSIONS as SASL_VERSIONS
from coordinator.client.login.sasl import SecurityFailed
from coordinator.client.login.tls import Security
from coordinator.protocol.codec import EncodeError
from coordinator.protocol.messages import Answer, ApiVersionsRequest, Message, Request

Address = tuple[str, int]
UNPROTECTED = Security()
_READ_BYTES = 1 << 20


class Connection:
    """A connection, and the API versions that the server supports. All methods raise `failed`, with one line."""

    failed: type[Exception] = LinkFailed
    client_id = "coordinator"

    def __init__(self, address: Address, timeout_s: float, security: Security = UNPROTECTED) -> None:
        host, port = address
        self.name = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        """HOST:PORT."""
        self._conversation: Conversation[None] = Conversation(self.client_id)
        self._responses = Splitter()
        self._versions: dict[int, tuple[int, int]] = {}
        try:
            self._socket = socket.create_connection(address, timeout=timeout_s)
        except OSError as error:
            raise self.failed(f"cannot connect to {self.name}: {error.strerror or error}") from error
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if security.tls is not None:
                self._socket = security.tls.wrap(self._socket, host)
            answer = self._ask(ApiVersionsRequest(), 0)
            self._versions = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
            if security.sasl is not None:
                security.sasl.authenticate(lambda request: self._ask(request, SASL_VERSIONS[request.NAME]))
        except SecurityFailed as error:
            self.close()
            raise self.failed(f"{self.name}: {error}") from error
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def supports(self, request: type[Message]) -> bool:
        """Whether there is a version of this API that both sides support."""
        return self.version_of(request) >= 0

    def version_of(self, request: type[Message], version_max: int | None = None) -> int:
        """The version in which `ask` would send the request, or -1 if there is none."""
        return common_version(request, self._versions, version_max)

    def ask(self, request: Request[Answer], *, version_max: int | None = None) -> Answer:
        """Sends a request and returns the response, with the error codes that it has.

        `version_max` limits the version of the request.
        """
        version = self.version_of(type(request), version_max)
        if version < 0:
            raise self.failed(f"{self.name} supports no version of {_api(request)} that this command supports")
        return self._ask(request, version)

    def _ask(self, request: Request[Answer], version: int) -> Answer:
        try:
            self._socket.sendall(self._conversation.request(request, version, None))
            answer: Answer = self._conversation.response(self._receive()).message
        except EncodeError as error:
            raise self.failed(f"{self.name} supports {_api(request)} only up to version {version}: {error}") from error
        except NotAResponse as error:
            raise self.failed(f"{self.name} {error}") from error
        except TimeoutError as error:
            raise self.failed(f"{self.name} did not respond to {_api(request)} in time") from error
        except OSError as error:
            raise self.failed(f"{self.name}: {error.strerror or error}") from error
        return answer

    def _receive(self) -> bytes:
        while True:
            data = self._socket.recv(_READ_BYTES)
            if not data:
                raise self.failed(f"{self.name} closed the connection: is it a Kafka server?")
            for response in self._responses.split(data):
                return b"".join(response)

    def close(self) -> None:
        with suppress(OSError):
            self._socket.close()


def _api(request: Message) -> str:
    return request.NAME.removesuffix("Request")
