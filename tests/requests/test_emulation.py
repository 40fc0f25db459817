"""Listeners that show their clients an earlier release of Kafka, and servers that become one while clients run.

What ApiVersions must list was answered by brokers of these releases (kafka_api_versions.json).
"""

import json
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator.config.load import ConfigError, load
from coordinator.protocol.releases import NEWEST, releases
from coordinator_testing.control import Control, ControlRefused
from tests.support.ports import HeldPort
from tests.support.server_process import ServerProcess
from tests.support.wire import Connection, ConnectionClosed

TEST_MARKERS = ("process",)

RECORDED = json.loads(Path(__file__).with_name("kafka_api_versions.json").read_text())
API_VERSIONS, PRODUCE = 18, 0
NOT_OURS = {4, 5, 6, 7, 56, 64, 67, 76, 77, 78, 79, 80, 81, 90, 91, 92}
"""Requests to controllers, telemetry, share groups, and most of those between brokers."""
FEATURES = {"group.version", "metadata.version", "streams.version", "transaction.version"}
NONE, UNKNOWN_MEMBER_ID, UNSUPPORTED, INVALID_REQUEST = 0, 25, 35, 42
SUBSCRIPTION = struct.pack(">hih5si", 1, 1, 5, b"orders"[:5], -1)


class World:
    """One server with a listener for each release."""

    def __init__(self, folder: Path) -> None:
        self.ports = {release: HeldPort() for release in releases()}
        listeners: list[dict[str, str]] = [{"address": "127.0.0.1:0"}]
        listeners += [{"address": port.address, "emulate": release} for release, port in self.ports.items()]
        self.server = ServerProcess(folder, settings={"listeners": json.dumps(listeners)})
        self.server.start()

    def close(self) -> None:
        self.server.stop()
        for port in self.ports.values():
            port.release()

    def link(self, release: str) -> Connection:
        return Connection(self.server.bootstrap if release == NEWEST else self.ports[release].address)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = World(tmp_path_factory.mktemp("emulation"))
    yield world
    world.close()


def listed(world: World, release: str, version: int = 0) -> dict[int, tuple[int, int]]:
    client = {} if version < 3 else {"client_software_name": "test", "client_software_version": "1"}
    with world.link(release) as link:
        answer = link.call("ApiVersions", version, **client)
    return {each["api_key"]: (each["min_version"], each["max_version"]) for each in answer["api_keys"]}


@pytest.mark.parametrize("recorded", RECORDED)
def test_clients_see_the_api_versions_and_features_of_a_release(world, recorded):
    release, kafka = recorded.rpartition(".")[0], RECORDED[recorded]
    expected = {int(key): tuple(given) for key, given in kafka["keys"].items() if int(key) not in NOT_OURS}
    assert listed(world, release) == expected
    if kafka["version"] < 3:
        return
    with world.link(release) as link:
        answer = link.call("ApiVersions", kafka["version"], client_software_name="t", client_software_version="1")
    supported = {
        each["name"]: [each["min_version"], each["max_version"]] for each in answer.get("supported_features", ())
    }
    assert supported == {name: given for name, given in kafka["supported"].items() if name in FEATURES}
    finalized = {each["name"]: each["max_version_level"] for each in answer.get("finalized_features", ())}
    assert finalized == {name: level for name, level in kafka["finalized"].items() if name in FEATURES}


def test_an_api_versions_that_is_too_new_is_answered_with_the_versions_of_the_release(world):
    with world.link("3.8") as link:
        link.send_body("ApiVersions", 4, b"\x02t\x021\x00")
        answer = link.receive_bytes()
    assert struct.unpack_from(">h", answer, 4) == (UNSUPPORTED,)
    assert struct.unpack_from(">ihhh", answer, 6) == (1, API_VERSIONS, 0, 3)


@pytest.mark.parametrize(
    ("release", "api", "version"), [("2.8", "OffsetFetch", 8), ("3.6", "ConsumerGroupHeartbeat", 0)]
)
def test_what_a_release_does_not_have_ends_the_connection(world, release, api, version):
    group = {"groups": [], "require_stable": False} if api == "OffsetFetch" else HEARTBEAT
    with world.link(release) as link, pytest.raises(ConnectionClosed):
        link.call(api, version, **group)


HEARTBEAT = {
    "group_id": "g", "member_id": "", "member_epoch": 0, "instance_id": None, "rack_id": None, "rebalance_timeout_ms": 9000,
    "subscribed_topic_names": ["orders"], "server_assignor": None, "topic_partitions": [],
}  # fmt: skip


@pytest.mark.parametrize("release", ["3.7", "3.9"])
def test_consumer_groups_are_off_before_4_0(world, release):
    with world.link(release) as link:
        assert link.call("ConsumerGroupHeartbeat", 0, **HEARTBEAT)["error_code"] == UNSUPPORTED


