"""The errors of the client."""


class ControlError(Exception):
    """A command to the server's control failed."""


class ControlRefused(ControlError):
    """The server refused a command. `status`: of HTTP; `text`: the reason; `allowed`: the accepted values."""

    def __init__(self, status: int, text: str, allowed: tuple[str, ...] = ()) -> None:
        super().__init__(f"{text} (allowed: {', '.join(allowed)})" if allowed else text)
        self.status = status
        self.text = text
        self.allowed = allowed


class ControlOff(ControlRefused):
    """The server does not let itself be controlled (403). The text names the setting that changes it."""


class ControlUnreachable(ControlError):
    """No server answered at the URL, or it is not the admin address of this server."""


class NotReached(ControlError, TimeoutError):
    """The time to wait is over. The text has the last state that was seen."""
