"""Servers with an authorizer and a listener for PLAIN users: Kafka and ours."""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from contextlib import AsyncExitStack
from pathlib import Path

from coordinator.server.composition import Server
from tests.access.asked import PASSWORD
from tests.access.furnish import ROOT, SETTINGS
from tests.rules.world import WITHIN_S, running
from tests.support.background import Background
from tests.support.kafka_broker import KafkaBroker

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:{ROOT}",
    "sasl.enabled.mechanisms": "PLAIN",
}


def kafka(folder: Path, users: Iterable[str], settings: Mapping[str, str] | None = None) -> KafkaBroker:
    """The requests between its controller and its broker have no user. Retention, which begins late, removes no old records."""
    passwords = " ".join(f'user_{user}="{PASSWORD}"' for user in users)
    plain = f'{MODULE} required username="{ROOT}" password="{PASSWORD}" {passwords};'
    own = {
        "super.users": f"User:{ROOT};User:ANONYMOUS",
        "log.initial.task.delay.ms": "1800000",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": plain,
    }
    return KafkaBroker(folder, SETTINGS | AUTHORIZER | own | dict(settings or {}), "SASL_PLAINTEXT")


class Ours:
    """Our server in a thread of this process, for clients that block."""

    server: Server
    bootstrap = ""

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        self._folder = folder
        self._stack = AsyncExitStack()
        self._settings = [f"{key}={value}" for key, value in settings.items()]

    def start(self) -> None:
        self._level = logging.getLogger().level
        logging.getLogger().setLevel(logging.INFO)  # as a server's process does; its configs say so
        started: Future[None] = Future()
        self._thread = Background(lambda: asyncio.run(self._serve(started)))
        started.result(WITHIN_S)

    async def _serve(self, started: Future[None]) -> None:
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        try:
            world = await self._stack.enter_async_context(running(self._folder, self._settings))
        except BaseException as error:
            started.set_exception(error)
            return
        async with self._stack:
            self.server, self.bootstrap = world.server, world.bootstrap
            started.set_result(None)
            await self._stopped.wait()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.finish()
        logging.getLogger().setLevel(self._level)


def ours(folder: Path, users: Iterable[str], settings: Mapping[str, str] | None = None) -> Ours:
    path = folder / "users"
    path.write_text("".join(f"{user}:{PASSWORD}\n" for user in users))
    own = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0", "sasl.users.file": str(path)}
    return Ours(folder, SETTINGS | AUTHORIZER | own | dict(settings or {}))
