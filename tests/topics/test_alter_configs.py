"""Changes of a topic's settings are atomic, durable, and apply to the next batch."""

from typing import ClassVar

import pytest

from coordinator.protocol.errors import ErrorCode
from coordinator.topics.alter_configs import ConfigChange, ConfigOp, alter, alter_topic, incremental, replacing
from coordinator.topics.topic_settings import LISTS
from tests.topics.data_plane import NOW_MS, DataPlane, batch

GROUP = 32


@pytest.fixture
def plane():
    plane = DataPlane()
    plane.create("t", configs={"retention.ms": "1000"})
    return plane


def set_to(**values):
    entries = [ConfigChange(name.replace("_", "."), ConfigOp.SET, str(value)) for name, value in values.items()]
    return incremental(entries, LISTS)


def change(plane, plan, name="t", validate_only=False):
    """The list that will hold the outcome."""
    outcome = []
    alter_topic(plane.topics, name, plan, outcome.append, validate_only=validate_only)
    return outcome


def own(plane, name="t"):
    return dict(plane.topics.registry.topics[name].configs)


def test_a_change_survives_a_restart(plane):
    assert change(plane, set_to(retention_ms=5)) == [None]
    plane.killed()
    assert own(plane) == {"retention.ms": "5"}


def test_a_change_is_seen_when_it_is_durable():
    plane = DataPlane(late=True)
    plane.create("t")
    plane.sync()
    outcome = change(plane, set_to(retention_ms=5))
    assert (outcome, own(plane)) == ([], {})
    plane.sync()
    assert (outcome, own(plane)) == ([None], {"retention.ms": "5"})


def test_two_changes_at_once_both_count():
    plane = DataPlane(late=True)
    plane.create("t")
    plane.sync()
    entry = ConfigChange("cleanup.policy", ConfigOp.APPEND, "compact")
    first = change(plane, incremental([entry], LISTS))
    second = change(plane, incremental([entry._replace(operation=ConfigOp.SUBTRACT, value="delete")], LISTS))
    plane.sync()
    assert (first, second, own(plane)) == ([None], [None], {"cleanup.policy": "compact"})


def test_a_list_never_set_begins_at_its_default(plane):
    change(plane, incremental([ConfigChange("cleanup.policy", ConfigOp.APPEND, "compact")], LISTS))
    assert own(plane)["cleanup.policy"] == "delete,compact"


@pytest.mark.parametrize(
    ("operation", "value", "after"),
    [
        (ConfigOp.APPEND, "c,d,c,d,b", "a,b,a,c,d"),
        (ConfigOp.SUBTRACT, "a,c,x", "b,a"),
        (ConfigOp.SUBTRACT, "a,a,a", "b,c"),
    ],
)
def test_a_list_gains_what_it_lacks_and_loses_each_item_once(operation, value, after):
    plan = incremental([ConfigChange("list", operation, value)], {"list": ""})
    assert plan({"list": "a,b,a,c"}) == {"list": after}


class Item(str):
    """An item of a list that counts how often it is compared."""

    __slots__ = ()
    compared: ClassVar[list[str]] = []

    def __eq__(self, other):
        self.compared.append(self)
        return str(self) == other

    __hash__ = str.__hash__


class Text(str):
    __slots__ = ()

    def split(self, *_):
        return [Item(item) for item in str.split(self, ",")]


@pytest.mark.parametrize("operation", [ConfigOp.APPEND, ConfigOp.SUBTRACT])
def test_the_items_of_two_long_lists_are_not_compared_each_with_each(operation):
    Item.compared.clear()
    present, named = (Text(",".join(map(str, range(first, first + 1_000)))) for first in (0, 500))
    plan = incremental([ConfigChange("list", operation, named)], {"list": ""})
    assert plan({"list": present})["list"]
    assert len(Item.compared) < 10_000


