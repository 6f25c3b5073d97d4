import static org.junit.jupiter.api.Assertions.assertEquals;

import com.nimbusds.jose.JOSEObjectType;
import com.nimbusds.jose.JWSAlgorithm;
import com.nimbusds.jose.JWSHeader;
import com.nimbusds.jose.crypto.ECDSASigner;
import com.nimbusds.jose.jwk.ECKey;
import com.nimbusds.jose.jwk.source.JWKSourceBuilder;
import com.nimbusds.jose.proc.DefaultJOSEObjectTypeVerifier;
import com.nimbusds.jose.proc.JWSVerificationKeySelector;
import com.nimbusds.jose.proc.SecurityContext;
import com.nimbusds.jwt.JWTClaimsSet;
import com.nimbusds.jwt.SignedJWT;
import com.nimbusds.jwt.proc.DefaultJWTClaimsVerifier;
import com.nimbusds.jwt.proc.DefaultJWTProcessor;
import java.net.URI;
import java.time.Instant;
import java.util.Date;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;

/** Examples of what a test can do with the mock IAM. */
@ExtendWith(MockExtension.class)
class ExamplesTest {
    private static final String READ = "urn:shop:orders:order:read";
    private static final String BOTH = READ + " urn:shop:orders:order:write";
    private static final String ALICE = "/users/alice@example.test";

    @Test
    void aLockedAccountIsRefused(Mock mock) {
        mock.control("PATCH", ALICE, Map.of("state", "locked"));
        assertEquals(401, mock.logIn().status());
        // The client does not receive the reason.
        assertEquals("locked", mock.read("/journal?operation=login").at("/entries/0/reason").asText());
    }

    @Test
    void theNextLoginIsRefused(Mock mock) {
        mock.control("POST", "/faults",
                Map.of("operation", "login", "times", 1, "answer", Map.of("refused", "disabled")));
        assertEquals(401, mock.logIn().status());
        assertEquals(200, mock.logIn().status());
    }

    @Test
    void aRemovedPermissionIsMissingInTheNextToken(Mock mock) {
        var session = mock.logIn().body();
        mock.control("PATCH", ALICE, Map.of("permissions", List.of(READ)));
        // The gateway uses the cached permissions for session.freshness.
        assertEquals(BOTH, mock.exchange(session, BOTH).body().get("scope").asText());
        mock.control("POST", "/forget", null);
        assertEquals(READ, mock.exchange(session, BOTH).body().get("scope").asText());
    }

    @Test
    void theIamIsUnreachableForTheNextLogin(Mock mock) {
        mock.control("POST", "/faults", Map.of("operation", "login", "times", 1, "answer", "unreachable"));
        var response = mock.logIn();
        assertEquals(500, response.status());
        assertEquals("temporarily_unavailable", response.body().get("error").asText());
        assertEquals(200, mock.logIn().status());
    }

    @Test
    void theIamFailsForTheNextExchange(Mock mock) {
        var session = mock.logIn().body();
        // Otherwise the exchange does not call the IAM.
        mock.control("POST", "/forget", null);
        mock.control("POST", "/faults", Map.of("operation", "introspection", "times", 1, "answer", "server_error"));
        assertEquals(500, mock.exchange(session, READ).status());
        // Until then the gateway holds the fault.
        mock.control("POST", "/time/advance", Map.of("by", "1s"));
        assertEquals(200, mock.exchange(session, READ).status());
    }

    @Test
    void aSessionExpiresWithoutWaiting(Mock mock) {
        var session = mock.logIn().body();
        mock.control("POST", "/time/advance", Map.of("by", "8h"));
        assertEquals(401, mock.exchange(session, READ).status());
    }

    @Test
    void aHundredExchangesCallTheIamOnce(Mock mock) {
        var session = mock.logIn().body();
        mock.control("POST", "/forget", null);
        for (int n = 0; n < 100; n++) {
            assertEquals(200, mock.exchange(session, READ).status());
        }
        assertEquals(1, mock.read("/journal?operation=introspection").get("count").asInt());
    }

    @Test
    void aTokenSignedByTheTestIsVerifiedByThePublishedKeys(Mock mock) throws Exception {
        var key = ECKey.parse(mock.read("/signing-key").toString());
        var header = new JWSHeader.Builder(JWSAlgorithm.ES256).keyID(key.getKeyID()).type(ACCESS_TOKEN).build();
        var claims = new JWTClaimsSet.Builder()
                .issuer(Gateway.ISSUER).audience(Gateway.ISSUER).subject("carol").claim("scope", READ)
                .issueTime(new Date()).expirationTime(Date.from(Instant.now().plusSeconds(60)))
                .build();
        var token = new SignedJWT(header, claims);
        token.sign(new ECDSASigner(key));

        assertEquals("carol", verifier(mock.gateway().publicUrl()).process(token, null).getSubject());
    }

    private static final JOSEObjectType ACCESS_TOKEN = new JOSEObjectType("at+jwt");

    /** Verifies tokens as a service does. */
    private static DefaultJWTProcessor<SecurityContext> verifier(String publicUrl) throws Exception {
        var jwks = URI.create(publicUrl + "/.well-known/jwks.json").toURL();
        var processor = new DefaultJWTProcessor<SecurityContext>();
        processor.setJWSKeySelector(
                new JWSVerificationKeySelector<>(JWSAlgorithm.ES256, JWKSourceBuilder.create(jwks).build()));
        processor.setJWSTypeVerifier(new DefaultJOSEObjectTypeVerifier<>(ACCESS_TOKEN));
        processor.setJWTClaimsSetVerifier(new DefaultJWTClaimsVerifier<>(
                Gateway.ISSUER, new JWTClaimsSet.Builder().issuer(Gateway.ISSUER).build(), Set.of("exp", "sub")));
        return processor;
    }
}
