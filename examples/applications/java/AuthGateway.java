package authgateway;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.MissingNode;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.DoubleSupplier;

/**
 * A client of the authentication gateway. Copy this file: it needs Java 17 or later and Jackson.
 *
 * <pre>{@code
 * var gateway = new AuthGateway("https://auth.example.com");
 * var session = gateway.logIn("alice@example.test", "alice-pass");
 * var token = session.accessToken("urn:shop:orders:order:read"); // before each request to a service; it is cached
 * session.logOut();
 * }</pre>
 *
 * <p>All methods can be called by several threads at once. Every failure of a call is a {@link Failure}.
 *
 * <p>The gateway closes a connection after 15 s without a request. Start the program with {@code
 * -Djdk.httpclient.keepalive.timeout=10}, so that it does not send a login on a connection that is just being closed.
 */
public final class AuthGateway {
  // A token is renewed after 70 to 85 % of its lifetime, at random, so that clients do not renew together. It is not used
  // in the last 5 %, so that it does not expire on the way to a service.
  private static final double RENEW_AFTER = 0.7;
  private static final double RENEW_JITTER = 0.15;
  private static final double USABLE_FOR = 0.95;
  // After a failed renewal, while the old token can be used.
  private static final double RENEWAL_PAUSE_SECONDS = 5;
  // Before repetition n: half of BACKOFF_SECONDS * 2^n to all of it, in addition to Retry-After.
  private static final double BACKOFF_SECONDS = 0.25;
  private static final double BACKOFF_MAX_SECONDS = 4;

  /** A failed call. The gateway's log has the {@link #requestId}. */
  public abstract static sealed class Failure extends RuntimeException {
    private final String requestId;

    private Failure(String message, String requestId) {
      super(requestId == null ? message : message + " (request " + requestId + ")");
      this.requestId = requestId;
    }

    public final Optional<String> requestId() {
      return Optional.ofNullable(requestId);
    }
  }

  /** The login was refused: ask the user again. */
  public static final class InvalidCredentials extends Failure {
    private InvalidCredentials(String requestId) {
      super("the credentials are not accepted", requestId);
    }
  }

  /** The session has ended: the user must log in again. */
  public static final class SessionOver extends Failure {
    private SessionOver(String message, String requestId) {
      super(message, requestId);
    }
  }

  /** The gateway or its IAM has a fault that a repetition does not remove: report it with the request id. */
  public static final class GatewayFault extends Failure {
    private GatewayFault(String message, String requestId) {
      super(message, requestId);
    }
  }

  /** The program or its configuration is wrong: a repetition is useless. */
  public static final class RequestRefused extends Failure {
    private final int status;
    private final String error;

    private RequestRefused(int status, String error, String description, String requestId) {
      super("status " + status + ", " + (error == null ? "not of the gateway" : error) + ": " + description, requestId);
      this.status = status;
      this.error = error;
    }

    public int status() {
      return status;
    }

    /** The member {@code error} of the response. */
    public Optional<String> error() {
      return Optional.ofNullable(error);
    }
  }

  /** All repetitions failed, or the call may not be repeated: try later, after {@link #retryAfter} seconds if known. */
  public static final class Unavailable extends Failure {
    private final Risk risk;
    private final OptionalInt retryAfter;

    private Unavailable(String message, Risk risk, OptionalInt retryAfter, String requestId) {
      super(message, requestId);
      this.risk = risk;
      this.retryAfter = retryAfter;
    }

    public OptionalInt retryAfter() {
      return retryAfter;
    }
  }

  /** Whether a failed call may have had an effect. A call is repeated up to the risk that it can take. */
  private enum Risk {
    /** No repetition. */
    NEVER,
    /** It was not processed. */
    NONE,
    /** Perhaps; the gateway says that it may be repeated. */
    ACCEPTED,
    /** Perhaps; the gateway did not respond. */
    UNKNOWN
  }

