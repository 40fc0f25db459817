"""Steps of three members, a producer and an administrator, played to a broker over the wire, with answers that can be compared.

A step is `[actor, what, version, options]`. It names no value that differs between brokers: each actor goes on with the ids and
generations that its own broker gave it. The version is the newest that the release has, or an earlier one. After each step the
answers that have arrived are noted, and the group as DescribeGroups shows it, if it changed.

A broker puts a join or a sync off until others have joined or the leader has sent the assignment. Whether a request is put off
follows from the state of the group, so nothing depends on how long a broker takes to answer.
"""

import json
import random
import re
import struct
import time
import uuid
from collections.abc import Sequence
from typing import Any, Self

from tests.support.coordinators import Route
from tests.support.waiting import wait_until
from tests.support.wire import api_key, covers, definition, snake

MEMBERS = ("a", "b", "c")
TOPIC = "orders"
Step = list[Any]
APIS = {
    "join": "JoinGroup", "sync": "SyncGroup", "heartbeat": "Heartbeat", "leave": "LeaveGroup", "commit": "OffsetCommit",
    "fetch": "OffsetFetch", "describe": "DescribeGroups", "list": "ListGroups", "delete": "DeleteGroups",
    "delete_offsets": "OffsetDelete", "begin": "InitProducerId", "add": "AddOffsetsToTxn",
    "commit_in_transaction": "TxnOffsetCommit", "end": "EndTxn",
}  # fmt: skip
"""Step -> its API."""
NONE, CONCURRENT_TRANSACTIONS, MEMBER_ID_REQUIRED, UNSTABLE_OFFSET_COMMIT = 0, 51, 79, 88
PUT_OFF_IN = {"JoinGroup": ("PreparingRebalance",), "SyncGroup": ("CompletingRebalance",)}
"""API -> the states of a group in which it holds its answer back."""
NEWEST_VERSION = 99
SOON_S, LATE_S, EMPTY_ROUND_S = 0.1, 20.0, 2.0
SESSION_MS = 600_000
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_LEFT_OUT = {"authorized_operations", "client_host", "error_message", "throttle_time_ms", "topic_id"}
Versions = dict[str, tuple[int, int]]


def subscription(*topics: str) -> bytes:
    """A ConsumerProtocol subscription, version 0."""
    names = b"".join(struct.pack(">h", len(name)) + name.encode() for name in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)


PROTOCOLS = {
    "range": {"range": subscription(TOPIC)},
    "range of two": {"range": subscription(TOPIC, "events")},
    "both": {"range": subscription(TOPIC), "roundrobin": subscription(TOPIC)},
    "sticky": {"sticky": subscription(TOPIC)},
}


class Actor:
    """A member's client: what it knows, and the request that it waits for."""

    def __init__(self, link: Route) -> None:
        self.link = link
        self.member_id, self.generation, self.leads = "", -1, False
        self.is_pending = False
        """Whether it was given an id and has not joined with it yet. A static member is given none."""
        self.members: list[str] = []
        self.producer: dict[str, int] = {}
        self.has_offsets = False
        """Whether the group is part of the producer's transaction."""
        self.put_off = ""
        """The API whose answer has not arrived."""


