"""A record that goes through a server and back."""

from confluent_kafka import Consumer, Producer


def round_trip(bootstrap: str) -> None:
    """Produces a record and consumes it in a group, with the addresses that the server advertises."""
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce("orders", b"order 1")
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "billing", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    assert consumer.poll(30).value() == b"order 1"
    consumer.close()
