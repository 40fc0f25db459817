"""Dynamic configs of groups: which values are valid, and the settings that result."""

import pytest

from coordinator.groups.group_configs import GROUP_CONFIGS, ConfiguredGroups, check
from coordinator.groups.settings import GroupsConfig
from coordinator.protocol.errors import ErrorCode, KafkaError

CONFIG = GroupsConfig()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            "consumer.session.timeout.ms",
            "1",
            "consumer.session.timeout.ms must be in the range 45000 to 60000 inclusive.",
        ),
        ("consumer.heartbeat.interval.ms", "60000", "must be in the range 5000 to 15000 inclusive."),
        ("consumer.assignment.interval.ms", "15001", "must be in the range 0 to 15000 inclusive."),
        ("consumer.assignment.interval.ms", "soon", "Not a number of type INT"),
        ("consumer.fencing.policy", "lax", "String must be one of: strict, revocation-epoch, assignment-epoch"),
        ("consumer.fencing.require.ownership", "yes", "Expected value to be either true or false"),
        ("streams.session.timeout.ms", "1", "must be in the range 45000 to 60000 inclusive."),
        ("streams.heartbeat.interval.ms", "20000", "must be in the range 5000 to 15000 inclusive."),
        ("streams.assignment.interval.ms", "-1", "streams.assignment.interval.ms: Value must be at least 0"),
        ("streams.num.standby.replicas", "3", "streams.num.standby.replicas must be less than or equal to 2"),
        ("streams.num.warmup.replicas", "21", "streams.num.warmup.replicas must be less than or equal to 20"),
        (
            "streams.num.warmup.replicas",
            "-1",
            "Invalid value -1 for configuration streams.num.warmup.replicas: Value must be at least 0",
        ),
        ("streams.task.offset.interval.ms", "1", "must be greater than or equal to 15000"),
        ("streams.task.offset.interval.ms", "0", "Value must be at least 1"),
        ("streams.acceptable.recovery.lag", "x", "Not a number of type LONG"),
        (
            "streams.assignor.name",
            "none",
            "streams.assignor.name 'none' is not a registered task assignor. Registered assignors are: [sticky].",
        ),
        ("streams.rack.aware.assignment.tags", "a,a", "tags must not contain duplicate tag keys."),
        (
            "streams.rack.aware.assignment.tags",
            "a,",
            "Configuration 'streams.rack.aware.assignment.tags' values must not be empty.",
        ),
        ("streams.fencing.policy", "lenient", "String must be one of: strict, revocation-epoch, assignment-epoch"),
        ("group.rebalance.interval.ms", "9999", "group.rebalance.interval.ms must be greater than or equal to 10000"),
        ("group.rebalance.interval.ms", "-1", "group.rebalance.interval.ms: Value must be at least 0"),
        ("nonsense", "1", "Unknown group config name: nonsense"),
    ],
)
def test_an_invalid_config_is_rejected_with_kafkas_message(name, value, message):
    with pytest.raises(KafkaError) as rejected:
        check(CONFIG, {name: value})
    assert rejected.value.code is ErrorCode.INVALID_CONFIG
    assert rejected.value.message.endswith(message)


def test_the_server_values_are_valid_group_configs():
    check(CONFIG, {name: row.server_value(CONFIG) for name, row in GROUP_CONFIGS.items()})


def test_the_configs_of_a_consumer_group_override_the_server_values():
    own = {"g": {"consumer.session.timeout.ms": "50000", "consumer.fencing.policy": "strict"}}
    groups = ConfiguredGroups(CONFIG, lambda group_id: own.get(group_id, {}))
    defaults, group = groups.consumer("other"), groups.consumer("g")
    assert (defaults.session_timeout_ms, defaults.fencing_policy) == (45_000, "revocation-epoch")
    assert (group.session_timeout_ms, group.heartbeat_interval_ms, group.fencing_policy) == (50_000, 5_000, "strict")
    assert groups.consumer("g") is group
    own["g"] = {}
    assert groups.consumer("g") is defaults


def test_a_stored_value_outside_changed_bounds_is_clamped():
    own = {"consumer.session.timeout.ms": "50000"}
    config = GroupsConfig(group_consumer_max_session_timeout_ms=46_000)
    assert ConfiguredGroups(config, lambda _: own).consumer("g").session_timeout_ms == 46_000


def test_the_configs_of_a_streams_group_override_the_server_values():
    own = {
        "g": {
            "streams.num.standby.replicas": "1",
            "streams.rack.aware.assignment.tags": "zone, rack",
            "streams.acceptable.recovery.lag": "9999999999",
            "streams.fencing.policy": "strict",
            "streams.task.offset.interval.ms": "20000",
        }
    }
    groups = ConfiguredGroups(CONFIG, lambda group_id: own.get(group_id, {}))
    check(CONFIG, own["g"])
    defaults, group = groups.streams("other"), groups.streams("g")
    assert (defaults.num_standby_replicas, defaults.rack_aware_assignment_tags) == (0, ())
    assert (defaults.fencing_policy, defaults.assignor_name) == ("revocation-epoch", "sticky")
    assert (group.num_standby_replicas, group.rack_aware_assignment_tags) == (1, ("zone", "rack"))
    assert (group.acceptable_recovery_lag, group.task_offset_interval_ms) == (9_999_999_999, 20_000)
    assert (group.session_timeout_ms, group.fencing_policy) == (45_000, "strict")
    assert groups.streams("g") is group


def test_stored_standby_replicas_are_clamped_to_the_server_maximum():
    config = GroupsConfig(group_streams_max_standby_replicas=1)
    groups = ConfiguredGroups(config, lambda _: {"streams.num.standby.replicas": "2"})
    assert groups.streams("g").num_standby_replicas == 1


def test_a_group_overrides_the_rebalance_interval_and_may_turn_it_off():
    own = {"g": {"group.rebalance.interval.ms": "60000"}, "off": {"group.rebalance.interval.ms": "0"}}
    config = GroupsConfig(group_rebalance_interval_ms=3_600_000)
    for overrides in own.values():
        check(config, overrides)
    groups = ConfiguredGroups(config, lambda group_id: own.get(group_id, {}))
    assert [groups.rebalance_interval_ms(each) for each in ("g", "off", "other")] == [60_000, 0, 3_600_000]
