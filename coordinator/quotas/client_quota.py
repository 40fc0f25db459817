"""How long clients wait that sent, fetched or asked more than their quota (Kafka: `ClientQuotaManager`, `QuotaUtils`).

A client that is over its limit waits until its rate would be back at it, if it did nothing more meanwhile and had been
there for all windows.
"""

import math
from collections import OrderedDict
from typing import Generic, TypeVar

from coordinator.quotas.limits import Account
from coordinator.quotas.sensors import Rate, TokenBucket, Window

ACCOUNTS_MAX = 10_000
"""The most accounts of a quota that are remembered; then the one unused longest is forgotten. Kafka has no bound."""
ACCOUNT_FORGOTTEN_MS = 3_600_000
THROTTLE_MS_MAX = 2**31 - 1

S = TypeVar("S", Rate, TokenBucket)


class Accounts(Generic[S]):
    """The sensors of the accounts of one quota, in the order of their last use."""

    __slots__ = ("_by_account",)

    def __init__(self) -> None:
        self._by_account: OrderedDict[Account, tuple[int, S]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_account)

    def find(self, account: Account) -> S | None:
        found = self._by_account.get(account)
        return None if found is None else found[1]

    def use(self, account: Account, sensor: S, now_ms: int) -> None:
        """Keeps the sensor of an account that is used now, and forgets those unused for long."""
        by_account = self._by_account
        by_account[account] = (now_ms, sensor)
        by_account.move_to_end(account)
        while len(by_account) > ACCOUNTS_MAX or next(iter(by_account.values()))[0] <= now_ms - ACCOUNT_FORGOTTEN_MS:
            by_account.popitem(last=False)


class RateQuota:
    """A quota of something per second: bytes, connections, or the share of the time of a thread."""

    __slots__ = ("_rates", "_throttle_ms_max", "_window")

    def __init__(self, window: Window, throttle_ms_max: int = THROTTLE_MS_MAX) -> None:
        self._window = window
        self._throttle_ms_max = throttle_ms_max
        self._rates: Accounts[Rate] = Accounts()

    def record(self, account: Account, limit: float, value: float, now_ms: int) -> int:
        """Counts the value; returns for how many milliseconds the client has to wait (`recordAndGetThrottleTimeMs`)."""
        rate = self._rate(account, now_ms)
        rate.record(value, now_ms)
        per_second, elapsed_ms = rate.measure(now_ms)
        excess = per_second - limit
        if not excess > 0:
            return 0
        throttle_ms = _rounded(excess / limit * elapsed_ms) if limit else THROTTLE_MS_MAX
        return min(throttle_ms, self._throttle_ms_max)

    def take_back(self, account: Account, value: float, now_ms: int) -> None:
        """Does not count the value after all (`unrecordQuotaSensor`)."""
        self._rate(account, now_ms).record(-value, now_ms)

    def most_at_once(self, limit: float) -> float:
        """The largest value that need not make a client wait (`maxValueInQuotaWindow`)."""
        return limit * (self._window.samples - 1) * self._window.size_ms / 1000

    def _rate(self, account: Account, now_ms: int) -> Rate:
        rate = self._rates.find(account) or Rate(self._window, now_ms)
        self._rates.use(account, rate, now_ms)
        return rate


class MutationQuota:
    """The quota of partitions that are created and deleted per second (KIP-599; Kafka: `ControllerMutationQuotaManager`)."""

    __slots__ = ("_buckets", "_window")

    def __init__(self, window: Window) -> None:
        self._window = window
        self._buckets: Accounts[TokenBucket] = Accounts()

    def record(self, account: Account, limit: float, partitions: int, now_ms: int, *, is_strict: bool) -> int:
        """Counts the partitions; returns for how many milliseconds the client has to wait.

        Strict: if it has to, they are not counted, and must not be changed.
        """
        bucket = self._buckets.find(account) or TokenBucket(self._window, limit, now_ms)
        self._buckets.use(account, bucket, now_ms)
        if is_strict and bucket.left(limit, now_ms) < 0:
            return _until_refilled_ms(bucket, limit, now_ms)
        bucket.take(partitions, limit, now_ms)
        return 0 if is_strict else _until_refilled_ms(bucket, limit, now_ms)


def _until_refilled_ms(bucket: TokenBucket, limit: float, now_ms: int) -> int:
    return max(0, _rounded(-bucket.left(limit, now_ms) / limit * 1000))


def _rounded(throttle_ms: float) -> int:
    """Java's Math.round. A quota that is no number, which Kafka accepts, limits nothing."""
    if math.isnan(throttle_ms):
        return 0
    return THROTTLE_MS_MAX if throttle_ms >= THROTTLE_MS_MAX else math.floor(throttle_ms + 0.5)
