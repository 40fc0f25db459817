"""A wrong program: it takes the fatal error of a fenced static member for a passing one, and joins again as before."""

from confluent_kafka import Consumer, KafkaException, Producer
from settings import BOOTSTRAP, GROUP, GROUP_INSTANCE_ID, GROUP_PROTOCOL, OUTPUT_TOPIC, TOPIC, Stop, report

stop = Stop()
settings = {
    "bootstrap.servers": BOOTSTRAP,
    "group.id": GROUP,
    "group.protocol": GROUP_PROTOCOL,
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
}
if GROUP_INSTANCE_ID:
    settings["group.instance.id"] = GROUP_INSTANCE_ID
producer = Producer({"bootstrap.servers": BOOTSTRAP, "linger.ms": 0})
consumer: Consumer | None = None
while not stop:
    if consumer is None:
        consumer = Consumer(settings)
        consumer.subscribe([TOPIC])
    message = consumer.poll(0.5)
    if message is None:
        continue
    failure = message.error()
    if failure is None:
        producer.produce(OUTPUT_TOPIC, message.value(), message.key())
        producer.flush()
        try:
            consumer.commit(message=message, asynchronous=False)
        except KafkaException as refused:
            failure = refused
    if failure is not None:
        report("joins again", failure)
        consumer.close()
        consumer = None
if consumer is not None:
    consumer.close()
