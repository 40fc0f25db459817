"""What a metric is: its declaration, and the samples that it reads when it is scraped."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from coordinator.admin.server_view import ServerView
from coordinator.runtime.statistics import Histogram

COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"
Labels: TypeAlias = str | tuple[str, ...]
"""The value of the one label, or the values of all."""
Samples: TypeAlias = Mapping[str, float] | Mapping[tuple[str, str], float]
"""By labels."""
Histograms: TypeAlias = Mapping[str, tuple[list[tuple[str, int]], float]]
"""By label: the cumulative buckets and the sum of a Prometheus histogram."""


class Metric(NamedTuple):
    """A metric. `read` returns a number or `Histogram`; with labels, `Samples` or `Histograms`."""

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


def labels(found: Labels) -> tuple[str, ...]:
    """The values of all labels."""
    return (found,) if isinstance(found, str) else found
