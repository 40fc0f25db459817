"""`coordinator groups rebalance`: forces a rebalance of a group, over admin HTTP.

KIP-568 rejected an admin API for this, so Kafka's protocol has no request for it, and one of our own would have to be announced
to every client. So this is a client of the one route that does it: POST /v1/groups/{group}/rebalance (admin/api.py).
"""

import json
import time
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import quote

from coordinator.operations.client import RETRY_S, OperationFailed, parse_address
from coordinator.operations.json_values import print_json, print_table

UNAVAILABLE = 503


def run(admin: str, group_id: str, reason: str, *, timeout_s: float, as_json: bool) -> int:
    """Prints what was done. Raises OperationFailed."""
    done = force_rebalance(admin, group_id, reason, timeout_s)
    if as_json:
        print_json(done)
        return 0
    outcome = "started" if done["started"] else "already in progress"
    row = (done["group_id"], done["kind"], done["state"], outcome, done["epoch"])
    print_table(("GROUP", "TYPE", "STATE-BEFORE", "REBALANCE", "EPOCH"), [row])
    return 0


def force_rebalance(admin: str, group_id: str, reason: str, timeout_s: float) -> dict[str, Any]:
    """The server's response. Retries until the timeout while the group's coordinator is unavailable. Raises OperationFailed."""
    deadline = time.monotonic() + timeout_s
    while True:
        status, answer = _post(admin, group_id, reason, timeout_s)
        if status == 200:
            return answer
        if status != UNAVAILABLE or time.monotonic() > deadline:
            raise OperationFailed(f"cannot rebalance group {group_id}: {answer.get('error', f'HTTP status {status}')}")
        time.sleep(RETRY_S)


def _post(admin: str, group_id: str, reason: str, timeout_s: float) -> tuple[int, dict[str, Any]]:
    host, port = parse_address(admin, "an admin address")
    connection = HTTPConnection(host, port, timeout=timeout_s)
    try:
        connection.request(
            "POST",
            f"/v1/groups/{quote(group_id, safe='')}/rebalance",
            body=json.dumps({"reason": reason}),
            headers={"Content-Type": "application/json"},
        )
        response = connection.getresponse()
        body = response.read()
    except (OSError, HTTPException) as error:
        raise OperationFailed(f"{admin}: {error}") from error
    finally:
        connection.close()
    try:
        answer = json.loads(body) if body else {}
    except ValueError:
        raise OperationFailed(
            f"{admin} is not the admin address of this server: HTTP status {response.status}"
        ) from None
    return response.status, answer if isinstance(answer, dict) else {}
