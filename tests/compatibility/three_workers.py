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
from tests.support.worker_events import worker_events

confluent_admin = pytest.importorskip("confluent_kafka.admin")

SHARDS = 12
PARTITIONS = 4
STOPPED_S = 5.0
OWNED_WITHIN_S = 5.0
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
            "offsets.topic.num.partitions": SHARDS,
            "transaction.state.log.num.partitions": SHARDS + 1,
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
    for topic, shards in (("__consumer_offsets", SHARDS), ("__transaction_state", SHARDS + 1)):
        found = owners(workers, topic)
        counts = [sum(worker.port in each for each in found.values()) for worker in workers]
        if len(found) != shards or any(len(each) != 1 for each in found.values()) or max(counts) - min(counts) > 1:
            return False
    return True


def disturb(worker: ServerProcess, fault: str) -> None:
    if fault == "kill":
        worker.kill()
        time.sleep(OWNED_WITHIN_S)
        worker.start()
    else:
        worker.pause()
        time.sleep(STOPPED_S)
        worker.resume()


def breakdown(workers: list[ServerProcess], victim: ServerProcess, began: float) -> str:
    """When the others noticed the fault and took the shards, in seconds from the fault on."""
    found = list(worker_events((each for each in workers if each is not victim), began))
    noticed = min((each.at for each in found if each.name == "workers_living"), default=began)
    taken = [each.at for each in found if each.name == "shard_taken" and each.at < began + OWNED_WITHIN_S]
    assert taken, "a fault moves shards within the time in which it must"
    return f"noticed={noticed - began:.1f}s taken={min(taken) - began:.1f}s..{max(taken) - began:.1f}s"
