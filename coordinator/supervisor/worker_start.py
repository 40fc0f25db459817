"""What a worker process gets from its supervisor when it starts: on its standard input, because settings may have passwords."""

import pickle
from typing import NamedTuple

from coordinator.config.settings import ServerConfig


class WorkerStart(NamedTuple):
    """One worker of a machine."""

    number: int
    """From 0."""
    workers: int
    """How many there are."""
    config: ServerConfig
    """With its own node id, ports and folder."""
    folder: str
    """For the copies of the logs that it serves."""
    endpoint: int
    """The descriptor of its connection to the supervisor."""
    data_node: int | None
    """The id of the worker that has the records of topics; None: no worker has them."""

    @property
    def has_data(self) -> bool:
        """Whether it has the records of topics."""
        return self.data_node == self.config.node_id

    def encode(self) -> bytes:
        """For the standard input of the process."""
        return pickle.dumps(self)


def decode(data: bytes) -> WorkerStart:
    """What `encode` returned."""
    start: WorkerStart = pickle.loads(data)  # noqa: S301 - the parent of this process has written it
    return start
