"""Which worker should have which log: evenly, and with as few moves as that takes.

Every worker computes it from the same two lists of the engine. If two of them see different lists for a moment, both may
want the same log; the claim of the one that is later is refused then (`Engine.claim`, `seen`).
"""

from collections.abc import Mapping, Sequence

from coordinator.cluster.engine.engine import Worker


def assign(logs: Sequence[str], owners: Mapping[str, str], workers: Sequence[Worker]) -> dict[str, str]:
    """Log -> id of the worker that should have it; empty without workers. `owners`: log -> id of the worker that has it.

    Each worker gets as many logs as any other, or one more. A worker keeps what it has, up to its share; those with the most
    logs get the larger shares, so that nothing moves for them. The rest goes to those that have too few, in the order of
    their node ids.
    """
    if not workers:
        return {}
    ordered = sorted(workers, key=lambda worker: (worker.node_id, worker.id))
    has: dict[str, list[str]] = {worker.id: [] for worker in ordered}
    free: list[str] = []
    for log in logs:
        has.get(owners.get(log, ""), free).append(log)
    share, larger = divmod(len(logs), len(ordered))
    by_size = sorted(ordered, key=lambda worker: -len(has[worker.id]))
    shares = {worker.id: share + (place < larger) for place, worker in enumerate(by_size)}
    for worker_id, kept in has.items():
        free += kept[shares[worker_id] :]
        del kept[shares[worker_id] :]
    rest = iter(free)
    for worker_id, kept in has.items():
        kept += [next(rest) for _ in range(shares[worker_id] - len(kept))]
    return {log: worker_id for worker_id, kept in has.items() for log in kept}
