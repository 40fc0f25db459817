"""Whoever may do something with Kafka 4.4's authorizer may do it here, and the others get Kafka's answers.

Kafka's answers are kept in kafka_4_4_answers.json. `pytest tests/access --rewrite` records them again, from a live Kafka.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinator import requests
from coordinator.api.declaration import supported_apis
from coordinator.security.access import (
    CLUSTER_ACTION,
    CREATE_CLUSTER,
    CREATE_TOPIC,
    DESCRIBE_CLUSTER,
    DESCRIBE_TOPIC,
    Access,
    AclOperation,
    ResourceType,
)
from tests.access import servers, table
from tests.access.cases import CASES, OPEN_CASES
from tests.access.probes import PROBES
from tests.access.rules import TYPES

OPEN = {"allow.everyone.if.no.acl.found": "true"}
APIS = {api.name: api for api in supported_apis(requests).values()}
RESOURCE_TYPES = {name: ResourceType(code) for name, code in TYPES.items()}
ROWS = [table.row_name(*row) for row in PROBES]


def all_answers(start: Callable[..., Any], folder: Path) -> dict[str, Any]:
    """The answers of two servers, one after the other."""
    found = {}
    for name, users, settings, ask in (
        ("closed", table.users(), {}, table.answers),
        ("open", table.open_users(), OPEN, table.open_answers),
    ):
        own = folder / name
        own.mkdir()
        server = start(own, users, settings)
        try:
            server.start()
            found |= ask(server.bootstrap)
        finally:
            server.stop()
    return found


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    return table.read()


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    return all_answers(servers.ours, tmp_path_factory.mktemp("ours"))


def text(answer: Any) -> str:
    return json.dumps(answer, indent=1)


@pytest.mark.parametrize("row", ROWS)
def test_a_request_is_refused_to_those_to_whom_kafka_refuses_it(row: str, ours, recorded):
    """Each user may do one thing only, or everything but one thing."""
    expected, found = table.long(recorded["matrix"][row]), table.long(ours["matrix"][row])
    differing = {user for user in expected if expected[user] != found[user]}
    assert not differing, "\n".join(
        f"{user}\nKafka {text(expected[user])}\nours {text(found[user])}" for user in sorted(differing)[:3]
    )


@pytest.mark.parametrize("case", CASES + OPEN_CASES, ids=lambda case: case.name)
def test_a_request_about_several_resources_is_answered_as_by_kafka(case, ours, recorded):
    part = "open" if case in OPEN_CASES else "cases"
    expected, found = recorded[part][case.name], ours[part][case.name]
    assert text(found) == text(expected)


@pytest.mark.parametrize("name", [table.row_name(api, version, "") for api, version, _ in table.each_version()])
def test_a_denial_has_the_shape_of_its_version(name, ours, recorded):
    assert text(ours["versions"][name]) == text(recorded["versions"][name])


def test_every_api_is_in_the_table():
    """All may ask for versions."""
    assert {api for api, _, _ in PROBES} == set(APIS) - {"ApiVersions"}


IMPLIED_BY = {
    AclOperation.DESCRIBE: {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER},
    AclOperation.DESCRIBE_CONFIGS: {AclOperation.ALTER_CONFIGS},
}
IN_CASES = {
    "DescribeCluster": {DESCRIBE_CLUSTER},
    "Metadata": {CREATE_CLUSTER, CREATE_TOPIC, DESCRIBE_CLUSTER},
    "JoinGroup": {DESCRIBE_TOPIC},
    "StreamsGroupHeartbeat": {CREATE_CLUSTER, CREATE_TOPIC},
    "Produce": {CLUSTER_ACTION},
}
"""Permissions that matter in combinations that no row has: for new topics, those of a pattern, operations of the cluster.

Workers write events with Produce."""


def without_operations(answer: Any) -> Any:
    """The answer without the fields that show authorized operations, for which any operation on the resource matters."""
    if isinstance(answer, dict):
        return {key: without_operations(each) for key, each in answer.items() if not key.endswith("_operations")}
    return [without_operations(each) for each in answer] if isinstance(answer, list) else answer


def mattering(api: str, matrix: dict[str, Any]) -> set[Access]:
    """The permissions of which one more or less changes Kafka's answer to a request of the API."""
    found = set()
    for row in (table.row_name(*probe) for probe in PROBES if probe[0] == api):
        answers = {user: without_operations(each) for user, each in table.long(matrix[row]).items()}
        for operation, resource_type, user in table.single_permissions():
            only, but = answers[f"only-{user}"], answers[f"but-{user}"]
            if only != answers["nothing"] or but != answers["everything"]:
                found.add(Access(AclOperation[operation], RESOURCE_TYPES[resource_type]))
    return found


@pytest.mark.parametrize("api", APIS.values(), ids=APIS)
def test_the_declared_permissions_are_those_that_matter_to_kafka(api, recorded):
    declared = set(api.access)
    implied = {Access(by, each.resource_type) for each in declared for by in IMPLIED_BY.get(each.operation, ())}
    found = mattering(api.name, recorded["matrix"])
    assert declared - IN_CASES.get(api.name, set()) <= found
    assert found <= declared | implied
    assert len(declared) == len(api.access)


@pytest.mark.thorough
@pytest.mark.java
def test_kafka_answers_as_recorded(tmp_path: Path, request: pytest.FixtureRequest):
    found = all_answers(servers.kafka, tmp_path)
    if request.config.getoption("--rewrite"):
        table.write(found)
    assert found == table.read()
