"""Admin HTTP of `serve --workers 3`: one address that answers for all workers, as one server does."""

import itertools
import os
import signal
import ssl
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from coordinator.admin.routes import all_endpoints
from coordinator.admin.workers.merged import merged
from coordinator.admin.workers.recordings import Numbered
from coordinator.admin.workers.routes import endpoints
from coordinator.protocol.releases import NEWEST
from tests.support.background import Background
from tests.support.coordinators import coordinator_of
from tests.support.group_members import Consumer
from tests.support.server_process import ServerProcess
from tests.support.tls import certificates
from tests.support.waiting import WITHIN_S, wait_until

SAME_AT_EVERY_SERVER = {"/", "/v1/openapi.json", "/page/{name}", "/health/live"}
SHARDS, WORKERS = 6, 3
GROUPS = [f"group-{number}" for number in range(12)]
TOKEN = "planted-token-0123456789"
SETTINGS = {
    "topics": '[{"name": "t", "partitions": 4}]',
    "offsets.topic.num.partitions": SHARDS,
    "transaction.state.log.num.partitions": SHARDS,
    "group.consumer.assignment.interval.ms": 0,
    "admin.token": TOKEN,
}
JSON = {"Accept": "application/json"}


def test_every_endpoint_has_a_handler_for_several_workers():
    """None is left with that of a single server, which would look for groups in this process."""
    ours = {(each.method, each.path): each.handle for each in endpoints()}
    for each in all_endpoints():
        is_same = each.path in SAME_AT_EVERY_SERVER or each.path.startswith("/v1/brokers")  # workers have none
        assert (ours.pop((each.method, each.path)) is each.handle) == is_same, each.path
    assert not ours


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("front")
    pem = certificates(folder)
    (folder / "both.pem").write_text(pem.key.read_text() + pem.certificate.read_text())
    settings = SETTINGS | {
        "admin.ssl.keystore.location": str(folder / "both.pem"),
        "admin.ssl.truststore.location": str(pem.ca),
    }
    with ServerProcess(folder, settings=settings, arguments=("--workers", str(WORKERS))) as server:
        for group in GROUPS:
            commit_one(server, group, 1)
        yield server


@pytest.fixture(scope="module")
def admin(server) -> Iterator[httpx.Client]:
    """Somebody with the token."""
    with httpx.Client(
        base_url=server.admin,
        verify=trust(server),
        headers={"Authorization": f"Bearer {TOKEN}"},
        timeout=WITHIN_S,
    ) as client:
        yield client


def trust(server: ServerProcess) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(server.folder / "ca.pem"))


def commit_one(server: ServerProcess, group: str, offset: int) -> None:
    """Returns when it is accepted: a worker that does not know a topic or has no shard yet refuses at first."""
    partitions = [{"partition_index": 0, "committed_offset": offset}]

    def try_once() -> bool:
        with coordinator_of(server, group) as link:
            answer = link.call(
                "OffsetCommit", 9, group_id=group, generation_id_or_member_epoch=-1, member_id="",
                topics=[{"name": "t", "partitions": partitions}],
            )  # fmt: skip
        return answer["topics"][0]["partitions"][0]["error_code"] == 0

    wait_until(try_once)


def get(admin: httpx.Client, path: str, **query: Any) -> Any:
    answer = admin.get(path, params=query, headers=JSON)
    assert answer.status_code == 200, answer.text
    return answer.json()


def worker_of(admin: httpx.Client, group: str) -> int:
    """The number of the worker that has a group, as the metrics of all say."""
    shard = get(admin, "/v1/events/page", group=group, limit=1)["events"][0]["shard"]
    owned = f'shard="__consumer_offsets-{shard}"'
    lines = [line for line in admin.get("/metrics").text.splitlines() if owned in line and line.endswith(" 1.0")]
    return int(lines[0].partition('worker="')[2].partition('"')[0])


