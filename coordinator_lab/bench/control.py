"""The cost of control for requests that it is not about: this server with control off, on, and on with a rule for another API.

A rule intercepts the routes of its own APIs only (rules/), so all three should cost the same. They are measured in turn, under
the same conditions; the figures to look at are the ratios.
"""

import json
import urllib.request

from coordinator_lab.bench.added_cost import Case, Row, Table
from coordinator_lab.bench.programs import Target, ratio_spread

_OTHER_API = {"match": {"api": "ListGroups"}, "action": {"error": "COORDINATOR_NOT_AVAILABLE"}}


def _set_rule(at: Target) -> None:
    request = urllib.request.Request(  # noqa: S310 - the server that this program started
        f"{at.admin}/v1/faults", json.dumps(_OTHER_API).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:  # noqa: S310 - as above
        answer.read()


CONTROL = Table(
    (
        Row("control: heartbeat, 100 connections", "heartbeat", 100, 1, 0),
        Row("control: commit 1 partition, 100 connections", "commit", 100, 1, 1),
    ),
    (
        Case("control off", ("admin.control.enable=false",)),
        Case("on", ("admin.control.enable=true",)),
        Case("on, one rule", ("admin.control.enable=true",), _set_rule),
    ),
    ratio_spread,
    ("ratio on", "ratio one rule"),
)
