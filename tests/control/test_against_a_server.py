"""The Python client against a real server with real members."""

import inspect
import threading

import pytest

from coordinator_testing.control import (
    AsyncControl,
    Control,
    ControlOff,
    ControlRefused,
    ControlUnreachable,
    NotReached,
    asynchronous,
    blocking,
)
from tests.support.background import Background
from tests.support.cuttable_proxy import CuttableProxy


@pytest.fixture
def control(server):
    with Control(server.admin) as control:
        yield control


def test_groups_are_listed_described_and_rebalanced(control, join, fresh):
    join(fresh("group"), client_id="ann")
    group = control.group(fresh("group"))
    view = group.wait(state="Stable", members=1)
    assert [each["client_id"] for each in view["members"]] == ["ann"]
    done = group.rebalance("a test")
    assert (done.started, done.state, done.epoch) == (True, "Stable", 2)
    assert group.wait(state="Stable", epoch=2)["generation"] == 2
    assert fresh("group") in [each["group_id"] for each in control.groups()]
    assert {"events", "orders"} <= {each["name"] for each in control.topics()}


def test_a_wait_in_vain_ends_in_time_and_says_how_it_is(control, join, fresh):
    join(fresh("group"))
    control.group(fresh("group")).wait(state="Stable")
    with pytest.raises(NotReached, match=r'members:2.*"state":"Stable"'):
        control.group(fresh("group")).wait(state="Stable", members=2, timeout_s=0.05)


def test_what_is_impossible_is_refused_with_what_is_allowed(control):
    with pytest.raises(ControlRefused, match="Heartbeat") as refused:
        control.fault(api="Hartbeat", error="ILLEGAL_GENERATION")
    assert (refused.value.status, "Heartbeat" in refused.value.allowed) == (422, True)
    with pytest.raises(ControlRefused) as refused:
        control.group("no-such-group").evict("nobody")
    assert refused.value.status == 404
    with pytest.raises(ControlRefused) as refused:
        control.clock.advance(1)
    assert refused.value.status == 409


def test_a_server_that_is_not_to_be_controlled_says_how_that_changes(coordinator_process):
    server = coordinator_process(settings={"admin.control.enable": False})
    with Control(server.admin) as control:
        assert control.groups() == []
        with pytest.raises(ControlOff, match=r"admin\.control\.enable"):
            control.fault(api="Heartbeat", close=True)
        with pytest.raises(ControlOff, match=r"admin\.control\.enable"):
            control.clock.manual()


def test_a_server_that_is_gone_is_unreachable(coordinator_process):
    server = coordinator_process()
    control = Control(server.admin)
    control.clock.manual()
    server.kill()
    with pytest.raises(ControlUnreachable, match=server.admin):
        control.close()


# --- leaving ------------------------------------------------------------------------------------------------------------


def test_leaving_clears_the_scope_releases_what_it_holds_and_lets_the_clock_run(server, control, join, fresh):
    join(fresh("group"))
    with Control(server.admin) as leaving:
        leaving.group(fresh("group")).wait(state="Stable")
        leaving.fault(api="Heartbeat", group=fresh("group"), hold="request", until="cleared").wait(held=1)
        recording = leaving.record(api="Heartbeat", group=fresh("group"))
        leaving.clock.manual()
        kept = control.fault(api="Metadata", client_id="nobody", close=True)
    assert [each.id for each in control.faults()] == [kept.id]
    assert control.clock.read().mode == "real"
    with pytest.raises(ControlRefused, match=recording.id):
        recording_of(control, recording.id).entries()
    heartbeats = control.record(api="Heartbeat", group=fresh("group"))
    assert {each.outcome for each in heartbeats.wait(3)[:2]} == {"answered"}


def recording_of(control, recording_id):
    return blocking.Recording(control, recording_id)


def test_a_client_does_not_touch_a_clock_that_another_one_stopped(server, control):
    control.clock.manual()
    with Control(server.admin) as other:
        assert other.clock.manual().mode == "manual"
    assert control.clock.read().mode == "manual"


def test_two_tests_at_once_in_one_server_do_not_meet(server, join, fresh):
    """Each sets the same faults for its own group, at the same time, and leaves at another."""
    first_left, failures = threading.Event(), []
    both = threading.Barrier(2, timeout=60)

    def run(name: str, other: str) -> None:
        try:
            group = fresh(name)
            join(group)
            with Control(server.admin) as control:
                control.group(group).wait(state="Stable", members=1)
                both.wait()
                held = control.fault(api="Heartbeat", group=group, hold="request", until="cleared")
                held.wait(held=1)
                both.wait()
                if name == "second":
                    assert first_left.wait(60)
                    assert [each.held for each in control.faults()] == [1]
                entries = control.record(api="Heartbeat", group=group)
                assert held.release() == 1
                assert {each.request["group_id"] for each in entries.wait(1)} == {group}
            if name == "first":
                first_left.set()
        except BaseException as failure:
            failures.append(failure)
            both.abort()
            raise

    for thread in [Background(run, *each) for each in (("first", "second"), ("second", "first"))]:
        thread.finish()
    assert failures == []


