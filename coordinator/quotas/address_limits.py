"""How many connections an address may open per second (KIP-612; Kafka: `ConnectionQuotas.connectionRateForIp`)."""

from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address

from coordinator.quotas.names import CONNECTION_CREATION_RATE, IP
from coordinator.topics.client_quotas import Quotas


class AddressLimits:
    """The limits of addresses. That of the default is one for each address that has none of its own."""

    __slots__ = ("_by_address", "_default")

    def __init__(self, quotas: Quotas) -> None:
        self._default: int | None = None
        self._by_address: dict[IPv4Address | IPv6Address, int] = {}
        for entity, values in quotas.items():
            names = dict(entity)
            if IP not in names or CONNECTION_CREATION_RATE not in values:
                continue
            with suppress(ValueError):  # neither a name that is no address nor a limit that is no number limits anybody
                name, limit = names[IP], int(values[CONNECTION_CREATION_RATE])
                if name is None:
                    self._default = limit
                else:
                    self._by_address[ip_address(name)] = limit

    def __bool__(self) -> bool:
        return self._default is not None or bool(self._by_address)

    def limit(self, address: str) -> int | None:
        """The limit of an address; None: it has none, or nobody knows the address."""
        try:
            return self._by_address.get(ip_address(address), self._default)
        except ValueError:
            return self._default