def test_the_address_has_the_token_and_the_tls_of_a_server(server, admin):
    assert server.admin.startswith("https://")
    ca = trust(server)
    assert httpx.get(f"{server.admin}/v1/groups", verify=ca, timeout=WITHIN_S).status_code == 401
    assert httpx.get(f"{server.admin}/health/ready", verify=ca, timeout=WITHIN_S).status_code == 200
    ca.load_cert_chain(server.folder / "both.pem")
    known = httpx.get(f"{server.admin}/v1/groups/group-1", verify=ca, timeout=WITHIN_S)
    assert known.status_code == 200
    assert admin.get("/nowhere").status_code == 404


def test_the_list_has_the_groups_of_all_workers_once_and_in_order(admin):
    assert len({worker_of(admin, group) for group in GROUPS}) == WORKERS
    listed = get(admin, "/v1/groups", contains="group-")
    assert [each["group_id"] for each in listed["groups"]] == sorted(GROUPS)
    assert listed.keys() == {"groups", "total"}
    assert listed["total"] == len(GROUPS)
    found, after = [], {}
    for _ in GROUPS:
        page = get(admin, "/v1/groups", limit=5, contains="group-", **after)
        found += [each["group_id"] for each in page["groups"]]
        if "next" not in page:
            break
        after = {"after": page["next"]}
    assert found == sorted(GROUPS)


def test_a_group_is_answered_whichever_worker_has_it(admin):
    for group in GROUPS:
        (committed,) = get(admin, f"/v1/groups/{group}")["committed"]
        assert committed["offset"] >= 1
    assert admin.get("/v1/groups/nobody").status_code == 404
    refused = admin.post("/v1/groups/group-1/rebalance", json={"reason": "a test"})
    assert (refused.status_code, refused.json()["detail"][:9]) == (409, "the group"), refused.text


