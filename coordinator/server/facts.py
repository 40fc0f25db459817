"""What becomes of the facts that operations report: they are counted for metrics, and lines of the server's log."""

import logging
from collections.abc import Callable, Sequence

from coordinator.groups.commit_events import COMMIT_REFUSED
from coordinator.groups.events import OFFSETS_REWOUND, REQUEST_REFUSED
from coordinator.network.log_once import LogOncePerClient
from coordinator.runtime.group_rebalances import GroupRebalances
from coordinator.runtime.result import Fact
from coordinator.runtime.statistics import Statistics

_log = logging.getLogger(__name__)


class Facts:
    """The facts of one server."""

    def __init__(self, now_ms: Callable[[], int], groups: Sequence[str]) -> None:
        """`groups`: those with metrics of their own."""
        self.statistics = Statistics()
        self.group_rebalances = GroupRebalances(now_ms, groups)
        self._refusals = LogOncePerClient(_log, now_ms)

    def of_shard(self, shard: int, fact: Fact) -> None:
        self.statistics.count(fact)
        self.group_rebalances.count(fact)
        if fact.name in {COMMIT_REFUSED, OFFSETS_REWOUND, REQUEST_REFUSED}:
            # A client may repeat a request without end that cannot succeed, or one that it had better not send.
            fields = fact.fields
            key = (fields["group"], fields["member"], fields.get("error", fact.name))
            self._refusals.warn(key, f"event={fact.name}{_placeholders(fact)}", *fields.values())
        else:
            _log_fact(fact, f" shard={shard}")

    def of_topics(self, fact: Fact) -> None:
        self.statistics.count(fact)
        _log_fact(fact, "")


def _log_fact(fact: Fact, where: str) -> None:
    _log.info(f"event={fact.name}{where}{_placeholders(fact)}", *fact.fields.values())


def _placeholders(fact: Fact) -> str:
    return "".join(f" {name}=%s" for name in fact.fields)
