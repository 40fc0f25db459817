"""What a metric is: its declaration, and the samples that it reads when it is scraped."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from coordinator.admin.server_view import ServerView
from coordinator.runtime.statistics import Histogram

COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"
Samples = Iterable[tuple[tuple[str, ...], float]]
"""Label values and the number."""
Histograms = Iterable[tuple[tuple[str, ...], tuple[list[tuple[str, int]], float]]]
"""Label values, and the cumulative buckets and the sum of a Prometheus histogram."""


class Metric(NamedTuple):
    """A metric. `read` returns its `Samples` or `Histograms`."""

    name: str
    kind: str
    labels: tuple[str, ...]
    text: str
    read: Callable[[ServerView], Any]


def cumulative(histogram: Histogram) -> tuple[list[tuple[str, int]], float]:
    """The cumulative buckets and the sum."""
    buckets, count = [], 0
    for bound, here in zip([*map(str, histogram.bounds), "+Inf"], histogram.counts, strict=True):
        count += here
        buckets.append((bound, count))
    return buckets, histogram.total
