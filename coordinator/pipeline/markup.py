"""HTML and SVG as values: text is escaped because it is text, not because somebody thought of it.

`tag("td", name)` escapes the name; only what `tag` made itself goes in as it is. Group, member and topic names are whatever a
client sent, so characters that do not show, or that turn the direction of text around them, are shown by their number.
"""

import unicodedata
from html import escape

_VOID = {"meta", "br", "link", "rect", "circle", "line", "path", "polyline"}
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
Child = "Markup | str | int | None"


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def tag(name: str, /, *children: "Markup | str | int | None", **attributes: object) -> Markup:
    """An element. None is no child; an attribute's underscores are hyphens, and one at its end is left out."""
    parts = [f"<{name}"]
    for key, value in attributes.items():
        if value is not None:
            parts.append(f' {key.rstrip("_").replace("_", "-")}="{escape(visible(str(value)))}"')
    content = join(*children)
    if name in _VOID and not content:
        parts.append("/>" if name not in {"meta", "br", "link"} else ">")
    else:
        parts.append(f">{content}</{name}>")
    return Markup("".join(parts))


def join(*children: "Markup | str | int | None") -> Markup:
    """Children one after the other."""
    return Markup(
        "".join(
            each if isinstance(each, Markup) else escape(visible(str(each))) for each in children if each is not None
        )
    )


def visible(text: str) -> str:
    """Every character shows: what does not by itself is written as its number."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character
        if character == "\n" or unicodedata.category(character) not in _HIDDEN
        else f"\\u{{{ord(character):x}}}"
        for character in text
    )


def page(title: str, style: str, *body: "Markup | str | int | None") -> str:
    """A whole document that needs nothing but itself, and may load nothing."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content="default-src 'none'; style-src 'unsafe-inline'"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", title),
        tag("style", Markup(style)),
    )
    return "<!doctype html>\n" + tag("html", head, tag("body", *body), lang="en") + "\n"
