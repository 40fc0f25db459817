"""Numbers in settings are read as Java reads them, whatever their length."""

import math

import pytest

from coordinator.protocol.java import parse_double, parse_long


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("7", 7),
        (" +7\x1e", 7),
        ("-9223372036854775808", -(2**63)),
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", None),
        ("0" * 30_000 + "7", 7),
        ("7" * 30_000, None),
        ("", None),
        ("-", None),
        ("1_0", None),
        ("\u00a07", None),  # Java trims control characters and spaces only
        ("7.0", None),
    ],
)
def test_whole_numbers(text, number):
    assert parse_long(text) == number


@pytest.mark.parametrize(
    ("text", "number"), [(" .5 ", 0.5), ("1e-3", 0.001), ("Infinity", math.inf), ("inf", None), ("1_0", None)]
)
def test_fractions(text, number):
    assert parse_double(text) == number
