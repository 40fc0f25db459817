"""The OpenAPI document against a running server: every operation, valid and invalid requests, and only documented answers.

COORDINATOR_OPENAPI_EXAMPLES=200 sends more requests to each operation than CI does.
"""

import json
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import positive_data_acceptance
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from coordinator.admin.openapi import document
from coordinator.admin.routes import all_endpoints
from coordinator.admin.workers import routes
from coordinator_testing.throwaway_server import ThrowawayServer
from tests.support import coordinators
from tests.support.coordinators import coordinator_of
from tests.support.group_members import KINDS
from tests.support.server_process import ServerProcess
from tests.support.waiting import WITHIN_S
from tests.support.wire import Connection

EXAMPLES = int(os.environ.get("COORDINATOR_OPENAPI_EXAMPLES", "3"))
HEALTH = list(HealthCheck)
TOPICS = '[{"name": "t", "partitions": 2}, {"name": "u", "partitions": 1}]'
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
    httpx.delete(f"{server.admin}/v1/faults?all=true", timeout=WITHIN_S).raise_for_status()


def takes_any_text(operation: Any) -> bool:
    """Whether nothing invalid can be sent: a search for it takes long, and ends with nothing."""
    declared = document(all_endpoints())["paths"][operation.path][operation.method]
    schemas = [each["schema"] for each in declared.get("parameters", [])]
    return "requestBody" not in declared and all(each == {"type": "string"} for each in schemas)


@pytest.mark.parametrize(
    ("operation", "mode"),
    [
        pytest.param(each, mode, id=f"{each.label}-{mode.value}")
        for each in OPERATIONS
        for mode in GenerationMode
        if mode is GenerationMode.POSITIVE or not takes_any_text(each)
    ],
)
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


SHAPE = [status_code_conformance, content_type_conformance, response_schema_conformance]
GROUP = "/v1/groups/{group_id}"
TRANSACTION = "/v1/transactions/{transactional_id}"
FAULT, RECORDING = {"fault_id": "f1"}, {"recording_id": "r1"}
RULE = {"match": {"api": "Heartbeat", "group_state": ["Stable"]}, "action": {"hold": "answer"}, "scope": "s"}
CALLS: list[tuple[str, str, dict[str, Any]]] = [
    ("GET", "/", {}),
    ("GET", "/v1/openapi.json", {}),
    ("GET", "/page/{name}", {"name": "page.js"}),
    ("GET", "/health/live", {}),
    ("GET", "/health/ready", {}),
    ("GET", "/metrics", {}),
    ("GET", "/v1/overview", {}),
    ("GET", "/v1/workers", {}),
    ("GET", "/v1/topics", {}),
    ("GET", "/v1/topics/{topic}", {"topic": "t"}),
    ("GET", "/v1/topics/{topic}/partitions/{partition}/records", {"topic": "t", "partition": "0"}),
    ("GET", "/v1/brokers", {}),
    ("GET", "/v1/groups", {}),
    ("GET", "/v1/groups", {"query": {"sort": "trouble", "limit": 5}}),
    ("GET", GROUP, {}),
    ("GET", f"{GROUP}/why", {}),
    ("GET", f"{GROUP}/in-flight", {}),
    ("GET", GROUP, {"query": {"until": "members:1", "timeout_ms": 1}}),
    ("GET", "/v1/events", {"query": {"follow": "false", "limit": 5}}),
    ("GET", "/v1/events/page", {"query": {"type": "MemberJoined,FaultActed", "client": "c", "since_ms": 1}}),
    ("POST", "/v1/recordings", {"body": {"match": {"api": "Heartbeat"}, "scope": "s"}}),
    ("GET", "/v1/recordings", {}),
    ("GET", "/v1/recordings/{recording_id}", RECORDING),
    ("DELETE", "/v1/recordings/{recording_id}", RECORDING),
    ("DELETE", "/v1/recordings", {"query": {"scope": "s"}}),
    ("POST", "/v1/faults", {"body": RULE}),
    ("GET", "/v1/faults", {}),
    ("GET", "/v1/faults/{fault_id}", FAULT),
    ("POST", "/v1/faults/{fault_id}/release", FAULT),
    ("DELETE", "/v1/faults/{fault_id}", FAULT),
    ("DELETE", "/v1/faults", {"query": {"scope": "s"}}),
    ("POST", "/v1/clock", {"body": {"mode": "manual"}}),
    ("POST", "/v1/clock", {"body": {"advance_ms": 1}}),
    ("GET", "/v1/clock", {}),
    ("POST", "/v1/clock", {"body": {"mode": "real"}}),
    ("GET", "/v1/transactions", {}),
    ("GET", TRANSACTION, {}),
    ("POST", f"{TRANSACTION}/expire", {}),
    ("POST", f"{GROUP}/bump-epoch", {}),
    ("POST", f"{GROUP}/rebalance", {"body": {"reason": "a test"}}),
    ("POST", f"{GROUP}/members/{{member_id}}/evict", {"body": {}}),
    ("POST", f"{GROUP}/members/{{member_id}}/expire-session", {"next": True}),
    ("POST", f"{GROUP}/offsets/expire", {}),
    ("POST", f"{GROUP}/expire-locks", {"body": {}}),
    ("POST", f"{GROUP}/reload", {}),
    ("POST", f"{TRANSACTION}/reload", {}),
]
"""Method, path, and what is sent: `query`, `body`, and values of the path's segments. `next`: a member has joined again."""
BROKER = {"broker_id": "2"}
CALLS_OF_BROKERS: list[tuple[str, str, dict[str, Any]]] = [
    ("GET", "/v1/emulation", {}),
    ("POST", "/v1/emulation", {"body": {"release": "3.9"}}),
    ("POST", "/v1/brokers/{broker_id}/lead", BROKER | {"body": {"group": "g"}}),
    ("POST", "/v1/brokers/{broker_id}/down", BROKER),
    ("GET", "/v1/brokers", {}),
    ("POST", "/v1/brokers/{broker_id}/up", BROKER),
]
"""The calls that only a server of several brokers answers with success."""
CALLS_OF_WORKERS: list[tuple[str, str, dict[str, Any]]] = [
    ("POST", "/v1/workers/{number}/drain", {"number": "2"}),
    ("POST", "/v1/workers/{number}/resume", {"number": "2"}),
    ("POST", "/v1/workers/{number}/move", {"number": "2", "body": {"shard": "__consumer_offsets-0"}}),
]
"""The calls that only several workers answer with success."""
BY_NAME = {operation.label: operation for operation in OPERATIONS}


