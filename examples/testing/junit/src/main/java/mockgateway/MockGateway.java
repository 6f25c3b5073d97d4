package mockgateway;

import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/**
 * One namespace of a gateway with the mock IAM: users, sessions, faults, time and journal of its own. {@link #header} selects
 * it: the application under test forwards it to the gateway.
 */
public final class MockGateway {
    public static final String HEADER = "Mock-Namespace";

    private static final HttpClient HTTP = HttpClient.newHttpClient();
    private static final ObjectMapper JSON = new ObjectMapper();

    /** Where a gateway is, and the issuer of its tokens. */
    public record Address(String url, String managementUrl, String issuer) {}

    /** Names are those of the interface. */
    @JsonIgnoreProperties(ignoreUnknown = true)
    public record Session(String session_id, String session_token, String verified_at, String expires_at) {}

    @JsonIgnoreProperties(ignoreUnknown = true)
    public record AccessToken(String access_token, String scope, int expires_in, String token_type) {}

    @JsonIgnoreProperties(ignoreUnknown = true)
    public record User(
            String email, String subject, List<String> permissions, JsonNode attributes, String state, int sessions, String otp) {}

    @JsonIgnoreProperties(ignoreUnknown = true)
    public record Fault(int id, String operation, int applied, Integer remaining) {}

    /** A call that the gateway made to the IAM. */
    @JsonIgnoreProperties(ignoreUnknown = true)
    public record Call(
            int number, String at, String operation, String outcome, String reason, String user, String session,
            String session_id, String request_id, Integer fault, double took_ms) {}

    /** The gateway or the mock refused a call, or failed. */
    public static final class CallFailed extends RuntimeException {
        private final int status;
        private final String error;

        CallFailed(String what, int status, JsonNode body) {
            super(what + ": " + status + " " + body);
            this.status = status;
            this.error = body.path("error").asText();
        }

        public int status() {
            return status;
        }

        public String error() {
            return error;
        }
    }

    private final Address address;
    private final String namespace;
    public final Users users = new Users();
    public final Faults faults = new Faults();
    public final Clock clock = new Clock();
    public final Journal journal = new Journal();

    public MockGateway(Address address, String namespace) {
        this.address = address;
        this.namespace = namespace;
    }

    public Address address() {
        return address;
    }

    /** The value of {@link #HEADER}. */
    public String header() {
        return namespace;
    }

    public Session logIn(String email, String password) {
        return api("login", Map.of("email", email, "password", password), Session.class);
    }

    public AccessToken exchange(Session session, String... scopes) {
        var body = new HashMap<>(pair(session));
        body.put("grant_type", "session");
        body.put("scope", String.join(" ", scopes));
        return api("token", body, AccessToken.class);
    }

    public void logOut(Session session) {
        api("logout", pair(session), JsonNode.class);
    }

    /** Clears the gateway's caches: the next exchange of each session calls the IAM. */
    public void forget() {
        control("POST", "/forget", null);
    }

    /** An access token with these claims in place of those of an ordinary one; null removes one. */
    public String sign(Map<String, ?> claims) {
        return control("POST", "/tokens", Map.of("claims", claims)).get("access_token").asText();
    }

    /** Ends a session, by either id, at the IAM, with or without a back-channel logout. */
    public void endSession(String id, boolean notify) {
        control("DELETE", "/sessions/" + encoded(id) + "?notify=" + notify, null);
    }

    /** Any call of the control API, which /mock/v1/openapi.yaml describes. */
    public JsonNode control(String method, String path, Object body) {
        return call(method, address.managementUrl() + "/mock/v1" + path, body);
    }

    public final class Users {
        public List<User> all() {
            return list(control("GET", "/users", null).get("users"), User[].class);
        }

        public User get(String email) {
            return read(control("GET", path(email), null), User.class);
        }

        /** Further members: permissions, state, attributes, subject and totp_secret, as in a users file. */
        public User create(String email, String password, Map<String, ?> members) {
            var body = new HashMap<String, Object>(members);
            body.put("email", email);
            body.put("password", password);
            return read(control("POST", "/users", body), User.class);
        }

        /** Members: password, permissions, state, attributes and totp_secret. */
        public User change(String email, Map<String, ?> members) {
            return read(control("PATCH", path(email), members), User.class);
        }

        public void delete(String email) {
            control("DELETE", path(email), null);
        }

        private String path(String email) {
            return "/users/" + encoded(email);
        }
    }

    public final class Faults {
        /** {@code add(Map.of("operation", "login", "answer", "unreachable", "times", 1))}, as in the control API. */
        public Fault add(Map<String, ?> rule) {
            return read(control("POST", "/faults", rule), Fault.class);
        }

        /** Those that are not used up. */
        public List<Fault> all() {
            return list(control("GET", "/faults", null).get("faults"), Fault[].class);
        }

        public void remove(Fault fault) {
            control("DELETE", "/faults/" + fault.id(), null);
        }
    }

    /** The time of the mock and of the gateway, in this namespace. */
    public final class Clock {
        public Instant now() {
            return Instant.parse(control("GET", "/time", null).get("now").asText());
        }

        public void advance(Duration by) {
            control("POST", "/time/advance", Map.of("by", by.toMillis() + "ms"));
        }

        public void set(Instant now) {
            control("PUT", "/time", Map.of("now", now.toString()));
        }
    }

    /** The calls of the gateway to the IAM. Filters: operation, user, outcome, request_id and session. */
    public final class Journal {
        public List<Call> calls(Map<String, String> filters) {
            return entries("/journal", filters);
        }

        /** Waits for this number of calls, at most 60 s. Returns those that there are. */
        public List<Call> wait(int count, Duration timeout, Map<String, String> filters) {
            var all = new HashMap<>(filters);
            all.put("count", String.valueOf(count));
            all.put("timeout", timeout.toMillis() + "ms");
            return entries("/journal/wait", all);
        }

        private List<Call> entries(String path, Map<String, String> filters) {
            var query = filters.entrySet().stream().map(it -> "&" + it.getKey() + "=" + encoded(it.getValue()));
            var found = control("GET", path + "?limit=10000" + query.collect(Collectors.joining()), null);
            return list(found.get("entries"), Call[].class);
        }
    }

    private <T> T api(String operation, Object body, Class<T> type) {
        return read(call("POST", address.url() + "/api/v1/auth/" + operation, body), type);
    }

    private JsonNode call(String method, String url, Object body) {
        try {
            var sent = body == null ? BodyPublishers.noBody() : BodyPublishers.ofString(JSON.writeValueAsString(body));
            var request = HttpRequest.newBuilder(URI.create(url)).method(method, sent).header(HEADER, namespace);
            if (body != null) {
                request.header("Content-Type", "application/json");
            }
            var response = HTTP.send(request.build(), BodyHandlers.ofString());
            var read = JSON.readTree(response.body());
            if (response.statusCode() >= 300) {
                throw new CallFailed(method + " " + url, response.statusCode(), read);
            }
            return read;
        } catch (IOException broken) {
            throw new UncheckedIOException(broken);
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException(interrupted);
        }
    }

    private static Map<String, String> pair(Session session) {
        return Map.of("session_id", session.session_id(), "session_token", session.session_token());
    }

    private static <T> T read(JsonNode json, Class<T> type) {
        return JSON.convertValue(json, type);
    }

    private static <T> List<T> list(JsonNode json, Class<T[]> type) {
        return Arrays.asList(read(json, type));
    }

    private static String encoded(String text) {
        return URLEncoder.encode(text, StandardCharsets.UTF_8).replace("+", "%20");
    }
}
