"""DescribeConfigs as each earlier release answers it: the names, defaults and types of the configs of each kind of resource.

release_configs.json has what brokers answered: one of 4.4, and what each of an earlier release answered otherwise than one of
the next. The server answers from configs.json, which follows from it. With THOROUGH=1 live brokers are asked again. `--rewrite`
notes their answers, and makes the table of them; `--rewrite -k the_table` makes it of what was noted.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from coordinator.api.config_resources import ConfigResourceType
from coordinator.config.load import load
from coordinator.config.release_configs import as_in_release
from coordinator.config.settings import SETTINGS, value_of
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.releases import NEWEST, releases
from coordinator.protocol.schema import SCHEMAS
from coordinator.topics.topic_settings import SOURCE_DEFAULT, SOURCE_STATIC_BROKER, ConfigValue, Kind, Synonym
from tests.requests.test_emulation import World
from tests.support.earlier_kafka import EarlierKafka
from tests.support.kafka_broker import KafkaBroker
from tests.support.waiting import wait_until
from tests.support.wire import Connection, Values, api_key

TEST_MARKERS = ("process",)

RECORDED = Path(__file__).with_name("release_configs.json")
TABLE = SCHEMAS / "releases" / "configs.json"
NEWEST_FIRST = [NEWEST, *releases()]
SHOWN_ONLY = {
    "group.consumer.assignors",  # names of classes of the same assignors
    "group.consumer.migration.policy",  # of the preview, which is off
    "group.coordinator.rebalance.protocols",  # a server may become a later release
    "group.share.partition.max.record.locks",  # there are no share groups
    "sasl.oauthbearer.expected.audience",  # empty and null are the same
    "ssl.enabled.protocols",  # which OpenSSL offers
}
"""Settings with which a server starts as with 4.4."""
Row = list[Any]
"""Default, type, and whether it is read-only."""
Configs = dict[str, dict[str, Row] | None]
"""Kind of resource -> name of a config -> its row; None: the release does not have such resources."""


def ask(link: Connection, later: Configs) -> Configs:
    """What a broker answers. `later`: what one of the next release answered, for types, which 2.4 and 2.5 do not have."""
    topic = {"name": "t", "num_partitions": 1, "replication_factor": 1}
    link.call("CreateTopics", 2, topics=[topic], timeout_ms=10_000)
    (broker,) = link.call("Metadata", 4, topics=[], allow_auto_topic_creation=False)["brokers"]
    wait_until(lambda: not described(link, "TOPIC", "t")["error_code"], "the topic")
    found: Configs = {}
    for kind, name in {"BROKER": str(broker["node_id"]), "TOPIC": "t", "GROUP": "g", "CLIENT_METRICS": "m"}.items():
        result, known = described(link, kind, name), later.get(kind) or {}
        rows = {each["name"]: row_of(each, known.get(each["name"])) for each in result["configs"]}
        found[kind] = None if result["error_code"] == ErrorCode.INVALID_REQUEST else rows
    return found


def described(link: Connection, kind: str, name: str) -> Values:
    served = {each["api_key"]: each["max_version"] for each in link.call("ApiVersions", 0)["api_keys"]}
    asked = {"resource_type": ConfigResourceType[kind], "resource_name": name, "configuration_keys": None}
    version = served[api_key("DescribeConfigs")]
    (result,) = link.call("DescribeConfigs", version, resources=[asked], include_synonyms=True)["results"]
    return result


def row_of(config: Values, later: Row | None) -> Row:
    places = [*config["synonyms"], {"source": config["config_source"], "value": config["value"]}]
    default = next((place["value"] for place in places if place["source"] == SOURCE_DEFAULT), None)
    number = config.get("config_type")
    return [default, Kind(number).name if number else later[1] if later else "STRING", config["read_only"]]


def differences(configs: Mapping[str, Configs]) -> dict[str, Any]:
    """What differs in each release from the next, of those that are there."""
    found: dict[str, Any] = {}
    later: Configs = {}
    for release in filter(configs.__contains__, NEWEST_FIRST):
        found[release] = {}
        for kind, rows in configs[release].items():
            known = later.get(kind) or {}
            if rows is None:
                changed: Any = {} if kind in later and later[kind] is None else None
            else:
                changed = {name: rows.get(name) for name in sorted(known | rows) if known.get(name) != rows.get(name)}
            found[release] |= {} if changed == {} else {kind: changed}
        later = configs[release]
    return found


def whole(changes: Mapping[str, Any]) -> dict[str, Configs]:
    """Inverts `differences`."""
    found: dict[str, Configs] = {}
    now: Configs = {}
    for release, changed in changes.items():
        for kind, rows in changed.items():
            merged = None if rows is None else (now.get(kind) or {}) | rows
            now = now | {kind: merged and {name: row for name, row in merged.items() if row is not None}}
        found[release] = now
    return found


def write(path: Path, changes: Mapping[str, Any]) -> None:
    """One config a line."""
    text = json.dumps(changes, indent=1)
    path.write_text(re.sub(r"\[[^]]*\]", lambda row: " ".join(row[0].split()), text) + "\n")


ANSWERS = whole(json.loads(RECORDED.read_text()))


def expected(ours: Configs, release: str) -> Configs:
    """What this server shows as the release. `ours`: what it shows as 4.4, where some rows are others than Kafka's."""
    found: Configs = {}
    for kind, rows in ANSWERS[release].items():
        own, newest = ours[kind] or {}, ANSWERS[NEWEST][kind] or {}
        found[kind] = rows and {
            name: merged(own.get(name), rows.get(name), newest.get(name))
            for name in own | rows
            if (name in rows or name not in newest) and (name in own or name not in newest)
        }
    return found


