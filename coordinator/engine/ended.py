"""Which claims of a worker have ended, so that nothing is appended for them any more.

The engine fences claims that are not the newest. A claim can end without a newer one: when the outcome of an append is unknown,
the pieces behind it must not become durable, because the log would have a gap.
"""

from collections.abc import Iterable, Sequence

from coordinator.engine.engine import Claim, Fenced, Piece


class EndedClaims:
    """The claims of one worker that ended, by log: all up to an epoch."""

    __slots__ = ("_epochs",)

    def __init__(self) -> None:
        self._epochs: dict[str, int] = {}

    def end(self, claims: Iterable[Claim]) -> None:
        """From now on `living` drops the pieces of these claims."""
        for claim in claims:
            self._epochs[claim.log] = max(claim.epoch, self._epochs.get(claim.log, 0))

    def has_ended(self, claim: Claim) -> bool:
        """Whether the claim, or one of a higher epoch, has ended here."""
        return claim.epoch <= self._epochs.get(claim.log, 0)

    def living(self, pieces: Sequence[Piece]) -> list[Piece]:
        """The pieces whose claims have not ended."""
        return [piece for piece in pieces if not self.has_ended(piece.claim)]

    def refuse(self, claim: Claim) -> None:
        """Raises: Fenced, if the claim has ended."""
        if self.has_ended(claim):
            raise Fenced(f"the claim of {claim.log} with epoch {claim.epoch} has ended")
