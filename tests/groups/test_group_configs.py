"""Settings of single groups: what may be set, and what it comes to."""

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
        ("streams.fencing.policy", "revocation-epoch", "String must be one of: strict, assignment-epoch"),
        ("nonsense", "1", "Unknown group config name: nonsense"),
    ],
)
def test_a_wrong_setting_is_refused_in_kafkas_words(name, value, message):
    with pytest.raises(KafkaError) as refused:
        check(CONFIG, {name: value})
    assert refused.value.code is ErrorCode.INVALID_CONFIG
    assert refused.value.message.endswith(message)


def test_the_servers_own_values_may_be_set_for_a_group():
    check(CONFIG, {name: row.server_value(CONFIG) for name, row in GROUP_CONFIGS.items()})


def test_a_group_has_the_servers_settings_but_for_its_own():
    own = {"g": {"consumer.session.timeout.ms": "50000", "consumer.fencing.policy": "strict"}}
    groups = ConfiguredGroups(CONFIG, lambda group_id: own.get(group_id, {}))
    everybodys, gs = groups.consumer("other"), groups.consumer("g")
    assert (everybodys.session_timeout_ms, everybodys.fencing_policy) == (45_000, "revocation-epoch")
    assert (gs.session_timeout_ms, gs.heartbeat_interval_ms, gs.fencing_policy) == (50_000, 5_000, "strict")
    assert groups.consumer("g") is gs
    own["g"] = {}
    assert groups.consumer("g") is everybodys


def test_a_setting_from_before_the_bounds_were_changed_is_taken_into_them():
    own = {"consumer.session.timeout.ms": "50000"}
    config = GroupsConfig(group_consumer_max_session_timeout_ms=46_000)
    assert ConfiguredGroups(config, lambda _: own).consumer("g").session_timeout_ms == 46_000


def test_a_streams_group_has_the_servers_settings_but_for_its_own():
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
    everybodys, gs = groups.streams("other"), groups.streams("g")
    assert (everybodys.num_standby_replicas, everybodys.rack_aware_assignment_tags) == (0, ())
    assert (everybodys.fencing_policy, everybodys.assignor_name) == ("assignment-epoch", "sticky")
    assert (gs.num_standby_replicas, gs.rack_aware_assignment_tags) == (1, ("zone", "rack"))
    assert (gs.acceptable_recovery_lag, gs.task_offset_interval_ms) == (9_999_999_999, 20_000)
    assert (gs.session_timeout_ms, gs.fencing_policy) == (45_000, "strict")
    assert groups.streams("g") is gs


def test_standby_tasks_beyond_what_the_server_allows_by_now_are_not_asked_for():
    config = GroupsConfig(group_streams_max_standby_replicas=1)
    groups = ConfiguredGroups(config, lambda _: {"streams.num.standby.replicas": "2"})
    assert groups.streams("g").num_standby_replicas == 1
