"""The quotas in force: which of them limit a client, and for how long it waits (Kafka: `QuotaFactory.QuotaManagers`).

Nothing is counted for a client that no quota limits. Kafka counts it as soon as any client has a quota of the kind, so there a
quota that is set later knows what the client did in the last seconds.
"""

from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import NamedTuple

from coordinator.api.declaration import QuotaType
from coordinator.config.settings import QuotasConfig
from coordinator.quotas.client_quota import MutationQuota, RateQuota
from coordinator.quotas.limits import NO_NAME, Account, Limits
from coordinator.quotas.names import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from coordinator.quotas.sensors import Window
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


BUDGETS_MAX = 10_000
"""Clients whose limits are remembered; beyond that, all are looked up again."""
_PERCENT_PER_NS = 100 / 1_000_000_000


KEYS = {
    QuotaType.PRODUCE: PRODUCER_BYTE_RATE,
    QuotaType.FETCH: CONSUMER_BYTE_RATE,
    QuotaType.REQUEST: REQUEST_PERCENTAGE,
    QuotaType.CONTROLLER_MUTATION: CONTROLLER_MUTATION_RATE,
}


class Share(NamedTuple):
    """A limit, and what counts towards it together."""

    account: Account
    limit: float


class Budget(NamedTuple):
    """The limits of a client; None: it has none of the kind."""

    produce: Share | None
    fetch: Share | None
    request: Share | None
    mutation: Share | None


_UNLIMITED = Budget(None, None, None, None)


class Throttling:
    """How often and for how long clients had to wait, and what they were counted, by type."""

    __slots__ = ("bytes", "throttle_ms", "times")

    def __init__(self) -> None:
        self.times = dict.fromkeys(QuotaType, 0)
        self.throttle_ms = dict.fromkeys(QuotaType, 0)
        self.bytes = {QuotaType.PRODUCE: 0, QuotaType.FETCH: 0}

    def count(self, kind: QuotaType, throttle_ms: int) -> None:
        self.times[kind] += 1
        self.throttle_ms[kind] += throttle_ms


class ClientQuotas:
    """The limits, and the rates of the clients that have them."""

    def __init__(self, config: QuotasConfig) -> None:
        window = Window(config.quota_window_num, config.quota_window_size_seconds * 1000)
        self.produce = RateQuota(window)
        self.fetch = RateQuota(window)
        self.request = RateQuota(window, throttle_ms_max=window.size_ms)
        self.mutation = MutationQuota(
            Window(config.controller_quota_window_num, config.controller_quota_window_size_seconds * 1000)
        )
        self.connections = RateQuota(window, throttle_ms_max=window.size_ms)
        self.addresses = AddressLimits({})
        self.throttling = Throttling()
        self._limits = {kind: Limits({}, key) for kind, key in KEYS.items()}
        self._budgets: dict[tuple[str, str | None], Budget | None] = {}

    def update(self, quotas: Quotas) -> None:
        """Puts these quotas in force. What was counted for an account remains."""
        self._limits = {kind: Limits(quotas, key) for kind, key in KEYS.items()}
        self.addresses = AddressLimits(quotas)
        self._budgets.clear()

    def limits(self, kind: QuotaType) -> bool:
        """Whether anybody has a quota of this type."""
        return bool(self.addresses if kind is QuotaType.CONNECTION else self._limits[kind])

    def budget(self, user: str, client_id: str | None) -> Budget | None:
        """The limits of a client; None if it has none at all."""
        key = (user, client_id)
        try:
            return self._budgets[key]
        except KeyError:
            if len(self._budgets) >= BUDGETS_MAX:
                self._budgets.clear()
            shares = Budget(*(self._share(limits, user, client_id or NO_NAME) for limits in self._limits.values()))
            budget = self._budgets[key] = None if shares == _UNLIMITED else shares
            return budget

    def request_throttle_ms(self, share: Share, busy_ns: int, now_ms: int) -> int:
        """Counts the time that a request took of the server's one thread."""
        return self.request.record(share.account, share.limit, busy_ns * _PERCENT_PER_NS, now_ms)

    def connection_throttle_ms(self, address: str, now_ms: int) -> int:
        """Counts a new connection; one that comes too early does not count, and its address has to wait."""
        limit = self.addresses.limit(address)
        if limit is None:
            return 0
        account = Account(NO_NAME, address)
        throttle_ms = self.connections.record(account, limit, 1, now_ms)
        if throttle_ms:
            self.connections.take_back(account, 1, now_ms)
            self.throttling.count(QuotaType.CONNECTION, throttle_ms)
        return throttle_ms

    def _share(self, limits: Limits, user: str, client_id: str) -> Share | None:
        account = limits.account(user, client_id)
        limit = limits.limit(account)
        return None if limit is None else Share(account, limit)
