import org.testcontainers.containers.GenericContainer;
import org.testcontainers.utility.DockerImageName;

/** Starts the image with the module of the given name, prints the bootstrap address, and stops at the end of stdin. */
public class KafkaModules {
    public static void main(String[] arguments) throws Exception {
        DockerImageName image = DockerImageName.parse(arguments[1]);
        switch (arguments[0]) {
            case "apache" -> {
                var kafka = new org.testcontainers.kafka.KafkaContainer(image.asCompatibleSubstituteFor("apache/kafka"));
                hold(kafka, kafka::getBootstrapServers);
            }
            case "confluent" -> {
                var kafka = new org.testcontainers.kafka.ConfluentKafkaContainer(
                        image.asCompatibleSubstituteFor("confluentinc/cp-kafka"));
                hold(kafka, kafka::getBootstrapServers);
            }
            case "confluent-zookeeper" -> {
                var kafka = new org.testcontainers.containers.KafkaContainer(
                        image.asCompatibleSubstituteFor("confluentinc/cp-kafka"));
                hold(kafka, () -> kafka.getBootstrapServers().replace("PLAINTEXT://", ""));
            }
            default -> throw new IllegalArgumentException(arguments[0]);
        }
    }

    static void hold(GenericContainer<?> kafka, java.util.function.Supplier<String> bootstrap) throws Exception {
        try (kafka) {
            kafka.start();
            System.out.println("bootstrap " + bootstrap.get());
            System.in.readAllBytes();
        }
    }
}
