"""The hosts of ACLs: an address, a range of addresses in CIDR notation (since Kafka 4.4: `CidrUtils`), or `*`.

An address of IPv6 can be written in several ways; Java writes 0:0:0:0:0:0:0:1 for ::1. All of them are the same host here.
"""

import re
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from coordinator.security.acls import WILDCARD

_CACHED = 1_024
_IPV4_CIDR = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})/([0-9]{1,2})")


def matches(pattern: str, host: str) -> bool:
    """Whether a host is the one, or one of those, that an ACL is about."""
    if pattern in (WILDCARD, host):
        return True
    address = _address(host)
    if address is None:
        return False
    if "/" not in pattern:
        return _address(pattern) == address
    network = _network(pattern)
    return network is not None and address in network


def check(pattern: str) -> None:
    """Raises ValueError, with Kafka's text, for a host that an ACL cannot have (`AclControlManager.validateHostPattern`)."""
    if not pattern:
        raise ValueError("Host pattern cannot be null or empty")
    if "/" in pattern:
        try:
            _read_cidr(pattern)
        except ValueError as error:
            raise ValueError(f"Invalid CIDR notation '{pattern}': {error}") from error


@lru_cache(_CACHED)
def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


@lru_cache(_CACHED)
def _network(pattern: str) -> IPv4Network | IPv6Network | None:
    try:
        return _read_cidr(pattern)
    except ValueError:
        return None


def _read_cidr(text: str) -> IPv4Network | IPv6Network:
    if ":" in text:
        return _read_ipv6(text)
    match = _IPV4_CIDR.fullmatch(text)
    if match is None:
        raise ValueError(f"Could not parse [{text}]")
    *parts, length = map(int, match.groups())
    for value, most in (*((part, 255) for part in parts), (length, 32)):
        if value > most:
            raise ValueError(f"Value [{value}] not in range [0,{most}]")
    return IPv4Network((bytes(parts), length), strict=False)


def _read_ipv6(text: str) -> IPv6Network:
    host, _, digits = text.partition("/")
    if not re.fullmatch(r"[0-9]{1,9}", digits):
        raise ValueError(f"Could not parse [{text}] - invalid prefix length")
    length = int(digits)
    if length > 128:
        raise ValueError(f"Could not parse [{text}] - prefix length must be between 0 and 128")
    try:
        address = IPv6Address(host.partition("%")[0])
    except ValueError as error:
        raise ValueError(f"Could not parse [{host}]") from error
    if address.ipv4_mapped is not None:
        raise ValueError(f"Could not parse [{host}] - not an IPv6 address")
    return IPv6Network((address.packed, length), strict=False)
