"""The brokers of a server that is several (`serve --nodes`): which are up, and acts on them."""

from functools import partial
from typing import TYPE_CHECKING, Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from coordinator.admin.endpoint import Endpoint, RefusedRequest, Request
from coordinator.admin.server_view import ServerView
from coordinator.config.settings import joined
from coordinator.protocol.errors import ErrorCode
from coordinator.topics.names import CONSUMER_OFFSETS, TRANSACTION_STATE

if TYPE_CHECKING:
    from coordinator.nodes.brokers import Brokers


class BrokerView(Struct):
    """A broker."""

    id: int
    rack: str | None
    addresses: list[str]
    """HOST:PORT of each listener, as clients get it."""
    up: bool
    controller: bool
    """Whether Metadata names it as the controller."""
    leads: int
    """The partitions that it leads, with those of internal topics."""


class BrokerList(Struct):
    """All brokers, by their ids; none if the server is one broker."""

    brokers: list[BrokerView]


class LeadRequest(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What a broker is to lead: a partition of a topic, the partition of a group or transactional id, or the controller."""

    topic: str | UnsetType = UNSET
    partition: Annotated[int, Meta(ge=0)] | UnsetType = UNSET
    group: str | UnsetType = UNSET
    """It coordinates this group, and the others of the same partition of `__consumer_offsets`."""
    transactional_id: str | UnsetType = UNSET
    controller: bool = False


class LedPartition(Struct):
    """A partition that a broker leads now."""

    broker: int
    topic: str
    """`__cluster_metadata` stands for the controller."""
    partition: int
    leader_epoch: int


def list_brokers(server: ServerView, _request: Request) -> BrokerList:
    """The brokers, whether they are up, and how much each leads."""
    brokers = server.brokers
    return BrokerList([] if brokers is None else [_view(brokers, broker_id) for broker_id in brokers.by_id])


async def take_down(server: ServerView, request: Request) -> BrokerView:
    """Ends a broker as a crash does. Its connections close, and the next replica in sync leads what it led."""
    return await _turn(server, request, to_up=False)


async def bring_up(server: ServerView, request: Request) -> BrokerView:
    """Starts a broker again, at its addresses. Its replicas are in sync; leaders stay until they are elected or moved."""
    return await _turn(server, request, to_up=True)


async def lead(server: ServerView, request: Request) -> LedPartition:
    """Moves the leader of a partition, a coordinator, or the controller, to a broker that is up."""
    brokers, broker_id, wanted = _brokers(server), _broker_id(server, request), request.body
    named = (wanted.topic, wanted.group, wanted.transactional_id)
    if sum(each is not UNSET for each in named) + wanted.controller != 1:
        raise RefusedRequest(422, "the body must have topic and partition, group, transactional_id, or controller")
    if (wanted.topic is UNSET) is not (wanted.partition is UNSET):
        raise RefusedRequest(422, "topic and partition belong together")
    async with brokers.changing:
        if broker_id not in brokers.up:
            raise RefusedRequest(409, f"broker {broker_id} is down")
        if wanted.controller:
            brokers.controller = broker_id
            return LedPartition(broker_id, "__cluster_metadata", 0, 0)
        if wanted.topic is not UNSET:
            name, index = wanted.topic, wanted.partition
        elif wanted.group is not UNSET:
            name, index = CONSUMER_OFFSETS, server.groups.shard_of(wanted.group).index
        else:
            name, index = TRANSACTION_STATE, server.transactions.shard_of(wanted.transactional_id).index
        topic = server.topics.registry.topics.get(name)
        if topic is not None:
            _check(await brokers.changed(partial(brokers.lead, broker_id, topic, index)))
        placement = brokers.placement(name, index)
        if placement is None:
            raise RefusedRequest(404, f"there is no partition {name}-{index}")
        return LedPartition(placement.leader, name, index, placement.leader_epoch)


async def _turn(server: ServerView, request: Request, *, to_up: bool) -> BrokerView:
    brokers, broker_id = _brokers(server), _broker_id(server, request)
    async with brokers.changing:
        if (broker_id in brokers.up) is to_up:
            raise RefusedRequest(409, f"broker {broker_id} is {'up' if to_up else 'down'} already")
        if not to_up and len(brokers.up) == 1:
            raise RefusedRequest(409, f"broker {broker_id} is the last one that is up")
        try:
            _check(await (server.bring_broker_up if to_up else server.take_broker_down)(broker_id))
        except OSError as error:
            raise RefusedRequest(503, f"broker {broker_id} cannot listen: {error}") from error
    return _view(brokers, broker_id)


def _check(error: ErrorCode) -> None:
    if error is not ErrorCode.NONE:
        raise RefusedRequest(503, f"the change could not be written: {error.name}")


def _view(brokers: "Brokers", broker_id: int) -> BrokerView:
    broker = brokers.by_id[broker_id]
    addresses = [joined(*address) for address in broker.addresses]
    is_up, is_controller = broker_id in brokers.up, broker_id == brokers.controller
    return BrokerView(broker_id, broker.rack, addresses, is_up, is_controller, brokers.led(broker_id))


def _brokers(server: ServerView) -> "Brokers":
    brokers = server.brokers
    if brokers is None:
        raise RefusedRequest(409, "the server is one broker; `serve --nodes 3` makes it three")
    return brokers


def _broker_id(server: ServerView, request: Request) -> int:
    text, known = request.parameters["broker_id"], _brokers(server).by_id
    if not text.isdecimal() or int(text) not in known:
        raise RefusedRequest(404, f"there is no broker {text}", [str(each) for each in known])
    return int(text)


ENDPOINTS = (
    Endpoint(
        "GET", "/v1/brokers", "list the brokers of a server that is several", list_brokers, name="listBrokers",
        returns=BrokerList,
    ),
    Endpoint(
        "POST", "/v1/brokers/{broker_id}/down", "end a broker as a crash does", take_down, name="takeBrokerDown",
        returns=BrokerView, refusals=(404, 409, 503), control=True,
    ),
    Endpoint(
        "POST", "/v1/brokers/{broker_id}/up", "start a broker again", bring_up, name="bringBrokerUp",
        returns=BrokerView, refusals=(404, 409, 503), control=True,
    ),
    Endpoint(
        "POST", "/v1/brokers/{broker_id}/lead", "move a leader, a coordinator or the controller to a broker", lead,
        name="moveLeader", body=LeadRequest, returns=LedPartition, refusals=(404, 409, 503), control=True,
    ),
)  # fmt: skip
