package mockgateway;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.nimbusds.jose.JOSEObjectType;
import com.nimbusds.jose.JWSAlgorithm;
import com.nimbusds.jose.jwk.source.JWKSourceBuilder;
import com.nimbusds.jose.proc.DefaultJOSEObjectTypeVerifier;
import com.nimbusds.jose.proc.JWSVerificationKeySelector;
import com.nimbusds.jose.proc.SecurityContext;
import com.nimbusds.jwt.JWTClaimsSet;
import com.nimbusds.jwt.proc.DefaultJWTClaimsVerifier;
import com.nimbusds.jwt.proc.DefaultJWTProcessor;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Set;
import mockgateway.MockGateway.CallFailed;
import mockgateway.MockGateway.Session;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.function.Executable;

/** What a test can do with the mock IAM. All tests run in parallel, with one gateway. */
@ExtendWith(MockGatewayExtension.class)
class MockGatewayTest {
    private static final String READ = "urn:shop:orders:order:read";
    private static final String WRITE = "urn:shop:orders:order:write";
    private static final String ALICE = "alice@example.test";

    private static Session logIn(MockGateway gateway) {
        return gateway.logIn(ALICE, "alice-pass");
    }

    private static void refused(int status, String error, Executable call) {
        var failed = assertThrows(CallFailed.class, call);
        assertEquals(status + " " + error, failed.status() + " " + failed.error());
    }

    @Test
    void aLockedAccountIsRefused(MockGateway gateway) {
        gateway.users.change(ALICE, Map.of("state", "locked"));
        refused(401, "invalid_grant", () -> logIn(gateway));
        var calls = gateway.journal.calls(Map.of("operation", "login"));
        // The client does not receive the reason.
        assertEquals(List.of("locked"), calls.stream().map(MockGateway.Call::reason).toList());
    }

    @Test
    void usersAreCreatedAndDeleted(MockGateway gateway) {
        var carol = gateway.users.create("carol@example.test", "carol-pass", Map.of("permissions", List.of(READ)));
        assertEquals(List.of(READ), carol.permissions());
        gateway.logIn("carol@example.test", "carol-pass");
        assertEquals(1, gateway.users.get("carol@example.test").sessions());
        gateway.users.delete("carol@example.test");
        var left = gateway.users.all().stream().map(MockGateway.User::email);
        assertEquals(List.of(ALICE, "bob@example.test"), left.toList());
    }

    @Test
    void aRemovedPermissionIsMissingInTheNextToken(MockGateway gateway) {
        var session = logIn(gateway);
        gateway.users.change(ALICE, Map.of("permissions", List.of(READ)));
        // The gateway uses the cached permissions for session.freshness.
        assertEquals(READ + " " + WRITE, gateway.exchange(session, READ, WRITE).scope());
        gateway.forget();
        assertEquals(READ, gateway.exchange(session, READ, WRITE).scope());
    }

    @Test
    void theIamIsUnreachableForTheNextLogin(MockGateway gateway) {
        gateway.faults.add(Map.of("operation", "login", "answer", "unreachable", "times", 1));
        refused(500, "temporarily_unavailable", () -> logIn(gateway));
        assertEquals(List.of(), gateway.faults.all());
        logIn(gateway);
    }

    @Test
    void theIamFailsForTheNextExchange(MockGateway gateway) {
        var session = logIn(gateway);
        // Otherwise the exchange does not call the IAM.
        gateway.forget();
        gateway.faults.add(Map.of("operation", "introspection", "answer", "server_error", "times", 1));
        refused(500, "temporarily_unavailable", () -> gateway.exchange(session, READ));
        // Until then the gateway holds the fault.
        gateway.clock.advance(Duration.ofSeconds(1));
        gateway.exchange(session, READ);
    }

    @Test
    void aFaultWithADelayIsRemoved(MockGateway gateway) {
        var fault = gateway.faults.add(Map.of("operation", "login", "delay", Map.of("fixed", "1ms"), "user", ALICE));
        logIn(gateway);
        assertEquals(1, gateway.faults.all().get(0).applied());
        gateway.faults.remove(fault);
        assertEquals(List.of(), gateway.faults.all());
    }

