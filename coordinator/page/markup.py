"""HTML as values, so that escaping cannot be forgotten.

`tag("td", name)` escapes the name; only the results of `tag` are inserted verbatim. Group, member and topic names are chosen
by clients, so invisible characters, and those that change the direction of text, are shown as code points.
"""

import unicodedata
from html import escape

_VOID = {"meta", "br", "link"}
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
Child = "Markup | str | int | None"


class Markup(str):
    """Text that is markup already and must not be escaped."""

    __slots__ = ()


def tag(name: str, /, *children: "Markup | str | int | None", **attributes: object) -> Markup:
    """Builds an element. A child that is None is skipped.

    Underscores in attribute names become hyphens; a trailing one is dropped.
    """
    parts = [f"<{name}"]
    for key, value in attributes.items():
        if value is not None:
            parts.append(f' {key.rstrip("_").replace("_", "-")}="{escape(visible(str(value)))}"')
    content = join(*children)
    parts.append(">" if name in _VOID else f">{content}</{name}>")
    return Markup("".join(parts))


def join(*children: "Markup | str | int | None") -> Markup:
    """Concatenates children."""
    return Markup(
        "".join(
            each if isinstance(each, Markup) else escape(visible(str(each))) for each in children if each is not None
        )
    )


def visible(text: str) -> str:
    """Replaces characters that would be invisible by their code points."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character
        if character == "\n" or unicodedata.category(character) not in _HIDDEN
        else f"\\u{{{ord(character):x}}}"
        for character in text
    )
