"""Pages of lists by name."""

from collections.abc import Callable, Iterable
from heapq import nsmallest
from typing import Annotated, Any

from msgspec import Meta, Struct

PAGE_MAX = 500
"""Rows of a list in one response. They are made on the event loop, which serves the groups too."""


class Page(Struct, forbid_unknown_fields=True):
    """A part of a list: at most `limit` names behind `after`."""

    after: Annotated[str, Meta(description="The last name of the page before.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=PAGE_MAX)] = PAGE_MAX


def listed(
    key: str, page: Page, names: Iterable[str], row: Callable[[str], Any], part: Struct | None = None
) -> dict[str, Any]:
    """The rows of a page. `next`, the `after` of the page that follows, is left out on the last one.

    `part`: which part of the whole this server has, if it has not all.
    """
    behind = names if page.after is None else (name for name in names if name > page.after)
    found = nsmallest(page.limit + 1, behind)
    rows: dict[str, Any] = {key: [row(name) for name in found[: page.limit]]}
    if len(found) > page.limit:
        rows["next"] = found[page.limit - 1]
    if part is not None:
        rows["of_worker"] = part
    return rows
