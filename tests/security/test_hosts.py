"""The host of an ACL: an address in any notation, a range of addresses, or all."""

import pytest

from coordinator.security.hosts import check, matches


@pytest.mark.parametrize(
    ("pattern", "host", "expected"),
    [
        ("*", "10.0.0.1", True),
        ("*", "unknown", True),
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.10", False),
        ("10.1.2.3/8", "10.255.0.1", True),
        ("10.0.0.0/8", "11.0.0.1", False),
        ("10.0.0.0/31", "10.0.0.0", True),
        ("10.0.0.1/32", "10.0.0.2", False),
        ("0.0.0.0/0", "1.2.3.4", True),
        ("0.0.0.0/0", "::1", False),
        ("10.0.0.0/8", "::ffff:10.0.0.1", True),
        ("10.0.0.1", "::ffff:10.0.0.1", True),
        ("::1", "0:0:0:0:0:0:0:1", True),
        ("0:0:0:0:0:0:0:1", "::1", True),
        ("fe80::/10", "fe80::1%2", True),
        ("::/0", "10.0.0.1", False),
        ("2001:db8::/32", "2001:db8:1::1", True),
        ("2001:db8::/32", "2001:db9::1", False),
        ("10.0.0.0/33", "10.0.0.1", False),
        ("localhost", "127.0.0.1", False),
        ("localhost", "localhost", True),
        ("10.0.0.0/8", "unknown", False),
    ],
)
def test_a_host_is_the_one_of_the_acl_or_in_its_range(pattern, host, expected):
    assert matches(pattern, host) is expected


@pytest.mark.parametrize(
    "pattern", ["*", "10.0.0.1", "no host at all", "10.1.2.3/8", "010.0.0.0/08", "::1/128", "fe80::%eth0/10", "::/008"]
)
def test_a_host_that_kafka_accepts_is_accepted(pattern):
    check(pattern)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("", "Host pattern cannot be null or empty"),
        ("10.0.0.0/33", "Invalid CIDR notation '10.0.0.0/33': Value [33] not in range [0,32]"),
        ("256.0.0.0/8", "Invalid CIDR notation '256.0.0.0/8': Value [256] not in range [0,255]"),
        ("10.0.0/8", "Invalid CIDR notation '10.0.0/8': Could not parse [10.0.0/8]"),
        ("10.0.0.0/255.0.0.0", "Invalid CIDR notation '10.0.0.0/255.0.0.0': Could not parse [10.0.0.0/255.0.0.0]"),
        ("*/8", "Invalid CIDR notation '*/8': Could not parse [*/8]"),
        ("::1/129", "Invalid CIDR notation '::1/129': Could not parse [::1/129] - prefix length must be between 0 and 128"),
        ("::1/x", "Invalid CIDR notation '::1/x': Could not parse [::1/x] - invalid prefix length"),
        ("12345::/1", "Invalid CIDR notation '12345::/1': Could not parse [12345::]"),
        (
            "::ffff:1.2.3.4/128",
            "Invalid CIDR notation '::ffff:1.2.3.4/128': Could not parse [::ffff:1.2.3.4] - not an IPv6 address",
        ),
    ],
)  # fmt: skip
def test_a_host_that_kafka_4_4_refuses_is_refused_in_its_words(pattern, reason):
    with pytest.raises(ValueError) as caught:
        check(pattern)
    assert str(caught.value) == reason
