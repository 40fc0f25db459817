"""Responses that carry the addresses of brokers, with those of this server's listeners in their place.

Metadata            only its list of brokers is read and replaced; what is behind it may be long, and stays as it is
DescribeCluster     decoded and encoded again
FindCoordinator     the same; of transactional ids
Produce 10 and on   the same, if it names new leaders (KIP-951)
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from coordinator.api.cluster import Node
from coordinator.client.conversation import ELEMENTS_MAX
from coordinator.protocol.codec import Codec, DecodeError
from coordinator.protocol.messages import DescribeClusterResponse, FindCoordinatorResponse, MetadataResponse
from coordinator.protocol.wire import read_varint, skip_tags, write_varint
from coordinator.requests import describe_cluster, find_coordinator, metadata, produce

PRODUCE, METADATA, FIND_COORDINATOR, DESCRIBE_CLUSTER = (
    each.API.key for each in (produce, metadata, find_coordinator, describe_cluster)
)

LocateBroker = Callable[[int], tuple[str, int] | None]
"""The address at which clients reach a broker; None: there is no listener for it."""

NODE_ENDPOINTS_SINCE = 10
_FLEXIBLE_METADATA = 9
_THROTTLE_SINCE, _RACK_SINCE = 3, 1
_BATCHED_SINCE = 4
_NO_PORT = -1
_HEAD_BYTES = 8


class Rewriting(NamedTuple):
    """What the responses of an API may say instead."""

    locate: LocateBroker
    own_nodes: Iterable[Node]
    """The nodes that stand beside the brokers: this server, and the other workers."""


def is_rewritten(api_key: int, version: int) -> bool:
    """Whether a response of this API may carry addresses."""
    return api_key in (METADATA, DESCRIBE_CLUSTER, FIND_COORDINATOR) or (
        api_key == PRODUCE and version >= NODE_ENDPOINTS_SINCE
    )


def nodes_of(api_key: int, version: int, frame: bytes) -> list[int]:
    """The ids of the brokers whose addresses a response carries. Raises DecodeError."""
    if api_key == METADATA:
        return [broker.node_id for broker in _read_brokers(frame, version).brokers]
    response = _decode(api_key, version, frame)
    if api_key == DESCRIBE_CLUSTER:
        return [broker.broker_id for broker in response.brokers]
    if api_key == PRODUCE:
        return [each.node_id for each in response.node_endpoints]
    if version >= _BATCHED_SINCE:
        return [each.node_id for each in response.coordinators if not each.error_code]
    return [] if response.error_code else [response.node_id]


def rewrite(api_key: int, version: int, frame: bytes, rewriting: Rewriting) -> bytes:
    """The response that clients get. `frame`: a whole one, with its size field. Raises DecodeError."""
    if api_key == METADATA:
        return _metadata(version, frame, rewriting)
    response = _decode(api_key, version, frame)
    if api_key == PRODUCE:
        if not response.node_endpoints:
            return frame
        for endpoint in response.node_endpoints:
            endpoint.host, endpoint.port = rewriting.locate(endpoint.node_id) or ("", _NO_PORT)
    elif api_key == DESCRIBE_CLUSTER:
        _describe_cluster(response, rewriting)
    else:
        _find_coordinator(version, response, rewriting)
    return _encode(api_key, version, frame, response)


def _describe_cluster(response: DescribeClusterResponse, rewriting: Rewriting) -> None:
    for broker in response.brokers:
        broker.host, broker.port = rewriting.locate(broker.broker_id) or ("", _NO_PORT)
    if not response.error_code:
        response.brokers += [
            DescribeClusterResponse.DescribeClusterBroker(broker_id=node.id, host=node.host, port=node.port)
            for node in rewriting.own_nodes
        ]


def _find_coordinator(version: int, response: FindCoordinatorResponse, rewriting: Rewriting) -> None:
    found: list[Any] = response.coordinators if version >= _BATCHED_SINCE else [response]
    for each in found:
        if not each.error_code:
            each.host, each.port = rewriting.locate(each.node_id) or ("", _NO_PORT)


_NAMES = {PRODUCE: "Produce", DESCRIBE_CLUSTER: "DescribeCluster", FIND_COORDINATOR: "FindCoordinator"}


def _decode(api_key: int, version: int, frame: bytes) -> Any:
    codec, name = Codec.of(None, ELEMENTS_MAX), f"{_NAMES[api_key]}Response"
    return codec.decoder(name, version)(frame, _HEAD_BYTES + codec.is_flexible(name, version))[0]


def _encode(api_key: int, version: int, frame: bytes, response: Any) -> bytes:
    codec, name = Codec.of(), f"{_NAMES[api_key]}Response"
    tags = b"\0" if codec.is_flexible(name, version) else b""
    return _sized(frame[4:_HEAD_BYTES] + tags + codec.encoder(name, version)(response))


def _sized(content: bytes) -> bytes:
    return len(content).to_bytes(4) + content


# --- Metadata: only the beginning is read -----------------------------------------------------------------------------


class _Brokers(NamedTuple):
    start: int
    """Where the number of brokers is."""
    end: int
    brokers: list[MetadataResponse.MetadataResponseBroker]


def _metadata(version: int, frame: bytes, rewriting: Rewriting) -> bytes:
    found = _read_brokers(frame, version)
    brokers = []
    for broker in found.brokers:
        address = rewriting.locate(broker.node_id)
        if address is not None:
            broker.host, broker.port = address
            brokers.append(broker)
    brokers += [
        MetadataResponse.MetadataResponseBroker(node_id=node.id, host=node.host, port=node.port, rack=None)
        for node in rewriting.own_nodes
    ]
    return _sized(frame[4 : found.start] + _write_brokers(brokers, version) + frame[found.end :])


def _read_brokers(frame: bytes, version: int) -> _Brokers:
    is_flexible = version >= _FLEXIBLE_METADATA
    start = _HEAD_BYTES + is_flexible + (4 if version >= _THROTTLE_SINCE else 0)
    try:
        if is_flexible:
            count, position = read_varint(frame, start)
            count -= 1
        else:
            count, position = int.from_bytes(frame[start : start + 4], signed=True), start + 4
        brokers = []
        for _ in range(count):
            node_id, position = int.from_bytes(frame[position : position + 4], signed=True), position + 4
            host, position = _read_text(frame, position, is_flexible=is_flexible)
            port, position = int.from_bytes(frame[position : position + 4], signed=True), position + 4
            rack = None
            if version >= _RACK_SINCE:
                rack, position = _read_text(frame, position, is_flexible=is_flexible)
            if is_flexible:
                position = skip_tags(frame, position)
            brokers.append(MetadataResponse.MetadataResponseBroker(node_id, host or "", port, rack))
    except (IndexError, UnicodeDecodeError) as error:
        raise DecodeError("the brokers of a Metadata response are truncated") from error
    if position > len(frame):
        raise DecodeError("the brokers of a Metadata response are truncated")
    return _Brokers(start, position, brokers)


def _read_text(frame: bytes, position: int, *, is_flexible: bool) -> tuple[str | None, int]:
    if is_flexible:
        size, position = read_varint(frame, position)
        size -= 1
    else:
        size, position = int.from_bytes(frame[position : position + 2], signed=True), position + 2
    if size < 0:
        return None, position
    return frame[position : position + size].decode(), position + size


def _write_brokers(brokers: list[MetadataResponse.MetadataResponseBroker], version: int) -> bytes:
    is_flexible = version >= _FLEXIBLE_METADATA
    parts = [write_varint(len(brokers) + 1) if is_flexible else len(brokers).to_bytes(4)]
    for broker in brokers:
        parts += [
            broker.node_id.to_bytes(4, signed=True),
            _write_text(broker.host, is_flexible=is_flexible),
            broker.port.to_bytes(4, signed=True),
        ]
        if version >= _RACK_SINCE:
            parts.append(_write_text(broker.rack, is_flexible=is_flexible))
        if is_flexible:
            parts.append(b"\0")
    return b"".join(parts)


def _write_text(text: str | None, *, is_flexible: bool) -> bytes:
    encoded = b"" if text is None else text.encode()
    if is_flexible:
        return write_varint(0 if text is None else len(encoded) + 1) + encoded
    return (-1 if text is None else len(encoded)).to_bytes(2, signed=True) + encoded
