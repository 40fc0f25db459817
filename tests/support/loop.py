"""The loop of async tests."""

import warnings

import uvloop


class Loop(uvloop.Loop):
    """The server's loop, which closes even if a test that has failed left a server or a connection open.

    uvloop warns of each before it closes it. Where warnings are errors it skips that one, and waits for its end for ever, in C,
    where no time-out of pytest ends the wait. Raises the first warning instead, when everything is closed.
    """

    def close(self) -> None:
        with warnings.catch_warnings(record=True) as unclosed:
            warnings.simplefilter("always", ResourceWarning)
            super().close()
        for each in unclosed:
            warnings.warn(each.message, stacklevel=1)
