"""Rates and buckets are measured as Kafka measures them."""

import pytest

from coordinator.quotas.client_quota import ACCOUNT_FORGOTTEN_MS, ACCOUNTS_MAX, MutationQuota, RateQuota
from coordinator.quotas.limits import Account
from coordinator.quotas.sensors import Rate, TokenBucket, Window

ELEVEN_SECONDS = Window(samples=11, size_ms=1_000)
APP, OTHER = Account("", "app"), Account("", "other")


def test_a_new_rate_counts_as_if_the_windows_before_had_been_empty():
    rate = Rate(ELEVEN_SECONDS, 0)
    rate.record(1_000, 0)
    assert rate.measure(0) == (100, 10_000)
    # Within the current window more time has passed, which counts.
    assert rate.measure(999) == (pytest.approx(90.9, abs=0.1), 10_999)
    assert rate.measure(1_000) == (100, 10_000)


def test_windows_that_are_over_are_forgotten():
    rate = Rate(ELEVEN_SECONDS, 0)
    for second in range(30):
        rate.record(100, second * 1_000)
    # Eleven windows before the current one may overlap the time that counts.
    assert rate.measure(29_000) == (pytest.approx(110), 10_000)
    assert rate.measure(29_000 + 11_000)[0] == 0


def test_a_client_waits_until_its_rate_would_be_back_at_the_limit():
    quota = RateQuota(ELEVEN_SECONDS)
    for second in range(11):
        assert quota.record(APP, 100, 90, second * 1_000) == 0
    assert quota.record(APP, 100, 310, 10_000) == 3_000
    # Nearly: the oldest window, which overlaps the time that counts, is only forgotten as a whole.
    assert quota.record(APP, 100, 0, 13_000) == 300
    assert quota.record(APP, 100, 0, 13_300) == 0
    assert quota.record(OTHER, 100, 1_000, 13_300) == 0


def test_windows_before_the_first_request_take_no_part_in_a_wait():
    # As in Kafka: a new client that exceeds its limit at once waits more than once for it.
    quota = RateQuota(ELEVEN_SECONDS)
    assert quota.record(APP, 100, 1_500, 0) == 5_000
    assert quota.record(APP, 100, 0, 5_000) == 5_000
    assert quota.record(APP, 100, 0, 10_000) == 5_000
    assert quota.record(APP, 100, 0, 15_000) == 0


def test_what_is_taken_back_does_not_count():
    quota = RateQuota(ELEVEN_SECONDS)
    assert quota.record(APP, 100, 2_000, 0) == 10_000
    quota.take_back(APP, 2_000, 0)
    assert quota.record(APP, 100, 1_000, 0) == 0


def test_a_wait_has_a_bound_where_kafka_has_one():
    assert RateQuota(ELEVEN_SECONDS, throttle_ms_max=1_000).record(APP, 1, 10**9, 0) == 1_000
    # Kafka's number overflows.
    assert RateQuota(ELEVEN_SECONDS).record(APP, 1, 10**18, 0) == 2**31 - 1


def test_a_limit_of_nothing_lets_nothing_pass():
    assert RateQuota(ELEVEN_SECONDS, throttle_ms_max=1_000).record(APP, 0, 1, 0) == 1_000


@pytest.mark.parametrize("limit", [float("nan"), float("inf")])
def test_a_limit_that_is_no_number_limits_nothing(limit):
    assert RateQuota(ELEVEN_SECONDS).record(APP, limit, 10**9, 0) == 0
    assert MutationQuota(ELEVEN_SECONDS).record(APP, limit, 10**9, 0, is_strict=False) == 0


def test_a_bucket_is_full_at_first_and_fills_at_the_rate_of_the_limit():
    bucket = TokenBucket(ELEVEN_SECONDS, 2, 0)
    bucket.take(30, 2, 0)
    assert bucket.left(2, 0) == -8
    assert bucket.left(2, 4_000) == 0
    assert bucket.left(2, 60_000) == 22


def test_a_strict_client_may_overdraw_once_and_is_then_refused_until_the_bucket_is_filled():
    quota = MutationQuota(ELEVEN_SECONDS)
    assert quota.record(APP, 1, 16, 0, is_strict=True) == 0
    assert quota.record(APP, 1, 1, 0, is_strict=True) == 5_000
    assert quota.record(APP, 1, 1, 4_000, is_strict=True) == 1_000
    assert quota.record(APP, 1, 1, 5_000, is_strict=True) == 0


def test_a_permissive_client_is_served_and_waits():
    quota = MutationQuota(ELEVEN_SECONDS)
    assert quota.record(APP, 1, 16, 0, is_strict=False) == 5_000
    assert quota.record(APP, 1, 1, 0, is_strict=False) == 6_000


def test_accounts_are_forgotten_when_they_are_unused_or_too_many():
    quota = RateQuota(ELEVEN_SECONDS)
    for number in range(ACCOUNTS_MAX + 10):
        quota.record(Account("", str(number)), 100, 1, 0)
    assert len(quota._rates) == ACCOUNTS_MAX
    quota.record(APP, 100, 1, ACCOUNT_FORGOTTEN_MS)
    assert len(quota._rates) == 1
