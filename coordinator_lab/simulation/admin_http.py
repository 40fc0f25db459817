"""Requests of simulated clients to admin HTTP."""

import asyncio
import json
import re
from typing import Any

from coordinator_lab.simulation.wire import Access, NoResponse

WITHIN_S = 12.0
ELSEWHERE = 421


class _Http(asyncio.Protocol):
    """Collects a response until the server closes the connection."""

    def __init__(self) -> None:
        self.data = b""
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self.data += data

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        if not self.closed.done():
            self.closed.set_result(None)


async def admin_request(caller: Access, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    """The status and JSON of the response. Raises NoResponse, also if another worker has to be asked."""
    content = b"" if body is None else json.dumps(body).encode()
    head = (
        f"{method} {path} HTTP/1.1\r\nhost: admin\r\nconnection: close\r\n"
        f"content-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n"
    )
    end, http = await caller.connect_admin(_Http)
    end.write(head.encode() + content)
    try:
        await asyncio.wait_for(http.closed, WITHIN_S)
    except TimeoutError:
        end.abort()
        raise NoResponse from None
    head_bytes, _, answer = http.data.partition(b"\r\n\r\n")
    size = re.search(rb"\r\ncontent-length: (\d+)", head_bytes, re.IGNORECASE)
    if size is None or len(answer) < int(size[1]):
        raise NoResponse
    status = int(head_bytes.split(maxsplit=2)[1])
    if status == ELSEWHERE:
        raise NoResponse
    return status, json.loads(answer)
