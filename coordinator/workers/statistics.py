"""Counts of one worker, for its metrics."""

from coordinator.workers.ownership import TakeOver

APPEND_BOUNDS_MS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000)


class WorkerStatistics:
    """Take-overs and appends since the start."""

    def __init__(self) -> None:
        self.take_overs = 0
        self.take_over_ms = 0
        """The sum of their durations, from the claim until requests were served."""
        self.take_over_ms_max = 0
        self.records_replayed = 0
        self.appends = 0
        self.append_ms = 0
        self.appends_within = dict.fromkeys(APPEND_BOUNDS_MS, 0)
        """Upper bound in ms -> appends that took at most as long."""

    def taken(self, taken: TakeOver) -> None:
        """A shard was taken."""
        self.take_overs += 1
        self.take_over_ms += taken.ms
        self.take_over_ms_max = max(self.take_over_ms_max, taken.ms)
        self.records_replayed += taken.records

    def appended(self, ms: int) -> None:
        """An append was answered, or given up."""
        self.appends += 1
        self.append_ms += ms
        for bound in APPEND_BOUNDS_MS:
            if ms <= bound:
                self.appends_within[bound] += 1