class Play:
    """One group at one broker, or at those of several that FindCoordinator names."""

    def __init__(self, bootstrap: str) -> None:
        self.group = f"g-{uuid.uuid4().hex}"
        self.transactional_id = f"{self.group}-t"
        *actors, self.observer = (
            Route(bootstrap, self.group, self.transactional_id, name) for name in (*MEMBERS, "p", "observer")
        )
        self.actors = dict(zip((*MEMBERS, "p"), map(Actor, actors), strict=True))
        self.versions = _served(self.observer)
        self._symbols: dict[str, str] = {self.group: "g"}
        self._described = self._text(self._shown())

    def close(self) -> None:
        """Ends all connections."""
        for link in (self.observer, *(actor.link for actor in self.actors.values())):
            link.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- steps ---

    def perform(self, step: Step) -> list[str]:
        """The answers that the step brought, a line for each, and the group if it changed."""
        name, what, wanted, options = step
        actor = self.actors[name]
        api = APIS[what]
        version = self._version(api, wanted)
        values = _of_version(api, version, getattr(self, f"_{what}")(actor, options))
        actor.link.send(api, version, values)
        actor.put_off = api
        lines = self._arrived(name, SOON_S)
        while f'"error_code": {CONCURRENT_TRANSACTIONS}' in "".join(lines):
            actor.link.send(api, version, values)
            actor.put_off = api
            lines = self._arrived(name, LATE_S)
        group = self._without_empty_round()
        while True:
            for each in self.actors:
                may_wait = group["group_state"] in PUT_OFF_IN.get(self.actors[each].put_off, ())
                lines += self._arrived(each, SOON_S / 20 if may_wait else LATE_S)
            seen, group = group, self._without_empty_round()
            if group["group_state"] == seen["group_state"]:
                break
        described = self._text(group)
        if described != self._described:
            self._described = described
            lines.append(f"group {described}")
        return lines

    def _without_empty_round(self) -> dict[str, Any]:
        """The group as shown. A broker shows a rebalance without members for a moment, before the group is empty."""
        deadline = time.monotonic() + EMPTY_ROUND_S
        group = self._shown()
        while group["group_state"] == "PreparingRebalance" and not group["members"] and time.monotonic() < deadline:
            group = self._shown()
        return group

    def shows(self, state: str) -> bool:
        """Whether the group was in this state after the last step."""
        return f'"group_state": "{state}"' in self._described

    @property
    def members(self) -> int:
        """How many members the group had after the last step."""
        return self._described.count('"member_id"')

    def _version(self, api: str, wanted: int) -> int:
        first, last = self.versions[api]
        return max(first, min(last, wanted))

    def _arrived(self, name: str, within_s: float) -> list[str]:
        actor = self.actors[name]
        if not actor.put_off:
            return []
        api, version, _ = actor.link.unanswered[0]
        try:
            answer = actor.link.receive(within_s)
        except TimeoutError:
            return []
        actor.put_off = ""
        _learn(actor, api, answer)
        self._settle(actor, api, answer.get("error_code", NONE))
        return [f"{name} {api} v{version} {self._text(answer)}"]

    def _shown(self) -> dict[str, Any]:
        (group,) = self.observer.call("DescribeGroups", 4, groups=[self.group])["groups"]
        return group

    # --- requests ---

    def _join(self, actor: Actor, options: dict[str, Any]) -> dict[str, Any]:
        protocols = PROTOCOLS[options.get("protocols", "range")]
        return {
            "group_id": self.group, "session_timeout_ms": SESSION_MS, "rebalance_timeout_ms": SESSION_MS,
            "member_id": self._member_id(actor, options),
            "group_instance_id": None if actor.is_pending else options.get("instance"),
            "protocol_type": options.get("type", "consumer"), "reason": options.get("reason"),
            "protocols": [{"name": name, "metadata": metadata} for name, metadata in protocols.items()],
        }  # fmt: skip

    def _sync(self, actor: Actor, options: dict[str, Any]) -> dict[str, Any]:
        given = [{"member_id": each, "assignment": b"part"} for each in actor.members] if actor.leads else []
        return {
            **self._identity(actor, options), "protocol_type": options.get("type"),
            "protocol_name": options.get("protocol"), "assignments": given,
        }  # fmt: skip

    def _heartbeat(self, actor: Actor, options: dict[str, Any]) -> dict[str, Any]:
        return self._identity(actor, options)

    def _leave(self, actor: Actor, options: dict[str, Any]) -> dict[str, Any]:
        named = {
            "own": (self._member_id(actor, options), None if actor.is_pending else options.get("instance")),
            "instance": ("", options.get("instance") or "one"),
            "other": (self.actors["a"].member_id, None),
            "nobody": ("nobody", None),
            "nobody's instance": ("", "nobody"),
        }
        members = [
            dict(zip(("member_id", "group_instance_id"), named[each], strict=True))
            for each in options.get("who", ["own"])
        ]
        return {
            "group_id": self.group, "member_id": self._member_id(actor, options), "members": members,
        }  # fmt: skip

    def _commit(self, actor: Actor, options: dict[str, Any]) -> dict[str, Any]:
        identity = self._identity(actor, options)
        identity["generation_id_or_member_epoch"] = identity.pop("generation_id")
        return identity | {"topics": _offsets(options), "retention_time_ms": -1}

    def _fetch(self, _actor: Actor, options: dict[str, Any]) -> dict[str, Any]:
        topics = None if options.get("all") else [{"name": TOPIC, "partition_indexes": [0, 1, 2, 9]}]
        groups = [{"group_id": self.group, "topics": topics}]
        return {
            "group_id": self.group, "topics": topics, "groups": groups, "require_stable": options.get("stable", False),
        }  # fmt: skip

    def _describe(self, _actor: Actor, _options: dict[str, Any]) -> dict[str, Any]:
        return {"groups": [self.group], "include_authorized_operations": False}

    def _list(self, _actor: Actor, options: dict[str, Any]) -> dict[str, Any]:
        return {"states_filter": options.get("states", []), "types_filter": options.get("types", [])}

    def _delete(self, _actor: Actor, _options: dict[str, Any]) -> dict[str, Any]:
        return {"groups_names": [self.group]}

    def _delete_offsets(self, _actor: Actor, _options: dict[str, Any]) -> dict[str, Any]:
        topics = [{"name": TOPIC, "partitions": [{"partition_index": index} for index in (0, 9)]}]
        return {"group_id": self.group, "topics": topics}

    # --- transactions ---

    def _begin(self, _actor: Actor, _options: dict[str, Any]) -> dict[str, Any]:
        return {"transactional_id": self.transactional_id, "transaction_timeout_ms": SESSION_MS}

    def _add(self, actor: Actor, options: dict[str, Any]) -> dict[str, Any]:
        return {**self._producer(actor, options), "group_id": self.group}

    def _commit_in_transaction(self, actor: Actor, options: dict[str, Any]) -> dict[str, Any]:
        identity = self._identity(self.actors[options.get("member", "a")], options)
        identity["generation_id_or_member_epoch"] = identity.pop("generation_id")
        return {**self._producer(actor, options), **identity, "topics": _offsets(options)}

    def _end(self, actor: Actor, options: dict[str, Any]) -> dict[str, Any]:
        return {**self._producer(actor, options), "committed": options.get("committed", True)}

    def _producer(self, actor: Actor, options: dict[str, Any]) -> dict[str, Any]:
        known = actor.producer
        epoch = max(0, known["producer_epoch"] + options.get("epoch", 0))
        return {**known, "producer_epoch": epoch, "transactional_id": self.transactional_id}

    def _settle(self, actor: Actor, api: str, error: int) -> None:
        """Waits for the markers of a transaction that has ended: the answer does not."""
        if error == NONE and api in ("InitProducerId", "EndTxn") and actor.has_offsets:
            topics = [{"name": TOPIC, "partition_indexes": [0, 1]}]
            asked = {"group_id": self.group, "topics": topics, "require_stable": True}

            def settled() -> bool:
                (topic,) = self.observer.call("OffsetFetch", 7, **asked)["topics"]
                return all(each["error_code"] != UNSTABLE_OFFSET_COMMIT for each in topic["partitions"])

            wait_until(settled, "the markers of a transaction")
            actor.has_offsets = False
        elif error == NONE and api == "AddOffsetsToTxn":
            actor.has_offsets = True

    # --- what differs between brokers ---

    def _member_id(self, actor: Actor, options: dict[str, Any]) -> str:
        return {"own": actor.member_id, "none": "", "unknown": "unknown"}[options.get("id", "own")]

    def _identity(self, actor: Actor, options: dict[str, Any]) -> dict[str, Any]:
        generation = {"own": actor.generation, "next": actor.generation + 1, "none": -1}[
            options.get("generation", "own")
        ]
        return {
            "group_id": self.group, "member_id": self._member_id(actor, options), "generation_id": generation,
            "group_instance_id": options.get("instance"),
        }  # fmt: skip

    def _text(self, answer: dict[str, Any]) -> str:
        text = json.dumps(self._plain("", answer), sort_keys=True)
        return re.sub(r'"(producer_id)": \d+', r'"\1": "<producer>"', text)

    def _plain(self, key: str, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self._plain(name, item) for name, item in value.items() if name not in _LEFT_OUT}
        if isinstance(value, list):
            if key == "groups":
                value = [each for each in value if not isinstance(each, dict) or each["group_id"] == self.group]
            return sorted((self._plain("", each) for each in value), key=json.dumps)
        if isinstance(value, bytes):
            return value.decode("latin1")
        if isinstance(value, str):
            return _UUID.sub(self._symbol, value.replace(self.group, "g"))
        return value

    def _symbol(self, found: re.Match[str]) -> str:
        prefix = found.string[: found.start()]
        known = sum(symbol.startswith(prefix) for symbol in self._symbols.values())
        symbol = self._symbols.setdefault(found[0], f"{prefix}<{known + 1}>")
        return symbol[len(prefix) :]


