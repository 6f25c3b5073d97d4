import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;

/** One gateway for all tests, and a namespace in it for each test with a parameter of type {@link Mock}. */
class MockExtension implements ParameterResolver {
    private static final ExtensionContext.Namespace STORE = ExtensionContext.Namespace.create(MockExtension.class);

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
        return parameter.getParameter().getType() == Mock.class;
    }

    /** JUnit closes the contents of a store: the gateway after the last test, the namespace after its test. */
    @Override
    public Mock resolveParameter(ParameterContext parameter, ExtensionContext context) {
        var all = context.getRoot().getStore(STORE);
        var gateway = all.getOrComputeIfAbsent("gateway", key -> Gateway.start(), Gateway.class);
        var own = context.getStore(STORE);
        return own.getOrComputeIfAbsent("mock", key -> new Mock(gateway, UUID.randomUUID().toString()), Mock.class);
    }
}

record Gateway(Process process, String publicUrl, String managementUrl) implements AutoCloseable {
    static final String ISSUER = "http://auth.test";

    /** Port 0 selects a free port. The log has it as soon as both listeners accept connections. */
    static Gateway start() {
        var binary = Optional.ofNullable(System.getenv("GATEWAY_BIN")).orElse("auth-gateway-dev");
        try {
            Path log = Files.createTempFile("gateway", ".log");
            log.toFile().deleteOnExit();
            var builder = new ProcessBuilder(binary).redirectOutput(log.toFile()).redirectError(log.toFile());
            builder.environment().putAll(Map.of(
                    "AUTH_GATEWAY__HTTP__LISTEN", "127.0.0.1:0",
                    "AUTH_GATEWAY__HTTP__PUBLIC_URL", ISSUER,
                    "AUTH_GATEWAY__MANAGEMENT__LISTEN", "127.0.0.1:0",
                    "AUTH_GATEWAY__IAM__MOCK__FIXED_SIGNING_KEY", "true",
                    "AUTH_GATEWAY__LOG__FORMAT", "json"));
            Process process = builder.start();
            while (process.isAlive()) {
                var lines = Files.readString(log).lines();
                var line = lines.filter(it -> it.contains("\"message\":\"listening\"")).findAny();
                if (line.isPresent()) {
                    JsonNode listening = new ObjectMapper().readTree(line.get());
                    return new Gateway(process,
                            "http://" + listening.get("http.address").asText(),
                            "http://" + listening.get("management.address").asText());
                }
                Thread.sleep(10);
            }
            throw new IllegalStateException("the gateway exited: " + Files.readString(log));
        } catch (IOException broken) {
            throw new UncheckedIOException(broken);
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException(interrupted);
        }
    }

    @Override
    public void close() throws InterruptedException {
        process.destroy();
        process.waitFor();
    }
}
