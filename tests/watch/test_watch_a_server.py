"""`coordinator watch` of a server of ours, which stands for a cluster: what it shows is what the server itself shows."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from coordinator_testing.throwaway_server import DidNotStart
from tests.support.admin_client import ask, scrape, view
from tests.support.group_members import KINDS, Classic
from tests.support.server_process import ServerProcess
from tests.support.tls import certificates
from tests.support.waiting import wait_until
from tests.support.watching import Story, Watcher, check_seen, events, why

SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 3,
    "topics": [{"name": "t", "partitions": 2}],
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("cluster"), settings=SETTINGS) as server:
        yield server


@pytest.fixture(scope="module")
def watcher(tmp_path_factory: pytest.TempPathFactory, cluster: ServerProcess) -> Iterator[Watcher]:
    with Watcher(tmp_path_factory.mktemp("watcher") / "w", cluster.bootstrap) as found:
        wait_until(lambda: found.is_ready, lambda: found.log[-3_000:])
        yield found


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_watcher_shows_what_the_clients_did(cluster: ServerProcess, watcher: Watcher, protocol: str) -> None:
    """Joins, departures, assignments, offsets, lag and the offset that went back; and the server agrees."""
    story = Story(cluster.bootstrap, protocol, f"group-{protocol}", f"topic-{protocol}")
    try:
        seen = story.play()
        check_seen(watcher, story, seen)
        ours, theirs = why(cluster, story.group), why(watcher, story.group)
        assert [each["epoch"] for each in theirs["rebalances"]] == [each["epoch"] for each in ours["rebalances"]]
        assert [each["client_id"] for each in theirs["rebalances"]] == [
            each["client_id"] for each in ours["rebalances"]
        ]
        same = ("topic", "partition", "previous", "offset", "owner_id", "records")
        assert [[each[name] for name in same] for each in theirs["rewound_offsets"]] == [
            [each[name] for name in same] for each in ours["rewound_offsets"]
        ]
        members = [
            {
                name: view(server, f"/v1/groups/{story.group}")["members"][0].get(name)
                for name in ("assignment", "assigned")
            }
            for server in (cluster, watcher)
        ]
        assert members[0] == members[1]
        assert _commits(watcher, story.group) == _commits(cluster, story.group)
    finally:
        story.close()


def _commits(server: ServerProcess, group: str) -> list[Any]:
    """The offsets of each commit with the assignment epochs."""
    return [
        [(topic["topic_name"], each["partition"], each["committed_offset"], each["assignment_epoch"]) for each in some]
        for event in events(server, group, "CommitDecided")
        for topic in event["topics"]
        for some in [topic["partitions"]]
        if not event["error_code"]
    ]


OWN = ("rebalances", "unknown", "topics_problem", "is_delayed", "subtopologies")
"""The fields of a view that a watcher has for itself, or that are not in the log."""


@pytest.mark.parametrize("instance_id", [None, "instance"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_groups_of_every_kind_look_as_on_the_server(
    cluster: ServerProcess, watcher: Watcher, kind: type[Any], instance_id: str | None
) -> None:
    """All that the log has: members, targets, assignments, states, topologies."""
    member = kind(cluster, f"kind-{kind.kind}-{instance_id}", instance_id)
    with member.connection:
        member.join()
        path = f"/v1/groups/{member.group}"

        def is_same() -> bool:
            assert member.beat() == 0
            ours, theirs = view(cluster, path), watcher.group(member.group)
            return {name: each for name, each in theirs.items() if name not in OWN} == {
                name: each for name, each in ours.items() if name not in OWN
            } and len(theirs["rebalances"]) == len(ours["rebalances"])

        wait_until(is_same, lambda: (view(cluster, path), watcher.group(member.group)))


@contextmanager
def joined(cluster: ServerProcess, group: str) -> Iterator[Classic]:
    """A member of a classic group that is alone in it, and then gone without a word."""
    member = Classic(cluster, group)
    with member.connection:
        member.join()
        yield member


def test_metrics_and_alerts_have_the_cluster_in_them(cluster: ServerProcess, watcher: Watcher) -> None:
    group = "measured"
    before = scrape(watcher).get("coordinator_rebalances_total", {}).get(("a member joined", "classic"), 0)
    with joined(cluster, group):
        wait_until(lambda: watcher.group(group).get("state") == "Stable", "the group to be shown")
    samples = scrape(watcher)
    assert samples["coordinator_rebalances_total"]["a member joined", "classic"] == before + 1
    assert samples["coordinator_groups"]["classic", "Stable"] >= 1
    assert samples["coordinator_shards"]["active",] >= 3


def test_a_watcher_changes_nothing(cluster: ServerProcess, watcher: Watcher) -> None:
    group = "unchanged"
    with joined(cluster, group) as member:
        wait_until(lambda: watcher.group(group), "the group to be shown")
        for path, body in (
            (f"/v1/groups/{group}/rebalance", {"reason": "x"}),
            (f"/v1/groups/{group}/members/{member.id}/evict", {}),
        ):
            status, answer = ask(watcher, "POST", path, body)
            assert (status, "changes nothing" in answer["detail"]) == (409, True), answer
        status, answer = ask(watcher, "GET", f"/v1/groups/{group}?at=0")
        assert (status, "does not keep the log" in answer["detail"]) == (422, True), answer
        assert member.beat() == 0


@pytest.mark.parametrize("ends", ["killed", "stopped"])
def test_a_restart_goes_on_where_it_ended(tmp_path: Path, cluster: ServerProcess, ends: str) -> None:
    """What happens meanwhile is shown afterwards, and everything is shown once."""
    group = f"group-{ends}"
    with Watcher(tmp_path / "w", cluster.bootstrap) as watcher:
        with joined(cluster, group) as member:
            assert epochs(watcher, group, last=1) == [1]
            if ends == "killed":
                watcher.kill()
            else:
                assert watcher.terminate() == 0
            leave(member)
        with joined(cluster, group):
            watcher.start()
            assert epochs(watcher, group, last=3) == [1, 2, 3]
            assert watcher.group(group)["generation"] == 3
            watcher.restart()
            wait_until(lambda: watcher.is_ready, "the watcher to have read the cluster")
            assert epochs(watcher, group, last=3) == [1, 2, 3]


def epochs(watcher: Watcher, group: str, last: int) -> list[int]:
    """The generations whose completion is an event, once the last one is among them."""

    def found() -> list[int]:
        numbers = [each["epoch"] for each in events(watcher, group, "RebalanceCompleted")]
        return numbers if last in numbers else []

    return wait_until(found, lambda: events(watcher, group, "RebalanceCompleted"))


def leave(member: Classic) -> None:
    member.connection.call(
        "LeaveGroup", 5, group_id=member.group,
        members=[{"member_id": member.id, "group_instance_id": None, "reason": None}],
    )  # fmt: skip


def test_a_cluster_that_goes_away_is_said_and_read_again(tmp_path: Path) -> None:
    """Meanwhile the watcher shows what it read last, and /health/ready says why it may be out of date."""
    with ExitStack() as stack:
        cluster = stack.enter_context(started(tmp_path / "c"))
        watcher = stack.enter_context(Watcher(tmp_path / "w", cluster.bootstrap))
        with joined(cluster, "seen"):
            wait_until(lambda: watcher.group("seen"), "the group to be shown")
        cluster.kill()
        wait_until(lambda: not watcher.is_ready, "the watcher to notice")
        reasons = ask(watcher, "GET", "/health/ready")[1]["reasons"]
        assert any("the cluster cannot be read" in each for each in reasons), reasons
        assert watcher.group("seen")["member_count"] == 1
        cluster.start()
        wait_until(lambda: watcher.is_ready, lambda: watcher.log[-3_000:])
        with joined(cluster, "other"):
            wait_until(lambda: watcher.group("other"), "a new group to be shown")


def started(folder: Path) -> ServerProcess:
    """A server in a folder that is made."""
    folder.mkdir()
    return ServerProcess(folder, settings=SETTINGS)


PASSWORD = "right"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerProcess, Path]]:
    """A "cluster" with SASL over TLS that lets `watcher` read the internal topic of groups only, and `nobody` nothing."""
    folder = tmp_path_factory.mktemp("secured")
    pem = certificates(folder)
    (folder / "users").write_text("".join(f"{user}:{PASSWORD}\n" for user in ("watcher", "stranger", "admin")))
    (folder / "both.pem").write_text(pem.key.read_text() + pem.certificate.read_text())
    settings = SETTINGS | {
        "listeners": "SASL_SSL://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "sasl.users.file": str(folder / "users"),
        "ssl.keystore.location": str(folder / "both.pem"),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin",
    }
    (folder / "server").mkdir()
    with ServerProcess(folder / "server", settings=settings) as server:
        from confluent_kafka.admin import (
            AclBinding,
            AclOperation,
            AclPermissionType,
            AdminClient,
            ResourcePatternType,
            ResourceType,
        )

        admin = AdminClient(
            {
                "bootstrap.servers": server.bootstrap,
                "security.protocol": "SASL_SSL",
                "ssl.ca.location": str(pem.ca),
                "sasl.mechanism": "PLAIN",
                "sasl.username": "admin",
                "sasl.password": PASSWORD,
            }
        )
        rights = [
            AclBinding(
                ResourceType.TOPIC, "__consumer_offsets", ResourcePatternType.LITERAL,
                "User:watcher", "*", operation, AclPermissionType.ALLOW,
            )
            for operation in (AclOperation.READ, AclOperation.DESCRIBE)
        ]  # fmt: skip
        for created in admin.create_acls(rights).values():
            created.result(30)
        yield server, pem.ca


def secured_by(user: str, ca: Path, folder: Path) -> list[str]:
    (folder / "password").write_text(PASSWORD)
    return ["--tls-ca", str(ca), "--sasl", "SCRAM-SHA-512", "--user", user, "--password-file", str(folder / "password")]


def test_the_least_rights_are_to_read_the_topic_of_groups(tmp_path: Path, secured: tuple[ServerProcess, Path]) -> None:
    """Over TLS and SASL; without a right to read transactions it says that it shows none."""
    server, ca = secured
    with Watcher(tmp_path / "w", server.bootstrap, *secured_by("watcher", ca, tmp_path)) as watcher:
        wait_until(lambda: watcher.is_ready, lambda: watcher.log[-3_000:])
        assert view(watcher, "/v1/groups")["groups"] == []
        assert view(watcher, "/v1/transactions")["transactions"] == []


def test_without_a_right_to_read_it_does_not_start(tmp_path: Path, secured: tuple[ServerProcess, Path]) -> None:
    server, ca = secured
    with pytest.raises(DidNotStart, match="may not read __consumer_offsets: it needs READ and DESCRIBE"):
        Watcher(tmp_path / "w", server.bootstrap, *secured_by("stranger", ca, tmp_path)).start()


def _refused(folder: Path, cluster: ServerProcess) -> str:
    """Why a watcher does not start with this folder."""
    command = Watcher(folder, cluster.bootstrap).command()
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 1, done.stderr
    return done.stderr


def test_a_folder_of_another_cluster_or_of_a_server_is_refused(tmp_path: Path, cluster: ServerProcess) -> None:
    """Also if it has the id of the cluster, and no catalog with another one, like a folder of Kafka."""
    folder = tmp_path / "w"
    with started(folder) as other:
        with joined(other, "group"):
            pass
        other.terminate()
    assert "a folder of its own for each cluster" in _refused(folder, cluster)
    shutil.copy(cluster.data_dir / "meta.properties", folder / "data")
    (folder / "data" / "log-catalog").unlink()
    assert "a data folder of its own" in _refused(folder, cluster)