    @Test
    void aSessionExpiresWithoutWaiting(MockGateway gateway) {
        var session = logIn(gateway);
        gateway.clock.advance(Duration.ofHours(8));
        refused(401, "invalid_grant", () -> gateway.exchange(session, READ));
    }

    @Test
    void theClockIsSet(MockGateway gateway) {
        var there = Instant.parse("2030-01-01T00:00:00Z");
        gateway.clock.set(there);
        var past = Duration.between(there, gateway.clock.now());
        assertTrue(!past.isNegative() && past.toMinutes() == 0, past.toString());
    }

    @Test
    void aSessionThatEndsAtTheIamIsRefusedAtOnce(MockGateway gateway) {
        var session = logIn(gateway);
        var other = logIn(gateway);
        gateway.endSession(session.session_id(), true);
        refused(401, "invalid_grant", () -> gateway.exchange(session, READ));
        gateway.exchange(other, READ);
        gateway.logOut(other);
    }

    @Test
    void aHundredExchangesCallTheIamOnce(MockGateway gateway) {
        var session = logIn(gateway);
        gateway.forget();
        for (int n = 0; n < 100; n++) {
            gateway.exchange(session, READ);
        }
        var filters = Map.of("operation", "introspection", "session", session.session_id());
        var calls = gateway.journal.wait(1, Duration.ofSeconds(1), filters);
        assertEquals(1, calls.size());
        assertEquals(ALICE, calls.get(0).user());
        assertEquals(session.session_id(), calls.get(0).session_id());
    }

    @Test
    void aSignedTokenIsVerifiedByThePublishedKeys(MockGateway gateway) throws Exception {
        var token = gateway.sign(Map.of("sub", "carol", "scope", READ));
        assertEquals("carol", verifier(gateway.address()).process(token, null).getSubject());
    }

    @Test
    void anotherNamespaceIsNotAffected(MockGateway gateway) {
        var other = new MockGateway(gateway.address(), gateway.header() + "-other");
        gateway.users.change(ALICE, Map.of("state", "locked"));
        logIn(other);
        assertEquals(List.of(), gateway.journal.calls(Map.of()));
        other.control("DELETE", "/namespaces/" + other.header(), null);
    }

    @Test
    void membersThatALaterVersionAddsAreIgnored() throws IOException {
        var server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
        server.createContext("/", call -> {
            var body = "{\"session_id\": \"s\", \"session_token\": \"t\", \"access_token\": \"a\", \"added\": 1}";
            var bytes = body.getBytes(StandardCharsets.UTF_8);
            call.sendResponseHeaders(200, bytes.length);
            call.getResponseBody().write(bytes);
            call.close();
        });
        server.start();
        try {
            var url = "http://127.0.0.1:" + server.getAddress().getPort();
            var gateway = new MockGateway(new MockGateway.Address(url, url, url), "any");
            var session = logIn(gateway);
            assertEquals("t", session.session_token());
            assertEquals("a", gateway.exchange(session, READ).access_token());
        } finally {
            server.stop(0);
        }
    }

    /** Verifies tokens as a service does. */
    private static DefaultJWTProcessor<SecurityContext> verifier(MockGateway.Address gateway) throws Exception {
        var jwks = URI.create(gateway.url() + "/.well-known/jwks.json").toURL();
        var processor = new DefaultJWTProcessor<SecurityContext>();
        processor.setJWSKeySelector(
                new JWSVerificationKeySelector<>(JWSAlgorithm.ES256, JWKSourceBuilder.create(jwks).build()));
        processor.setJWSTypeVerifier(new DefaultJOSEObjectTypeVerifier<>(new JOSEObjectType("at+jwt")));
        processor.setJWTClaimsSetVerifier(new DefaultJWTClaimsVerifier<>(
                gateway.issuer(), new JWTClaimsSet.Builder().issuer(gateway.issuer()).build(), Set.of("exp", "sub")));
        return processor;
    }
}
