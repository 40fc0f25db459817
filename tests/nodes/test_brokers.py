"""Leaders, coordinators and the controller move, and brokers go down and up, as they do in a cluster of Kafka."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import httpx
import pytest

from coordinator_testing.control import Control, ControlRefused
from coordinator_testing.throwaway_server import ThrowawayServer
from tests.nodes.world import World, fetched, next_replica
from tests.support.waiting import WITHIN_S
from tests.support.wire import ConnectionClosed, Values

BROKER, DYNAMIC_BROKER, STATIC_BROKER, INVALID_REQUEST = 4, 2, 4, 42
NOT_LEADER, NOT_COORDINATOR, FENCED, NOT_ENOUGH_REPLICAS = 6, 16, 74, 19
ELECTION_NOT_NEEDED, PREFERRED_NOT_AVAILABLE, ELIGIBLE_NOT_AVAILABLE = 84, 80, 83
INVALID_REPLICATION_FACTOR, INVALID_REPLICA_ASSIGNMENT, NO_REASSIGNMENT_IN_PROGRESS = 38, 39, 85


def test_a_moved_leader_has_a_higher_epoch_and_the_old_one_says_where_it_is(world: World) -> None:
    before = world.partition()
    old, new = before["leader_id"], next_replica(before)
    assert world.produce(old)["error_code"] == 0
    led = world.control.broker(new).lead(topic="orders", partition=0)
    assert (led.broker, led.leader_epoch) == (new, 1)
    for broker in range(3):
        after = world.partition(at=broker)
        assert (after["leader_id"], after["leader_epoch"]) == (new, 1)
        assert after["isr_nodes"] == before["isr_nodes"]
    refused = world.produce(old)
    assert (refused["error_code"], refused["current_leader"]) == (NOT_LEADER, {"leader_id": new, "leader_epoch": 1})
    assert world.produce(new)["base_offset"] == 1
    assert world.epoch_end(new, 0) == (0, 0, 1)
    assert world.epoch_end(new, 1) == (0, 1, 2)
    assert world.epoch_end(old, 0) == (NOT_LEADER, -1, -1)


def test_a_fetch_that_waits_is_fenced_when_the_leader_moves(world: World) -> None:
    before = world.partition()
    assert world.produce(before["leader_id"])["error_code"] == 0
    with world.link(before["leader_id"]) as new_client, world.link(before["leader_id"]) as old_client:
        world.fetch(new_client, 0, max_wait_ms=60_000)
        world.fetch(old_client, 0, version=10, max_wait_ms=60_000)
        world.control.broker(next_replica(before)).lead(topic="orders", partition=0)
        assert fetched(new_client)["error_code"] == FENCED
        assert fetched(old_client)["error_code"] == NOT_LEADER


def test_the_leader_sends_a_consumer_to_the_replica_in_its_rack(world: World) -> None:
    leader, follower, _ = world.partition()["replica_nodes"]
    rack = "abc"[follower]
    assert world.produce(leader)["error_code"] == 0
    with world.link(leader) as at_leader, world.link(follower) as at_follower:

        def preferred(asked: str, offset: int = 0) -> tuple[int, bool]:
            world.fetch(at_leader, 0, max_wait_ms=60_000, offset=offset, rack=asked)
            answer = fetched(at_leader)
            return answer["preferred_read_replica"], bool(answer["records"])

        assert preferred(rack) == (follower, False)
        assert preferred(rack, offset=1) == (follower, False)  # at once, although there is nothing to read
        assert preferred("abc"[leader]) == preferred("elsewhere") == (-1, True)
        world.fetch(at_follower, 0, offset=0, rack=rack)
        answer = fetched(at_follower)
        assert (answer["preferred_read_replica"], answer["high_watermark"], bool(answer["records"])) == (-1, 1, True)
        world.control.broker(follower).down()
        assert preferred(rack) == (-1, True)


def test_a_rack_aware_consumer_reads_from_the_follower(world: World) -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    leader, follower, _ = world.partition()["replica_nodes"]
    world.produce(leader)
    consumer = confluent_kafka.Consumer({
        "bootstrap.servers": world.server.bootstrap_servers, "group.id": "g", "client.rack": "abc"[follower],
    })  # fmt: skip
    address = world.server.bootstrap_servers.split(",")[follower]
    recording = world.control.record(api="Fetch", listener=address)
    consumer.assign([confluent_kafka.TopicPartition("orders", 0, 0)])
    message = consumer.poll(30)
    assert message is not None
    assert message.error() is None
    entry = recording.wait(1)[0]
    assert entry.response is not None
    assert [each["count"] for each in entry.response["partitions"]] == [1]
    consumer.close()


def test_a_moved_coordinator_is_found_and_the_old_one_refuses_who_waits(world: World) -> None:
    with world.link(0) as link:
        (found,) = link.call("FindCoordinator", 4, key_type=0, coordinator_keys=["g"])["coordinators"]
        new = (found["node_id"] + 1) % 3
        with world.link(found["node_id"]) as old:
            join = {
                "group_id": "g", "session_timeout_ms": 6000, "rebalance_timeout_ms": 60_000, "member_id": "",
                "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b""}],
            }  # fmt: skip
            first = old.call("JoinGroup", 3, **join)
            assert first["error_code"] == 0
            with world.link(found["node_id"]) as second:
                second.send("JoinGroup", 3, join)  # waits for the first member
                world.control.group("g").wait(state="PreparingRebalance")
                led = world.control.broker(new).lead(group="g")
                assert (led.topic, led.broker, led.leader_epoch) == ("__consumer_offsets", new, 1)
                assert second.receive()["error_code"] == NOT_COORDINATOR
            beat = {"group_id": "g", "generation_id": first["generation_id"], "member_id": first["member_id"]}
            assert old.call("Heartbeat", 3, **beat)["error_code"] == NOT_COORDINATOR
        (found,) = link.call("FindCoordinator", 4, key_type=0, coordinator_keys=["g"])["coordinators"]
        assert found["node_id"] == new


def test_the_controller_moves_to_a_broker_that_is_up(world: World) -> None:
    world.control.broker(2).lead(controller=True)
    with world.link(0) as link:
        assert link.call("DescribeCluster", 1)["controller_id"] == 2
        (topic,) = link.call("DescribeQuorum", 1, topics=[quorum()])["topics"]
        assert topic["partitions"][0]["leader_id"] == 2
    world.control.broker(2).down()
    with world.link(0) as link:
        assert link.call("DescribeCluster", 1)["controller_id"] == 0


def quorum() -> Values:
    return {"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}


def test_a_broker_that_is_down_refuses_clients_and_the_next_replica_leads(world: World) -> None:
    before = world.partition()
    down, new = before["leader_id"], next_replica(before)
    assert world.produce(down)["error_code"] == 0
    with world.link(down) as link:
        link.call("ApiVersions", 0)
        assert not world.control.broker(down).down().up
        with pytest.raises(ConnectionClosed):
            link.call("ApiVersions", 0)
    with pytest.raises(OSError, match="refused"):
        world.link(down)
    after = world.partition(at=new)
    assert (after["leader_id"], after["leader_epoch"]) == (new, 1)
    assert (after["isr_nodes"], after["offline_replicas"]) == ([e for e in before["isr_nodes"] if e != down], [down])
    with world.link(new) as link:
        assert down not in [each["broker_id"] for each in link.call("DescribeCluster", 1)["brokers"]]
    world.control.broker(down).up()
    again = world.partition(at=down)
    assert (again["leader_id"], sorted(again["isr_nodes"]), again["offline_replicas"]) == (new, [0, 1, 2], [])


def test_a_partition_without_a_replica_in_sync_has_no_leader_until_its_broker_is_up(world: World) -> None:
    world.create("single", 1)
    down = world.partition("single")["leader_id"]
    other = (down + 1) % 3
    world.control.broker(down).down()
    after = world.partition("single", at=other)
    assert (after["leader_id"], after["leader_epoch"], after["isr_nodes"]) == (-1, 1, [down])
    world.control.broker(down).up()
    again = world.partition("single", at=other)
    assert (again["leader_id"], again["leader_epoch"]) == (down, 2)
    assert world.produce(down, name="single")["error_code"] == 0


def test_no_client_sees_a_broker_that_is_gone_lead_anything(world: World) -> None:
    seen, is_over = [], Event()

    def look() -> None:
        with world.link(0) as link:
            while not is_over.is_set():
                asked = [{"name": "orders", "topic_id": bytes(16)}]
                answer = link.call("Metadata", 12, topics=asked, allow_auto_topic_creation=False)
                leaders = {each["leader_id"] for each in answer["topics"][0]["partitions"]}
                seen.append((leaders, {each["node_id"] for each in answer["brokers"]}))

    with ThreadPoolExecutor(1) as threads:
        looking = threads.submit(look)
        for broker in (1, 2, 1, 2):
            world.control.broker(broker).down()
            world.control.broker(broker).up()
            for index in range(3):
                world.control.broker(index).lead(topic="orders", partition=index)
        is_over.set()
        looking.result(WITHIN_S)
    assert [leaders - brokers for leaders, brokers in seen if leaders - brokers] == []


def test_a_topic_that_is_created_while_a_broker_is_down_is_led_by_the_others(world: World) -> None:
    world.control.broker(2).down()
    world.create("meanwhile", 3)
    world.create("single", 1)
    for index in range(3):
        partition = world.partition("meanwhile", index)
        assert (sorted(partition["isr_nodes"]), partition["replica_nodes"][-1]) == ([0, 1], 2)
        assert partition["leader_id"] == partition["replica_nodes"][0]
        assert world.partition("single", index)["leader_id"] in {0, 1}
    by_hand = {"name": "by-hand", "num_partitions": -1, "replication_factor": -1}
    by_hand |= {"assignments": [{"partition_index": 0, "broker_ids": [2]}]}
    with world.link(0) as link:
        (refused,) = link.call("CreateTopics", 7, topics=[by_hand], timeout_ms=9000)["topics"]
    assert refused["error_code"] == INVALID_REPLICA_ASSIGNMENT
    world.control.broker(2).up()
    assert sorted(world.partition("meanwhile")["isr_nodes"]) == [0, 1, 2]


def test_acks_all_needs_as_many_replicas_in_sync_as_the_topic_asks_for(world: World) -> None:
    leader, second, third = world.partition()["replica_nodes"]
    world.control.broker(third).down()
    assert world.produce(leader)["error_code"] == 0
    world.control.broker(second).down()
    assert world.produce(leader)["error_code"] == NOT_ENOUGH_REPLICAS
    assert world.produce(leader, acks=1)["error_code"] == 0
    world.control.broker(second).up()
    assert world.produce(leader)["base_offset"] == 2


def elected(
    world: World, at: int, partitions: list[int] | None, *, unclean: bool = False
) -> dict[tuple[str, int], int]:
    wanted = None if partitions is None else [{"topic": "orders", "partitions": partitions}]
    with world.link(at) as link:
        answer = link.call("ElectLeaders", 2, election_type=int(unclean), topic_partitions=wanted, timeout_ms=9000)
    return {
        (topic["topic"], each["partition_id"]): each["error_code"]
        for topic in answer["replica_election_results"]
        for each in topic["partition_result"]
    }


def test_a_preferred_election_gives_a_partition_back_to_its_first_replica(world: World) -> None:
    preferred, second, _ = world.partition()["replica_nodes"]
    assert elected(world, preferred, [0]) == {("orders", 0): ELECTION_NOT_NEEDED}
    world.control.broker(preferred).down()
    assert elected(world, second, [0]) == {("orders", 0): PREFERRED_NOT_AVAILABLE}
    world.control.broker(preferred).up()
    assert world.partition()["leader_id"] == second
    assert elected(world, second, None)["orders", 0] == 0
    after = world.partition()
    assert (after["leader_id"], after["leader_epoch"]) == (preferred, 2)
    assert elected(world, second, None) == {}


def test_leader_epochs_and_where_they_end_survive_a_restart(world: World) -> None:
    before = world.partition()
    old, new = before["leader_id"], next_replica(before)
    world.produce(old)
    world.control.broker(new).lead(topic="orders", partition=0)
    world.produce(new)
    world.control.broker(old).down()
    world.server.restart()
    after = world.partition()
    assert (after["leader_id"], after["leader_epoch"], len(after["isr_nodes"])) == (new, 1, 3)
    assert world.epoch_end(new, 0) == (0, 0, 1)
    assert world.epoch_end(new, 1) == (0, 1, 2)


def test_control_brings_up_what_it_took_down_and_refuses_what_cannot_be(world: World) -> None:
    with Control(world.server.admin_url) as control:
        control.broker(1).down()
        assert [each.up for each in control.brokers()] == [True, False, True]
        for wrong in (control.broker(1).down, control.broker(0).up, lambda: control.broker(1).lead(controller=True)):
            with pytest.raises(ControlRefused) as refused:
                wrong()
            assert refused.value.status == 409
        with pytest.raises(ControlRefused) as refused:
            control.broker(7).down()
        assert refused.value.status == 404
    assert all(each.up for each in world.control.brokers())


def test_of_changes_at_the_same_moment_the_last_broker_stays_up(world: World) -> None:
    """Whatever testers ask for at once: each change is checked when those before it are in effect."""

    def take_down(broker: int) -> int:
        return httpx.post(f"{world.server.admin_url}/v1/brokers/{broker}/down", timeout=WITHIN_S).status_code

    with ThreadPoolExecutor() as threads:
        statuses = sorted(threads.map(take_down, range(3)))
    assert statuses == [200, 200, 409]
    assert sum(each.up for each in world.control.brokers()) == 1
    for broker in world.control.brokers():
        if not broker.up:
            world.control.broker(broker.id).up()


def test_every_broker_has_configs_of_its_own_and_lists_all_brokers(world: World) -> None:
    def max_connections(broker: int) -> tuple[str, int]:
        asked = {"resource_type": BROKER, "resource_name": str(broker), "configuration_keys": ["max.connections"]}
        with world.link(broker) as link:
            ((config,),) = (each["configs"] for each in link.call("DescribeConfigs", 4, resources=[asked])["results"])
        return config["value"], config["config_source"]

    before = max_connections(0)
    change = {"name": "max.connections", "config_operation": 0, "value": "500"}
    altered = {"resource_type": BROKER, "resource_name": "1", "configs": [change]}
    for broker, error in ((0, INVALID_REQUEST), (1, 0)):
        with world.link(broker) as link:
            (answer,) = link.call("IncrementalAlterConfigs", 1, resources=[altered])["responses"]
            assert answer["error_code"] == error
            listed = link.call("ListConfigResources", 1, resource_types=[BROKER])["config_resources"]
            assert [each["resource_name"] for each in listed] == ["0", "1", "2"]
    assert (max_connections(0), max_connections(1), max_connections(2)) == (before, ("500", DYNAMIC_BROKER), before)


def test_a_server_that_is_one_broker_says_so(tmp_path: Path) -> None:
    server = ThrowawayServer(tmp_path).start()
    try:
        with Control(server.admin_url) as control:
            assert control.brokers() == []
            with pytest.raises(ControlRefused, match="one broker"):
                control.broker(1).down()
    finally:
        server.stop()


def moved(world: World, replicas: list[int] | None, at: int = 0, *, may_resize: bool = True) -> int:
    """Asks for other replicas of a partition; returns the error."""
    partition = {"partition_index": 0, "replicas": replicas}
    wanted = {"topics": [{"name": "orders", "partitions": [partition]}], "timeout_ms": 9000}
    with world.link(at) as link:
        answer = link.call("AlterPartitionReassignments", 1, allow_replication_factor_change=may_resize, **wanted)
        assert link.call("ListPartitionReassignments", 0, topics=None, timeout_ms=9000)["topics"] == []
    ((result,),) = (topic["partitions"] for topic in answer["responses"])
    return result["error_code"]


def test_replicas_move_and_the_epoch_rises_if_one_goes(world: World) -> None:
    first, second, third = world.partition()["replica_nodes"]

    def seen() -> tuple[list[int], list[int], int, int]:
        each = world.partition()
        return each["replica_nodes"], each["isr_nodes"], each["leader_id"], each["leader_epoch"]

    assert moved(world, [second, third]) == 0
    assert seen() == ([second, third], [second, third], second, 1)
    assert moved(world, [third, second]) == 0
    assert seen() == ([third, second], [third, second], second, 1)
    assert moved(world, [third, second, first]) == 0
    assert seen() == ([third, second, first], [third, second, first], second, 1)
    assert elected(world, first, [0]) == {("orders", 0): 0}
    assert moved(world, [third, first]) == 0
    assert seen() == ([third, first], [third, first], third, 3)
    world.server.restart()
    assert seen() == ([third, first], [third, first], third, 3)


def test_a_move_that_could_not_end_is_refused(world: World) -> None:
    first, second, third = world.partition()["replica_nodes"]
    assert moved(world, [first, second]) == 0
    before = world.partition()
    world.control.broker(third).down()
    for replicas, error in (
        ([first, third], INVALID_REPLICA_ASSIGNMENT),
        ([third], INVALID_REPLICA_ASSIGNMENT),
        ([first, 7], INVALID_REPLICA_ASSIGNMENT),
        ([], INVALID_REPLICA_ASSIGNMENT),
        (None, NO_REASSIGNMENT_IN_PROGRESS),
    ):
        assert moved(world, replicas, at=first) == error, replicas
    assert moved(world, [first], at=first, may_resize=False) == INVALID_REPLICATION_FACTOR
    assert world.partition(at=first) == before


def test_an_unclean_election_finds_nobody_because_a_replica_that_is_up_is_in_sync(world: World) -> None:
    first, second, third = world.partition()["replica_nodes"]
    assert elected(world, first, [0], unclean=True) == {("orders", 0): ELECTION_NOT_NEEDED}
    assert moved(world, [first, second]) == 0
    world.control.broker(second).down()
    world.control.broker(first).down()
    assert world.partition(at=third)["leader_id"] == -1
    assert elected(world, third, [0], unclean=True) == {("orders", 0): ELIGIBLE_NOT_AVAILABLE}


def test_each_broker_says_its_rack_among_its_configs(world: World) -> None:
    for broker, rack in enumerate("abc"):
        with world.link(broker) as link:
            asked = [{"resource_type": BROKER, "resource_name": str(broker), "configuration_keys": ["broker.rack"]}]
            [config] = link.call("DescribeConfigs", 4, resources=asked)["results"][0]["configs"]
        assert (config["name"], config["value"], config["config_source"]) == ("broker.rack", rack, STATIC_BROKER)
