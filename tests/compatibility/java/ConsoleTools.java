import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's console tools one after the other in one JVM, which starts once and not two dozen times.
 *
 * A line of input is a run: class, standard input and arguments, with the unit separator between them and the record
 * separator for line ends. A line of output is what the run printed and, before it, its exit status.
 */
public class ConsoleTools {
    static class Ended extends RuntimeException {}

    /** How the run wanted to exit first: some tools catch what ends them here, and then want to exit once more. */
    static Integer wanted;

    /** What a run leaves to be done at its end: a producer sends the last of its records then. */
    static List<Runnable> hooks = new ArrayList<>();

    static void end(int status) {
        if (wanted == null) {
            wanted = status;
        }
        throw new Ended();
    }

    public static void main(String[] unused) throws Exception {
        PrintStream answers = System.out;
        Exit.setExitProcedure((status, message) -> end(status));
        Exit.setHaltProcedure((status, message) -> end(status));
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] fields = line.split("\u001f", -1);
            ByteArrayOutputStream printed = new ByteArrayOutputStream();
            PrintStream out = new PrintStream(printed, true, StandardCharsets.UTF_8);
            System.setOut(out);
            System.setErr(out);
            System.setIn(new ByteArrayInputStream(fields[1].replace('\u001e', '\n').getBytes(StandardCharsets.UTF_8)));
            int status = run(fields[0], Arrays.copyOfRange(fields, 2, fields.length), out);
            hooks.forEach(Runnable::run);
            hooks.clear();
            out.flush();
            answers.println(status + printed.toString(StandardCharsets.UTF_8).replace('\n', '\u001e'));
            answers.flush();
        }
    }

    static int run(String tool, String[] arguments, PrintStream out) throws Exception {
        wanted = null;
        try {
            Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) arguments);
            return wanted == null ? 0 : wanted;
        } catch (InvocationTargetException wrapped) {
            if (wanted == null) {
                wrapped.getCause().printStackTrace(out);
            }
            return wanted == null ? 1 : wanted;
        }
    }
}
