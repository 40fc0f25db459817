"""The fault rules of a server: which there are, which of them acts, how often they did, and what they hold.

Rules are asked in the order in which they were set, and the first that matches and has not used up its extent acts. All workers
of a machine count together for `nth` and `times` without `per`, all else is counted by this process. Nothing about rules is
durable.
"""

from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterator
from itertools import count
from random import Random

from coordinator.rules.changes import Changes
from coordinator.rules.check import Apis, rule_apis
from coordinator.rules.matching import Hit, Matcher
from coordinator.rules.model import FaultActed, FaultStatus, Rule
from coordinator.world.clock import Clock
from coordinator.world.schedule import Handle, Schedule
from coordinator.world.shared_count import SharedCount

KEYS_MAX = 100_000
"""A rule counts for this many members, connections or groups apart; then it begins again."""
RULES_MAX = 1_000
"""The most rules at one time. Each is asked for every request of its APIs."""


def next_id(letter: str, numbers: Iterator[int], taken: Container[str]) -> str:
    """The next id that is not in use."""
    return next(each for each in (f"{letter}{number}" for number in numbers) if each not in taken)


class TooManyRules(Exception):
    """There are `RULES_MAX` rules."""


MakeShared = Callable[[str], SharedCount]
"""Makes, or finds, the count of this name that all workers of the machine have."""


class Count:
    """Counts for each key: in this process, or for the one key of a rule without `per` in all workers."""

    def __init__(self, shared: SharedCount | None) -> None:
        self.shared = shared
        self._counts: Counter[Hashable] = Counter()

    def of(self, key: Hashable) -> int:
        """The number now."""
        return self._counts[key] if self.shared is None else self.shared.value

    def next(self, key: Hashable) -> int:
        """Counts one up, and returns the number."""
        if self.shared is not None:
            return self.shared.next()
        if len(self._counts) >= KEYS_MAX:
            self._counts.clear()
        self._counts[key] += 1
        return self._counts[key]


class Fault:
    """A rule that is set."""

    def __init__(
        self, fault_id: str, rule: Rule, apis: frozenset[str], ends_ms: int | None, make_shared: MakeShared | None
    ) -> None:
        self.id = fault_id
        self.rule = rule
        self.apis = apis
        self.matcher = Matcher(rule.match)
        self.matched = self.acted = 0
        self.active = True
        self.is_cleared = False
        self.changes = Changes()
        self.held: dict[object, Callable[[], None]] = {}
        """What is parked until it is released, the oldest first: how it goes on."""
        self._delayed: dict[object, tuple[Handle, Callable[[], None]]] = {}
        self.random = Random(rule.extent.seed)  # noqa: S311 - it chooses what fails, and must choose it again
        self._ends_ms = ends_ms
        self.expiry: Handle | None = None
        make = make_shared if rule.match.per is None else None
        self._matches = Count(make(f"{fault_id}-matches") if make is not None and rule.match.nth else None)
        self._acts = Count(make(f"{fault_id}-acts") if make is not None and rule.extent.times_max else None)

    @property
    def status(self) -> FaultStatus:
        active = self.active and not self._is_used_up
        return FaultStatus(
            self.id, self.rule, self.matched, self.acted, len(self.held), active, notice=_notice(self.rule)
        )

    @property
    def _is_used_up(self) -> bool:
        """Whether it has acted `times`, here or at another worker."""
        times_max = self.rule.extent.times_max
        return self.rule.match.per is None and times_max is not None and self._acts.of(None) >= times_max

    def acts_on(self, key: Hashable, now_ms: int) -> bool:
        """Counts a request that matches; returns whether the rule acts on it. `key`: whom `per` counts for."""
        if self._ends_ms is not None and now_ms >= self._ends_ms:
            self.active = False
            return False
        self.matched += 1
        times_max, probability = self.rule.extent.times_max, self.rule.extent.probability
        acts = (
            self._matches.next(key) >= (self.rule.match.nth or 1)
            and (times_max is None or self._acts.of(key) < times_max)
            and (probability is None or self.random.random() < probability)
            and (times_max is None or self._acts.next(key) <= times_max)  # another worker may have been quicker
        )
        self.acted += acts
        self.active = not self._is_used_up
        self.changes.notify()
        return acts

    def hold(self, holder: object, go_on: Callable[[], None]) -> None:
        """Parks something until it is released."""
        if self.is_cleared:  # while the group had the request: a join waits for other members
            go_on()
            return
        self.held[holder] = go_on
        self.changes.notify()

    def delay(self, holder: object, schedule: Schedule, delay_ms: int, go_on: Callable[[], None]) -> None:
        """Calls `go_on` after the delay, or when the rule is cleared."""
        if self.is_cleared:
            go_on()
            return

        def due() -> None:
            del self._delayed[holder]
            go_on()

        self._delayed[holder] = schedule(delay_ms, due), go_on

    def forget(self, holder: object) -> None:
        """Drops what is parked or delayed: its connection is gone."""
        delayed = self._delayed.pop(holder, None)
        if delayed is not None:
            delayed[0].cancel()
        if self.held.pop(holder, None) is not None or delayed is not None:
            self.changes.notify()

    def release(self, count_max: int | None) -> int:
        """Lets what is held go on, the oldest first; returns how many."""
        released = list(self.held.items())[:count_max]
        for holder, go_on in released:
            if self.held.pop(holder, None) is not None:
                go_on()
        if released:
            self.changes.notify()
        return len(released)

    def end(self) -> None:
        """Acts no more, and lets everything go on."""
        self.active = False
        self.is_cleared = True
        for counted in (self._matches, self._acts):
            if counted.shared is not None:
                counted.shared.close()
        if self.expiry is not None:
            self.expiry.cancel()
        self.release(None)
        for holder, (handle, go_on) in list(self._delayed.items()):
            if self._delayed.pop(holder, None) is not None:
                handle.cancel()
                go_on()
        self.changes.notify()


