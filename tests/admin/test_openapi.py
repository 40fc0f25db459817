"""The OpenAPI document against a running server: every operation, valid and invalid requests, and only documented answers.

COORDINATOR_OPENAPI_EXAMPLES=200 sends more requests to each operation than CI does.
"""

import json
import os
from contextlib import suppress
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import positive_data_acceptance

from coordinator.admin.openapi import document
from coordinator.admin.routes import all_endpoints
from tests.support.server_process import ServerProcess
from tests.support.waiting import WITHIN_S

EXAMPLES = int(os.environ.get("COORDINATOR_OPENAPI_EXAMPLES", "5"))
HEALTH = list(HealthCheck)
NOT_CHECKED = [positive_data_acceptance]
"""A schema cannot say that a group must exist, that a position lies in the log, or which error an API can carry."""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with ServerProcess(tmp_path_factory.mktemp("openapi")) as server:
        yield server


def loaded() -> Any:
    """The document of this code, with the statuses that are right answers although they say no."""
    made = schemathesis.openapi.from_dict(document(all_endpoints()))
    checks = made.config.checks
    checks.not_a_server_error.expected_statuses = ["2xx", "4xx", "503"]  # 503 is documented: a shard that loads
    checks.negative_data_rejection.expected_statuses = ["400", "403", "404", "409", "413", "415", "422", "503"]
    return made


OPERATIONS = [found.ok() for found in loaded().get_all_operations()]


@pytest.fixture
def settled(server):
    """The server after whatever other operations did to it."""
    yield server
    httpx.post(f"{server.admin}/v1/clock", json={"mode": "real"}, timeout=WITHIN_S).raise_for_status()
    httpx.delete(f"{server.admin}/v1/faults", timeout=WITHIN_S).raise_for_status()


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.label)
def test_every_answer_is_as_the_document_says(settled, operation, mode):
    @given(operation.as_strategy(generation_mode=mode))
    @settings(max_examples=EXAMPLES, derandomize=True, deadline=None, database=None, suppress_health_check=HEALTH)
    def answers(case: Any) -> None:
        case.query = {name: bounded(name, value) for name, value in (case.query or {}).items()}
        if operation.path == "/v1/events":
            case.query.setdefault("follow", "false")
        if isinstance(case.body, dict):
            case.body = {name: bounded(name, value) for name, value in case.body.items()}
        case.call_and_validate(base_url=settled.admin, excluded_checks=NOT_CHECKED, timeout=WITHIN_S)

    with suppress(Unsatisfiable):  # there is nothing invalid to send to this operation
        answers()


def bounded(name: str, value: Any) -> Any:
    """A valid value with which the answer, or what the request causes, ends soon; an invalid one as it is."""
    if name in {"timeout_ms", "for_ms"} and str(value).isdigit():
        return 1
    return "false" if name == "follow" and str(value).lower() in {"true", "1"} else value


def test_the_document_has_every_endpoint_and_says_which_need_control():
    paths = document(all_endpoints())["paths"]
    found = {
        (method.upper(), path): operation for path, methods in paths.items() for method, operation in methods.items()
    }
    assert found.keys() == {(endpoint.method, endpoint.path) for endpoint in all_endpoints()}
    for endpoint in all_endpoints():
        assert found[endpoint.method, endpoint.path].get("x-control", False) == endpoint.control
    ids = [operation["operationId"] for operation in found.values()]
    assert len(ids) == len(set(ids))


def test_the_document_refers_to_nothing_that_it_does_not_have():
    made = document(all_endpoints())
    references = {part.split('"')[0] for part in json.dumps(made).split("#/components/schemas/")[1:]}
    assert references == made["components"]["schemas"].keys()
