"""Clients that others' generators make of the OpenAPI document: in Go by oapi-codegen, in TypeScript by openapi-ts.

A program in each language sets a fault rule, waits for it, reads the clock, streams events and is refused something. The
versions of the generators are locked beside the programs.
"""

import json
import subprocess
from pathlib import Path

import httpx

from tests.compatibility.foreign_programs import go_program, typescript_program
from tests.support.server_process import ServerProcess
from tests.support.waiting import WITHIN_S
from tests.support.wire import Connection

PROGRAMS = Path(__file__).with_name("generated_clients")
REBALANCE_IN_PROGRESS = 27


def test_a_generated_go_client_does_what_a_test_needs(coordinator_process):
    server = coordinator_process()
    check(server, go_program(PROGRAMS / "go", document(server)))


def test_a_generated_typescript_client_does_what_a_test_needs(coordinator_process):
    server = coordinator_process()
    check(server, typescript_program(PROGRAMS / "typescript", document(server)))


def document(server: ServerProcess) -> bytes:
    answer = httpx.get(f"{server.admin}/v1/openapi.json", timeout=WITHIN_S)
    return answer.raise_for_status().content


def check(server: ServerProcess, command: list[str]) -> None:
    """Runs the program, and sends the request for which its rule waits."""
    pipe = subprocess.PIPE
    with subprocess.Popen([*command, server.admin], stdout=pipe, stderr=pipe, text=True) as program:
        assert program.stdout is not None
        try:
            fault_id = program.stdout.readline().strip()
            if fault_id:
                with Connection(server.bootstrap) as connection:
                    beat = connection.call("Heartbeat", 4, group_id="g", generation_id=1, member_id="m")
                    assert beat["error_code"] == REBALANCE_IN_PROGRESS
            printed, errors = program.communicate(timeout=WITHIN_S)
        finally:
            program.kill()
    assert program.returncode == 0, errors
    found = json.loads(printed)
    assert found.pop("wall_ms") > 2**32  # a client that takes integers for 32 bits fails here
    assert found == {
        "location": f"/v1/faults/{fault_id}",
        "reached": True,
        "fault": fault_id,
        "refusal": "there is no fault f999: it never was, or is cleared",
    }
