"""The notation of values in stories: Kafka's fields as a reader would write them, `{group_id: g, members: [...]}`.

It is close to JSON, without quotes where a word needs none. `...join` spreads a named struct, `0x0a` denotes bytes,
`subscription(t)` calls a function of functions.py, and null, true and false have their usual meaning.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

WIDTH = 118


class StoryError(Exception):
    """The file is not a valid story."""


TOKEN = re.compile(r'\s*(\.\.\.|[{}\[\](),:]|"(?:[^"\\]|\\.)*"|0x[0-9a-f]*(?![\w])|[^\s{}\[\](),:"]+)')
BARE = re.compile(r"[A-Za-z_/<][A-Za-z0-9_.<>/-]*")


@dataclass(frozen=True, slots=True)
class Word:
    """A bare word: a name, a symbol, or a string with symbols in it."""

    text: str


@dataclass(frozen=True, slots=True)
class Spread:
    name: str


@dataclass(frozen=True, slots=True)
class Made:
    """A value returned by a function of functions.py: `subscription(t)`."""

    function: str
    arguments: list[Any]
    named: dict[str, Any]
    text: str


def parse(text: str) -> Any:
    tokens = tokenize(text)
    value, rest = parse_value(tokens, 0)
    if rest != len(tokens):
        raise StoryError(f"unexpected {tokens[rest]!r} in {text!r}")
    return value


def tokenize(text: str) -> list[str]:
    tokens, position = [], 0
    text = text.rstrip()
    while position < len(text):
        match = TOKEN.match(text, position)
        if not match:
            raise StoryError(f"cannot read {text[position:]!r}")
        tokens.append(match.group(1))
        position = match.end()
    return tokens


def parse_value(tokens: list[str], at: int) -> tuple[Any, int]:
    token = tokens[at]
    if token == "{":
        return parse_fields(tokens, at + 1, "}")
    if token == "[":
        items: list[Any] = []
        at += 1
        while tokens[at] != "]":
            item, at = parse_value(tokens, at)
            items.append(item)
            at += tokens[at] == ","
        return items, at + 1
    if token.startswith('"'):
        return json.loads(token), at + 1
    if token.startswith("0x"):
        return bytes.fromhex(token[2:]), at + 1
    if re.fullmatch(r"-?\d+", token):
        return int(token), at + 1
    if token in ("null", "true", "false"):
        return {"null": None, "true": True, "false": False}[token], at + 1
    if at + 1 < len(tokens) and tokens[at + 1] == "(":
        return parse_call(tokens, at)
    return Word(token), at + 1


def parse_fields(tokens: list[str], at: int, end: str) -> tuple[dict[Any, Any], int]:
    out: dict[Any, Any] = {}
    while tokens[at] != end:
        if tokens[at] == "...":
            out[Spread(tokens[at + 1])] = None
            at += 2
        else:
            if tokens[at + 1] != ":":
                raise StoryError(f"a colon is missing after {tokens[at]!r}")
            out[tokens[at]], at = parse_value(tokens, at + 2)
        at += tokens[at] == ","
    return out, at + 1


def parse_call(tokens: list[str], at: int) -> tuple[Made, int]:
    function, began = tokens[at], at
    arguments: list[Any] = []
    named: dict[str, Any] = {}
    at += 2
    while tokens[at] != ")":
        if tokens[at + 1] == ":":
            named[tokens[at]], at = parse_value(tokens, at + 2)
        else:
            value, at = parse_value(tokens, at)
            arguments.append(value)
        at += tokens[at] == ","
    return Made(function, arguments, named, spell(tokens[began : at + 1])), at + 1


def spell(tokens: list[str]) -> str:
    text = ""
    for token in tokens:
        text += token + (" " if token in (",", ":") else "")
    return text


def plain(text: str) -> str:
    """The text without whitespace."""
    return re.sub(r"\s+", "", text)


def one_line(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {one_line(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(one_line(item) for item in value) + "]"
    return value


def layout(value: Any, indent: int = 0, head: str = "") -> str:
    """Text in lines of at most WIDTH, with one element of a long list per line."""
    flat = head + one_line(value)
    if len(flat) + indent <= WIDTH - 3 or isinstance(value, str):
        return flat
    inner = " " * (indent + 2)
    if isinstance(value, list):
        parts = [f"{inner}{layout(item, indent + 2)}" for item in value]
        return head + "[\n" + ",\n".join(parts) + "]"
    return head + "{" + ",\n".join(fill(value, indent + 1)).removeprefix(" " * (indent + 1)) + "}"


def fill(value: dict[str, Any], indent: int) -> Iterator[str]:
    """Yields the fields of a long struct, as many per line as fit."""
    line = " " * indent
    for key, item in value.items():
        flat = f"{key}: {one_line(item)}"
        if line.strip() and len(line) + len(flat) + 2 > WIDTH - 3:
            yield line
            line = " " * indent
        if len(line) + len(flat) + 2 > WIDTH - 3:
            yield " " * indent + layout(item, indent, f"{key}: ")
        else:
            line += (", " if line.strip() else "") + flat
    if line.strip():
        yield line
