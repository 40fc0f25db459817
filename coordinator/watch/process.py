"""The process of a watcher: it reaches the cluster, starts the server, and stops on a signal."""

import asyncio
import logging
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from coordinator.client.conversation import LinkFailed
from coordinator.client.login.sasl import SecurityFailed
from coordinator.client.login.tls import Security
from coordinator.config.overlay import OverlayConfig
from coordinator.config.settings import ServerConfig
from coordinator.overlay.brokers import RETRY_S, START_S, Brokers
from coordinator.overlay.links import Address, Links
from coordinator.server import CannotStart
from coordinator.server.data_folder import stored_cluster_id
from coordinator.server.process import DISK_THREADS, SWITCH_S, run_locked, say_ready, stop_signal, unless
from coordinator.topics.names import CONSUMER_OFFSETS, TRANSACTION_STATE
from coordinator.watch.server import WatchingServer
from coordinator.watch.source import NoRight, partitions_of
from coordinator.world.clock import RealClock
from coordinator.world.disk import RealDisk
from coordinator.world.entropy import RealEntropy
from coordinator.world.threads import ThreadPool

_log = logging.getLogger(__name__)

CLIENT_ID = "coordinator-watch"


class Watched(NamedTuple):
    """What to watch."""

    bootstrap: tuple[Address, ...]
    security: Security
    history_ms: int
    """How far back events go when the data folder is new."""

    @property
    def name(self) -> str:
        """The cluster, for people."""
        return ",".join(f"{host}:{port}" for host, port in self.bootstrap)


class _Found(NamedTuple):
    """The internal topics of the cluster."""

    groups: int
    """The number of partitions."""
    transactions: int
    without_transactions: str
    """Why transactions cannot be read; empty if they can."""


def run(config: ServerConfig, watched: Watched, started_s: float) -> int:
    """Watches until SIGTERM or SIGINT; returns the exit code."""
    return run_locked(config, lambda _lock: _watch(config, watched, started_s))


async def _watch(config: ServerConfig, watched: Watched, started_s: float) -> None:
    loop, clock = asyncio.get_running_loop(), RealClock()
    stop = stop_signal(loop)
    try:
        brokers = Brokers(watched.bootstrap, Links(watched.security, CLIENT_ID), None)
    except SecurityFailed as error:
        raise CannotStart(str(error)) from error
    found = await unless(stop, _find(brokers, watched.name))
    if found is None:
        return
    disk = RealDisk()
    belongs_to = stored_cluster_id(disk, config.log_dir, lambda: brokers.cluster_id)
    if belongs_to != brokers.cluster_id:
        raise CannotStart(
            f"{config.log_dir} belongs to the cluster {belongs_to}, and {watched.name} is {brokers.cluster_id}:"
            " a watcher needs a folder of its own for each cluster"
        )
    server = WatchingServer(
        config_for(config, found.groups, found.transactions),
        loop, clock, disk, RealEntropy(), ThreadPool(loop, DISK_THREADS), brokers,
        history_ms=watched.history_ms, without_transactions=found.without_transactions,
    )  # fmt: skip
    _, admin = await server.start()
    server.statistics.watch_lag(loop.call_later)
    sys.setswitchinterval(SWITCH_S)
    say_ready(watched.name, admin, started_s, clock)
    await stop.wait()
    _log.info("event=stopping")
    await server.stop()
    _log.info("event=stopped")


def config_for(config: ServerConfig, groups: int, transactions: int) -> ServerConfig:
    """The configuration of a server without clients, which has as many shards as the cluster has partitions."""
    log = replace(
        config.log,
        offsets_topic_num_partitions=groups,
        transaction_state_log_num_partitions=max(1, transactions),
        share_coordinator_state_topic_num_partitions=1,  # a watcher shows no share states
    )
    return replace(config, listeners=(), overlay=OverlayConfig(), nodes=1, declared_topics=(), log=log)


async def _find(brokers: Brokers, name: str) -> _Found:
    """The internal topics of the cluster. Raises CannotStart: it does not answer, has no groups, or they may not be read."""
    loop = asyncio.get_running_loop()
    ends_s = loop.time() + START_S
    try:
        await brokers.start()
        while not (groups := await partitions_of(brokers, CONSUMER_OFFSETS)):
            if loop.time() >= ends_s:
                raise CannotStart(
                    f"{name} has no topic {CONSUMER_OFFSETS}: a cluster makes it for its first group; start again then"
                )
            await asyncio.sleep(RETRY_S)
    except (LinkFailed, NoRight) as error:
        raise CannotStart(f"cannot watch {name}: {error}") from error
    transactions: Mapping[int, int] = {}
    reason = f"the cluster has no {TRANSACTION_STATE} yet; they are shown after a restart of the watcher"
    try:
        transactions = await partitions_of(brokers, TRANSACTION_STATE)
    except (LinkFailed, NoRight) as error:
        reason = str(error)
    return _Found(len(groups), len(transactions), "" if transactions else reason)
