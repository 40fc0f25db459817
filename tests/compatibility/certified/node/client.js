// The obvious consumer of kafkajs: `eachMessage`, which commits the offsets of what it resolved, and with a TRANSACTIONAL_ID its
// obvious read-process-write program: a transaction for each batch, which sends the offsets.
//
// kafkajs has no static members, and `sendOffsets` takes a group id and no member (before KIP-447).
"use strict";
const { Kafka } = require("kafkajs");

const { BOOTSTRAP, TOPIC, GROUP, OUTPUT_TOPIC, GROUP_PROTOCOL, TRANSACTIONAL_ID } = process.env;
const { CLIENT_RACK, MAX_POLL_INTERVAL_MS, SASL_MECHANISM, SASL_USERNAME, SASL_PASSWORD } = process.env;
if ((GROUP_PROTOCOL || "classic") !== "classic") {
  process.stderr.write("kafkajs has classic groups only\n");
  process.exit(2);
}
const kafka = new Kafka({
  clientId: "obvious",
  brokers: [BOOTSTRAP],
  sasl: SASL_MECHANISM ? { mechanism: "plain", username: SASL_USERNAME, password: SASL_PASSWORD } : undefined,
});
const consumer = kafka.consumer({
  groupId: GROUP,
  rackId: CLIENT_RACK,
  ...(MAX_POLL_INTERVAL_MS && { rebalanceTimeout: Number(MAX_POLL_INTERVAL_MS) }),
});
const producer = kafka.producer(
  TRANSACTIONAL_ID ? { transactionalId: TRANSACTIONAL_ID, maxInFlightRequests: 1, idempotent: true } : {});

const eachMessage = async ({ message: { key, value } }) => {
  if (OUTPUT_TOPIC) await producer.send({ topic: OUTPUT_TOPIC, messages: [{ key, value }] });
};

const eachBatch = async ({ batch: { topic, partition, messages } }) => {
  const transaction = await producer.transaction();
  try {
    await transaction.send({ topic: OUTPUT_TOPIC, messages: messages.map(({ key, value }) => ({ key, value })) });
    const offset = `${BigInt(messages[messages.length - 1].offset) + 1n}`;
    await transaction.sendOffsets({ consumerGroupId: GROUP, topics: [{ topic, partitions: [{ partition, offset }] }] });
    await transaction.commit();
  } catch (failure) {
    await transaction.abort();
    throw failure;
  }
};

const main = async () => {
  await producer.connect();
  await consumer.connect();
  await consumer.subscribe({ topic: TOPIC, fromBeginning: true });
  await consumer.run(TRANSACTIONAL_ID ? { autoCommit: false, eachBatch } : { eachMessage });
};

// kafkajs restarts its consumer after errors that it can retry; it emits this event for those that it cannot.
consumer.on(consumer.events.CRASH, ({ payload: { error, restart } }) => {
  process.stderr.write(`crash: ${error}, restart: ${restart}\n`);
  if (!restart) process.exit(1);
});
const stop = async () => {
  await consumer.disconnect();
  await producer.disconnect();
  process.exit(0);
};
process.on("SIGTERM", stop);
process.on("SIGINT", stop);
main().catch((failure) => {
  process.stderr.write(`${failure.stack}\n`);
  process.exit(1);
});
