package mockgateway;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.ServerSocket;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.wait.strategy.Wait;
import org.testcontainers.utility.DockerImageName;

/**
 * One gateway with the mock IAM for all tests, and a namespace in it for each test with a parameter of type {@link
 * MockGateway}. If the test fails, the report has the calls to the IAM.
 *
 * <p>The constructor and the methods around a test get the namespace of this test. Those that run once for a class,
 * such as {@code @BeforeAll}, get one of the class, which no test and no other class has.
 *
 * <p>The gateway is the first of these that the environment selects:
 *
 * <ol>
 *   <li>{@code GATEWAY_URL} and {@code GATEWAY_MANAGEMENT_URL}: the two listeners of one that runs already.
 *   <li>{@code MOCK_GATEWAY_IMAGE}: a container of this image of {@code auth-gateway-dev}, which needs Testcontainers.
 *   <li>{@code GATEWAY_BIN}: this program; without it, {@code auth-gateway-dev} from the {@code PATH}.
 * </ol>
 */
public final class MockGatewayExtension implements ParameterResolver, AfterEachCallback {
    private static final ExtensionContext.Namespace STORE = ExtensionContext.Namespace.create(MockGatewayExtension.class);

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
        return parameter.getParameter().getType() == MockGateway.class;
    }

    /** Without it, a constructor has the context of the class. */
    @Override
    public ExtensionContextScope getTestInstantiationExtensionContextScope(ExtensionContext root) {
        return ExtensionContextScope.TEST_METHOD;
    }

    /** JUnit closes the contents of a store with its test or class, and those of the store of all tests after the last one. */
    @Override
    public MockGateway resolveParameter(ParameterContext parameter, ExtensionContext context) {
        var all = context.getRoot().getStore(STORE);
        var gateway = all.getOrComputeIfAbsent("gateway", key -> RunningGateway.find(), RunningGateway.class);
        var namespace = context.getStore(STORE).getOrComputeIfAbsent(
                key(context), key -> GatewayNamespace.of(gateway), GatewayNamespace.class);
        return namespace.gateway();
    }

    @Override
    public void afterEach(ExtensionContext context) {
        var namespace = context.getStore(STORE).get(key(context), GatewayNamespace.class);
        if (namespace != null && context.getExecutionException().isPresent()) {
            context.publishReportEntry("calls to the mock IAM", namespace.gateway().journal.calls(Map.of()).toString());
        }
    }

    /** A key that the contexts around this one do not have: a store has the contents of theirs too. */
    private static String key(ExtensionContext context) {
        return context.getUniqueId();
    }
}

/** A namespace, which ends when it is closed. */
record GatewayNamespace(MockGateway gateway) implements AutoCloseable {
    static GatewayNamespace of(RunningGateway running) {
        return new GatewayNamespace(new MockGateway(running.address(), UUID.randomUUID().toString()));
    }

    @Override
    public void close() {
        gateway.control("DELETE", "/namespaces/" + gateway.header(), null);
    }
}

/** A gateway, and what stops it. */
record RunningGateway(MockGateway.Address address, AutoCloseable stop) implements AutoCloseable {
    private static final ObjectMapper JSON = new ObjectMapper();

    @Override
    public void close() throws Exception {
        stop.close();
    }

    static RunningGateway find() {
        var url = System.getenv("GATEWAY_URL");
        var managementUrl = System.getenv("GATEWAY_MANAGEMENT_URL");
        var image = System.getenv("MOCK_GATEWAY_IMAGE");
        try {
            if (url != null && managementUrl != null) {
                var metadata = URI.create(url + "/.well-known/oauth-authorization-server").toURL();
                var issuer = JSON.readTree(metadata).get("issuer").asText();
                return new RunningGateway(new MockGateway.Address(url, managementUrl, issuer), () -> {});
            }
            return image != null ? container(image, freePort()) : process(freePort());
        } catch (IOException broken) {
            throw new UncheckedIOException(broken);
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException(interrupted);
        }
    }

    /** The issuer is the URL of the listener, so that services find the keys by discovery. */
    private static RunningGateway process(int port) throws IOException, InterruptedException {
        var program = Optional.ofNullable(System.getenv("GATEWAY_BIN")).orElse("auth-gateway-dev");
        var url = "http://127.0.0.1:" + port;
        Path log = Files.createTempFile("auth-gateway", ".log");
        log.toFile().deleteOnExit();
        var builder = new ProcessBuilder(program).redirectErrorStream(true).redirectOutput(log.toFile());
        builder.environment().putAll(Map.of(
                "AUTH_GATEWAY__HTTP__LISTEN", "127.0.0.1:" + port,
                "AUTH_GATEWAY__HTTP__PUBLIC_URL", url,
                "AUTH_GATEWAY__MANAGEMENT__LISTEN", "127.0.0.1:0",
                "AUTH_GATEWAY__LOG__FORMAT", "json"));
        Process process = builder.start();
        while (process.isAlive()) {
            // The log has this line as soon as both listeners accept connections.
            var lines = Files.readString(log).lines();
            var line = lines.filter(it -> it.contains("\"message\":\"listening\"") && it.endsWith("}")).findAny();
            if (line.isPresent()) {
                JsonNode listening = JSON.readTree(line.get());
                var managementUrl = "http://" + listening.get("management.address").asText();
                return new RunningGateway(new MockGateway.Address(url, managementUrl, url), () -> {
                    process.destroy();
                    process.waitFor();
                });
            }
            Thread.sleep(2);
        }
        throw new IllegalStateException(program + " exited:\n" + Files.readString(log));
    }

    /** The port outside is known before the start, because the issuer is the URL that clients use. */
    private static RunningGateway container(String image, int port) {
        var url = "http://localhost:" + port;
        var container = new GenericContainer<>(DockerImageName.parse(image))
                .withEnv("AUTH_GATEWAY__HTTP__PUBLIC_URL", url)
                .withExposedPorts(8080, 9090)
                .waitingFor(Wait.forHttp("/health/ready").forPort(9090).withStartupTimeout(Duration.ofSeconds(30)));
        container.setPortBindings(List.of(port + ":8080"));
        container.start();
        var managementUrl = "http://" + container.getHost() + ":" + container.getMappedPort(9090);
        return new RunningGateway(new MockGateway.Address(url, managementUrl, url), container);
    }

    private static int freePort() throws IOException {
        try (var probe = new ServerSocket(0)) {
            return probe.getLocalPort();
        }
    }
}
