"""An event of one's own: a YAML file whose steps are the fault rules and acts that the curriculum is made of.

    name: leader-is-slow-and-evicted
    happens: The leader's heartbeats fail for a while, then it is evicted.
    right_client: joins again
    protocols: [classic]
    allows: {rebalances: 2, stall_s: 30}
    steps:
      - fault: {instance: leader, api: Heartbeat, error: COORDINATOR_NOT_AVAILABLE, times: 3}
      - evict: leader
      - request: {api: JoinGroup, instance: 0}
      - stable

A step is a word, or a word with what it needs (STEPS). `fault` waits until the rule has acted as many times as it may (once if
it acts until it is cleared), or holds a request; `clear` removes all rules.
"""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec
import yaml
from msgspec import Struct

from coordinator import requests
from coordinator.api.declaration import supported_apis
from coordinator.rules.check import RefusedRule, rule_apis
from coordinator_testing.certify.event import STALL_S, TIME_LIMIT_S, Allows, Event, Protocol, Source
from coordinator_testing.certify.programs import Instance
from coordinator_testing.certify.stage import Stage
from coordinator_testing.control import ControlRefused
from coordinator_testing.control.keywords import FaultKeywords, rule

Step = str | dict[str, Any]
_SECONDS_MAX = 600


class WrongEvent(Exception):
    """A file that describes no event. The text names the file, the step, and what is allowed."""


class _Allows(Struct, frozen=True, forbid_unknown_fields=True):
    rebalances: int | None = 0
    rebalances_per_instance: int = 0
    stall_s: float = STALL_S
    may_end: bool = False


class _File(Struct, forbid_unknown_fields=True):
    name: str
    happens: str
    right_client: str
    steps: list[Step]
    protocols: tuple[Protocol, ...] = ("classic", "consumer")
    allows: _Allows = _Allows()
    static: bool = False
    transactional: bool = False
    instances: int | None = None
    time_limit_s: float = TIME_LIMIT_S


def read_event(path: Path) -> Event:
    """The event that a file describes. Raises WrongEvent."""
    try:
        file = msgspec.convert(yaml.safe_load(path.read_text(encoding="utf-8")), _File)
    except (OSError, UnicodeDecodeError, yaml.YAMLError, msgspec.ValidationError) as error:
        raise WrongEvent(f"{path}: {error}") from None
    for number, step in enumerate(file.steps, 1):
        try:
            _check(step)
        except (ValueError, TypeError) as error:
            raise WrongEvent(f"{path}: step {number}: {error}") from None

    async def run(stage: Stage) -> None:
        for step in file.steps:
            word, value = _parts(step)
            await STEPS[word][1](stage, value)

    return Event(
        name=file.name,
        protocols=file.protocols,
        happens=file.happens,
        right_client=file.right_client,
        provoked=f"the steps of {path.name}",
        sources=(Source(path.name, "the author of the event"),),
        run=run,
        allows=Allows(**msgspec.structs.asdict(file.allows)),
        is_static=file.static,
        is_transactional=file.transactional,
        brokers=1,
        has_racks=False,
        has_sasl=False,
        since=None,
        is_alone=False,
        instances=file.instances,
        time_limit_s=file.time_limit_s,
    )


def _parts(step: Step) -> tuple[str, Any]:
    if isinstance(step, str):
        return step, None
    if len(step) != 1:
        raise ValueError(f"a step is one word with its value; found {', '.join(map(str, step)) or 'none'}")
    return next(iter(step.items()))


def _check(step: Step) -> None:
    word, value = _parts(step)
    if word not in STEPS:
        raise ValueError(f"there is no step {word!r}; allowed: {', '.join(STEPS)}")
    STEPS[word][0](value)


# --- what a step needs ------------------------------------------------------------------------------------------------


def _nothing(value: Any) -> None:
    if value is not None:
        raise ValueError(f"it takes no value; found {value!r}")