  // A one-time password is used up once it reached the IAM. Exchanges and logouts have the same effect when repeated.
  private static final Risk LOGIN_RISK = Risk.ACCEPTED;
  private static final Risk OTP_LOGIN_RISK = Risk.NONE;
  private static final Risk IDEMPOTENT_RISK = Risk.UNKNOWN;

  /** For tests: the time in seconds, from any origin; a pause in seconds; and a number from 0 to 1. */
  public record Timing(DoubleSupplier now, Sleep sleep, DoubleSupplier random) {
    /** A pause. */
    public interface Sleep {
      void sleep(double seconds) throws InterruptedException;
    }

    private static final Timing REAL = new Timing(
        () -> System.nanoTime() / 1e9,
        seconds -> Thread.sleep(Math.round(seconds * 1000)),
        () -> ThreadLocalRandom.current().nextDouble());
  }

  private final String base;
  private final double attemptSeconds;
  private final double deadlineSeconds;
  private final Timing timing;
  private final ObjectMapper json = new ObjectMapper();
  // A redirect would send the password or the session elsewhere.
  private final HttpClient client =
      HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).followRedirects(HttpClient.Redirect.NEVER).build();

  public AuthGateway(String url) {
    this(url, 10, 20, Timing.REAL);
  }

  /** The first number bounds each request, the second one a call with all repetitions. */
  public AuthGateway(String url, double attemptSeconds, double deadlineSeconds, Timing timing) {
    this.base = url.replaceAll("/$", "") + "/api/v1/auth/";
    this.attemptSeconds = attemptSeconds;
    this.deadlineSeconds = deadlineSeconds;
    this.timing = timing;
  }

  public Session logIn(String email, String password) throws InterruptedException {
    return logIn(email, password, null, null);
  }

  /**
   * The one-time password is null or empty for users who have none. A server passes the user's address, by which the gateway
   * limits logins; others null.
   */
  public Session logIn(String email, String password, String otp, String clientAddress) throws InterruptedException {
    var credentials = new HashMap<>(Map.of("email", email, "password", password));
    boolean hasOtp = otp != null && !otp.isEmpty();
    if (hasOtp) {
      credentials.put("otp", otp);
    }
    var headers = clientAddress == null ? Map.<String, String>of() : Map.of("X-Forwarded-For", clientAddress);
    var content = call("login", credentials, headers, hasOtp ? OTP_LOGIN_RISK : LOGIN_RISK, () -> {});
    return resume(text(content, "session_id"), text(content, "session_token"), text(content, "expires_at"));
  }

  /** A session that was stored. */
  public Session resume(String sessionId, String sessionToken, String expiresAt) {
    return new Session(sessionId, sessionToken, expiresAt);
  }

  /** It is no record, so that its text has no value. */
  public static final class AccessToken {
    private final String value;
    private final String scope;

    private AccessToken(String value, String scope) {
      this.value = value;
      this.scope = scope;
    }

    public String value() {
      return value;
    }

    /** What was granted, which can be less than what was requested. */
    public String scope() {
      return scope;
    }

    @Override
    public String toString() {
      return "AccessToken(" + scope + ")";
    }
  }

  private static final class Cached {
    private final AccessToken token;
    private final double usableUntil;
    private double renewAt;

    private Cached(AccessToken token, double renewAt, double usableUntil) {
      this.token = token;
      this.renewAt = renewAt;
      this.usableUntil = usableUntil;
    }
  }

  /** Store the id and the token to continue with {@link #resume}. The token is a secret like a password. */
  public final class Session {
    private final String id;
    private final String token;
    private final String expiresAt;
    private boolean over;
    private final Map<String, Cached> tokens = new HashMap<>();
    /** Those in progress. */
    private final Map<String, CompletableFuture<AccessToken>> exchanges = new HashMap<>();

    private Session(String id, String token, String expiresAt) {
      this.id = id;
      this.token = token;
      this.expiresAt = expiresAt;
    }

    public String id() {
      return id;
    }

    public String token() {
      return token;
    }

    public String expiresAt() {
      return expiresAt;
    }

    @Override
    public String toString() {
      return "Session(" + id + ")";
    }

    /** A token from the cache or of a new exchange. Concurrent calls with the same scope share one exchange. */
    public AccessToken accessToken(String scope) throws InterruptedException {
      Cached usable;
      var exchange = new CompletableFuture<AccessToken>();
      CompletableFuture<AccessToken> running;
      synchronized (this) {
        requireActive();
        double now = timing.now().getAsDouble();
        var cached = tokens.get(scope);
        usable = cached != null && now < cached.usableUntil ? cached : null;
        running = exchanges.get(scope);
        if (usable != null && (running != null || now < usable.renewAt)) {
          return usable.token;
        }
        if (running == null) {
          exchanges.put(scope, exchange);
        }
      }
      if (running != null) {
        return resultOf(running);
      }
      try {
        exchange.complete(usable == null ? exchange(scope, IDEMPOTENT_RISK) : renew(scope, usable));
      } catch (Throwable failure) {
        exchange.completeExceptionally(failure);
        throw failure;
      } finally {
        synchronized (this) {
          exchanges.remove(scope);
        }
      }
      return resultOf(exchange);
    }

    /** Removes a token that a service refused with 401, so that the next call makes a new one. */
    public synchronized void discard(AccessToken refused) {
      tokens.values().removeIf(cached -> cached.token == refused);
    }

    /** Ends the session here at once, also if the call fails. It can be repeated. */
    public void logOut() throws InterruptedException {
      end();
      call("logout", pair(), Map.of(), IDEMPOTENT_RISK, () -> {});
    }

    private static AccessToken resultOf(CompletableFuture<AccessToken> exchange) throws InterruptedException {
      try {
        return exchange.get();
      } catch (ExecutionException failed) {
        if (failed.getCause() instanceof Failure failure) {
          throw failure;
        }
        throw new Unavailable("the exchange was interrupted", Risk.UNKNOWN, OptionalInt.empty(), null);
      }
    }

    /** One attempt only, because the old token can still be used. */
    private AccessToken renew(String scope, Cached cached) throws InterruptedException {
      try {
        return exchange(scope, Risk.NEVER);
      } catch (SessionOver over) {
        throw over;
      } catch (Failure failure) {
        double retryAfter = failure instanceof Unavailable unavailable ? unavailable.retryAfter.orElse(0) : 0;
        synchronized (this) {
          cached.renewAt = timing.now().getAsDouble() + Math.max(RENEWAL_PAUSE_SECONDS, retryAfter);
          requireActive(); // A logout during the renewal.
          if (tokens.get(scope) != cached) { // A service has refused the old token.
            throw failure;
          }
        }
        return cached.token;
      }
    }

    private AccessToken exchange(String scope, Risk risk) throws InterruptedException {
      double sentAt = timing.now().getAsDouble();
      var body = pair();
      body.put("grant_type", "session");
      body.put("scope", scope);
      JsonNode content;
      try {
        content = call("token", body, Map.of(), risk, this::requireActive);
      } catch (SessionOver over) {
        end();
        throw over;
      }
      var issued = new AccessToken(text(content, "access_token"), text(content, "scope"));
      if (!content.path("expires_in").isIntegralNumber()) {
        throw new GatewayFault("the response has no lifetime", null);
      }
      double lifetime = content.path("expires_in").asDouble();
      double renewAfter = RENEW_AFTER + RENEW_JITTER * timing.random().getAsDouble();
      synchronized (this) {
        requireActive(); // A logout during the exchange.
        tokens.put(scope, new Cached(issued, sentAt + lifetime * renewAfter, sentAt + lifetime * USABLE_FOR));
      }
      return issued;
    }

    private Map<String, String> pair() {
      return new HashMap<>(Map.of("session_id", id, "session_token", token));
    }

    private synchronized void requireActive() {
      if (over) {
        throw new SessionOver("the session has ended", null);
      }
    }

    private synchronized void end() {
      over = true;
      tokens.clear();
    }
  }

  /** The response, after repetitions as far as the risk allows them. */
  private JsonNode call(
      String operation, Map<String, String> body, Map<String, String> headers, Risk risk, Runnable beforeRepetition)
      throws InterruptedException {
    double deadline = timing.now().getAsDouble() + deadlineSeconds;
    for (int attempt = 0; ; attempt++) {
      try {
        double seconds = Math.min(attemptSeconds, deadline - timing.now().getAsDouble());
        return attempt(operation, body, headers, seconds);
      } catch (Unavailable failure) {
        double backoff = Math.min(BACKOFF_MAX_SECONDS, BACKOFF_SECONDS * Math.pow(2, attempt));
        double pause = failure.retryAfter.orElse(0) + backoff * (1 + timing.random().getAsDouble()) / 2;
        if (failure.risk.compareTo(risk) > 0 || timing.now().getAsDouble() + pause >= deadline) {
          throw failure;
        }
        timing.sleep().sleep(pause);
        beforeRepetition.run();
        if (timing.now().getAsDouble() >= deadline) {
          throw failure;
        }
      }
    }
  }

  private JsonNode attempt(String operation, Map<String, String> body, Map<String, String> headers, double seconds)
      throws InterruptedException {
    var request = HttpRequest.newBuilder(URI.create(base + operation))
        .header("Content-Type", "application/json")
        .header("Accept", "application/json")
        .POST(BodyPublishers.ofString(json.valueToTree(body).toString()));
    headers.forEach(request::header);
    // Not HttpRequest.timeout, which does not bound the time for the body of the response.
    var sent = client.sendAsync(request.build(), BodyHandlers.ofString());
    HttpResponse<String> response;
    try {
      response = sent.get(Math.round(seconds * 1e9), TimeUnit.NANOSECONDS);
    } catch (TimeoutException | ExecutionException failed) {
      var cause = failed.getCause() == null ? failed : failed.getCause();
      String message = "no response to " + operation + ": " + cause.getClass().getSimpleName();
      throw new Unavailable(message, Risk.UNKNOWN, OptionalInt.empty(), null);
    } finally {
      sent.cancel(true);
    }
    var content = parse(response.body());
    if (response.statusCode() == 200) {
      return content;
    }
    throw failure(operation, response.statusCode(), content, retryAfter(response));
  }

  /** Missing unless it is JSON. The exception of the parser is left out: it could quote the text, which can have secrets. */
  private JsonNode parse(String text) {
    try {
      return json.readTree(text);
    } catch (JsonProcessingException unreadable) {
      return MissingNode.getInstance();
    }
  }

  private static OptionalInt retryAfter(HttpResponse<?> response) {
    var seconds = response.headers().firstValue("Retry-After").filter(value -> value.matches("\\d{1,9}"));
    return seconds.map(value -> OptionalInt.of(Integer.parseInt(value))).orElse(OptionalInt.empty());
  }

  private static Failure failure(String operation, int status, JsonNode content, OptionalInt retryAfter) {
    String error = content.path("error").textValue();
    String requestId = content.path("request_id").textValue();
    String message = operation + ": status " + status;
    if (status == 408 || status == 429) {
      return new Unavailable(message, Risk.NONE, retryAfter, requestId);
    }
    if ("temporarily_unavailable".equals(error)) {
      return new Unavailable(message, Risk.ACCEPTED, retryAfter, requestId);
    }
    if (status >= 502 && status <= 504 && error == null) {
      return new Unavailable(message + " of a proxy", Risk.UNKNOWN, retryAfter, null);
    }
    if (status == 401 && "invalid_grant".equals(error)) {
      return operation.equals("login")
          ? new InvalidCredentials(requestId)
          : new SessionOver("the session is not accepted", requestId);
    }
    if (status >= 400 && status < 500) {
      return new RequestRefused(status, error, content.path("error_description").textValue(), requestId);
    }
    return new GatewayFault(message, requestId);
  }

  private static String text(JsonNode content, String name) {
    String value = content.path(name).textValue();
    if (value == null) {
      throw new GatewayFault("the response has no " + name, null);
    }
    return value;
  }
}
