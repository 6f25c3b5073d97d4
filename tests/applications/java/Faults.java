import authgateway.AuthGateway;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Scanner;
import java.util.concurrent.Executors;

/** Makes the calls that {@code tests/applications/run} requests, each in a thread: one JSON object a line in both directions. */
public final class Faults {
  private static final ObjectMapper JSON = new ObjectMapper();
  private final AuthGateway.Timing timing = new AuthGateway.Timing(this::now, this::sleep, this::random);
  private double advanced;
  private volatile double random = 0.5;
  private List<Double> pauses = new ArrayList<>();
  private volatile AuthGateway gateway;
  private volatile AuthGateway.Session session;
  private volatile AuthGateway.AccessToken token;

  private synchronized double now() {
    return System.nanoTime() / 1e9 + advanced;
  }

  private double random() {
    return random;
  }

  private synchronized void sleep(double seconds) {
    pauses.add(seconds);
    advanced += seconds;
  }

  private synchronized void advance(double seconds) {
    advanced += seconds;
  }

  private synchronized List<Double> takePauses() {
    var made = pauses;
    pauses = new ArrayList<>();
    return made;
  }

  private Object handle(JsonNode call) throws Exception {
    switch (call.get("do").asText()) {
      case "new" -> {
        takePauses();
        random = 0.5;
        gateway = new AuthGateway(
            call.get("url").asText(), call.get("attempt").asDouble(), call.get("deadline").asDouble(), timing);
      }
      case "login" -> {
        session = gateway.logIn(
            call.get("email").asText(), call.get("password").asText(), call.path("otp").textValue(),
            call.path("address").textValue());
        return Map.of("session_id", session.id(), "session_token", session.token(), "expires_at", session.expiresAt());
      }
      case "resume" ->
          session = gateway.resume(call.get("session_id").asText(), call.get("session_token").asText(), null);
      case "token" -> {
        var issued = session.accessToken(call.get("scope").asText());
        token = issued;
        return Map.of("value", issued.value(), "scope", issued.scope());
      }
      case "discard" -> session.discard(token);
      case "logout" -> session.logOut();
      case "advance" -> advance(call.get("seconds").asDouble());
      case "random" -> random = call.get("value").asDouble();
      case "pauses" -> {
        return takePauses();
      }
      case "shown" -> {
        return gateway + " " + session + " " + token;
      }
      default -> throw new IllegalArgumentException();
    }
    return null;
  }

  private Map<String, Object> answer(JsonNode call) {
    var answer = new HashMap<String, Object>(Map.of("id", call.get("id")));
    try {
      answer.put("result", handle(call));
    } catch (Exception failure) {
      var shown = new StringWriter();
      failure.printStackTrace(new PrintWriter(shown, true));
      answer.put("error", failure.getClass().getSimpleName());
      answer.put("shown", failure + " " + shown);
      if (failure instanceof AuthGateway.Failure known) {
        answer.put("request_id", known.requestId().orElse(null));
      }
      if (failure instanceof AuthGateway.RequestRefused refused) {
        answer.put("code", refused.error().orElse(null));
      }
      if (failure instanceof AuthGateway.Unavailable unavailable && unavailable.retryAfter().isPresent()) {
        answer.put("retry_after", unavailable.retryAfter().getAsInt());
      }
    }
    return answer;
  }

  private void print(Map<String, Object> answer) {
    synchronized (System.out) {
      System.out.println(JSON.valueToTree(answer));
    }
  }

  public static void main(String[] arguments) throws Exception {
    var faults = new Faults();
    var threads = Executors.newCachedThreadPool();
    for (var lines = new Scanner(System.in); lines.hasNextLine(); ) {
      var call = JSON.readTree(lines.nextLine());
      threads.submit(() -> faults.print(faults.answer(call)));
    }
    threads.shutdown();
  }
}