def _instance(value: Any) -> None:
    if value not in ("leader", "follower") and not (isinstance(value, int) and value >= 0):
        raise ValueError(f"an instance is its number, leader or follower; found {value!r}")


def _count(value: Any) -> None:
    if not (isinstance(value, int | float) and 0 < value <= _SECONDS_MAX):
        raise ValueError(f"it takes a number up to {_SECONDS_MAX}; found {value!r}")


def _rule(value: Any) -> None:
    if not isinstance(value, dict):
        raise TypeError("a fault is a mapping of its fields")
    fields = dict(value)
    if "instance" in fields:
        _instance(fields.pop("instance"))
    try:
        rule_apis(rule(None, fields), supported_apis(requests))
    except RefusedRule as refused:
        allowed = f"; allowed: {', '.join(refused.allowed)}" if refused.allowed else ""
        raise ValueError(refused.text + allowed) from None
    except ControlRefused as refused:
        raise ValueError(str(refused)) from None


def _request(value: Any) -> None:
    if not isinstance(value, dict) or not {"api"} <= value.keys() <= {"api", "instance"}:
        raise ValueError("a request is {api: NAME, instance: NUMBER}")
    if "instance" in value:
        _instance(value["instance"])


# --- what a step does -------------------------------------------------------------------------------------------------


async def _who(stage: Stage, value: int | str) -> Instance:
    if value == "leader":
        return await stage.leader()
    if value == "follower":
        return await stage.follower()
    return stage.instances[int(value) % len(stage.instances)]


async def _fault(stage: Stage, value: Mapping[str, Any]) -> None:
    fields = dict(value)
    who = await _who(stage, fields.pop("instance")) if "instance" in fields else None
    fault = await stage.fault(who, **cast(FaultKeywords, fields))
    if "hold" in fields:
        await stage.held(fault)
    else:
        await stage.acted(fault, fields.get("times", 1))


def _on(act: Callable[[Stage, Instance], Awaitable[object]]) -> Callable[[Stage, Any], Awaitable[None]]:
    async def run(stage: Stage, value: int | str) -> None:
        await act(stage, await _who(stage, value))

    return run


async def _pause(stage: Stage, instance: Instance) -> None:
    stage.pause(instance)


async def _resume(stage: Stage, instance: Instance) -> None:
    stage.resume(instance)


async def _await_request(stage: Stage, value: Mapping[str, Any]) -> None:
    who = await _who(stage, value["instance"]) if "instance" in value else None
    await stage.request(value["api"], who)


async def _clear(stage: Stage, _: None) -> None:
    stage.note("all rules are cleared")
    await stage.control.clear_faults()


async def _add_partitions(stage: Stage, count: float) -> None:
    await stage.add_partitions(stage.producer.partitions + int(count))


STEPS: Mapping[str, tuple[Callable[[Any], None], Callable[[Stage, Any], Awaitable[Any]]]] = {
    "fault": (_rule, _fault),
    "clear": (_nothing, _clear),
    "stop": (_instance, _on(Stage.stop)),
    "start": (_instance, _on(Stage.start)),
    "kill": (_instance, _on(Stage.kill)),
    "pause": (_instance, _on(_pause)),
    "resume": (_instance, _on(_resume)),
    "evict": (_instance, _on(Stage.evict)),
    "expire_session": (_instance, _on(Stage.expire_session)),
    "rebalance": (_nothing, lambda stage, _: stage.rebalance()),
    "bump_epoch": (_nothing, lambda stage, _: stage.bump_epoch()),
    "expire_offsets": (_nothing, lambda stage, _: stage.expire_offsets()),
    "reload_s": (_count, lambda stage, seconds: stage.reload(int(seconds * 1000))),
    "add_partitions": (_count, _add_partitions),
    "recreate_topic": (_nothing, lambda stage, _: stage.recreate_topic()),
    "request": (_request, _await_request),
    "stable": (_nothing, lambda stage, _: stage.stable()),
    "progress": (_nothing, lambda stage, _: stage.progress()),
}
"""The word of a step -> how its value is checked, and what it does."""
