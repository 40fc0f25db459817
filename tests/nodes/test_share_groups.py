"""Share groups at several brokers: each share partition has one leader, and what groups ask reaches every broker."""

from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest

from coordinator_testing.control import Control
from coordinator_testing.throwaway_server import ThrowawayServer
from tests.support.share_member import SETTINGS, Sharer
from tests.support.waiting import wait_until
from tests.support.wire import Connection

LEAVE = -1


@pytest.fixture
def server(tmp_path: Path, closing: ExitStack) -> ThrowawayServer:
    """Three brokers with two listeners each."""
    own = {"nodes": 3, "listeners": "[127.0.0.1:0, 127.0.0.1:0]", "offsets.topic.num.partitions": 5}
    settings = SETTINGS | own | {"share.coordinator.state.topic.num.partitions": 5}
    server = ThrowawayServer(tmp_path, [f"{key}={value}" for key, value in settings.items()])
    closing.callback(server.stop)
    return server.start()


def addresses(server: ThrowawayServer, broker: int) -> list[str]:
    """Those of a broker: one of each listener."""
    with Control(server.admin_url) as control:
        return next(each.addresses for each in control.brokers() if each.id == broker)


def coordinator_of(bootstrap: str, group: str) -> int:
    def found() -> dict:
        with Connection(bootstrap.split(",", maxsplit=1)[0]) as link:
            [answer] = link.call("FindCoordinator", 4, key_type=0, coordinator_keys=[group])["coordinators"]
        return answer

    wait_until(lambda: found()["error_code"] == 0)
    return found()["node_id"]


def leader(bootstrap: str) -> int:
    with Connection(bootstrap.split(",", maxsplit=1)[0]) as link:
        [topic] = link.call("Metadata", 12, topics=[{"topic_id": bytes(16), "name": "t"}])["topics"]
    return topic["partitions"][0]["leader_id"]


def member(address: str, group: str, closing: ExitStack, member_id: str = "m") -> Sharer:
    sharer = Sharer(SimpleNamespace(bootstrap=address), group, closing, member_id)
    sharer.join()
    return sharer


def test_a_record_goes_to_one_member_whichever_listeners_they_use(server, closing):
    broker = leader(server.bootstrap_servers)
    group = next(each for each in map(str, range(1_000)) if coordinator_of(server.bootstrap_servers, each) == broker)
    first, second = addresses(server, broker)
    one, other = member(first, group, closing), member(second, group, closing, "other")
    one.produce(b"a", b"b")
    assert [each[:2] for each in one.acquire()] == [(0, 1)]
    one.produce(b"c")
    assert [each[:2] for each in other.acquire()] == [(2, 2)]


def test_the_start_of_a_share_partition_is_set_and_known_whichever_broker_has_its_state(server, closing):
    for group in ("a", "b", "c", "d"):
        sharer = member(addresses(server, coordinator_of(server.bootstrap_servers, group))[0], group, closing)
        sharer.epoch = LEAVE
        sharer.beat()
        wanted = [{"topic_name": "t", "partitions": [{"partition_index": 0, "start_offset": 7}]}]
        altered = sharer.connection.call("AlterShareGroupOffsets", 0, group_id=group, topics=wanted)
        assert [each["error_code"] for topic in altered["responses"] for each in topic["partitions"]] == [0]
        asked = [{"group_id": group, "topics": None}]
        [answer] = sharer.connection.call("DescribeShareGroupOffsets", 1, groups=asked)["groups"]
        assert [each["start_offset"] for topic in answer["topics"] for each in topic["partitions"]] == [7]