# --- recordings, time, events -------------------------------------------------------------------------------------------


def test_a_recording_has_requests_and_answers(control, join, fresh):
    recording = control.record(api=["JoinGroup", "SyncGroup"], group=fresh("group"))
    join(fresh("group"), client_id="ann")
    control.group(fresh("group")).wait(state="Stable")
    entries = recording.wait(3)
    assert [each.api for each in entries[:3]] == ["JoinGroup", "JoinGroup", "SyncGroup"]
    assert {each.client_id for each in entries} == {"ann"}
    recording.clear()
    assert control.recordings() == []


def test_a_session_of_45_seconds_ends_when_the_clock_is_advanced(control, join, fresh):
    join(fresh("group"))
    group = control.group(fresh("group"))
    group.wait(state="Stable")
    held = control.fault(api="Heartbeat", group=group.id, hold="request", until="cleared")
    held.wait(held=1)
    control.clock.manual()
    assert [each.timer for each in control.clock.advance(44_000).fired if each.group == group.id] == []
    fired = control.clock.advance(1_000).fired
    assert [each.group for each in fired if each.group == group.id] == [group.id]
    group.wait(members=0)
    held.clear()
    group.wait(state="Stable", members=1)


def test_events_arrive_as_they_happen_and_the_faults_that_acted_with_them(control, join, fresh):
    join(fresh("group"))
    group = control.group(fresh("group"))
    group.wait(state="Stable")
    control.fault(api="Heartbeat", group=group.id, error="ILLEGAL_GENERATION")
    seen = set()
    for event in control.events(group.id, timeout_s=30):
        assert event.get("group") == group.id
        seen.add(event["type"])
        if {"RebalanceStarted", "MemberJoined", "FaultActed"} <= seen:
            break
    stored = list(control.events(group.id, follow=False))
    assert "RebalanceCompleted" in {each["type"] for each in stored}
    assert stored[:2] == list(control.events(group.id, limit=2))


def test_a_stream_that_breaks_goes_on_without_a_gap_and_without_repetition(server, control, join, fresh):
    join(fresh("group"))
    group = control.group(fresh("group"))
    group.wait(state="Stable")
    with CuttableProxy(server.admin.removeprefix("http://")) as proxy, Control(proxy.address) as far:
        events = far.events(group.id, timeout_s=60)
        seen = [next(events)]
        for epoch in (2, 3):
            proxy.cut()
            group.rebalance("a test")
            group.wait(state="Stable", epoch=epoch)
            while seen[-1]["type"] != "RebalanceCompleted" or seen[-1]["epoch"] != epoch:
                seen.append(next(events))
        events.close()
    stored = list(control.events(group.id, follow=False))
    assert seen == stored[: len(seen)]


async def test_an_asynchronous_stream_that_breaks_goes_on_too(server, join, fresh):
    join(fresh("group"))
    with CuttableProxy(server.admin.removeprefix("http://")) as proxy:
        async with AsyncControl(server.admin) as control, AsyncControl(proxy.address) as far:
            group = control.group(fresh("group"))
            await group.wait(state="Stable")
            seen = []
            async for event in far.events(group.id, timeout_s=60):
                seen.append(event)
                if len(seen) == 1:
                    proxy.cut()
                    await group.rebalance("a test")
                if event["type"] == "RebalanceCompleted" and event["epoch"] == 2:
                    break
            assert seen == [each async for each in control.events(group.id, limit=len(seen))]


# --- both shells ----------------------------------------------------------------------------------------------------------


def test_both_clients_have_the_same_commands():
    pairs = [(Control, AsyncControl)]
    pairs += [
        (getattr(blocking, n), getattr(asynchronous, f"Async{n}"))
        for n in ("Fault", "Group", "Clock", "Recording", "Transaction")
    ]
    for one, other in pairs:
        names = [name for name in dir(one) if not name.startswith("_")]
        assert names == [name for name in dir(other) if not name.startswith("_")]
        for name in names:
            first, second = getattr(one, name), getattr(other, name)
            if inspect.isfunction(first):
                assert arguments(first) == arguments(second), name


def arguments(function):
    return [(each.name, each.kind, each.default) for each in inspect.signature(function).parameters.values()]


async def test_the_asynchronous_client_does_the_same(server, join, fresh):
    join(fresh("group"))
    async with AsyncControl(server.admin) as control:
        group = control.group(fresh("group"))
        await group.wait(state="Stable", members=1)
        fault = await control.fault(api="Heartbeat", group=group.id, hold="request", until="cleared")
        assert (await fault.wait(held=1)).held == 1
        await control.clock.manual()
        await control.clock.advance(45_000)
        await group.wait(members=0)
        assert await fault.release() == 1
        await fault.clear()
        assert await control.faults() == []
        await group.wait(members=1, state="Stable")
        recording = await control.record(api="Heartbeat", group=group.id)
        assert await recording.wait(1)
        async for event in control.events(group.id, timeout_s=30):
            if event["type"] == "MemberExpired":
                break
    with Control(server.admin) as after:
        assert after.clock.read().mode == "real"
