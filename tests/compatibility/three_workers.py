"""Three workers over one engine, which tests kill and stop."""

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from tests.support.kafka_cluster import KafkaCluster
from tests.support.postgresql import Cluster
from tests.support.server_process import ServerProcess, start_together
from tests.support.waiting import wait_until
from tests.support.worker_events import worker_events

confluent_admin = pytest.importorskip("confluent_kafka.admin")

SHARDS = 12
PARTITIONS = 4
SHARDS_OF = {"__consumer_offsets": SHARDS, "__transaction_state": SHARDS + 1}
ANSWERS_WITHIN_S = 30.0
LOG_SHOWN = 10_000
"""Characters of the log of a worker that does not answer."""


@contextmanager
def three_workers(
    folder: Path, database: Cluster | KafkaCluster, name: str, settings: Mapping[str, Any] | None = None
) -> Iterator[list[ServerProcess]]:
    """Workers of a cluster of this name in the database."""
    with ExitStack() as stack:
        common = {
            "journal.cluster": name.replace("-", "_"),
            "offsets.topic.num.partitions": SHARDS_OF["__consumer_offsets"],
            "transaction.state.log.num.partitions": SHARDS_OF["__transaction_state"],
            "journal.replication": "optional",
            "data.plane": "none",
            **(settings or {}),
        }
        workers = []
        for node_id in (1, 2, 3):
            own = folder / f"worker-{node_id}"
            own.mkdir()
            worker = ServerProcess(own, settings=common | {"node.id": node_id}, arguments=("--journal", database.url()))
            stack.callback(worker.stop)
            workers.append(worker)
        start_together(workers)
        yield workers


def create(bootstrap: str, topic: str, security: Mapping[str, Any] | None = None) -> Any:
    """Creates a topic; returns the client."""
    admin = confluent_admin.AdminClient({"bootstrap.servers": bootstrap, "log_level": 0, **(security or {})})
    for created in admin.create_topics([confluent_admin.NewTopic(topic, PARTITIONS, 1)]).values():
        created.result()
    return admin


def owners(workers: list[ServerProcess], topic: str = "__consumer_offsets") -> dict[str, list[int]]:
    """Shard of a topic -> the workers that say that they serve it."""
    found: dict[str, list[int]] = {}
    for worker in workers:
        prefix = f'coordinator_shard_owned{{shard="{topic}-'
        for line in metrics(worker):
            if line.startswith(prefix) and line.endswith(" 1.0"):
                found.setdefault(line.removeprefix(prefix).partition('"')[0], []).append(worker.port)
    return found


def metrics(worker: ServerProcess) -> list[str]:
    """The lines of a worker's metrics. Fails with the end of its log if it does not answer."""
    try:
        with urlopen(f"{worker.admin}/metrics", timeout=ANSWERS_WITHIN_S) as response:
            return response.read().decode().splitlines()
    except (OSError, HTTPException) as error:
        said = error.read().decode(errors="replace") if isinstance(error, HTTPError) else ""
        name = f"worker {worker.settings['node.id']}, {'alive' if worker.alive else 'ended'}"
        raise AssertionError(f"{name}: {error!r} {said}\n{worker.log[-LOG_SHOWN:]}") from error


def is_spread(workers: list[ServerProcess]) -> bool:
    """Whether each shard has one owner, and the workers have as many shards of each topic as the others, or one more."""
    for topic, shards in SHARDS_OF.items():
        found = owners(workers, topic)
        counts = [sum(worker.port in each for each in found.values()) for worker in workers]
        if len(found) != shards or any(len(each) != 1 for each in found.values()) or max(counts) - min(counts) > 1:
            return False
    return True


def disturb(workers: list[ServerProcess], victim: ServerProcess, fault: str) -> str:
    """Kills or stops a worker until the others have every shard; returns when they noticed it and when they took shards."""
    others, began = [each for each in workers if each is not victim], time.time()
    if fault == "kill":
        victim.kill()
    else:
        victim.pause()
    wait_until(
        lambda: all(len(owners(others, topic)) == shards for topic, shards in SHARDS_OF.items()),
        lambda: f"every shard to be taken: {[owners(others, topic) for topic in SHARDS_OF]}",
    )
    events = list(worker_events(others, began))
    if fault == "kill":
        victim.start()
    else:
        victim.resume()
    noticed = [each.at - began for each in events if each.name == "workers_living"]
    taken = [each.at - began for each in events if each.name == "shard_taken"]
    return f"noticed={min(noticed, default=0):.1f}s taken={min(taken, default=0):.1f}s..{max(taken, default=0):.1f}s"
