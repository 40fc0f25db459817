"""Ten thousand members may join one group: a join must cost the same however many came before.

Time on a shared machine says little, so the test counts what the interpreter does.
"""

import gc
import sys

from coordinator.groups.classic_protocol import join_group, sync_group
from coordinator.protocol.messages import JoinGroupRequest, SyncGroupRequest
from tests.groups.harness import GroupHarness, subscription


class Caller:
    """A call that counts for nothing."""

    api_version = 9
    client_id = "client"
    client_host = "/127.0.0.1"

    def __init__(self, fresh_id):
        self.fresh_id = fresh_id


def cost(operation, *arguments):
    """What the operation returns, and the number of lines and C calls it took."""
    count = 0

    def line(frame, event, argument):
        nonlocal count
        count += event == "line"
        return line

    before = sys.gettrace()
    gc.disable()  # its callbacks are lines, too
    sys.settrace(line)
    try:
        result = operation(*arguments)
    finally:
        sys.settrace(before)
        gc.enable()
    return result, count


def test_no_join_and_no_sync_costs_more_than_the_one_before():
    h = GroupHarness(group_initial_rebalance_delay_ms=3_000)
    protocols = [JoinGroupRequest.JoinGroupRequestProtocol("range", subscription())]
    costs = []
    for i in range(600):
        request = JoinGroupRequest("g", 30_000, 60_000, "", f"i{i}", "consumer", protocols)
        result, count = cost(join_group, h.groups, request, Caller(str(i)), h.now_ms)
        h._apply(type(result)(records=result.records, timers=result.timers))
        costs.append(count)
    assert len(set(costs[1:])) == 1, "all but the first, which makes the group, take the same steps"
    h.groups.fire(("classic-join", "g"), h.now_ms)
    h.groups.fire(("classic-join", "g"), h.now_ms)
    costs = [
        cost(
            sync_group, h.groups, SyncGroupRequest("g", 1, member_id, None, "consumer", "range"), Caller(""), h.now_ms
        )[1]
        for member_id in list(h.group().members)[1:]
    ]
    assert len(set(costs)) == 1


def test_forming_a_generation_is_linear():
    counts = []
    for members in (100, 400):
        h = GroupHarness(group_initial_rebalance_delay_ms=0)
        for i in range(members):
            h.join(instance=f"i{i}")
        h.groups.fire(("classic-join", "g"), h.now_ms)
        _, count = cost(h.groups.fire, ("classic-join", "g"), h.now_ms)
        counts.append(count)
    assert counts[1] < 4.2 * counts[0]
