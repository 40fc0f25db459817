// Starts the image with the module for Kafka, prints the bootstrap address, and stops at the end of stdin.
const { KafkaContainer } = require("@testcontainers/kafka");

const main = async () => {
  const kafka = await new KafkaContainer(process.argv[3]).start();
  console.log(`bootstrap ${kafka.getHost()}:${kafka.getMappedPort(9093)}`);
  for await (const _ of process.stdin);
  await kafka.stop();
};

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
