"""Starts the image with the module for Kafka, prints the bootstrap address, and stops at the end of stdin."""

import sys

from testcontainers.community.kafka import KafkaContainer

name, image = sys.argv[1:]
kafka = KafkaContainer(image)
if name == "kraft":
    kafka.with_kraft()
with kafka:
    print("bootstrap", kafka.get_bootstrap_server(), flush=True)
    sys.stdin.read()