def merged(own: Row | None, there: Row | None, newest: Row | None) -> Row:
    """Our row with what the release has otherwise than 4.4. Where we show a fact instead of a setting, it has no default."""
    if own is None or there is None or newest is None:
        return own or there or []
    default, kind, read_only = (a if b == c else b for a, b, c in zip(own, there, newest, strict=True))
    return [None if own[0] is None else default, kind, read_only]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = World(tmp_path_factory.mktemp("configs"))
    yield world
    world.close()


@pytest.fixture(scope="module")
def ours(world: World) -> Configs:
    """What this server shows as 4.4."""
    with world.link(NEWEST) as link:
        return ask(link, {})


@pytest.mark.thorough
@pytest.mark.parametrize("release", NEWEST_FIRST)
def test_a_live_broker_shows_what_was_recorded(tmp_path: Path, release: str, request: pytest.FixtureRequest) -> None:
    later = ANSWERS[NEWEST_FIRST[NEWEST_FIRST.index(release) - 1]] if release != NEWEST else {}
    kafka = KafkaBroker(tmp_path) if release == NEWEST else EarlierKafka(tmp_path, releases()[release].recorded)
    try:
        kafka.start()
        with Connection(kafka.bootstrap) as link:
            found = ask(link, later)
    finally:
        kafka.stop()
    if request.config.getoption("--rewrite"):
        ANSWERS[release] = found
        write(RECORDED, differences(ANSWERS))
    assert found == ANSWERS[release]


def test_the_table_follows_from_what_brokers_answered(ours: Configs, request: pytest.FixtureRequest) -> None:
    table = differences({release: expected(ours, release) for release in NEWEST_FIRST})
    changed = {(kind, name) for each in releases() for kind, rows in table[each].items() for name in rows or ()}
    for kind, rows in table[NEWEST].items():
        table[NEWEST][kind] = {name: row for name, row in rows.items() if (kind, name) in changed}
    if request.config.getoption("--rewrite"):
        write(TABLE, table)
    assert json.loads(TABLE.read_text()) == table


@pytest.mark.parametrize("release", releases())
def test_a_release_shows_the_configs_and_defaults_that_its_broker_shows(
    world: World, ours: Configs, release: str
) -> None:
    recorded = expected(ours, release)
    with world.link(release) as link:
        assert ask(link, recorded) == recorded


def test_a_config_that_a_client_has_set_is_shown_by_every_release(world: World) -> None:
    own = {"compression.gzip.level": "3", "max.message.bytes": "5000"}
    configs = [{"name": name, "value": value} for name, value in own.items()]
    topic = {"name": "own", "num_partitions": 1, "replication_factor": 1, "configs": configs}
    with world.link("2.4") as link:
        link.call("CreateTopics", 2, topics=[topic], timeout_ms=10_000)
        wait_until(lambda: not described(link, "TOPIC", "own")["error_code"], "the topic")
        shown = {each["name"]: each for each in described(link, "TOPIC", "own")["configs"]}
    assert {name: shown[name]["value"] for name in own} == own
    assert shown["max.message.bytes"]["synonyms"] == [
        {"name": "max.message.bytes", "value": "5000", "source": 1},
        {"name": "message.max.bytes", "value": "1000012", "source": 5},
    ]


def test_passwords_that_only_earlier_releases_have_are_secret(world: World) -> None:
    with world.link("3.9") as link:
        secret = {each["name"]: each["is_sensitive"] for each in described(link, "BROKER", "1")["configs"]}
    assert secret["zookeeper.ssl.keystore.password"]
    assert not secret["zookeeper.ssl.keystore.location"]


@pytest.mark.parametrize(("configured", "source"), [("2000000", SOURCE_STATIC_BROKER), ("1000012", SOURCE_DEFAULT)])
def test_a_configured_value_is_static_unless_it_is_the_default_of_the_release(configured: str, source: int) -> None:
    name, of_newest = "message.max.bytes", "1048588"
    places = (Synonym(name, configured, SOURCE_STATIC_BROKER), Synonym(name, of_newest, SOURCE_DEFAULT))
    value = ConfigValue(name, configured, SOURCE_STATIC_BROKER, Kind.INT, "", places)
    (shown,) = as_in_release([value], {name: ("1000012", "INT", False)}, "")
    assert (shown.value, shown.source) == (configured, source)
    assert shown.synonyms[-1] == Synonym(name, "1000012", SOURCE_DEFAULT)


@pytest.mark.parametrize("release", releases())
def test_a_server_starts_with_the_defaults_that_its_release_shows(ours: Configs, release: str) -> None:
    config, of_newest, rows = load(None, [f"emulate={release}"]), ours["BROKER"], expected(ours, release)["BROKER"]
    assert of_newest is not None and rows is not None
    changed = {name: row[0] for name, row in rows.items() if name in of_newest and row[0] != of_newest[name][0]}
    started = {name: str(value_of(config, name)) for name in changed if name in SETTINGS and name not in SHOWN_ONLY}
    assert started == {name: changed[name] for name in started}


def test_a_server_starts_with_what_a_release_did_where_it_had_no_setting() -> None:
    """A producer id expired as a transactional id (to 3.3, KIP-854), and nothing bounded an answer to Fetch (to 2.4)."""
    config = load(None, ["emulate=3.3"])
    assert config.topics.producer_id_expiration_ms == config.transactions.transactional_id_expiration_ms
    assert load(None, ["emulate=2.4"]).topics.fetch_max_bytes == 2**31 - 1