def _offsets(options: dict[str, Any]) -> list[dict[str, Any]]:
    partitions = [
        {"partition_index": index, "committed_offset": options.get("offset", 1), "committed_metadata": "note"}
        for index in options.get("partitions", [0])
    ]
    return [{"name": TOPIC, "partitions": partitions}]


def _of_version(api: str, version: int, values: dict[str, Any]) -> dict[str, Any]:
    """The fields that this version has, also in lists."""
    fields = {snake(each["name"]): each for each in definition(f"{api}Request")["fields"]}
    return _fields_of_version(fields, version, values)


def _fields_of_version(fields: dict[str, Any], version: int, values: dict[str, Any]) -> dict[str, Any]:
    found = {}
    for name, value in values.items():
        if name in fields and covers(fields[name]["versions"], version):
            inner = {snake(each["name"]): each for each in fields[name].get("fields", [])}
            nested = inner and isinstance(value, list)
            found[name] = [_fields_of_version(inner, version, each) for each in value] if nested else value
    return found


def _served(link: Route) -> Versions:
    """The versions of the APIs that the broker lists and that can be encoded here."""
    listed = {
        each["api_key"]: (each["min_version"], each["max_version"]) for each in link.call("ApiVersions", 0)["api_keys"]
    }
    found = {}
    for api in APIS.values():
        key, (first, _, last) = api_key(api), definition(f"{api}Request")["validVersions"].partition("-")
        if key in listed:
            found[api] = max(int(first), listed[key][0]), min(int(last or first), listed[key][1])
    return found


