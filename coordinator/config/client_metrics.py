"""The configs of the resource CLIENT_METRICS, which is a subscription: which clients push which metrics (KIP-714).

They are kept, checked and shown, as tools expect. They have no effect: this server asks no client for metrics.

Kafka: `ClientMetricsConfigs`.
"""

from collections.abc import Mapping

from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.patterns import BYTES_MAX, BadPattern, compile_pattern
from coordinator.topics.topic_settings import (
    SOURCE_DEFAULT,
    ConfigValue,
    Kind,
    Synonym,
    canonical,
    check_length,
    number,
)

SOURCE_CLIENT_METRICS = 7

_INTERVAL, _MATCH, _METRICS = "interval.ms", "match", "metrics"
_INTERVAL_MIN_MS, _INTERVAL_MAX_MS = 100, 3_600_000
_CONFIGS = {
    _INTERVAL: (Kind.INT, "300000", "The interval at which clients push metrics, in milliseconds."),
    _MATCH: (Kind.LIST, "", "The clients: parameters with a pattern each, such as client_id=a.*, all of which match."),
    _METRICS: (Kind.LIST, "", "How the names of the metrics begin; * means all metrics."),
}
_PARAMETERS = frozenset({
    "client_id", "client_instance_id", "client_software_name", "client_software_version", "client_source_address",
    "client_source_port",
})  # fmt: skip
_why_no_int = number("INT", None)


def describe(own: Mapping[str, str]) -> list[ConfigValue]:
    """All configs of a subscription. `own`: those that were set."""
    return [_described(name, own.get(name)) for name in _CONFIGS]


def _described(name: str, own: str | None) -> ConfigValue:
    kind, default, about = _CONFIGS[name]
    if own is None:
        return ConfigValue(name, default, SOURCE_DEFAULT, kind, about)
    value = ",".join(dict.fromkeys(canonical(kind, own).split(",")))
    return ConfigValue(name, value, SOURCE_CLIENT_METRICS, kind, about, (Synonym(name, value, SOURCE_CLIENT_METRICS),))


def check(subscription: str, own: Mapping[str, str]) -> None:
    """Raises INVALID_REQUEST (the name, an unknown config, the range of the interval), else INVALID_CONFIG."""
    if not subscription:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
    for name, value in own.items():
        check_length(value)
        if name not in _CONFIGS:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {name}")
    lists = {name: [item.strip() for item in own.get(name, "").split(",")] for name in (_METRICS, _MATCH)}
    for name, items in lists.items():
        if len(items) > 1 and "" in items:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Configuration '{name}' values must not be empty.")
    interval = own.get(_INTERVAL, _CONFIGS[_INTERVAL][1])
    reason = _why_no_int(interval)
    if reason is not None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Invalid value {interval} for configuration {_INTERVAL}: {reason}")
    if not _INTERVAL_MIN_MS <= int(interval) <= _INTERVAL_MAX_MS:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Invalid value {int(interval)} for {_INTERVAL}, interval must be between {_INTERVAL_MIN_MS} and "
            f"{_INTERVAL_MAX_MS} (1 hour)",
        )
    for item in filter(None, lists[_MATCH]):
        if not _is_match(item):
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Illegal client matching pattern: {item}")


def _is_match(item: str) -> bool:
    parameter, _, pattern = item.rstrip("=").partition("=")  # Java's split drops empty strings at the end
    if not pattern or "=" in pattern or parameter.strip() not in _PARAMETERS:
        return False
    try:
        compile_pattern(pattern.strip(), BYTES_MAX)
    except BadPattern:
        return False
    return True
