"""Patterns in RE2 syntax that clients send: compiled and matched within bounds.

RE2 takes time linear in the text, but the factor is the size of the compiled pattern, and 20 letters can become 20,000
instructions. So a pattern may take only so much memory (`limit.pattern.bytes`), which bounds its instructions, its automata and
the time to compile it. Groups are not captured: only then can RE2 use an automaton instead of simulating each instruction.

Nothing here keeps a compiled pattern: it takes up to `limit.pattern.bytes`, and ordinary ones compile in 50 microseconds.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Protocol

import re2

BYTES_MAX = 1 << 20
"""The default of `limit.pattern.bytes`: 40,000 instructions, which compile in 5 ms."""

Matched = Mapping[str, frozenset[str] | None]
"""Pattern -> the names that it matches; None if it cannot be compiled within the bounds."""


MaySee = Callable[[str], bool]
_ASKED_AT_ONCE = 100
"""Names that an authorizer is asked about in about a millisecond, where there are many rules."""


class MatchPatterns(Protocol):
    """Matches patterns against names; each must match the whole name."""

    def __call__(
        self,
        patterns: Sequence[str],
        names: Sequence[str],
        version: int | None,
        done: Callable[[Matched], None],
        is_wanted: Callable[[], bool],
        may_see: MaySee | None = None,
    ) -> None:
        """Calls `done` once, now or later. `version`: names of the same version are equal; None: it is not known.

        Patterns that are no longer wanted when their turn comes are missing from the answer. Names that may not be seen are
        left out of what was matched; without `may_see`, all may be.
        """


class BadPattern(ValueError):
    """The pattern is malformed or too large; the text says why, as Kafka's RE2 for Java does where both refuse it."""


_REASONS = (
    ("missing ]", "missing closing ]"),
    ("missing )", "missing closing )"),
    ("unexpected )", "unexpected )"),
    ("no argument for repetition operator", "missing argument to repetition operator"),
    ("bad repetition operator", "invalid nested repetition operator"),
    ("invalid repetition size", "invalid repetition count"),
    ("invalid perl operator", "invalid or unsupported Perl syntax"),
    ("trailing \\", "trailing backslash at end of expression"),
    ("invalid named capture", "invalid named capture"),
    ("invalid escape sequence", "invalid escape sequence"),
    ("invalid character class range", "invalid character class range"),
    ("pattern too large", "it takes more memory than limit.pattern.bytes allows"),
)
"""Error text of the C++ RE2 -> that of the Java RE2, which Kafka uses."""


def compile_pattern(pattern: str, bytes_max: int) -> Any:
    """The compiled pattern, which takes at most this much memory. Raises BadPattern."""
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = bytes_max
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise BadPattern(_reason(error)) from None
    finally:
        re2.purge()  # The library would keep the last 128, with all their memory.


def match_at_once(
    patterns: Sequence[str],
    names: Sequence[str],
    version: int | None,
    done: Callable[[Matched], None],
    is_wanted: Callable[[], bool],
    may_see: MaySee | None = None,
) -> None:
    """Matches in the caller's thread, however long it takes: for states that serve no clients."""
    matched: dict[str, frozenset[str] | None] = {}
    for pattern in patterns:
        try:
            matches = compile_pattern(pattern, BYTES_MAX).fullmatch
        except BadPattern:
            matched[pattern] = None
        else:
            found = (name for name in names if matches(name))
            matched[pattern] = frozenset(name for name in found if may_see is None or may_see(name))
    done(matched)


def visible(matched: Matched, may_see: MaySee) -> Generator[None, None, Matched]:
    """What was matched without the names that may not be seen, some of which are asked about in each step, each once."""
    names = frozenset[str]().union(*(found for found in matched.values() if found is not None))
    hidden = set()
    for number, name in enumerate(names, 1):
        if not may_see(name):
            hidden.add(name)
        if not number % _ASKED_AT_ONCE:
            yield
    return {pattern: found and found - hidden for pattern, found in matched.items()} if hidden else matched


def _reason(error: Exception) -> str:
    message = error.args[0]
    text: str = message.decode("utf-8", "replace") if isinstance(message, bytes) else str(message)
    return next((ours for theirs, ours in _REASONS if text.startswith(theirs)), text)
