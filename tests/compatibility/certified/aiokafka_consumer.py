"""The obvious consumer of aiokafka, as "Manual vs automatic committing" of its documentation has it: `getmany`, process, and
commit what was processed of each partition.

A commit that fails is reported; the loop goes on, because whoever owns the partition reads the records again.
"""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError
from settings import (
    ARGUMENTS,
    CLIENT_RACK,
    GROUP,
    GROUP_INSTANCE_ID,
    MAX_POLL_INTERVAL_MS,
    OUTPUT_TOPIC,
    TOPIC,
    Stop,
    classic_only,
    report,
)


async def main() -> None:
    stop = Stop()
    consumer = AIOKafkaConsumer(
        TOPIC,
        **ARGUMENTS,
        group_id=GROUP,
        group_instance_id=GROUP_INSTANCE_ID,
        client_rack=CLIENT_RACK or None,
        max_poll_interval_ms=MAX_POLL_INTERVAL_MS,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    producer = AIOKafkaProducer(**ARGUMENTS, enable_idempotence=True)
    async with producer, consumer:
        while not stop:
            batches = await consumer.getmany(timeout_ms=1000)
            for partition, records in batches.items():
                if OUTPUT_TOPIC:
                    sent = [await producer.send(OUTPUT_TOPIC, record.value, record.key) for record in records]
                    await asyncio.gather(*sent)
                try:
                    await consumer.commit({partition: records[-1].offset + 1})
                except KafkaError as failure:
                    report("commit", failure)


classic_only("aiokafka")
asyncio.run(main())