def _learn(actor: Actor, api: str, answer: dict[str, Any]) -> None:
    error = answer.get("error_code", NONE)
    if api == "JoinGroup" and error in (NONE, MEMBER_ID_REQUIRED):
        actor.member_id, actor.is_pending = answer["member_id"], error == MEMBER_ID_REQUIRED
        if error == NONE:
            actor.generation = answer["generation_id"]
            actor.leads = answer["leader"] == actor.member_id
            actor.members = [each["member_id"] for each in answer["members"]]
    elif api == "InitProducerId" and error == NONE:
        actor.producer = {key: answer[key] for key in ("producer_id", "producer_epoch")}


# --- cases ------------------------------------------------------------------------------------------------------------

WEIGHTS = {
    "join": 12, "sync": 6, "heartbeat": 3, "leave": 2, "commit": 3, "fetch": 2, "describe": 1, "list": 1, "delete": 1,
    "delete_offsets": 1, "begin": 1, "add": 1, "commit_in_transaction": 2, "end": 1,
}  # fmt: skip
IN_TRANSACTIONS = ("begin", "add", "commit_in_transaction", "end")
OF_AN_ADMINISTRATOR = ("fetch", "describe", "list", "delete", "delete_offsets")
IDS = ("own",) * 9 + ("none", "unknown")
GENERATIONS = ("own",) * 6 + ("next", "none")
INSTANCES = (None,) * 6 + ("one", "one", "two")
OPTIONS: dict[str, dict[str, Sequence[Any]]] = {
    "join": {
        "id": ("own",) * 9 + ("none", "none", "unknown"), "instance": INSTANCES, "type": (None,) * 12 + ("connect",),
        "protocols": ("range",) * 6 + ("range of two", "both", "both", "sticky"),
    },
    "sync": {
        "id": IDS, "generation": GENERATIONS, "instance": INSTANCES, "type": ("consumer",) * 6 + (None, "connect"),
        "protocol": ("range",) * 6 + (None, "sticky"),
    },
    "heartbeat": {"id": IDS, "generation": GENERATIONS, "instance": INSTANCES},
    "leave": {
        "id": IDS, "instance": INSTANCES,
        "who": (None, None, ["own"], ["instance"], ["nobody"], ["own", "other"], ["own", "own"], ["nobody's instance", "own"]),
    },
    "commit": {
        "id": IDS, "generation": GENERATIONS, "instance": INSTANCES, "offset": range(9), "partitions": ([0], [0], [1, 9]),
    },
    "fetch": {"all": (None, True), "stable": (None, True)},
    "describe": {},
    "list": {"states": ([], [], ["Stable", "Empty"], ["stable"], ["PreparingRebalance"]), "types": ([], ["classic"])},
    "delete": {},
    "delete_offsets": {},
    "begin": {},
    "add": {"epoch": (None,) * 6 + (-1, 1)},
    "commit_in_transaction": {
        "member": MEMBERS, "id": IDS, "generation": GENERATIONS, "instance": INSTANCES, "epoch": (None,) * 6 + (-1,),
        "offset": range(9), "partitions": ([0], [1], [0, 9]),
    },
    "end": {"committed": (True, False), "epoch": (None,) * 6 + (-1, 1)},
}  # fmt: skip
"""Step -> its options, and the values that are drawn for each."""


