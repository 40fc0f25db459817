"""What clients and data folders can tell of the language that Kafka is written in."""

_INT_MAX = 0x7FFFFFFF


def string_hash(text: str) -> int:
    """Java's String.hashCode: 32-bit signed, over UTF-16 code units."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for i in range(0, len(units), 2):
        value = (31 * value + (units[i] << 8) + units[i + 1]) & 0xFFFFFFFF
    return value - (1 << 32) if value > _INT_MAX else value


def positive_hash(text: str) -> int:
    """The hash by which Kafka chooses a partition of its own topics: the absolute value, 0 where there is none."""
    value = string_hash(text)
    return 0 if value == -_INT_MAX - 1 else abs(value)
