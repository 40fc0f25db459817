"""A program that copies nothing, and says which records it has processed: `lines` on stdout, or `http`. With `early` it says so
after the commit, and so processes each record after its commit.
"""

import os
import sys
import time
from urllib.request import urlopen

from confluent_kafka import Consumer, KafkaException
from settings import BOOTSTRAP, GROUP, GROUP_PROTOCOL, TOPIC, Stop, report

source, *early = sys.argv[1:]
stop = Stop()
consumer = Consumer(
    {
        "bootstrap.servers": BOOTSTRAP,
        "group.id": GROUP,
        "group.protocol": GROUP_PROTOCOL,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
)
consumer.subscribe([TOPIC])
while not stop:
    message = consumer.poll(1.0)
    if message is None or message.error():
        continue
    line = f"processed {message.topic()} {message.partition()} {message.offset()}"
    for step in ("commit", "process", "say") if early else ("process", "say", "commit"):
        if step == "process":
            time.sleep(0.02)
        elif step == "commit":
            try:
                consumer.commit(message=message, asynchronous=False)
            except KafkaException as failure:
                report("commit", failure)
        elif source == "lines":
            print(line)
        else:
            urlopen(os.environ["PROCESSED_URL"], line.encode()).close()
consumer.close()