def read_events(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        if line.startswith("data: "):
            yield httpx.Response(200, content=line[6:]).json()


def test_a_stream_has_each_event_at_once_and_goes_on_after_a_take_over(server, admin):
    """The worker that has the group is killed; no event is lost or comes twice."""
    group = GROUPS[0]
    offsets = itertools.count(100)
    with admin.stream("GET", "/v1/events", params={"group": group, "after": "now"}) as stream:
        events = (each for each in read_events(stream.iter_lines()) if each["type"] == "CommitDecided")
        seen = []
        for turn in range(2):
            for _ in range(3):
                commit_one(server, group, next(offsets))
                seen.append(next(events)["offset"])
            if not turn:
                os.kill(server.ready["workers"][worker_of(admin, group)], signal.SIGKILL)
                wait_until(lambda: admin.get("/health/ready").status_code == 200)
    assert seen == sorted(set(seen))
    page = get(admin, "/v1/events/page", group=group)
    recorded = [each["offset"] for each in page["events"] if each["type"] == "CommitDecided"]
    assert seen == recorded[-len(seen) :]


def test_a_wait_for_a_group_goes_on_after_a_take_over(server, admin):
    group = "waited-for"
    commit_one(server, group, 1)
    found: list[Any] = []
    query = {"until": "members:1", "timeout_ms": 20_000}
    waiting = Background(lambda: found.append(get(admin, f"/v1/groups/{group}", **query)))
    os.kill(current_pid(server, worker_of(admin, group)), signal.SIGKILL)
    wait_until(lambda: admin.get("/health/ready").status_code == 200)
    with coordinator_of(server, group) as link:
        member = Consumer(link, group)
        member.join()
        waiting.finish()
        member.connection.close()
    assert found[0]["reached"] is True


def current_pid(server: ServerProcess, number: int) -> int:
    """The process of a worker: it may have been started again."""
    lines = [line for line in server.log.splitlines() if f"event=worker_ready worker={number} " in line]
    return int(lines[-1].partition("pid=")[2].split()[0])


def test_fault_rules_act_at_every_worker_and_are_counted_together(server, admin):
    rule = {"match": {"api": "OffsetCommit"}, "action": {"delay_ms": 1}, "extent": {"until": "cleared"}, "scope": "s"}
    fault = admin.post("/v1/faults", json=rule).json()["id"]
    once = admin.post("/v1/faults", json={"action": {"error": "NOT_A_NAME"}})
    assert once.status_code == 422
    with admin.stream("GET", "/v1/events", params={"after": "now"}) as stream:
        for group in GROUPS:
            commit_one(server, group, 7)
        status = get(admin, f"/v1/faults/{fault}", until=f"acted:{len(GROUPS)}", timeout_ms=5_000)
        assert (status["acted"], status["reached"]) == (len(GROUPS), True)
        events = (each for each in read_events(stream.iter_lines()) if each["type"] == "FaultActed")
        acted = list(itertools.islice(events, len(GROUPS)))
    assert {each["group"] for each in acted} == set(GROUPS)
    assert {each["fault"] for each in acted} == {fault}
    kill_worker(server, admin, worker_of(admin, GROUPS[0]))
    before = get(admin, "/v1/faults")["faults"][0]["acted"]
    for group in GROUPS:
        commit_one(server, group, 8)
    assert get(admin, "/v1/faults", scope="s")["faults"][0]["acted"] >= before + len(GROUPS)
    assert admin.delete("/v1/faults", params={"scope": "s"}).json() == {"cleared": 1}
    assert admin.get(f"/v1/faults/{fault}").status_code == 404


@pytest.mark.parametrize(("nth", "times"), [(None, 3), (4, 2)])
def test_a_rule_acts_its_times_over_all_workers_together(server, admin, nth, times):
    """Commits of twelve groups, which three workers have; the one that counts first is killed."""
    assert len({worker_of(admin, group) for group in GROUPS}) == WORKERS
    match = {"api": "OffsetCommit"} | ({} if nth is None else {"nth": nth})
    rule = {"match": match, "action": {"delay_ms": 1}, "extent": {"times": times}}
    path = f"/v1/faults/{admin.post('/v1/faults', json=rule).json()['id']}"
    with admin.stream("GET", "/v1/events", params={"after": "now"}) as stream:
        commit_one(server, GROUPS[0], 10)
        kill_worker(server, admin, worker_of(admin, GROUPS[0]))
        commits = 1
        while get(admin, path)["active"]:
            commit_one(server, GROUPS[commits], 10)
            commits += 1
        assert commits == (nth or 1) - 1 + times
        for group in GROUPS:
            commit_one(server, group, 11)
        admin.delete(path)
        other = admin.post("/v1/faults", json=rule | {"match": {"api": "OffsetCommit"}, "extent": {}}).json()["id"]
        commit_one(server, GROUPS[0], 12)
        events = (each["fault"] for each in read_events(stream.iter_lines()) if each["type"] == "FaultActed")
        acted = list(itertools.takewhile(lambda fault: fault != other, events))
    assert len(acted) == times
    assert get(admin, f"/v1/faults/{other}")["acted"] == 1
    admin.delete(f"/v1/faults/{other}")


def kill_worker(server: ServerProcess, admin: httpx.Client, number: int) -> None:
    """Kills a worker; returns when it is back, and every shard is served."""
    restarted = f"event=worker_ready worker={number} "
    count = server.log.count(restarted)
    os.kill(current_pid(server, number), signal.SIGKILL)
    wait_until(lambda: server.log.count(restarted) > count)
    wait_until(lambda: admin.get("/health/ready").status_code == 200)


def test_a_recording_has_the_requests_of_all_workers(server, admin):
    recording = admin.post("/v1/recordings", json={"match": {"api": "OffsetCommit"}}).json()["id"]
    path = f"/v1/recordings/{recording}"
    for turn in range(2):
        for group in GROUPS:
            commit_one(server, group, 9)
        page = get(admin, path, after=turn * len(GROUPS))
        numbers = [each["number"] for each in page["entries"]]
        assert numbers == list(range(turn * len(GROUPS) + 1, (turn + 1) * len(GROUPS) + 1))
        assert {each["request"]["group_id"] for each in page["entries"]} == set(GROUPS)
    again = get(admin, path, after=3, limit=2)
    assert ([each["number"] for each in again["entries"]], again["next"]) == ([4, 5], 5)
    assert {each["outcome"] for each in again["entries"]} == {"answered"}
    assert get(admin, "/v1/recordings")["recordings"][0]["entries"] == 2 * len(GROUPS)
    found: list[Any] = []
    waiting = Background(lambda: found.append(get(admin, path, after=page["next"], timeout_ms=10_000)))
    commit_one(server, GROUPS[5], 10)
    waiting.finish()
    assert [each["number"] for each in found[0]["entries"]] == [2 * len(GROUPS) + 1]
    assert admin.delete(path).json() == {"cleared": 1}


def test_entries_that_workers_have_dropped_lose_their_numbers():
    read = Numbered(kept_max=3)
    for number in range(1, 6):
        read.add((0, 77, number))
    assert read.after(0, 10) == [(3, (0, 77, 3)), (4, (0, 77, 4)), (5, (0, 77, 5))]
    assert read.after(3, 1) == [(4, (0, 77, 4))]
    assert read.after(5, 10) == []
    assert len(read.numbers) == len(read.places) == 3


def test_all_workers_become_another_release_also_those_that_start_again(server, admin):
    """A worker that is killed has the configured release for a moment, then that of the others."""

    def versions() -> set[int]:
        """The last version of Produce (key 0) that each worker has; a connection reaches any of them."""
        found = set()
        for group in GROUPS:
            with coordinator_of(server, group) as link:
                found |= {
                    each["max_version"] for each in link.call("ApiVersions", 0)["api_keys"] if not each["api_key"]
                }
        return found

    def emulate(release: str) -> Any:
        return admin.post("/v1/emulation", json={"release": release})

    newest = versions()
    assert emulate("0.8").status_code == 422
    try:
        assert emulate("3.6").json()["former"] == NEWEST
        assert get(admin, "/v1/emulation")["release"] == "3.6"
        assert versions() == {9}
        worker = get(admin, "/v1/workers")["workers"][0]
        os.kill(worker["pid"], signal.SIGKILL)
        wait_until(lambda: worker["pid"] not in {each["pid"] for each in get(admin, "/v1/workers")["workers"]})
        wait_until(lambda: versions() == {9})
    finally:
        emulate(NEWEST)
    assert versions() == newest


def test_the_clocks_of_all_workers_stand_still_and_advance_together(server, admin):
    """Each member's session ends by the clock of its own worker."""

    def clock(**change: Any) -> Any:
        answer = admin.post("/v1/clock", json=change)
        assert answer.status_code == 200, answer.text
        return answer.json()

    assert admin.post("/v1/clock", json={"advance_ms": 1}).status_code == 409
    clock(mode="manual")
    try:
        members, timed = [], [f"timed-{number}" for number in range(6)]
        for group in timed:
            with coordinator_of(server, group) as link:
                members.append(Consumer(link, group))
                members[-1].join()
        fired = clock(advance_ms=60_000)["fired"]
        assert {each.get("group") for each in fired} >= set(timed)
        for group in timed:
            assert get(admin, f"/v1/groups/{group}")["member_count"] == 0
        for member in members:
            member.connection.close()
    finally:
        clock(mode="real")


def test_metrics_of_workers_are_one_text():
    first = '# HELP a A.\n# TYPE a counter\na 1.0\n# HELP b B.\n# TYPE b gauge\nb{x="1"} 2.0\n'
    second = "# HELP a A.\n# TYPE a counter\na 3.0\n# HELP c C.\n# TYPE c gauge\nc 4.0\n"
    assert merged([(0, first), (1, second)]).splitlines() == [
        "# HELP a A.",
        "# TYPE a counter",
        'a{worker="0"} 1.0',
        'a{worker="1"} 3.0',
        "# HELP b B.",
        "# TYPE b gauge",
        'b{worker="0",x="1"} 2.0',
        "# HELP c C.",
        "# TYPE c gauge",
        'c{worker="1"} 4.0',
    ]