def test_replacing_configs_removes_those_that_are_not_listed(plane):
    assert change(plane, replacing({"flush.ms": "7"})) == [None]
    assert own(plane) == {"flush.ms": "7"}


def test_one_wrong_value_leaves_everything_as_it_was(plane):
    (error,) = change(plane, set_to(retention_ms=5, segment_bytes=1))
    assert error.code == ErrorCode.INVALID_CONFIG
    assert own(plane) == {"retention.ms": "1000"}


def test_validating_changes_nothing(plane):
    assert change(plane, set_to(retention_ms=5), validate_only=True) == [None]
    assert own(plane) == {"retention.ms": "1000"}


def test_a_value_longer_than_a_record_may_hold_is_refused(plane):
    (error,) = change(plane, set_to(leader_replication_throttled_replicas="1:1," * 9000))
    assert error.code == ErrorCode.INVALID_CONFIG


def test_a_full_disk_changes_nothing(plane):
    plane.fill_disk()
    (error,) = change(plane, set_to(retention_ms=5))
    assert error.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert own(plane) == {"retention.ms": "1000"}


def test_a_topic_that_is_being_deleted_does_not_exist(plane):
    plane.late = True
    plane.delete("t")
    outcome = change(plane, set_to(retention_ms=5))
    plane.sync()
    assert [error.code for error in outcome] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_changed_batch_size_applies_to_the_next_batch(plane):
    data = batch(b"x" * 100)
    assert plane.produce(data).error_code == ErrorCode.NONE
    change(plane, set_to(max_message_bytes=len(data) - 1))
    assert plane.produce(data).error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_a_changed_timestamp_type_applies_to_the_next_batch(plane):
    plane.produce(batch(timestamp=NOW_MS - 5))
    change(plane, incremental([ConfigChange("message.timestamp.type", ConfigOp.SET, "LogAppendTime")], LISTS))
    assert plane.produce(batch(timestamp=NOW_MS - 5)).log_append_time_ms == NOW_MS


def test_keys_are_needed_from_now_on(plane):
    assert plane.produce(batch(key=None)).error_code == ErrorCode.NONE
    change(plane, set_to(cleanup_policy="compact"))
    assert plane.produce(batch(key=None)).error_code == ErrorCode.INVALID_RECORD


def test_a_changed_segment_size_applies(plane):
    plane.produce(batch(b"x" * 700_000))
    change(plane, set_to(segment_bytes=1 << 20))
    plane.produce(batch(b"x" * 700_000))
    assert len(plane.topics.partition("t", 0).log.segments) == 2


def test_changed_retention_applies():
    plane = DataPlane(log_retention_check_interval_ms=1000)
    plane.create("t")
    plane.produce(batch(timestamp=NOW_MS - 500))
    plane.advance(1000)
    assert plane.topics.partition("t", 0).start_offset == 0
    change(plane, set_to(retention_ms=100))
    plane.advance(1000)
    assert plane.topics.partition("t", 0).start_offset == 1


def test_a_removed_config_falls_back_to_the_server_value():
    plane = DataPlane(message_max_bytes=500)
    plane.create("t", configs={"max.message.bytes": "100"})
    assert plane.produce(batch(b"x" * 200)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    change(plane, replacing({}))
    assert plane.produce(batch(b"x" * 200)).error_code == ErrorCode.NONE


def test_a_successor_does_not_inherit_settings(plane):
    plane.delete("t")
    plane.create("t")
    plane.killed()
    assert own(plane) == {}


def test_settings_of_other_resources_are_stored_in_the_same_way(plane):
    outcome = []
    alter(plane.topics, GROUP, "g", replacing({"a": "1"}), lambda _after: None, outcome.append, validate_only=False)
    plane.killed()
    assert plane.topics.registry.configs_of(GROUP, "g") == {"a": "1"}
    alter(plane.topics, GROUP, "g", replacing({}), lambda _after: None, outcome.append, validate_only=False)
    assert outcome == [None, None]
    assert plane.topics.registry.other_configs == {}
