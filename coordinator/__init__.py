"""A Kafka group coordinator that runs alone."""
