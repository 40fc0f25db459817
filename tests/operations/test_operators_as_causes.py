"""What an administrator does to a group is a cause of its own: `why` names the administrator and blames no client.

Real consumers, and kafka-python's admin client as the user ops; the answer is asked for in every way that there is.
"""

import json
import threading
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from confluent_kafka import Consumer, KafkaException

from coordinator import cli
from tests.support.admin_client import act, ask, view
from tests.support.server_process import ServerProcess
from tests.support.waiting import wait_until

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # in the importlib that it uses
    from kafka import KafkaAdminClient, TopicPartition
    from kafka.admin import MemberToRemove
    from kafka.structs import OffsetAndMetadata

TOPICS = [{"name": name, "partitions": 2} for name in ("orders", "doomed")]
OPS = "User:ops, ops-tool on 127.0.0.1"
NOT_FOUND = 404
OVER_HTTP = "admin HTTP from 127.0.0.1"


class Member:
    """A consumer that polls in a thread of its own, as user app."""

    def __init__(self, server: ServerProcess, protocol: str, name: str, **settings: Any) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": server.bootstrap,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "app",
                "sasl.password": "app",
                "client.id": name,
                "group.id": protocol,
                "group.protocol": protocol,
                "enable.auto.commit": False,
                "topic.metadata.refresh.interval.ms": 500,
                **({"heartbeat.interval.ms": 300} if protocol == "classic" else {}),
                "log_level": 0,
                **settings,
            }
        )
        self._consumer.subscribe(["orders", "doomed"])
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()

    def _poll(self) -> None:
        while not self._closing.is_set():
            with suppress(KafkaException):
                self._consumer.poll(0.1)
        self._consumer.close()

    def close(self) -> None:
        self._closing.set()
        self._thread.join()


def look(server: ServerProcess, group: str) -> tuple[int, dict[str, str]]:
    """The group's epoch, or -1 while it rebalances; and the member id of each client."""
    status, found = ask(server, "GET", f"/v1/groups/{group}")
    if status == NOT_FOUND:
        return -1, {}
    epoch = found["generation"] if group == "classic" else found["group_epoch"]
    ids = {each["client_id"]: each["member_id"] for each in found["members"]}
    is_settled = found["state"] == "Stable" and all(each["ended_ms"] for each in found["rebalances"])
    return epoch if is_settled else -1, ids


def settled(server: ServerProcess, group: str, after: int) -> tuple[int, dict[str, str]]:
    """Waits until both clients are in a later epoch; returns it, and their member ids."""

    def found() -> tuple[int, dict[str, str]] | None:
        epoch, ids = look(server, group)
        return (epoch, ids) if epoch > after and ids.keys() == {"billing", "ledger"} else None

    both = wait_until(found, lambda: f"{group} to settle after {after}: {view(server, f'/v1/groups/{group}')}")
    assert both is not None
    return both


def operate(server: ServerProcess, admin: Any, group: str) -> None:
    """Everything that an administrator may do to a group, one after another."""
    both = Member(server, group, "billing"), Member(server, group, "ledger", **{"group.instance.id": "i"})
    try:
        epoch, ids = settled(server, group, 0)
        if group == "classic":  # LeaveGroup removes no member of the consumer protocol by its member id
            admin.remove_group_members(group, [MemberToRemove(member_id=ids["billing"], reason="too slow")])
            epoch, _ = settled(server, group, epoch)
        admin.remove_group_members(group, [MemberToRemove(group_instance_id="i", reason="scale down")])
        epoch, ids = settled(server, group, epoch)
        act(server, f"/v1/groups/{group}/members/{quote(ids['billing'], safe='')}/evict", reason="stuck")
        epoch, _ = settled(server, group, epoch)
        forced = ["groups", "rebalance", group, "--reason", "racks moved", "--admin", server.admin]
        assert cli.main(forced) == 0
        epoch, _ = settled(server, group, epoch)
        admin.delete_topics(["doomed"])
        settled(server, group, epoch)
        admin.create_topics({"doomed": {"num_partitions": 2, "replication_factor": 1}})
    finally:
        for each in both:
            each.close()
    for member_id in look(server, group)[1].values():  # a static member does not leave
        act(server, f"/v1/groups/{group}/members/{quote(member_id, safe='')}/evict")
    for offset in (52, 20):
        admin.alter_group_offsets(group, {TopicPartition("orders", 0): OffsetAndMetadata(offset, "", -1)})
    admin.alter_group_offsets(group, {TopicPartition("orders", 1): OffsetAndMetadata(7, "", -1)})
    admin.delete_group_offsets(group, [TopicPartition("orders", 1)])
    admin.delete_groups([group])


