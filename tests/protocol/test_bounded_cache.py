"""The cache of small strings is bounded, and never wrong."""

import pytest

from coordinator.protocol.bounded_cache import ENTRIES_MAX, MADE_SIZE_MAX, BoundedCache
from coordinator.protocol.wire import (
    COMPACT,
    COMPACT_TEXTS,
    NULLABLE_COMPACT,
    NULLABLE_COMPACT_TEXTS,
    NULLABLE_PLAIN,
    PLAIN,
    TEXT_SIZE_MAX,
    TEXTS,
    DecodeError,
    EncodeError,
)


def test_a_value_is_computed_once():
    made = []
    cache = BoundedCache(lambda key: made.append(key) or key.upper())
    assert [cache["a"], cache["b"], cache["a"]] == ["A", "B", "A"]
    assert made == ["a", "b"]


def test_long_values_are_not_kept():
    cache = BoundedCache(lambda key: key)
    for size in (MADE_SIZE_MAX, MADE_SIZE_MAX + 1):
        assert cache["x" * size] == "x" * size
    assert list(cache) == ["x" * MADE_SIZE_MAX]


def test_the_cache_never_exceeds_its_limit():
    cache = BoundedCache(str)
    for number in range(2 * ENTRIES_MAX + 10):
        assert cache[number] == str(number)
        assert len(cache) <= ENTRIES_MAX
    assert len(cache) == 10


@pytest.mark.parametrize("text", ["", "a", "grüße", "\U0001f600", "x" * 126, "x" * 127, "x" * 128, "x" * 5_000])
def test_strings_survive_a_round_trip(text):
    encoded = text.encode()
    assert TEXTS[encoded] == text
    assert PLAIN[text] == NULLABLE_PLAIN[text] == len(encoded).to_bytes(2) + encoded
    assert COMPACT[text] == NULLABLE_COMPACT[text]
    assert COMPACT[text].endswith(encoded)
    if len(encoded) < 127:
        assert COMPACT_TEXTS[COMPACT[text]] == NULLABLE_COMPACT_TEXTS[COMPACT[text]] == text


def test_null_is_written_and_read_where_it_may_be():
    assert (NULLABLE_COMPACT[None], NULLABLE_PLAIN[None], NULLABLE_COMPACT_TEXTS[b"\0"]) == (b"\0", b"\xff\xff", None)
    with pytest.raises(DecodeError, match="null"):
        COMPACT_TEXTS[b""]
    for cache in (COMPACT, PLAIN):
        with pytest.raises(AttributeError):
            cache[None]


def test_a_string_that_is_too_long_for_the_protocol_is_refused():
    for cache in (COMPACT, NULLABLE_COMPACT, PLAIN, NULLABLE_PLAIN):
        assert len(cache["x" * TEXT_SIZE_MAX]) > TEXT_SIZE_MAX
        with pytest.raises(EncodeError):
            cache["x" * (TEXT_SIZE_MAX + 1)]
