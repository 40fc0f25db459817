"""Commits offset 0 to a live group without being a member of it: `zombie.py BOOTSTRAP TOPIC GROUP`."""

import sys

from confluent_kafka import Consumer, KafkaException, TopicPartition


def main(bootstrap: str, topic: str, group: str) -> None:
    zombie = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        zombie.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
    except KafkaException as error:
        print(f"the commit was refused: {error}")
    else:
        print("the commit was accepted")
    zombie.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
