"""A bare uvloop server that responds to every frame with a fixed one. No Python server can be cheaper.

python -m coordinator_lab.bench.echo ANSWER_BYTES      prints its port and runs until it is killed
"""

import asyncio
import sys
from typing import cast

import uvloop


class Echo(asyncio.Protocol):
    """Splits the data into frames by their size and responds to each, without decoding them."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._left = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's does not inherit from it

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        if self._left:
            data = self._left + data
        position, count, length = 0, 0, len(data)
        while length - position >= 4:
            end = position + 4 + int.from_bytes(data[position : position + 4], "big")
            if end > length:
                break
            position = end
            count += 1
        self._left = data[position:]
        if count:
            self._transport.write(self._answer * count)


async def serve(answer_bytes: int) -> None:
    """Prints the loopback port that it listens on, and serves."""
    answer = (answer_bytes - 4).to_bytes(4, "big") + bytes(answer_bytes - 4)
    server = await asyncio.get_running_loop().create_server(lambda: Echo(answer), "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)  # noqa: T201
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
