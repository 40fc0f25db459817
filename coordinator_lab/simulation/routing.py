"""A simulated client's way to a cluster of workers: it finds coordinators as Kafka's clients do.

A client begins with the worker that answers it, of those that it knows from its configuration. It asks any of them for the
coordinator of a group or transactional id (FindCoordinator), remembers the answer, and asks again when the coordinator says
that it is not responsible, or does not answer. To each worker it has one connection.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from random import Random
from typing import Any, TypeVar

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import FindCoordinatorRequest, Message
from coordinator_lab.simulation.network import End
from coordinator_lab.simulation.wire import Caller, NoResponse

T = TypeVar("T")
Address = tuple[str, int]
Key = tuple[int, str]
"""Type (0: group, 1: transactional id) and id, as FindCoordinator has them."""

CONNECT_S = 3.0
FIND_S = 5.0
MOVED = {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE}
GROUP, TRANSACTION = 0, 1
_OF_TRANSACTION = {"InitProducerIdRequest", "AddOffsetsToTxnRequest", "EndTxnRequest"}
_MANY = {
    "OffsetFetchRequest": lambda request: request.groups[0].group_id if request.groups else request.group_id,
    "DescribeGroupsRequest": lambda request: request.groups[0],
    "ConsumerGroupDescribeRequest": lambda request: request.group_ids[0],
    "StreamsGroupDescribeRequest": lambda request: request.group_ids[0],
    "DeleteGroupsRequest": lambda request: request.groups_names[0],
}
"""Requests that may name several groups. Simulated clients name one."""


def key_of(request: Any) -> Key | None:
    """Whose coordinator must answer the request; None if any worker may."""
    if request.NAME in _OF_TRANSACTION:
        return None if request.transactional_id is None else (TRANSACTION, request.transactional_id)
    if request.NAME in _MANY:
        return GROUP, _MANY[request.NAME](request)
    group_id = getattr(request, "group_id", None)
    return None if group_id is None else (GROUP, group_id)


def errors_in(message: Any) -> Iterator[int]:
    """All error codes in a response."""
    if isinstance(message, list):
        for each in message:
            yield from errors_in(each)
    elif isinstance(message, Message):
        for name in type(message).__slots__:  # type: ignore[attr-defined]
            value = getattr(message, name)
            if name == "error_code":
                yield value
            else:
                yield from errors_in(value)


class RoutingCaller:
    """As `Caller`, for several workers."""

    def __init__(
        self, client_id: str, addresses: Sequence[Address], connect: Callable[[Address], Caller], random: Random
    ) -> None:
        """`addresses`: those that the client is configured with. `connect(address)`: the way to one worker."""
        self.client_id = client_id
        self._addresses = addresses
        self._connect = connect
        self._random = random
        self._callers: dict[Address, Caller] = {}
        self._found: dict[Key, Address] = {}
        self._any = random.choice(addresses)
        self._sent: dict[asyncio.Future[Any], tuple[Key | None, Address]] = {}

    # --- finding ------------------------------------------------------------------------------------------------------

    async def _address_for(self, key: Key | None) -> Address:
        """The worker to ask. Raises NoResponse."""
        if key is None:
            return self._any
        if key not in self._found:
            self._found[key] = await self._find(key)
        return self._found[key]

    async def _find(self, key: Key) -> Address:
        version = self._random.randrange(1, 7)
        if version < 4:
            request = FindCoordinatorRequest(key=key[1], key_type=key[0])
        else:
            request = FindCoordinatorRequest(key_type=key[0], coordinator_keys=[key[1]])
        asked = self._any
        try:
            async with asyncio.timeout(FIND_S + CONNECT_S):
                answer = await self._caller(asked).call(request, version, FIND_S)
        except (NoResponse, TimeoutError):
            self._ask_another()
            raise NoResponse from None
        found = answer if version < 4 else answer.coordinators[0]
        if found.error_code:
            raise NoResponse
        return found.host, found.port

    def _caller(self, address: Address) -> Caller:
        caller = self._callers.get(address)
        if caller is None:
            caller = self._callers[address] = self._connect(address)
        return caller

    def _ask_another(self) -> None:
        self._any = self._random.choice(self._addresses)

    def _lost(self, key: Key | None) -> None:
        """The worker that was asked does not answer, or is not responsible any more."""
        if key is None:
            self._ask_another()
        else:
            self._found.pop(key, None)

    # --- as Caller ----------------------------------------------------------------------------------------------------

    async def send(self, request: Message, version: int) -> "asyncio.Future[Any]":
        """As `Caller.send`, to the worker that is responsible."""
        key = key_of(request)
        address = await self._address_for(key)
        try:
            async with asyncio.timeout(CONNECT_S):
                answer = await self._caller(address).send(request, version)
        except (NoResponse, TimeoutError):
            self._lost(key)
            raise NoResponse from None
        self._sent[answer] = key, address
        return answer

    async def answer(self, answer: "asyncio.Future[Any]", within_s: float) -> Any:
        """As `Caller.answer`."""
        key, address = self._sent.pop(answer)
        try:
            response = await self._caller(address).answer(answer, within_s)
        except NoResponse:
            self._lost(key)
            raise
        self._learn(key, response)
        return response

    def _learn(self, key: Key | None, response: Any) -> None:
        if any(code in MOVED for code in errors_in(response)):
            self._lost(key)

    async def call(self, request: Message, version: int, within_s: float) -> Any:
        """As `Caller.call`."""
        key = key_of(request)
        address = await self._address_for(key)
        try:
            async with asyncio.timeout(CONNECT_S + within_s):
                response = await self._caller(address).call(request, version, within_s)
        except (NoResponse, TimeoutError):
            self._lost(key)
            raise NoResponse from None
        self._learn(key, response)
        return response

    def give_up(self) -> None:
        """Abandons all connections, and forgets what was found."""
        for caller in self._callers.values():
            caller.give_up()
        self._found.clear()
        self._ask_another()

    async def connect_admin(self, factory: Callable[[], Any]) -> tuple[End, Any]:
        """A connection to some worker's admin HTTP. Raises NoResponse."""
        return await self._patiently(self._caller(self._random.choice(self._addresses)).connect_admin(factory))

    async def open_raw(self) -> End:
        """As `Caller.open_raw`, to some worker."""
        return await self._patiently(self._caller(self._random.choice(self._addresses)).open_raw())

    @staticmethod
    async def _patiently(connecting: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(CONNECT_S):
                return await connecting
        except TimeoutError:
            raise NoResponse from None
