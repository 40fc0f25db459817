"""Control against its worst users: rules at random and by the thousand, clients that vanish while a rule holds them, recordings
of large requests, and a crash in the middle of it all. An honest member is served all the time."""

import contextlib
import json
import random
import socket
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coordinator.protocol.codec import Codec
from coordinator.protocol.errors import ErrorCode
from coordinator.rules.faults import RULES_MAX
from tests.hostile.fuzzer import BUGS
from tests.hostile.honest_member import MIB, HonestMember, resident_bytes
from tests.rules.samples import APIS, GROUP, MEMBER, TOPIC, TRANSACTIONAL_ID, sample
from tests.support.record_batch import Batch
from tests.support.server_process import ServerProcess
from tests.support.waiting import WITHIN_S, wait_until
from tests.support.wire import Connection, ConnectionClosed

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the honest member's helpers read /proc")

VICTIM = "victim"
"""The client id that rules are about, so that they do not disturb the honest member."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("control"), settings={"admin.control.enable": True}) as server:
        yield server
        bugs = [line for line in server.log.splitlines() if BUGS.search(line)]
        assert not bugs, "\n".join(server.log.splitlines()[-100:])


@pytest.fixture
def honest(server: ServerProcess) -> Iterator[HonestMember]:
    with HonestMember(server.bootstrap) as member:
        member.is_served()
        yield member
        member.is_served()


@pytest.fixture
def http(server: ServerProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"{server.admin}/v1", timeout=WITHIN_S) as client:
        yield client
        client.delete("/faults", params={"all": True})
        client.delete("/recordings", params={"all": True})


def held(http: httpx.Client, fault: str) -> int:
    return int(http.get(f"/faults/{fault}").json()["held"])


# --- rules at random --------------------------------------------------------------------------------------------------

NUMBERS = st.sampled_from((-1, 0, 1, 2, 7, 2**15, 2**31 - 1, 2**31, 2**63, 2**64, 1.5, True))
SMALL = st.integers(1, 3)
NAMES = st.sampled_from((GROUP, TOPIC, MEMBER, TRANSACTIONAL_ID, "*", "?*", "[!x]*", "*a*" * 60))
TEXTS = st.one_of(NAMES, st.sampled_from(("[", "[]", "a" * 600, "", "\0", "\ud7ff", "\\", "(?")))
ANYTHING = st.recursive(
    st.one_of(st.none(), NUMBERS, TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6,
)
API_NAMES = st.sampled_from((*APIS, "*", "Offset*"))
GLOBS = ("group", "topic", "transactional_id", "member_id", "instance_id", "client_host", "listener")
SENSIBLE = {
    "error": st.sampled_from([code.name for code in ErrorCode]),
    "lose": st.sampled_from(("request", "answer")),
    "delay_ms": SMALL,
    "hold": st.sampled_from(("request", "answer")),
    "close": st.just(value=True),
    "throttle_ms": SMALL,
    "coordinator": st.sampled_from(("moved", "loading", "unavailable")),
    "answer": st.dictionaries(
        st.sampled_from(
            ("ErrorCode", "ThrottleTimeMs", "ErrorMessage", "Topics[].Name", "Groups[].ErrorCode", "Topics")
        ),
        st.one_of(st.none(), SMALL, NAMES, ANYTHING),
        max_size=2,
    ),
    "cut_after": SMALL,
    "bytes_per_s": st.just(1_000_000),
    "observe": st.just(value=True),
}
"""Without `flip_bits` and `size`, whose answers have no shape."""
WHERE = st.dictionaries(
    st.sampled_from(
        ("GroupId", "MemberEpoch", "MemberId", "Topics[].Name", "Topics[0]", "Groups[]", "Nothing", "[", "")
    ),
    st.one_of(NAMES, ANYTHING, st.dictionaries(st.sampled_from(("<", ">=", "!=", "=")), st.one_of(SMALL, NAMES))),
    max_size=2,
)
ERRORS = st.fixed_dictionaries({"error": SENSIBLE["error"], "force": st.just(value=True)})


@st.composite
def sensible_cases(draw: st.DrawFn) -> tuple[Any, str]:
    """A rule about an API, and the API."""
    api = draw(st.sampled_from(sorted(APIS)))
    kinds = [st.fixed_dictionaries({kind: SENSIBLE[kind]}) for kind in SENSIBLE if kind != "error"]
    rule = {"match": {"client_id": VICTIM, "api": api}, "action": draw(st.one_of(ERRORS, ERRORS, ERRORS, *kinds))}
    if draw(st.booleans()):
        rule["match"][draw(st.sampled_from(GLOBS))] = draw(NAMES)
    if draw(st.booleans()):
        rule["match"]["where"] = draw(WHERE)
    if draw(st.booleans()):
        rule["extent"] = draw(st.fixed_dictionaries({}, optional={"times": SMALL, "for_ms": st.just(60_000)}))
    return rule, api


WILD_RULES = st.fixed_dictionaries(
    {
        "match": st.fixed_dictionaries(
            {"client_id": st.just(VICTIM)},
            optional={field: st.one_of(TEXTS, ANYTHING) for field in (*GLOBS, "group_state", "role", "per", "api")}
            | {
                "version": st.one_of(NUMBERS, st.lists(NUMBERS, max_size=3)),
                "nth": NUMBERS,
                "where": st.one_of(WHERE, ANYTHING),
            },
        ),
        "action": st.fixed_dictionaries(
            {},
            optional=SENSIBLE
            | {
                "message": TEXTS,
                "partitions": st.lists(NUMBERS, max_size=3),
                "when": TEXTS,
                "force": NUMBERS,
                "error": TEXTS,
            },
        ),
    },
    optional={"extent": st.dictionaries(st.sampled_from(("times", "for_ms", "until")), NUMBERS), "scope": TEXTS},
)


def test_a_rule_at_random_is_set_or_refused_and_never_breaks_the_server(
    server: ServerProcess, honest: HonestMember, http: httpx.Client
) -> None:
    """What it acts on is answered in the shape of its API, or its connection closes."""
    outcomes = Counter[str]()

    @settings(max_examples=300, suppress_health_check=list(HealthCheck))
    @given(
        st.one_of(
            sensible_cases(), st.tuples(st.one_of(WILD_RULES, WILD_RULES, ANYTHING), st.sampled_from(sorted(APIS)))
        ),
        st.integers(0, 1 << 30),
    )
    def set_and_meet(case: tuple[Any, str], seed: int) -> None:
        rule, api = case
        answer = http.post("/faults", content=json.dumps(rule), headers={"Content-Type": "application/json"})
        assert answer.status_code in (201, 400, 422), answer.text
        outcomes[str(answer.status_code)] += 1
        if answer.status_code != 201:
            assert answer.json()["detail"]
            return
        outcomes[meet(server, api, seed)] += 1
        fault = http.get("/faults").json()["faults"][0]
        outcomes["acted"] += fault["acted"]
        assert http.delete("/faults", params={"all": True}).json() == {"cleared": 1}
        assert http.get(f"/faults/{fault['id']}").status_code == 404

    set_and_meet()
    assert min(outcomes[each] for each in ("201", "400", "422", "answered", "closed", "acted")) >= 5, outcomes


def meet(server: ServerProcess, api: str, seed: int) -> str:
    """Sends a request of this API in any version. Raises if the answer has not the shape of that version."""
    version = random.Random(seed).randint(*APIS[api].versions)
    with Connection(server.bootstrap, VICTIM) as link:
        try:
            body = Codec.of().encoder(f"{api}Request", version)(sample(api, version, b"\1" * 16))
            link.send_body(api, version, body)
            link.receive(within_s=0.05)
        except ConnectionClosed:
            return "closed"
        except TimeoutError:
            return "silent"
    return "answered"


# --- many of everything -----------------------------------------------------------------------------------------------


def test_more_rules_than_there_may_be_are_refused_and_all_of_them_are_asked(
    honest: HonestMember, http: httpx.Client, server: ServerProcess
) -> None:
    """A request passes a thousand rules that do not match it, and one clearing ends them."""
    match = {"api": "Heartbeat", "client_id": VICTIM}
    rule = {"match": match | {"group": "other-*"}, "action": {"close": True}, "scope": "many"}
    codes = [http.post("/faults", json=rule).status_code for _ in range(RULES_MAX + 20)]
    assert codes == [201] * RULES_MAX + [409] * 20
    with Connection(server.bootstrap, VICTIM) as link:
        asked = {"group_id": "one", "generation_id": 1, "member_id": "m"}
        assert link.call("Heartbeat", 4, **asked)["error_code"] == ErrorCode.UNKNOWN_MEMBER_ID
    honest.is_served()
    assert http.delete("/faults", params={"scope": "many"}).json() == {"cleared": RULES_MAX}
    assert http.get("/faults").json() == {"faults": []}


@pytest.mark.parametrize("way", ["request", "answer"])
def test_a_thousand_clients_that_vanish_while_a_rule_holds_them_are_forgotten(
    honest: HonestMember, http: httpx.Client, server: ServerProcess, way: str
) -> None:
    """Nothing of them is left to release, and the group that they wanted to join has no members."""
    rule = {"match": {"client_id": VICTIM}, "action": {"hold": way}, "extent": {"until": "cleared"}, "scope": "held"}
    fault = http.post("/faults", json=rule).json()["id"]
    links = [Connection(server.bootstrap, VICTIM) for _ in range(1_000)]
    joining = {"group_id": "crowd", "session_timeout_ms": 6_000, "rebalance_timeout_ms": 6_000, "member_id": "",
               "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b""}]}  # fmt: skip
    for number, link in enumerate(links):
        if number % 2:
            link.send("Heartbeat", 4, {"group_id": "crowd", "generation_id": 1, "member_id": "m"})
        else:
            link.send("JoinGroup", 4, joining)
    wait_until(lambda: held(http, fault) == 1_000, lambda: f"the rule to hold them: {held(http, fault)}")
    honest.is_served()
    for link in links:
        link.close()
    wait_until(lambda: held(http, fault) == 0, lambda: f"them to be forgotten: {held(http, fault)}")
    assert http.post(f"/faults/{fault}/release", json={}).json() == {"released": 0}
    assert http.delete("/faults", params={"scope": "held"}).json() == {"cleared": 1}
    honest.is_served()


def test_a_recording_of_large_requests_keeps_what_they_say_and_not_their_bytes(
    honest: HonestMember, http: httpx.Client, server: ServerProcess
) -> None:
    """200 requests of a megabyte are recorded, and the server does not grow by them."""
    http.post("/recordings", json={"match": {"client_id": VICTIM}, "limit": 1_000_000})
    recording = "/recordings/" + http.get("/recordings").json()["recordings"][0]["id"]
    batch = Batch(values=[bytes(MIB - 1_000)]).encode()

    def produce(link: Connection, times: int) -> None:
        partition = {"index": 0, "records": batch}
        for _ in range(times):
            topic = {"name": "events", "partition_data": [partition]}
            answer = link.call("Produce", 9, acks=1, timeout_ms=1_000, topic_data=[topic])
            assert answer["responses"][0]["partition_responses"][0]["error_code"] == 0

    with Connection(server.bootstrap, VICTIM) as link:
        produce(link, 20)
        before = resident_bytes(server)
        produce(link, 200)
    assert resident_bytes(server) - before < 50 * MIB
    page = http.get(recording, params={"limit": 1_000}).json()
    assert len(page["entries"]) >= 220
    assert {entry["outcome"] for entry in page["entries"]} == {"answered"}
    assert all(len(json.dumps(entry)) < 2_000 for entry in page["entries"])


def test_readers_of_events_who_do_not_read_cost_a_bounded_memory(
    honest: HonestMember, http: httpx.Client, server: ServerProcess
) -> None:
    """Only so many may read, and all other requests are served, while thousands of commits become events."""
    host, _, port = server.admin.removeprefix("http://").rpartition(":")
    asked = b"GET /v1/events?after=now HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"
    answers = Counter[bytes]()
    with contextlib.ExitStack() as stack:
        for _ in range(60):
            link = stack.enter_context(socket.create_connection((host, int(port)), timeout=WITHIN_S))
            link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            link.sendall(asked)
            answers[link.recv(12)] += 1
        assert answers.keys() == {b"HTTP/1.1 200", b"HTTP/1.1 503"}
        before = resident_bytes(server)
        with Connection(server.bootstrap, VICTIM) as link:
            partition = {"partition_index": 0, "committed_offset": 7, "committed_metadata": "x" * 100}
            wanted = {"group_id": "events", "topics": [{"name": "events", "partitions": [partition]}]}
            for _ in range(50):
                for _ in range(100):
                    link.send("OffsetCommit", 8, wanted)
                for _ in range(100):
                    assert link.receive()["topics"][0]["partitions"][0]["error_code"] == 0
        honest.is_served()
        assert http.get("/groups").status_code == 200
        assert resident_bytes(server) - before < 50 * MIB


# --- a crash in the middle --------------------------------------------------------------------------------------------


class PersistentCommitter(threading.Thread):
    """Commits 1, 2, 3 ... for a group, again and again until each is accepted, over as many connections as it takes."""

    def __init__(self, bootstrap: str, group: str) -> None:
        super().__init__(daemon=True)
        self._address, self._group = bootstrap, group
        self.acknowledged = self.tried = 0
        self.stopping = False

    def run(self) -> None:
        while not self.stopping:
            with contextlib.suppress(ConnectionClosed, OSError), Connection(self._address, VICTIM) as link:
                while not self.stopping:
                    self.tried = self.acknowledged + 1
                    partition = {"partition_index": 0, "committed_offset": self.tried}
                    wanted = {"group_id": self._group, "topics": [{"name": "events", "partitions": [partition]}]}
                    link.send("OffsetCommit", 8, wanted)
                    if link.receive(5.0)["topics"][0]["partitions"][0]["error_code"] == 0:
                        self.acknowledged = self.tried


def committed(server: ServerProcess, group: str) -> int:
    with Connection(server.bootstrap) as link:
        wanted = [{"name": "events", "partition_indexes": [0]}]
        answer = link.call("OffsetFetch", 7, group_id=group, topics=wanted, require_stable=True)
    return int(answer["topics"][0]["partitions"][0]["committed_offset"])


def test_every_acknowledged_commit_survives_faults_and_a_crash(tmp_path, coordinator_process) -> None:
    """Answers are lost, delayed and replaced by errors, and shards fail over, when the server is killed."""
    server = coordinator_process(settings={"offsets.topic.num.partitions": 4, "admin.control.enable": True})
    groups = [f"group-{number}" for number in range(8)]
    committers = [PersistentCommitter(server.bootstrap, group) for group in groups]
    with httpx.Client(base_url=f"{server.admin}/v1", timeout=WITHIN_S) as http:
        for action in (
            {"lose": "answer"}, {"lose": "request"}, {"delay_ms": 5, "when": "after"}, {"close": True},
            {"error": "REBALANCE_IN_PROGRESS"}, {"coordinator": "loading"}, {"throttle_ms": 5}, {"hold": "answer"},
        ):  # fmt: skip
            match = {"api": "OffsetCommit", "client_id": VICTIM, "nth": 5}
            extent = {"times": 3} if "hold" in action else {"until": "cleared"}
            rule = {
                "match": match | {"group": random.Random(str(action)).choice(groups)},
                "action": action,
                "extent": extent,
            }
            assert http.post("/faults", json=rule).status_code == 201
        for each in committers:
            each.start()
        for group in groups * 3:
            answer = http.post(f"/groups/{group}/reload", json={"for_ms": 5})
            assert answer.status_code == 200, answer.text
            answer = http.post(f"/groups/{group}/offsets/expire", json={"topics": ["other"]})
            assert answer.status_code in (200, 404, 503), answer.text
        wait_until(lambda: sum(each.acknowledged for each in committers) > 200, "commits")
    server.kill()
    acknowledged = [each.acknowledged for each in committers]
    for each in committers:
        each.stopping = True
    for each in committers:
        each.join(WITHIN_S)
    server.start()
    found = [committed(server, group) for group in groups]
    for offset, least, most in zip(found, acknowledged, [each.tried for each in committers], strict=True):
        assert max(least, -1) <= offset or (least == 0 and offset == -1)
        assert offset <= most