@pytest.fixture(scope="module")
def operated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerProcess, Path]]:
    """A server with SASL after all of it; and the file with the password of ops."""
    folder = tmp_path_factory.mktemp("operated")
    (folder / "users").write_text("app:app\nops:ops\n")
    (folder / "password").write_text("ops")
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.users.file": str(folder / "users"),
        "admin.control.enable": True,
        "group.initial.rebalance.delay.ms": 0,
        "topics": TOPICS,
    }
    with ServerProcess(folder, settings=settings) as server:
        admin = KafkaAdminClient(
            bootstrap_servers=server.bootstrap, client_id="ops-tool", security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="PLAIN", sasl_plain_username="ops", sasl_plain_password="ops",
        )  # fmt: skip
        try:
            for group in ("classic", "consumer"):
                operate(server, admin, group)
        finally:
            admin.close()
        yield server, folder / "password"


@pytest.mark.parametrize("group", ["classic", "consumer"])
def test_why_names_the_administrator_and_no_phantom_client(operated, group, capsys):
    server, password = operated
    answer = view(server, f"/v1/groups/{group}/why")
    causes = {each["cause"]: each for each in answer["causes"] if each["kind"] in ("administrator", "topic")}
    removed = "an administrator removed a member: "
    expected = {
        f"{removed}scale down; asked for by {OPS}",
        f"an administrator evicted a member: stuck; asked for by {OVER_HTTP}",
        f"an administrator forced a rebalance: racks moved; asked for by {OVER_HTTP}",
        *([f"{removed}too slow; asked for by {OPS}"] if group == "classic" else []),
    }
    assert expected <= causes.keys()
    assert {each["client_id"] for each in causes.values()} == {None}
    assert any(f"doomed was deleted; asked for by {OPS}" in each for each in causes)
    assert {each["client_id"] for each in answer["clients"]} <= {"billing", "ledger"}
    steps = [(each["topic"], each["partition"], each["previous"], each["offset"]) for each in answer["rewound_offsets"]]
    assert steps == [("orders", 0, 52, 20), ("orders", 1, 7, -1), ("orders", 0, 20, -1)]
    assert [each["records"] for each in answer["rewound_offsets"]] == [32, None, None]
    assert {each["principal"] for each in answer["rewound_offsets"]} == {"User:ops"}
    who = "an administrator (User:ops) with ops-tool"
    assert f"so that 32 records come again: committed by {who} (32)" in answer["sentence"]
    assert f"The offsets of 2 partitions were deleted: by {who} (2)" in answer["sentence"]
    asked = ["groups", "why", group, "--json", "--bootstrap", server.bootstrap, "--sasl", "PLAIN", "--user", "ops"]
    assert cli.main([*asked, "--password-file", str(password)]) == 0
    over_kafka = json.loads(capsys.readouterr().out)
    assert cli.main(["groups", "why", group, "--json", "--log", str(server.data_dir)]) == 0
    from_log = json.loads(capsys.readouterr().out)
    for name in ("causes", "rebalances", "rewound_offsets", "clients"):
        assert over_kafka[name] == from_log[name] == answer[name]
