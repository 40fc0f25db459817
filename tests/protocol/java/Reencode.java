import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/** Reads lines "class version hex", lets Kafka's own class decode and encode the bytes, and prints what it wrote, in hex. */
public final class Reencode {
    public static void main(String[] arguments) throws Exception {
        var input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ", -1);
            try {
                System.out.println(reencode(words[0], Short.parseShort(words[1]), HexFormat.of().parseHex(words[2])));
            } catch (ReflectiveOperationException | RuntimeException error) {
                System.out.println("error: " + error.toString().replace('\n', ' '));
            }
        }
    }

    private static String reencode(String name, short version, byte[] data) throws ReflectiveOperationException {
        var message = (Message) Class.forName(name).getDeclaredConstructor().newInstance();
        var source = ByteBuffer.wrap(data);
        message.read(new ByteBufferAccessor(source), version);
        if (source.hasRemaining()) {
            return "error: " + source.remaining() + " bytes left";
        }
        var cache = new ObjectSerializationCache();
        var target = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(target), cache, version);
        return HexFormat.of().formatHex(target.array());
    }
}
