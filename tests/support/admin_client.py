"""Reads the admin HTTP of a server process: its JSON views and its metrics."""

import http.client
import json
import urllib.request
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from tests.support.server_process import ServerProcess


def view(server: ServerProcess, path: str) -> Any:
    """The JSON at this path."""
    with urllib.request.urlopen(server.admin + path, timeout=60) as answer:
        return json.load(answer)


def scrape(server: ServerProcess) -> dict[str, dict[tuple[str, ...], float]]:
    """Sample name -> label values -> number, without the samples of the process."""
    with urllib.request.urlopen(f"{server.admin}/metrics", timeout=60) as answer:
        samples = parse_metrics(answer.read().decode())
    return {name: values for name, values in samples.items() if name.startswith("coordinator_")}


def check_assignments(server: ServerProcess) -> None:
    """No leader of a classic group has assigned against a rule since the server started."""
    violations = scrape(server)["coordinator_invalid_assignments_total"]
    assert not any(violations.values()), (violations, server.log[-5_000:])


def parse_metrics(text: str) -> dict[str, dict[tuple[str, ...], float]]:
    """Sample name -> label values -> number."""
    samples: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            samples.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return samples


def ask(server: ServerProcess, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    """The status and JSON of a request to admin HTTP."""
    connection = http.client.HTTPConnection(server.admin.removeprefix("http://"), timeout=60)
    try:
        connection.request(
            method,
            path,
            None if body is None else json.dumps(body),
            {} if body is None else {"Content-Type": "application/json"},
        )
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def act(server: ServerProcess, path: str, **body: Any) -> Any:
    """The JSON of a POST that must succeed."""
    status, answer = ask(server, "POST", path, body)
    assert status == 200, (status, answer)
    return answer
