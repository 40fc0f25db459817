"""Colours as classes of a style sheet, for tables and legends that belong to a timeline: the same as source/colours.js draws.

`c0`, `c1`, ... are clients in the order of their importance. After the last colour the first one returns with a pattern.
`k0`, `k1`, ... are the kinds of causes of rebalances.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any, cast

_PATTERNS = (
    "",
    "repeating-linear-gradient(135deg,#1d273373 0 1.5px,transparent 1.5px 5px)",
    "repeating-linear-gradient(0deg,#1d273373 0 1.5px,transparent 1.5px 6px)",
    "radial-gradient(#1d273399 1.5px,transparent 1.7px) 0 0/6px 6px",
)


@cache
def palette() -> dict[str, Any]:
    """The colours of clients and of the kinds of causes."""
    return cast(dict[str, Any], json.loads((Path(__file__).parent / "palette.json").read_text()))


COLOURED_MAX = 32
"""As many clients have a look of their own: each colour plain and with three patterns."""


@cache
def colour_rules() -> str:
    """The rules of all classes of colours."""
    colours = palette()
    clients: list[str] = colours["clients"]
    rules = []
    for place in range(COLOURED_MAX):
        pattern = _PATTERNS[place // len(clients)]
        rules.append(f".c{place}{{background:{pattern}{' ' if pattern else ''}{clients[place % len(clients)]}}}")
    rules += [f".k{place}{{background:{colour}}}" for place, colour in enumerate(colours["causes"].values())]
    rules += [f".others{{background:{colours['others']}}}", f".k-unknown{{background:{colours['unknown']}}}"]
    return "".join(rules)
