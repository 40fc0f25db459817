"""The server as a whole: its parts made and wired, its start and stop, and the process that it runs in."""


class CannotStart(Exception):
    """The server cannot run on this data folder or these addresses; the text says why."""


class EngineAway(CannotStart):
    """The engine of several workers does not answer at the moment."""
