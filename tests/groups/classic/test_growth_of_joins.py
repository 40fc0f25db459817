"""The cost of a join must not grow with the number of members, because a group may have ten thousand of them.

The tests count executed lines, because measured times vary too much on a shared machine.
"""

import gc
import sys

from coordinator.groups.classic_protocol import join_group, sync_group
from coordinator.protocol.messages import JoinGroupRequest, SyncGroupRequest
from coordinator.protocol.releases import AS_NEWEST
from coordinator.runtime.result import NO_LINK
from tests.groups.harness import GroupHarness, subscription


class StubContext:
    """A request context that adds nothing to the measured cost."""

    api_version = 9
    client_id = "client"
    client_host = "/127.0.0.1"
    link = NO_LINK
    dialect = None
    behaviours = AS_NEWEST

    def __init__(self, fresh_id):
        self.fresh_id = fresh_id


def cost(operation, *arguments):
    """Runs the operation; returns its result and the number of lines it executed."""
    count = 0

    def count_line(frame, event, argument):
        nonlocal count
        count += event == "line"
        return count_line

    before = sys.gettrace()
    gc.disable()  # garbage collection callbacks would be counted, too
    sys.settrace(count_line)
    try:
        result = operation(*arguments)
    finally:
        sys.settrace(before)
        gc.enable()
    return result, count


def test_the_cost_of_a_join_or_sync_does_not_grow_with_the_members():
    h = GroupHarness(group_initial_rebalance_delay_ms=3_000)
    protocols = [JoinGroupRequest.JoinGroupRequestProtocol("range", subscription())]
    costs = []
    for i in range(600):
        request = JoinGroupRequest("g", 30_000, 60_000, "", f"i{i}", "consumer", protocols)
        result, count = cost(join_group, h.groups, request, StubContext(str(i)), h.now_ms)
        h._apply(type(result)(records=result.records, timers=result.timers))
        costs.append(count)
    assert len(set(costs[1:])) == 1, "every join has the same cost, except the first, which creates the group"
    h.groups.fire(("classic-join", "g"), h.now_ms)
    h.groups.fire(("classic-join", "g"), h.now_ms)
    costs = [
        cost(
            sync_group,
            h.groups,
            SyncGroupRequest("g", 1, member_id, None, "consumer", "range"),
            StubContext(""),
            h.now_ms,
        )[1]
        for member_id in list(h.group().members)[1:]
    ]
    assert len(set(costs[1:])) == 1, "every sync has the same cost, except the first of a process"


def test_the_cost_of_forming_a_generation_is_linear():
    counts = []
    for members in (100, 400):
        h = GroupHarness(group_initial_rebalance_delay_ms=0)
        for i in range(members):
            h.join(instance=f"i{i}")
        h.groups.fire(("classic-join", "g"), h.now_ms)
        _, count = cost(h.groups.fire, ("classic-join", "g"), h.now_ms)
        counts.append(count)
    assert counts[1] < 4.2 * counts[0]