def test_every_operation_is_called_for_what_is_there():
    assert {f"{method} {path}" for method, path, _ in (*CALLS, *CALLS_OF_BROKERS, *CALLS_OF_WORKERS)} == BY_NAME.keys()


WORKERS = [pytest.param((), each, id=each.kind) for each in KINDS]
WORKERS += [pytest.param(("--workers", "3"), KINDS[1], id=f"{KINDS[1].kind}, 3 workers")]


@pytest.mark.parametrize(("arguments", "kind"), WORKERS)
def test_what_is_there_is_answered_with_success_as_the_document_says(coordinator_process, arguments, kind):
    """A property-based tester draws names that no group has, so most of its answers are refusals.

    The address of several workers answers everything as one server does, whichever worker has it.
    """
    settings = {
        "topics": TOPICS,
        "group.consumer.assignment.interval.ms": 0,
        "offsets.topic.num.partitions": 3,
        "transaction.state.log.num.partitions": 3,
    }
    server = coordinator_process(settings=settings, arguments=arguments)
    with coordinator_of(server, "transactional", coordinators.TRANSACTION) as link, ExitStack() as stack:

        def join() -> str:
            with coordinator_of(server, "group") as found:
                member = kind(found, "group")
            stack.callback(member.connection.close)
            member.join()
            return str(member.id)

        names = {"group_id": "group", "member_id": join(), "transactional_id": "transactional"}
        begin_transaction(link, names["transactional_id"])
        for method, path, sent in (*CALLS, *(CALLS_OF_WORKERS if arguments else ())):
            if sent.get("next"):
                names["member_id"] = join()
            check_success(server.admin, method, path, sent, names)


def test_several_brokers_answer_with_success_as_the_document_says(tmp_path):
    server = ThrowawayServer(tmp_path, ["nodes=3"]).start()
    try:
        for method, path, sent in CALLS_OF_BROKERS:
            check_success(server.admin_url, method, path, sent, {})
    finally:
        server.stop()


