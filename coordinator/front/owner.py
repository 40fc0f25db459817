"""Requests about one group or transactional id go to the worker that has its shard, wherever that is meanwhile.

A worker that has not the shard, or is reading it, says so before it does anything (admin/located.py), so the request is sent
again. One that may have been done is not, unless it only reads.
"""

import asyncio
from collections.abc import Callable

from coordinator.admin.endpoint import RefusedRequest
from coordinator.front.workers import Answer, Ask, NotAnswered, NotAsked, Workers

AGAIN_S = 0.05
LOOK_S = 0.2
"""How often a request that only reads looks whether its worker still has the shard: it may hang."""


async def ask_owner(
    workers: Workers, what: str, owner: Callable[[], int | None], make_ask: Callable[[], Ask], until_s: float
) -> Answer:
    """What the worker answers that has something. `until_s`: until when it is tried again, by the loop's clock.

    Raises RefusedRequest: 503 no worker has it in time, or it is unknown whether it was done.
    """
    loop = asyncio.get_running_loop()
    while True:
        number, ask = owner(), make_ask()
        reason = f"no worker has {what} at the moment: try again"
        if number is not None:
            try:
                answer = await _answer(workers, owner, number, ask, until_s - loop.time())
            except NotAsked as error:
                reason = str(error)
            except NotAnswered as error:
                if ask.changes:
                    raise
                reason = str(error)
            else:
                if not answer.may_retry:
                    return answer
                reason = str(answer.refusal())
        if loop.time() >= until_s:
            raise RefusedRequest(503, reason)
        await asyncio.sleep(AGAIN_S)


async def _answer(workers: Workers, owner: Callable[[], int | None], number: int, ask: Ask, left_s: float) -> Answer:
    """Raises NotAsked, NotAnswered; also if there is another owner while this one does not answer."""
    asked = asyncio.ensure_future(workers.ask(number, ask, max(left_s, workers.answers_within_s)))
    try:
        while not asked.done():
            await asyncio.wait({asked}, timeout=LOOK_S)
            if not ask.changes and not asked.done() and owner() not in (number, None):
                raise NotAnswered(503, f"worker {number} has not answered")
        return asked.result()
    finally:
        asked.cancel()