def _notice(rule: Rule) -> str | None:
    """What a client leaves behind that takes its member for removed."""
    if rule.action.error != "UNKNOWN_MEMBER_ID":
        return None
    return (
        "The member stays in its group until its session ends, although its client takes it for removed and joins as"
        " another one. To remove it: POST /v1/groups/{group}/members/{member}/evict."
    )


class Faults:
    """All fault rules, in the order in which they were set."""

    def __init__(
        self,
        apis: Apis,
        clock: Clock,
        schedule: Schedule,
        on_change: Callable[[], None],
        in_progress: Callable[[Fault], None],
    ) -> None:
        """`on_change`: called when the APIs that rules are about may be others.

        `in_progress`: applies a rule to the requests that wait in the server now.
        """
        self.by_id: dict[str, Fault] = {}
        self.acted: Counter[str] = Counter()
        """How often rules acted, by the kind of action."""
        self.subscribers: list[Callable[[FaultActed], None]] = []
        """Called with every action (admin/event_stream.py)."""
        self.make_shared: MakeShared | None = None
        """Of one of several workers."""
        self._apis = apis
        self._clock = clock
        self._schedule = schedule
        self._on_change = on_change
        self._in_progress = in_progress
        self._numbers = count(1)
        self._by_api: dict[str, list[Fault]] = {}

    @property
    def active_apis(self) -> frozenset[str]:
        """The APIs that active rules are about."""
        return frozenset(self._by_api)

    def add(self, rule: Rule, fault_id: str | None = None) -> Fault:
        """Sets a rule, under an id that is not in use, or the next one.

        Raises RefusedRule if it makes no sense, TooManyRules.
        """
        apis = rule_apis(rule, self._apis)
        if len(self.by_id) >= RULES_MAX:
            raise TooManyRules
        for_ms = rule.extent.for_ms
        ends_ms = None if for_ms is None else self._clock.monotonic_ms() + for_ms
        fault_id = fault_id or next_id("f", self._numbers, self.by_id)
        fault = Fault(fault_id, rule, apis, ends_ms, self.make_shared)
        self.by_id[fault.id] = fault
        if for_ms is not None:
            fault.expiry = self._schedule(for_ms, lambda: self._expire(fault))
        self.update()
        if rule.extent.in_progress:
            self._in_progress(fault)
        return fault

    def of_scope(self, scope: str | None) -> list[Fault]:
        """The rules of a scope; None: all."""
        return [fault for fault in self.by_id.values() if scope is None or fault.rule.scope == scope]

    def clear(self, faults: list[Fault]) -> int:
        """Removes rules, and lets go on what they hold; returns how many there were."""
        removed = [fault for fault in faults if self.by_id.pop(fault.id, None) is not None]
        if removed:
            for fault in removed:
                fault.active = False
            self.update()
        for fault in removed:
            fault.end()
        return len(removed)

    def asked_for(self, api: str) -> Iterator[Fault]:
        """The active rules about an API, in order."""
        return (fault for fault in self._by_api.get(api, ()) if fault.active)

    def update(self) -> None:
        """Finds out again which APIs have active rules."""
        self._by_api = {}
        for fault in self.by_id.values():
            for api in fault.apis if fault.active else ():
                self._by_api.setdefault(api, []).append(fault)
        self._on_change()

    def count_act(self, fault: Fault, api: str, client_id: str | None, hit: Hit) -> None:
        """Counts an action, and reports it."""
        action = fault.rule.action
        self.acted.update(action.kinds)
        if self.subscribers:
            named = hit.named
            acted = FaultActed(
                fault=fault.id,
                api=api,
                action=" ".join(f"{kind}:{getattr(action, kind)}" for kind in action.kinds),
                time_ms=self._clock.wall_ms(),
                group=named.group,
                transactional_id=named.transactional_id,
                member_id=named.member_id,
                client_id=client_id,
                scope=fault.rule.scope,
            )
            for subscriber in self.subscribers:
                subscriber(acted)

    def _expire(self, fault: Fault) -> None:
        """Ends a rule whose time is over; what it holds stays held until it is released."""
        fault.active = False
        self.update()
        fault.changes.notify()
