import com.nimbusds.jose.JOSEObjectType;
import com.nimbusds.jose.JWSAlgorithm;
import com.nimbusds.jose.crypto.Ed25519Verifier;
import com.nimbusds.jose.jwk.JWK;
import com.nimbusds.jose.jwk.JWKMatcher;
import com.nimbusds.jose.jwk.JWKSelector;
import com.nimbusds.jose.jwk.source.JWKSource;
import com.nimbusds.jose.jwk.source.JWKSourceBuilder;
import com.nimbusds.jose.proc.BadJOSEException;
import com.nimbusds.jose.proc.BadJWSException;
import com.nimbusds.jose.proc.DefaultJOSEObjectTypeVerifier;
import com.nimbusds.jose.proc.JWSVerificationKeySelector;
import com.nimbusds.jose.proc.SecurityContext;
import com.nimbusds.jose.util.JSONObjectUtils;
import com.nimbusds.jwt.JWTClaimsSet;
import com.nimbusds.jwt.JWTParser;
import com.nimbusds.jwt.SignedJWT;
import com.nimbusds.jwt.proc.DefaultJWTClaimsVerifier;
import com.nimbusds.jwt.proc.DefaultJWTProcessor;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.text.ParseException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Verifies an access token from discovery alone, with Nimbus: Verify ISSUER AUDIENCE < token */
class Verify {
    public static void main(String[] arguments) throws Exception {
        String issuer = arguments[0];
        String audience = arguments[1];
        String token = new String(System.in.readAllBytes()).strip();

        JWKSource<SecurityContext> keys =
                JWKSourceBuilder.create(URI.create((String) discover(issuer).get("jwks_uri")).toURL()).build();
        var typeVerifier = new DefaultJOSEObjectTypeVerifier<SecurityContext>(new JOSEObjectType("at+jwt"));
        var claimsVerifier = new DefaultJWTClaimsVerifier<SecurityContext>(
                audience, new JWTClaimsSet.Builder().issuer(issuer).build(), Set.of("exp", "iat", "sub"));
        claimsVerifier.setMaxClockSkew(0);
        try {
            if (JWTParser.parse(token) instanceof SignedJWT signed
                    && JWSAlgorithm.EdDSA.equals(signed.getHeader().getAlgorithm())) {
                verifySignature(signed, keys);
                typeVerifier.verify(signed.getHeader().getType(), null);
                claimsVerifier.verify(signed.getJWTClaimsSet(), null);
                System.out.println(signed.getPayload());
                return;
            }
            var processor = new DefaultJWTProcessor<SecurityContext>();
            processor.setJWSKeySelector(
                    new JWSVerificationKeySelector<>(Set.of(JWSAlgorithm.ES256, JWSAlgorithm.RS256), keys));
            processor.setJWSTypeVerifier(typeVerifier);
            processor.setJWTClaimsSetVerifier(claimsVerifier);
            System.out.println(JSONObjectUtils.toJSONString(processor.process(token, null).toJSONObject()));
        } catch (BadJOSEException | ParseException refusal) {
            System.err.println("refused: " + refusal.getMessage());
            System.exit(3);
        }
    }

    private static Map<String, Object> discover(String issuer) throws Exception {
        var request = HttpRequest.newBuilder(URI.create(issuer + "/.well-known/oauth-authorization-server"))
                .timeout(Duration.ofSeconds(10))
                .build();
        var response = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
        Map<String, Object> metadata = JSONObjectUtils.parse(response.body());
        if (!issuer.equals(metadata.get("issuer"))) {
            throw new IllegalStateException("the metadata at " + issuer + " has the issuer " + metadata.get("issuer"));
        }
        return metadata;
    }

    /** Verifies an Ed25519 signature, because the processor of Nimbus converts keys to Java classes and cannot convert these. */
    private static void verifySignature(SignedJWT signed, JWKSource<SecurityContext> keys) throws Exception {
        List<JWK> found = keys.get(new JWKSelector(JWKMatcher.forJWSHeader(signed.getHeader())), null);
        if (found.size() != 1 || !signed.verify(new Ed25519Verifier(found.get(0).toOctetKeyPair()))) {
            throw new BadJWSException("no such key, or not its signature");
        }
    }
}
