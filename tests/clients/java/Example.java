import java.util.stream.Collectors;
import org.openapitools.client.ApiClient;
import org.openapitools.client.ApiException;
import org.openapitools.client.api.AuthenticationApi;
import org.openapitools.client.api.DiscoveryApi;
import org.openapitools.client.model.Credentials;
import org.openapitools.client.model.EcKey;
import org.openapitools.client.model.EdKey;
import org.openapitools.client.model.Exchange;
import org.openapitools.client.model.InvalidGrant;
import org.openapitools.client.model.Jwk;
import org.openapitools.client.model.RsaKey;
import org.openapitools.client.model.SessionPair;

/** Logs in, exchanges the session, reads discovery and logs out, with the generated client: Example GATEWAY_URL */
public final class Example {
  public static void main(String[] arguments) throws Exception {
    var client = new ApiClient().setBasePath(arguments[0]);
    var authentication = new AuthenticationApi(client);
    var discovery = new DiscoveryApi(client);

    // The last argument of a call is the header X-Request-Id; with null, the gateway generates one.
    var wrong = new Credentials().email("alice@example.test").password("not her password");
    System.out.println("wrong password: " + refusal(() -> authentication.login(wrong, null)).getError());

    var credentials = new Credentials().email("alice@example.test").password("alice-pass");
    var session = authentication.login(credentials, null);
    var exchange = new Exchange()
        .sessionId(session.getSessionId())
        .sessionToken(session.getSessionToken())
        .grantType(Exchange.GrantTypeEnum.SESSION)
        .scope("urn:shop:orders:order:read urn:shop:vault:key:read");
    var token = authentication.exchange(exchange, null);
    System.out.println("granted: " + token.getScope());
    System.out.println("lifetime: " + token.getExpiresIn());

    System.out.println("issuer: " + discovery.metadata(null, null).getIssuer());
    var keys = discovery.jwks(null, null).getKeys().stream().map(Example::name).sorted();
    System.out.println("keys: " + keys.collect(Collectors.joining(" ")));

    var pair = new SessionPair().sessionId(session.getSessionId()).sessionToken(session.getSessionToken());
    System.out.println("logout: " + authentication.logout(pair, null).getStatus());
    System.out.println("ended session: " + refusal(() -> authentication.exchange(exchange, null)).getError());
  }

  private static String name(Jwk jwk) {
    if (jwk.getActualInstance() instanceof EcKey key) {
      return key.getAlg() + "=" + key.getKid();
    } else if (jwk.getActualInstance() instanceof EdKey key) {
      return key.getAlg() + "=" + key.getKid();
    }
    RsaKey key = jwk.getRsaKey();
    return key.getAlg() + "=" + key.getKid();
  }

  private interface Call {
    Object make() throws ApiException;
  }

  /** The body of a 401. Any other outcome of the call is an exception. */
  private static InvalidGrant refusal(Call call) throws Exception {
    try {
      throw new IllegalStateException("not refused: " + call.make());
    } catch (ApiException exception) {
      if (exception.getCode() == 401) {
        return InvalidGrant.fromJson(exception.getResponseBody());
      }
      throw exception;
    }
  }
}
