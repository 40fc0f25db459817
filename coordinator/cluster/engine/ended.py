"""Which claims of a worker have ended, so that nothing is appended for them any more.

The engine fences claims that are not the newest. A claim can end without a newer one: when the outcome of an append is unknown,
the pieces behind it must not become durable, because the log would have a gap.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence

from coordinator.cluster.engine.engine import Claim, EngineUnavailable, Fenced, OutcomeUnknown, Piece


class EndedClaims:
    """The claims of one worker that ended, by log: all up to an epoch."""

    __slots__ = ("_epochs", "_turn")

    def __init__(self) -> None:
        self._epochs: dict[str, int] = {}
        self._turn = asyncio.Lock()

    def end(self, claims: Iterable[Claim]) -> None:
        """From now on `append` and `refuse` turn these claims down."""
        for claim in claims:
            self._epochs[claim.log] = max(claim.epoch, self._epochs.get(claim.log, 0))

    def has_ended(self, claim: Claim) -> bool:
        """Whether the claim, or one of a higher epoch, has ended here."""
        return claim.epoch <= self._epochs.get(claim.log, 0)

    def refuse(self, claim: Claim) -> None:
        """Raises: Fenced, if the claim has ended."""
        if self.has_ended(claim):
            raise Fenced(f"the claim of {claim.log} with epoch {claim.epoch} has ended")

    async def append(
        self, pieces: Sequence[Piece], send: Callable[[list[Piece]], Awaitable[Collection[str]]]
    ) -> frozenset[str]:
        """Sends the pieces of claims that have not ended; returns the logs whose claims have.

        Appends are sent one at a time, so that one which fails ends its claims before the next one is sent.
        `send` returns the logs of which a piece was not appended.
        Raises: OutcomeUnknown.
        """
        async with self._turn:
            living = [piece for piece in pieces if not self.has_ended(piece.claim)]
            try:
                refused = await send(living) if living else ()
            except BaseException as error:
                self.end(piece.claim for piece in living)
                if isinstance(error, EngineUnavailable):
                    raise OutcomeUnknown(str(error)) from error
                raise
            self.end(piece.claim for piece in living if piece.claim.log in refused)
            return frozenset(piece.claim.log for piece in pieces if self.has_ended(piece.claim))
