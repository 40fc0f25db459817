"""Times and durations in words."""

from datetime import UTC, datetime


def clock(time_ms: int | None) -> str:
    """A timestamp for a table, in UTC."""
    if time_ms is None:
        return ""
    moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    return moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{time_ms % 1000:03d}"


def duration(ms: int | None) -> str:
    """A duration in the unit a person would use."""
    if ms is None:
        return ""
    if ms < 1_000:
        return f"{ms} ms"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    if ms < 3_600_000:
        return f"{ms // 60_000} min {ms % 60_000 // 1000} s"
    return f"{ms // 3_600_000} h {ms % 3_600_000 // 60_000} min"
