"""When a connection reads, and when it handles requests: a state machine, written as a table.

There are three reasons not to read from an open connection. They come and go independently, so all eight combinations are
states; a connection that has none of them is READING.

    reason      begins with                                      ends with              meanwhile
    BACKLOGGED  BACKLOG: the limit of requests in flight is      CAUGHT_UP: responses   later frames wait in the backlog
                reached, or a frame has to wait, for example     have left, or the
                behind a parked request, or several for their    turn has come
                turn
    STARVED     NO_MEMORY: a large frame has begun to arrive,    MEMORY_AVAILABLE       the rest of the frame stays in the
                and the server's memory is taken                                        socket; it then gets a new deadline
    BLOCKED     BUFFER_FULL: the client does not read its        BUFFER_DRAINED         no request is handled, because its
                responses, and the write buffer is full                                 response could not leave

A parked request alone (a join that waits for its group, a transactional Produce) does not stop reading: a client that closes
its connection meanwhile is noticed. The first frame that arrives behind it does.

CLOSE ends all this: the connection is CLOSING until its last responses are sent or it is aborted, and CLOSED when the
transport says so (LOST). Neither state reads or handles anything, whatever else happens to it.

Only connection.py acts on the state. It reports events to the table, and pauses or resumes the transport when the
connection leaves or enters READING.
"""

from enum import IntEnum


class FlowState(IntEnum):
    """An open state is named by its reasons not to read."""

    READING = 0
    BACKLOGGED = 1
    STARVED = 2
    BACKLOGGED_STARVED = 3
    BLOCKED = 4
    BACKLOGGED_BLOCKED = 5
    STARVED_BLOCKED = 6
    BACKLOGGED_STARVED_BLOCKED = 7
    CLOSING = 8
    CLOSED = 9


class FlowEvent(IntEnum):
    """What happens to a connection."""

    BACKLOG = 0
    CAUGHT_UP = 1
    NO_MEMORY = 2
    MEMORY_AVAILABLE = 3
    BUFFER_FULL = 4
    BUFFER_DRAINED = 5
    CLOSE = 6
    LOST = 7


_S, _E = FlowState, FlowEvent
TRANSITIONS: dict[FlowState, dict[FlowEvent, FlowState]] = {
    _S.READING: {
        _E.BACKLOG: _S.BACKLOGGED,
        _E.CAUGHT_UP: _S.READING,
        _E.NO_MEMORY: _S.STARVED,
        _E.BUFFER_FULL: _S.BLOCKED,
        _E.CLOSE: _S.CLOSING,
        _E.LOST: _S.CLOSED,
    },
    _S.BACKLOGGED: {
        _E.BACKLOG: _S.BACKLOGGED,
        _E.CAUGHT_UP: _S.READING,
        _E.NO_MEMORY: _S.BACKLOGGED_STARVED,
        _E.BUFFER_FULL: _S.BACKLOGGED_BLOCKED,
        _E.CLOSE: _S.CLOSING,
        _E.LOST: _S.CLOSED,
    },
    _S.STARVED: {
        _E.BACKLOG: _S.BACKLOGGED_STARVED,
        _E.CAUGHT_UP: _S.STARVED,
        _E.MEMORY_AVAILABLE: _S.READING,
        _E.BUFFER_FULL: _S.STARVED_BLOCKED,
        _E.CLOSE: _S.CLOSING,
        _E.LOST: _S.CLOSED,
    },
    _S.BACKLOGGED_STARVED: {
        _E.BACKLOG: _S.BACKLOGGED_STARVED,
        _E.CAUGHT_UP: _S.STARVED,
        _E.MEMORY_AVAILABLE: _S.BACKLOGGED,
        _E.BUFFER_FULL: _S.BACKLOGGED_STARVED_BLOCKED,
        _E.CLOSE: _S.CLOSING,
        _E.LOST: _S.CLOSED,
    },
    _S.BLOCKED: {
        _E.BACKLOG: _S.BACKLOGGED_BLOCKED,
        _E.CAUGHT_UP: _S.BLOCKED,
        _E.NO_MEMORY: _S.STARVED_BLOCKED,
        _E.BUFFER_DRAINED: _S.READING,
        _E.CLOSE: _S.CLOSING,
        _E.LOST: _S.CLOSED,
    },
    _S.BACKLOGGED_BLOCKED: {
        _E.BACKLOG: _S.BACKLOGGED_BLOCKED,
        _E.CAUGHT_UP: _S.BLOCKED,
        _E.NO_MEMORY: _S.BACKLOGGED_STARVED_BLOCKED,
        _E.BUFFER_DRAINED: _S.BACKLOGGED,
        _E.CLOSE: _S.CLOSING,
        _E.LOST: _S.CLOSED,
    },
    _S.STARVED_BLOCKED: {
        _E.BACKLOG: _S.BACKLOGGED_STARVED_BLOCKED,
        _E.CAUGHT_UP: _S.STARVED_BLOCKED,
        _E.MEMORY_AVAILABLE: _S.BLOCKED,
        _E.BUFFER_DRAINED: _S.STARVED,
        _E.CLOSE: _S.CLOSING,
        _E.LOST: _S.CLOSED,
    },
    _S.BACKLOGGED_STARVED_BLOCKED: {
        _E.BACKLOG: _S.BACKLOGGED_STARVED_BLOCKED,
        _E.CAUGHT_UP: _S.STARVED_BLOCKED,
        _E.MEMORY_AVAILABLE: _S.BACKLOGGED_BLOCKED,
        _E.BUFFER_DRAINED: _S.BACKLOGGED_STARVED,
        _E.CLOSE: _S.CLOSING,
        _E.LOST: _S.CLOSED,
    },
    _S.CLOSING: dict.fromkeys(FlowEvent, _S.CLOSING) | {_E.LOST: _S.CLOSED},
    _S.CLOSED: dict.fromkeys(FlowEvent, _S.CLOSED),
}
"""By state and event. An event without an entry cannot happen in that state; `FlowControl.on` raises KeyError for it."""


def _flags(state: FlowState) -> tuple[bool, bool, bool, bool]:
    is_open = state < FlowState.CLOSING
    is_starved = is_open and FlowEvent.NO_MEMORY not in TRANSITIONS[state]
    is_blocked = is_open and FlowEvent.BUFFER_FULL not in TRANSITIONS[state]
    return is_open, state is FlowState.READING, is_starved, is_blocked


_FLAGS = [_flags(state) for state in FlowState]


class FlowControl:
    """The state of one connection. The flags are derived from it, for the hot path."""

    __slots__ = ("is_blocked", "is_open", "is_reading", "is_starved", "state")

    def __init__(self) -> None:
        self.state = FlowState.READING
        self.is_open = True
        """Neither CLOSING nor CLOSED: responses may be written."""
        self.is_reading = True
        """The transport delivers data, and nothing is in the backlog."""
        self.is_starved = False
        self.is_blocked = False

    @property
    def can_dispatch(self) -> bool:
        """Whether requests may be handled: the connection is open, and its client reads the responses."""
        return self.is_open and not self.is_blocked

    def on(self, event: FlowEvent) -> None:
        """Moves to the next state. Raises KeyError for an event that cannot happen in this state."""
        state = self.state = TRANSITIONS[self.state][event]
        self.is_open, self.is_reading, self.is_starved, self.is_blocked = _FLAGS[state]