def check_success(url: str, method: str, path: str, sent: dict[str, Any], names: dict[str, str]) -> None:
    """Sends the call. `names`: values of the path's segments that the call does not have itself."""
    operation = BY_NAME[f"{method} {path}"]
    case = operation.Case(
        path_parameters=names | {name: value for name, value in sent.items() if isinstance(value, str)},
        query=sent.get("query", {}),
        **({"body": sent["body"], "media_type": "application/json"} if "body" in sent else {}),
    )
    answer = case.call(base_url=url, timeout=WITHIN_S)
    case.validate_response(answer, checks=SHAPE)
    assert answer.status_code in {200, 201}, (method, path, answer.text)
    if answer.status_code == 201:
        [location] = answer.headers["location"]
        assert location == f"{path}/{answer.json()['id']}"
        assert httpx.get(f"{url}{location}", timeout=WITHIN_S).status_code == 200


def begin_transaction(link: Connection, transactional_id: str) -> None:
    """A transaction with one partition."""
    made = link.call(
        "InitProducerId", 4, transactional_id=transactional_id, transaction_timeout_ms=60_000, producer_id=-1,
        producer_epoch=-1,
    )  # fmt: skip
    who = {"producer_id": made["producer_id"], "producer_epoch": made["producer_epoch"]}
    added = [{"name": "t", "partitions": [0]}]
    link.call(
        "AddPartitionsToTxn",
        3,
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=who["producer_id"],
        v3_and_below_producer_epoch=who["producer_epoch"],
        v3_and_below_topics=added,
    )


def test_the_document_has_every_endpoint_and_says_which_need_control():
    paths = document(all_endpoints())["paths"]
    found = {
        (method.upper(), path): operation for path, methods in paths.items() for method, operation in methods.items()
    }
    assert found.keys() == {(endpoint.method, endpoint.path) for endpoint in all_endpoints()}
    for endpoint in all_endpoints():
        assert found[endpoint.method, endpoint.path].get("x-control", False) == endpoint.control


def test_operations_have_names_tags_and_titles_for_generated_clients():
    made = document(all_endpoints())
    found = [operation for methods in made["paths"].values() for operation in methods.values()]
    names = [operation["operationId"] for operation in found]
    assert all(re.fullmatch("[a-z]+([A-Z][a-z]+)+", name) for name in names), names
    assert len(names) == len(set(names))
    assert {tag for operation in found for tag in operation["tags"]} == {tag["name"] for tag in made["tags"]}
    assert all(re.fullmatch("[A-Z][^;?]+", operation["summary"]) for operation in found)
    assert all(operation["description"] for operation in found)


def test_descriptions_have_no_sections_of_docstrings_and_no_names_of_files():
    for text in values_of(document(all_endpoints()), "description"):
        assert not re.search(r"Raises Ref|Raises as|(Raises|Returns|Args):|\.py\b|\n ", text), text


def test_enumerations_say_their_type_and_integers_when_they_need_64_bits():
    for schema in objects_of(document(all_endpoints())):
        if isinstance(values := schema.get("enum"), list):
            assert {type(each) for each in values} == {{"string": str, "boolean": bool}[schema["type"]]}
        if schema.get("type") == "integer":
            needs_64_bits = schema.get("maximum", 2**63) >= 2**31 or schema.get("minimum", 0) < -(2**31)
            assert (schema.get("format") == "int64") is needs_64_bits, schema


def test_several_workers_have_the_same_document_as_one_server():
    assert document(all_endpoints()) == document(routes.endpoints())


def objects_of(value: Any) -> Iterator[dict[str, Any]]:
    """Every object inside a document."""
    if isinstance(value, dict):
        yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from objects_of(each)


def values_of(value: Any, name: str) -> Iterator[str]:
    """The texts of this name."""
    return (found for each in objects_of(value) if isinstance(found := each.get(name), str))


def test_the_document_refers_to_nothing_that_it_does_not_have():
    made = document(all_endpoints())
    references = {part.split('"')[0] for part in json.dumps(made).split("#/components/schemas/")[1:]}
    assert references == made["components"]["schemas"].keys()
