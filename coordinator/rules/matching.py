"""Whether a request matches: a `Match`, compiled."""

import re
from collections.abc import Callable, Mapping
from fnmatch import translate
from typing import Any, NamedTuple

from coordinator.api.declaration import Fields
from coordinator.api.exchange import Exchange
from coordinator.api.payloads import topic_of
from coordinator.api.server import Server
from coordinator.groups.classic.round import Round
from coordinator.protocol.messages import Message
from coordinator.rules import body
from coordinator.rules.elements import Element, Named, Path, elements
from coordinator.rules.model import Condition, Match, Names
from coordinator.rules.summaries import fields

DEAD = "Dead"
_LEADER, _FOLLOWER = "leader", "follower"
_ALL = frozenset[Path]({()})

Test = Callable[[str], Any]
Conditions = list[tuple[body.FieldPath, Callable[[Any], bool]]]


class Seen:
    """A request as matches see it. What they ask about it is looked up once."""

    __slots__ = ("_elements", "_explicit", "exchange", "request", "server")

    def __init__(self, server: Server, exchange: Exchange[Any]) -> None:
        self.server = server
        self.exchange = exchange
        self.request: Message | None = exchange.request
        """The request as it came; the API may put another one into its exchange."""
        self._explicit: Message | None = None
        self._elements: list[Element] | None = None

    @property
    def elements(self) -> list[Element]:
        if self._elements is None:
            route = self.exchange.route
            self._elements = elements(route.api, route.version, self.explicit, self.server.topics)
        return self._elements

    @property
    def explicit(self) -> Message | None:
        """The request that names everything that it is about (`Api.explicit`), as it was before it was handled."""
        if self._explicit is None and self.request is not None:
            route = self.exchange.route
            explicit = route.api.explicit
            self._explicit = self.request if explicit is None else explicit(self.request, route.version, self.server)
        return self._explicit

    @property
    def named(self) -> Named:
        """What its first element names."""
        return self.elements[0].named

    def fields(self, message: Message) -> Fields:
        """The fields of a request or response in the route's version, by name (`summaries.py`)."""
        return fields(self, message)

    def topic(self, holder: Any) -> str | None:
        """The name of a topic, whichever way the version names it."""
        return topic_of(holder, self.server.topics)


class Hit(NamedTuple):
    """The part of a request that matches."""

    paths: frozenset[Path]
    """Where the elements are; () stands for all of the request."""
    named: Named
    """What the first of them names."""


class Matcher:
    """A compiled `Match`, without `api`, `nth` and `per`."""

    def __init__(self, match: Match) -> None:
        self._version = _range(match.version)
        self._client_id = _test(match.client_id)
        self._client_host = _test(match.client_host)
        self._listener = _test(match.listener)
        self._principal = _test(match.principal)
        self._where = match.where or {}
        self._conditions: dict[tuple[str, int], Conditions | None] = {}
        self._names = [(field, _test(glob)) for field in Named._fields if (glob := getattr(match, field)) is not None]
        self._role = match.role
        self._states = _test(match.group_state)
        self._is_about_elements = bool(self._names or self._role or self._states)
        self._topic = _test(match.topic)
        self._group = _test(match.group)

    def find(self, seen: Seen) -> Hit | None:
        """The part of the request that matches; None if there is none."""
        exchange = seen.exchange
        first, last = self._version
        if not first <= exchange.route.version <= last:
            return None
        if not (_passes(self._client_id, exchange.client_id) and _passes(self._client_host, exchange.client_host[1:])):
            return None
        host, port = exchange.advertised
        if not _passes(self._listener, f"{host}:{port}"):
            return None
        if self._principal is not None and not self._principal(str(exchange.principal)):
            return None
        if self._where and not self._holds(seen):
            return None
        if not self._is_about_elements:
            return Hit(_ALL, seen.named)
        found = [each for each in seen.elements if self._matches(each.named, seen.server)]
        if not found:
            return None
        paths = frozenset(each.path for each in found)
        return Hit(_ALL if len(found) == len(seen.elements) else paths, found[0].named)

    def _holds(self, seen: Seen) -> bool:
        """Whether every condition is true of some field that its way leads to."""
        route = seen.exchange.route
        key = route.name, route.version
        if key not in self._conditions:
            self._conditions[key] = conditions(self._where, *key)
        found, request = self._conditions[key], seen.request
        return (
            found is not None and request is not None
            and all(any(map(holds, way.values(request))) for way, holds in found)
        )  # fmt: skip

    def is_hit(self, group: str | None, topic: str | None) -> bool:
        """Whether this group and topic match, as far as they are known."""
        return (group is None or _passes(self._group, group)) and _passes(self._topic, topic)

    def _matches(self, named: Named, server: Server) -> bool:
        if not all(_passes(test, getattr(named, field)) for field, test in self._names):
            return False
        if self._role is None and self._states is None:
            return True
        if named.group is None:
            return False
        group = server.groups.shard_of(named.group).state.by_id.get(named.group)
        if not _passes(self._states, DEAD if group is None else group.state.value):
            return False
        return self._role is None or (isinstance(group, Round) and _role(group, named) == self._role)


def conditions(where: Mapping[str, Condition], api: str, version: int) -> Conditions | None:
    """The ways and tests of conditions; None if requests of the version lack a field. Raises NoField."""
    found = [(body.field_path(f"{api}Request", path), body.test(each, _test)) for path, each in where.items()]
    return found if all(way.is_in(version) for way, _ in found) else None


def _role(group: Round, named: Named) -> str | None:
    """The member's role in its classic group; None if it is no member."""
    member_id = named.member_id or group.static_members.get(named.instance_id or "")
    if member_id not in group.members:
        return None
    return _LEADER if group.is_leader(member_id) else _FOLLOWER


def names_test(names: Names | None) -> Test | None:
    """Tests a text against one glob or several; None if there are none."""
    return _test(names)


def _test(names: Names | None) -> Test | None:
    if names is None:
        return None
    globs = (names,) if isinstance(names, str) else names
    return re.compile("|".join(f"(?:{translate(glob)})" for glob in globs)).match


def _passes(test: Test | None, text: str | None) -> bool:
    return test is None or (text is not None and test(text) is not None)


def _range(version: int | tuple[int, ...] | None) -> tuple[int, int]:
    if version is None:
        return 0, 2**15
    return (version, version) if isinstance(version, int) else (version[0], version[1])
