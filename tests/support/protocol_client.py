"""A group member that follows the protocol and nothing else, and that a test can hold between any two of its steps.

A client library cannot be held at "joined and not yet synced", and it is more tolerant than the protocol requires. This
member does exactly what Kafka's protocol demands: it returns with the id it was given, rejoins on request, drops its
assignment when its generation ends, and treats a lost response as an unknown outcome. It runs in a thread of its own.

The leader assigns partitions round robin in the order of member ids, so that members can check each other.
"""

import struct
import threading
import time
from collections.abc import Callable
from typing import Any

from tests.support.waiting import WITHIN_S, wait_until
from tests.support.wire import Connection, ConnectionClosed, Values

HEARTBEAT_S = 0.05
RECONNECT_S = 0.05
NONE, UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION = 0, 25, 22
REBALANCE_IN_PROGRESS, MEMBER_ID_REQUIRED = 27, 79
RETRIABLE = {14, 15, 16}  # the coordinator is loading, unavailable, or elsewhere


class ProtocolMember:
    """One member. `assignment` is what it holds (None: nothing until it has joined), in `generation`.

    A test holds it at a step with `hold(step)`: "joined" (has its JoinGroup response) or "synced" (has its assignment);
    waits with `reached(step)`, and lets it `go_on()`.
    """

    def __init__(self, bootstrap: str, group: str, name: str, partitions: int, session_ms: int = 10_000):
        self.bootstrap = bootstrap
        self.group = group
        self.name = name
        self.partitions = partitions
        self.session_ms = session_ms
        self.member_id = ""
        self.generation = -1
        self.leads = False
        self.assignment: list[int] | None = None
        self.joins = 0
        self.generations: list[int] = []
        self.assign: Callable[[list[str]], dict[str, list[int]]] = self._round_robin
        self.failure: BaseException | None = None
        self._held: str | None = None
        self._at: str | None = None
        self._gate = threading.Condition()
        self._over = False
        self._link: Connection | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> "ProtocolMember":
        self._thread.start()
        return self

    # --- controlled by the test ---

    def hold(self, step: str) -> None:
        with self._gate:
            self._held = step

    def reached(self, step: str) -> None:
        """Returns when the member is held at the step."""
        with self._gate:
            assert self._gate.wait_for(lambda: self._at == step, WITHIN_S), f"{self} did not reach {step}"

    def go_on(self) -> None:
        with self._gate:
            self._held = None
            self._gate.notify_all()

    def die(self) -> None:
        """Ends without leaving, as a killed process would."""
        self._over = True
        self.go_on()
        if self._link is not None:
            self._link.close()
        self._thread.join(WITHIN_S)

    def __str__(self) -> str:
        return (
            f"{self.name}: generation {self.generation}, assignment {self.assignment}, generations {self.generations}"
        )

    # --- the protocol ---

    def _run(self) -> None:
        try:
            while not self._over:
                try:
                    with Connection(self.bootstrap, self.name) as self._link:
                        self._live(self._link)
                except (ConnectionClosed, OSError):
                    time.sleep(RECONNECT_S)
        except BaseException as error:
            self.failure = error
            raise

    def _live(self, link: Connection) -> None:
        """Serves one connection until it breaks. A member with an assignment keeps it meanwhile, because the generation
        may live on.
        """
        while not self._over:
            if self.assignment is None:
                self._join(link)
            else:
                self._beat(link)

    def _join(self, link: Connection) -> None:
        self.joins += 1
        answer = link.call(
            "JoinGroup", 9, group_id=self.group, session_timeout_ms=self.session_ms, rebalance_timeout_ms=self.session_ms,
            member_id=self.member_id, protocol_type="consumer", protocols=[{"name": "range", "metadata": b"\x00\x00"}],
        )  # fmt: skip
        error = answer["error_code"]
        if error == NONE:
            self.member_id, self.generation = answer["member_id"], answer["generation_id"]
            self.leads = answer["leader"] == self.member_id
            self._stand("joined")
            self._sync(link, [member["member_id"] for member in answer["members"]])
        elif error == MEMBER_ID_REQUIRED:
            self.member_id = answer["member_id"]
        else:
            self._react(error)

    def _sync(self, link: Connection, members: list[str]) -> None:
        proposal = self.assign(members) if self.leads else {}
        answer = link.call(
            "SyncGroup", 5, group_id=self.group, generation_id=self.generation, member_id=self.member_id,
            protocol_type="consumer", protocol_name="range",
            assignments=[{"member_id": member, "assignment": pack(held)} for member, held in proposal.items()],
        )  # fmt: skip
        if answer["error_code"] == NONE:
            self.generations.append(self.generation)
            self.assignment = unpack(answer["assignment"])
            self._stand("synced")
        else:
            self._react(answer["error_code"])

    def _beat(self, link: Connection) -> None:
        answer: Values = link.call(
            "Heartbeat", 4, group_id=self.group, generation_id=self.generation, member_id=self.member_id
        )
        if answer["error_code"] == NONE:
            time.sleep(HEARTBEAT_S)
        else:
            self._react(answer["error_code"])

    def _react(self, error: int) -> None:
        if error in RETRIABLE:
            time.sleep(RECONNECT_S)
            return
        self.assignment = None
        if error == UNKNOWN_MEMBER_ID:
            self.member_id, self.generation = "", -1
        elif error == ILLEGAL_GENERATION:
            self.generation = -1
        else:
            assert error == REBALANCE_IN_PROGRESS, error

    def _stand(self, step: str) -> None:
        with self._gate:
            if self._held == step:
                self._at = step
                self._gate.notify_all()
                self._gate.wait_for(lambda: self._held != step)
                self._at = None

    def _round_robin(self, members: list[str]) -> dict[str, list[int]]:
        ranked = sorted(members)
        return {member: list(range(place, self.partitions, len(ranked))) for place, member in enumerate(ranked)}


def pack(partitions: list[int]) -> bytes:
    return struct.pack(f">{len(partitions)}i", *partitions)


def unpack(assignment: bytes) -> list[int]:
    return list(struct.unpack(f">{len(assignment) // 4}i", assignment))


def correct_group(members: list[ProtocolMember]) -> bool:
    """Asserts one generation, every partition held once, and every member assigned."""
    for member in members:
        if member.failure is not None:
            raise member.failure
    held = [partition for member in members for partition in member.assignment or []]
    one_generation = len({member.generation for member in members}) == 1
    assigned = all(member.assignment is not None for member in members)
    return one_generation and assigned and sorted(held) == list(range(members[0].partitions))


def wait_for_correct_group(bootstrap: str, members: list[ProtocolMember]) -> None:
    """Waits until the members agree with each other and with the server."""
    wait_until(
        lambda: correct_group(members) and described(bootstrap, members[0].group) == as_described(members),
        lambda: "a correct group: " + "; ".join(map(str, members)),
    )


def as_described(members: list[ProtocolMember]) -> dict[str, Any]:
    return {"state": "Stable", "members": {member.member_id: pack(member.assignment or []) for member in members}}


def described(bootstrap: str, group: str) -> dict[str, Any]:
    with Connection(bootstrap) as link:
        (answer,) = link.call("DescribeGroups", 5, groups=[group])["groups"]
    members = {member["member_id"]: member["member_assignment"] for member in answer["members"]}
    return {"state": answer["group_state"], "members": members}
