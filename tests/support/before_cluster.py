"""A server in front of a real Kafka broker."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.kafka_broker import KafkaBroker, dump_segments
from tests.support.server_process import ServerProcess

SETTINGS = {"topics": [], "data.plane": "none", "data.metadata.refresh.ms": 200}


@contextmanager
def before(
    folder: Path, bootstrap: str, settings: Mapping[str, Any] | None = None, arguments: tuple[str, ...] = ()
) -> Iterator[ServerProcess]:
    """A server in front of the cluster at an address."""
    folder.mkdir(exist_ok=True)
    settings = SETTINGS | {"data.bootstrap.servers": bootstrap} | dict(settings or {})
    server = ServerProcess(folder, settings=settings, arguments=arguments)
    with server:
        yield server


def offsets_in(broker: KafkaBroker) -> str:
    """What the broker's own `__consumer_offsets-0` has, as Kafka's tool prints it, without the folder's name."""
    segments = sorted((broker.data_dir / "__consumer_offsets-0").glob("*.log"))
    printed = dump_segments(*segments, options=("--offsets-decoder",)) if segments else ""
    return printed.replace(str(broker.data_dir), "")
