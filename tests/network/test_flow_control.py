"""The table of flow control: every state and event, and what each combination allows."""

from itertools import product

import pytest

from coordinator.network.flow_control import TRANSITIONS, FlowControl, FlowEvent, FlowState

OPEN = [state for state in FlowState if state not in (FlowState.CLOSING, FlowState.CLOSED)]
REASONS = {
    "BACKLOGGED": (FlowEvent.BACKLOG, FlowEvent.CAUGHT_UP),
    "STARVED": (FlowEvent.NO_MEMORY, FlowEvent.MEMORY_AVAILABLE),
    "BLOCKED": (FlowEvent.BUFFER_FULL, FlowEvent.BUFFER_DRAINED),
}
IDEMPOTENT = {FlowEvent.BACKLOG, FlowEvent.CAUGHT_UP}
"""A connection may report these again: it looks at its queue, not at what it reported before."""


def reasons(state):
    return set(state.name.split("_")) & REASONS.keys()


def named(found):
    return FlowState["_".join(name for name in REASONS if name in found) or "READING"]


def paths():
    """FlowState -> the shortest list of events that leads to it from the beginning."""
    found, left = {FlowState.READING: []}, [FlowState.READING]
    while left:
        state = left.pop(0)
        for event, following in TRANSITIONS[state].items():
            if following not in found:
                found[following] = [*found[state], event]
                left.append(following)
    return found


def reached(state):
    flow = FlowControl()
    for event in paths()[state]:
        flow.on(event)
    assert flow.state is state
    return flow


def test_every_state_can_be_reached():
    assert paths().keys() == set(FlowState) == TRANSITIONS.keys()


def test_the_open_states_are_all_combinations_of_the_reasons():
    combinations = {
        named({name for name, holds in zip(REASONS, held, strict=True) if holds}) for held in product([0, 1], repeat=3)
    }
    assert combinations == set(OPEN)


@pytest.mark.parametrize("state", OPEN)
@pytest.mark.parametrize("reason", REASONS)
def test_the_events_of_a_reason_change_that_reason_alone(state, reason):
    begins, ends = REASONS[reason]
    holds = reason in reasons(state)
    with_it, without_it = named(reasons(state) | {reason}), named(reasons(state) - {reason})
    assert TRANSITIONS[state].get(begins) is (with_it if not holds or begins in IDEMPOTENT else None)
    assert TRANSITIONS[state].get(ends) is (without_it if holds or ends in IDEMPOTENT else None)


@pytest.mark.parametrize("state", FlowState)
def test_a_close_is_final(state):
    closed = TRANSITIONS[state][FlowEvent.LOST]
    assert closed is FlowState.CLOSED
    assert set(TRANSITIONS[closed].values()) == {FlowState.CLOSED}
    closing = TRANSITIONS[state][FlowEvent.CLOSE]
    assert closing is (FlowState.CLOSED if state is FlowState.CLOSED else FlowState.CLOSING)
    assert set(TRANSITIONS[FlowState.CLOSING].values()) == {FlowState.CLOSING, FlowState.CLOSED}


@pytest.mark.parametrize("state", FlowState)
def test_the_flags_say_what_the_state_allows(state):
    flow = reached(state)
    assert flow.is_open is (state in OPEN)
    assert flow.is_reading is (state is FlowState.READING)
    assert flow.is_starved is ("STARVED" in reasons(state))
    assert flow.is_blocked is ("BLOCKED" in reasons(state))
    assert flow.can_dispatch is (flow.is_open and not flow.is_blocked)


@pytest.mark.parametrize(
    ("state", "event"), [pair for pair in product(FlowState, FlowEvent) if pair[1] not in TRANSITIONS[pair[0]]]
)
def test_an_event_that_cannot_happen_is_a_bug(state, event):
    flow = reached(state)
    with pytest.raises(KeyError):
        flow.on(event)
    assert flow.state is state


def test_a_new_connection_reads():
    new, reading = FlowControl(), reached(FlowState.READING)
    assert all(getattr(new, name) == getattr(reading, name) for name in FlowControl.__slots__)
