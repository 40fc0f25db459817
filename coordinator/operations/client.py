"""A small blocking Kafka client: one request at a time, in the newest version that both sides support.

The commands need no more: no pipelining, no background threads, and no cached metadata after the command has finished.
Client libraries would be a dependency and hide the responses of a coordinator, because they retry, rejoin and discard error
codes. This client only retries, until the timeout, while a coordinator is loading or has moved.
"""

import time
from typing import Any, Self

from coordinator.client import blocking
from coordinator.client.blocking import UNPROTECTED, Address
from coordinator.client.login.tls import Security
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    Answer,
    FindCoordinatorRequest,
    Message,
    MetadataRequest,
    MetadataResponse,
    Request,
)

RETRY_S = 0.1
RETRIABLE = frozenset(
    {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
)


class OperationFailed(Exception):
    """The command failed. The text is one line for the user."""


def error_name(code: int) -> str:
    """Kafka's name of an error code."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


def refuse_error(code: int, doing: str, message: str | None = None) -> None:
    """Raises OperationFailed unless the code is NONE."""
    if code:
        raise OperationFailed(f"{doing}: {error_name(code)}{f' ({message})' if message else ''}")


class Connection(blocking.Connection):
    """A connection of a command to one server. All methods raise OperationFailed."""

    failed = OperationFailed
    client_id = "coordinator-cli"


class Client:
    """A client of a cluster, found through any of its servers. All methods raise OperationFailed."""

    def __init__(self, bootstrap: str, timeout_s: float, security: Security = UNPROTECTED) -> None:
        self._timeout_s = timeout_s
        self._security = security
        self._connections: dict[Address, Connection] = {}
        self._coordinators: dict[str, Address] = {}
        self._first = self._bootstrap([parse_address(part) for part in bootstrap.split(",")])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    @property
    def timeout_ms(self) -> int:
        """For how long a server may work on a request."""
        return round(self._timeout_s * 1000)

    def any(self) -> Connection:
        """The connection to a bootstrap server."""
        return self.to(self._first)

    def to(self, address: Address) -> Connection:
        """The connection to this server."""
        if address not in self._connections:
            self._connections[address] = Connection(address, self._timeout_s, self._security)
        return self._connections[address]

    def metadata(self, topics: list[str] | None = None) -> MetadataResponse:
        """The servers, and the partitions of these topics with their leaders. It does not create topics."""
        wanted = [MetadataRequest.MetadataRequestTopic(name=name) for name in topics or []]
        return self.any().ask(MetadataRequest(topics=wanted, allow_auto_topic_creation=False))

    def brokers(self) -> list[Address]:
        """The addresses of all servers in the cluster."""
        return [(broker.host, broker.port) for broker in self.metadata().brokers]

    def ask_coordinator(self, group_id: str, request: Request[Answer], *, version_max: int | None = None) -> Answer:
        """Sends a request to the coordinator of a group, and retries while that is loading or has moved."""
        deadline = time.monotonic() + self._timeout_s
        while True:
            answer = self.coordinator(group_id, deadline).ask(request, version_max=version_max)
            if _codes(answer).isdisjoint(RETRIABLE) or time.monotonic() > deadline:
                return answer
            self._coordinators.pop(group_id, None)
            time.sleep(RETRY_S)

    def ask_leader(self, leader: Address, request: Request[Answer], *, version_max: int | None = None) -> Answer:
        """Sends a request to the leader of partitions, and retries while it does not know yet that it leads them."""
        deadline = time.monotonic() + self._timeout_s
        while True:
            answer = self.to(leader).ask(request, version_max=version_max)
            if ErrorCode.NOT_LEADER_OR_FOLLOWER not in _codes(answer) or time.monotonic() > deadline:
                return answer
            time.sleep(RETRY_S)

    def coordinator(self, group_id: str, deadline: float | None = None) -> Connection:
        """The connection to the coordinator of a group."""
        deadline = time.monotonic() + self._timeout_s if deadline is None else deadline
        while group_id not in self._coordinators:
            # Version 3 is the last one with a single key; later ones have batches.
            found = self.any().ask(FindCoordinatorRequest(key=group_id, key_type=0), version_max=3)
            if found.error_code in RETRIABLE and time.monotonic() < deadline:
                time.sleep(RETRY_S)
                continue
            refuse_error(found.error_code, f"cannot find the coordinator of group {group_id}", found.error_message)
            self._coordinators[group_id] = (found.host, found.port)
        return self.to(self._coordinators[group_id])

    def _bootstrap(self, addresses: list[Address]) -> Address:
        problems = []
        for each in addresses:
            try:
                self.to(each)
            except OperationFailed as error:
                problems.append(str(error))
            else:
                return each
        raise OperationFailed("; ".join(problems))


def parse_address(text: str) -> Address:
    """The host and port of "host:port", with IPv6 in brackets. Raises OperationFailed."""
    host, _, port = text.strip().rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise OperationFailed(f"{text!r}: a bootstrap server must be HOST:PORT")
    return host.strip("[]"), int(port)


def _codes(answer: Any) -> set[int]:
    """All error codes in a response, at any depth."""
    found = {answer.error_code} if hasattr(answer, "error_code") else set()
    for name in answer.__slots__:
        items = getattr(answer, name)
        if isinstance(items, list):
            for item in items:
                if isinstance(item, Message):
                    found |= _codes(item)
    return found
