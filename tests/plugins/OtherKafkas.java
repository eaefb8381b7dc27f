import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.InputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.net.MalformedURLException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;

/**
 * Runs programs of this folder with other versions of Kafka, all in this JVM.
 *
 * The input is {"kafkas": {"2.4.0": ["/a.jar"]}, "programs": {"ReplicaSelections": {"plugin": "a.b.Selector", "given":
 * []}}}. The output has the output of each program by version, or {"error": "..."} if the plug-in cannot be
 * instantiated.
 */
public class OtherKafkas {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        PrintStream out = System.out;
        InputStream in = System.in;
        JsonNode asked = JSON.readTree(in);
        ObjectNode answers = JSON.createObjectNode();
        for (Map.Entry<String, JsonNode> kafka : asked.get("kafkas").properties()) {
            ObjectNode answer = answers.putObject(kafka.getKey());
            try (URLClassLoader loader = loader(kafka.getValue())) {
                for (Map.Entry<String, JsonNode> program : asked.get("programs").properties()) {
                    answer.set(program.getKey(), run(loader, program.getKey(), program.getValue()));
                }
            }
        }
        System.setIn(in);
        out.print(JSON.writeValueAsString(answers));
    }

    /** Returns the jars of another Kafka, followed by the class path of this JVM without its own Kafka. */
    private static URLClassLoader loader(JsonNode jars) throws MalformedURLException {
        List<URL> path = new ArrayList<>();
        for (JsonNode jar : jars) {
            path.add(Path.of(jar.textValue()).toUri().toURL());
        }
        for (String entry : System.getProperty("java.class.path").split(File.pathSeparator)) {
            if (!Path.of(entry).getFileName().toString().startsWith("kafka")) {
                path.add(Path.of(entry).toUri().toURL());
            }
        }
        return new URLClassLoader(path.toArray(URL[]::new), ClassLoader.getPlatformClassLoader());
    }

    private static JsonNode run(ClassLoader loader, String program, JsonNode asked) throws Exception {
        String plugin = asked.get("plugin").textValue();
        try {
            Class.forName(plugin, true, loader).getDeclaredConstructor().newInstance();
        } catch (ReflectiveOperationException | LinkageError refused) {
            return JSON.createObjectNode().put("error", refused.toString());
        }
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        System.setIn(new ByteArrayInputStream(JSON.writeValueAsBytes(asked.get("given"))));
        System.setOut(new PrintStream(printed, true, StandardCharsets.UTF_8));
        Thread.currentThread().setContextClassLoader(loader);
        try {
            loader.loadClass(program).getMethod("main", String[].class).invoke(null, (Object) new String[] {plugin});
        } catch (InvocationTargetException failed) {
            throw new IllegalStateException(program, failed.getCause());
        }
        return JSON.readTree(printed.toString(StandardCharsets.UTF_8));
    }
}