@pytest.mark.parametrize("later", ["instance_id", "task_offsets", "task_end_offsets", "warmup_tasks"])
def test_streams_groups_of_4_3_refuse_what_they_do_not_have_yet(world, later):
    value = {"instance_id": "i", "warmup_tasks": [{"subtopology_id": "0", "partitions": [0]}]}.get(later, [])
    beat = {"group_id": "s", "member_id": "m", "member_epoch": 1, later: value}
    with world.link("4.3") as link:
        answer = link.call("StreamsGroupHeartbeat", 0, **beat)
    assert answer["error_code"] == INVALID_REQUEST


def join(link: Connection, group: str) -> str:
    metadata = [{"name": "range", "metadata": SUBSCRIPTION}]
    member = {"group_id": group, "session_timeout_ms": 9000, "rebalance_timeout_ms": 9000, "member_id": ""}
    return link.call("JoinGroup", 3, **member, protocol_type="consumer", protocols=metadata)["member_id"]


def test_groups_have_clients_that_see_different_releases(world):
    with world.link("2.8") as old, world.link(NEWEST) as new:
        member = join(old, "shared")
        generation = {"group_id": "shared", "generation_id": 1, "member_id": member}
        old.call("SyncGroup", 3, **generation, group_instance_id=None, assignments=[])
        assert new.call("Heartbeat", 4, **generation, group_instance_id=None)["error_code"] == NONE
        assert new.call("Heartbeat", 4, **generation, group_instance_id="x")["error_code"] == UNKNOWN_MEMBER_ID
        assert old.call("Heartbeat", 4, **generation, group_instance_id="x")["error_code"] == NONE


def test_a_server_is_upgraded_and_downgraded_while_clients_are_connected(tmp_path):
    """Connections end, ApiVersions differ, groups and offsets stay; a listener of its own release keeps that."""
    own = HeldPort()
    listeners = [{"address": "127.0.0.1:0"}, {"address": own.address, "emulate": "3.6"}]
    settings = {"listeners": json.dumps(listeners), "emulate": "3.9", "admin.control.enable": True}
    try:
        with ServerProcess(tmp_path, settings=settings) as server, Control(server.admin) as control:
            assert control.emulation().release == "3.9"
            with Connection(server.bootstrap) as link, Connection(own.address) as other:
                assert versions_of(link, PRODUCE) == (0, 11)
                member = join(link, "g")
                assert control.emulate(NEWEST).connections_closed == 1
                with pytest.raises(ConnectionClosed):
                    versions_of(link, PRODUCE)
                assert versions_of(other, PRODUCE) == (0, 9)
            with Connection(server.bootstrap) as link:
                assert versions_of(link, PRODUCE) == (0, 13)
                (group,) = link.call("DescribeGroups", 5, groups=["g"], include_authorized_operations=False)["groups"]
                assert [each["member_id"] for each in group["members"]] == [member]
                with pytest.raises(ControlRefused, match=r"there is no release '0\.8'"):
                    control.emulate("0.8")
                assert versions_of(link, PRODUCE) == (0, 13)
            control.emulate("2.8")
            with Connection(server.bootstrap) as link:
                assert versions_of(link, PRODUCE) == (0, 9)
            control.emulate(NEWEST)
            requests = [line for line in control_metrics(server) if 'api="JoinGroup"' in line and "_count" in line]
            assert requests, "counts of an earlier release are kept"
    finally:
        own.release()


def versions_of(link: Connection, api: int) -> tuple[int, int]:
    found = {each["api_key"]: each for each in link.call("ApiVersions", 0)["api_keys"]}
    return found[api]["min_version"], found[api]["max_version"]


def control_metrics(server: ServerProcess) -> list[str]:
    import httpx

    return httpx.get(f"{server.admin}/metrics").text.splitlines()


def test_a_control_client_that_leaves_gives_the_server_its_release_back(tmp_path):
    with ServerProcess(tmp_path, settings={"admin.control.enable": True}) as server, Control(server.admin) as watching:
        with Control(server.admin) as control:
            control.emulate("3.6")
            control.emulate("2.8")
        assert watching.emulation().release == NEWEST


@pytest.mark.parametrize(("settings", "why"), [
    (["emulate=1.1"], "emulate"),
    (['listeners=[{"address": "127.0.0.1:0", "emulate": "5.0"}]'], "listeners: emulate"),
    (["emulate=3.9", "data.bootstrap.servers=127.0.0.1:1"], "the releases of the cluster"),
])  # fmt: skip
def test_a_release_that_cannot_be_emulated_is_refused_at_the_start(settings, why):
    with pytest.raises(ConfigError, match=why):
        load(None, settings)


def test_a_release_may_be_written_as_a_number_of_yaml(tmp_path):
    path = tmp_path / "server.yaml"
    path.write_text("emulate: 3.6\nlisteners: [{address: '127.0.0.1:0', emulate: 2.8}]\n")
    config = load(path, [])
    assert (config.emulate, config.listeners[0].emulate) == ("3.6", "2.8")
