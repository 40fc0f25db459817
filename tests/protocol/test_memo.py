"""What is remembered of strings is bounded, and never wrong."""

import pytest

from coordinator.protocol.bounded_cache import MADE_SIZE_MAX, REMEMBERED, BoundedCache
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


def test_what_was_made_is_given_again():
    made = []
    memo = BoundedCache(lambda key: made.append(key) or key.upper())
    assert [memo["a"], memo["b"], memo["a"]] == ["A", "B", "A"]
    assert made == ["a", "b"]


def test_what_is_long_is_not_remembered():
    memo = BoundedCache(lambda key: key)
    for size in (MADE_SIZE_MAX, MADE_SIZE_MAX + 1):
        assert memo["x" * size] == "x" * size
    assert list(memo) == ["x" * MADE_SIZE_MAX]


def test_there_is_never_more_of_it_than_the_limit():
    memo = BoundedCache(str)
    for number in range(2 * REMEMBERED + 10):
        assert memo[number] == str(number)
        assert len(memo) <= REMEMBERED
    assert len(memo) == 10


@pytest.mark.parametrize("text", ["", "a", "grüße", "\U0001f600", "x" * 126, "x" * 127, "x" * 128, "x" * 5_000])
def test_strings_come_back(text):
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
    for memo in (COMPACT, PLAIN):
        with pytest.raises(AttributeError):
            memo[None]


def test_a_string_that_is_too_long_for_the_protocol_is_refused():
    for memo in (COMPACT, NULLABLE_COMPACT, PLAIN, NULLABLE_PLAIN):
        assert len(memo["x" * TEXT_SIZE_MAX]) > TEXT_SIZE_MAX
        with pytest.raises(EncodeError):
            memo["x" * (TEXT_SIZE_MAX + 1)]
