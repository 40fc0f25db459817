"""The rows and cases of the table in which this server answers otherwise than Kafka, with the reason."""

DIFFERENCES: dict[str, str] = {
    "configs of type 16 with DESCRIBE_CONFIGS cluster": "there are no client metrics",
}