def draw(dice: random.Random, play: Play, has_static_members: bool) -> Step | None:
    """A step of an actor that waits for nothing; None if all members wait.

    None is drawn whose answer is not imitated (docs/emulation.md): joins before version 5 in groups with static members,
    commits in a transaction to a group that does not exist, or of an earlier producer that names a member, the
    departure of a leader from several others, and of a batch with a member that joins.
    """
    free = [name for name in MEMBERS if not play.actors[name].put_off]
    if not free:
        return None
    what = dice.choice([what for what, weight in WEIGHTS.items() for _ in range(weight)])
    if what in IN_TRANSACTIONS and not (play.actors["p"].producer and not play.shows("Dead")):
        what = "begin"
    if what == "leave" and play.members > 2:
        what = "heartbeat"
    name = "p" if what in IN_TRANSACTIONS or what in OF_AN_ADMINISTRATOR else dice.choice(free)
    options = {key: found for key, values in OPTIONS[what].items() if (found := dice.choice(values)) is not None}
    if "epoch" in options and what == "commit_in_transaction":
        options |= {"id": "none", "generation": "none"}
    if play.actors["a"].put_off and "other" in options.get("who", ()):
        options["who"] = ["own"]
    if not has_static_members or (what == "commit_in_transaction" and "epoch" in options):
        options.pop("instance", None)
    first = 5 if what == "join" and has_static_members else 2 if options.get("all") else 0
    return [name, what, dice.choice((NEWEST_VERSION, dice.randrange(first, 10))), options]
