"""The ports of the workers of one machine.

All workers listen at the bootstrap port, and the kernel gives each connection to one of them (SO_REUSEPORT). Each worker also
has a port of its own, to which FindCoordinator and Metadata send clients. The supervisor binds all of these ports and does not
listen, so that they stay the workers' own while a worker is restarted.
"""

import socket
from collections.abc import Sequence
from dataclasses import replace

from coordinator.config.settings import ListenerConfig


class PortTaken(Exception):
    """The text says which address cannot be bound, and why."""


class Ports:
    """The ports of every listener. They are free again after `close`."""

    def __init__(
        self, listeners: Sequence[ListenerConfig], workers: int, first_own_port: int, earlier: Sequence[int] = ()
    ) -> None:
        """`first_own_port`: 0 for any free ports, if possible `earlier` ones, which clients may know. Raises PortTaken."""
        left = iter(earlier)
        self._held: list[socket.socket] = []
        self._listeners = listeners
        try:
            self.shared = [self._hold(listener.host, listener.port) for listener in listeners]
            self._own = [
                [
                    self._hold(listener.host, first_own_port + number * workers + worker)
                    if first_own_port
                    else self._hold_free(listener.host, next(left, 0))
                    for number, listener in enumerate(listeners)
                ]
                for worker in range(workers)
            ]
        except BaseException:
            self.close()
            raise

    def listeners_of(self, worker: int) -> tuple[ListenerConfig, ...]:
        """The listeners of a worker: it advertises its own ports."""
        return tuple(
            replace(listener, port=own, advertised_port=own, shared_port=shared)
            for listener, own, shared in zip(self._listeners, self._own[worker], self.shared, strict=True)
        )

    @property
    def own(self) -> list[int]:
        """The ports of the workers, as a later run may want them again."""
        return [port for of_worker in self._own for port in of_worker]

    def _hold_free(self, host: str, wanted: int) -> int:
        try:
            return self._hold(host, wanted)
        except PortTaken:
            return self._hold(host, 0)

    def _hold(self, host: str, port: int) -> int:
        held = None
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            held = socket.socket(family, kind, protocol)
            self._held.append(held)
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            held.bind(address)
        except (OSError, AttributeError) as error:
            reason = "this system has no SO_REUSEPORT" if isinstance(error, AttributeError) else str(error)
            raise PortTaken(f"cannot listen on {host}:{port}: {reason}") from error
        bound: int = held.getsockname()[1]
        return bound

    def close(self) -> None:
        """Gives the ports back."""
        for held in self._held:
            held.close()
