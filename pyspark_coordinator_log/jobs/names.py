"""Names and colours: members have random ids, so pages name and colour them by client.

A client is a client id with a host (groups/group_history.py). Colours identify: each of the clients that a page has most
to say about has a colour of its own, and all others share one. Causes have other colours than clients.
"""

import re
from collections.abc import Iterable, Mapping

from coordinator.groups.group_history import Client, client_of_member_id
from coordinator.groups.rebalance_causes import KINDS
from coordinator.page.markup import Markup, tag
from coordinator.page.style import COLOURED_MAX

OTHERS = "others"
_UUID = re.compile(r"(?P<head>[0-9a-f]{8})(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
_LONG = 24


def short_id(member_id: str) -> str:
    """A member id for people: of a UUID only its first eight digits."""
    found = _UUID.search(member_id)
    if found is not None:
        return f"{member_id[: found.start()]}{found['head']}…"
    return member_id if len(member_id) <= _LONG else f"{member_id[: _LONG - 1]}…"


def code(member_id: str | None) -> Markup | None:
    """A member id in a table: short, with all of it in the tool tip, and never broken."""
    return None if member_id is None else tag("code", short_id(member_id), title=member_id)


def host(text: str | None) -> str | None:
    """A host without the slash that Kafka puts before it."""
    return text.lstrip("/") if text else None


class Names:
    """The clients of a group's members, and a colour for each."""

    def __init__(self, clients: Mapping[str, Client], ranked: Iterable[Client]) -> None:
        """`clients`: member id -> client. `ranked`: the most important clients first."""
        self._clients = clients
        order = dict.fromkeys([*ranked, *clients.values()])
        self._colours = {client: place for place, client in enumerate(order) if place < COLOURED_MAX}
        self._hosts: dict[str, set[str]] = {}
        for client in order:
            self._hosts.setdefault(client.client_id, set()).add(client.host)

    def client(self, member_id: str) -> Client:
        return self._clients.get(member_id) or client_of_member_id(member_id)

    @property
    def ranked(self) -> Iterable[Client]:
        """The clients that have a colour, in the order of their colours."""
        return self._colours

    def label(self, client: Client) -> str:
        """The client id, with the host if several hosts use the same one."""
        name = client.client_id or "a client without a name"
        several = len(self._hosts.get(client.client_id, ())) > 1 and client.host
        return f"{name} @ {host(client.host)}" if several else name

    def member(self, member_id: str) -> str:
        """A member in a tool tip: its client, host and short id."""
        client = self.client(member_id)
        where = f" on {host(client.host)}" if client.host else ""
        return f"{client.client_id or 'a client without a name'}{where}, {short_id(member_id)}"

    def colour(self, client: Client) -> str:
        """The class of the client's bars."""
        place = self._colours.get(client)
        return OTHERS if place is None else f"c{place}"


def cause_colour(kind: str | None) -> str:
    """The class of the bars of rebalances with such a cause."""
    return f"k{KINDS.index(kind)}" if kind in KINDS else "k-unknown"
