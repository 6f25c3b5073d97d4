import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.Map;

/** A client of the gateway and of the mock's control API. The header selects the namespace. */
record Mock(Gateway gateway, String namespace) implements AutoCloseable {
    record Response(int status, JsonNode body) {}

    private static final HttpClient HTTP = HttpClient.newHttpClient();
    private static final ObjectMapper JSON = new ObjectMapper();

    Response logIn() {
        var credentials = Map.of("email", "alice@example.test", "password", "alice-pass");
        return call("POST", gateway.publicUrl() + "/api/v1/auth/login", credentials);
    }

    Response exchange(JsonNode session, String scope) {
        ObjectNode body = session.deepCopy();
        body.put("grant_type", "session").put("scope", scope);
        return call("POST", gateway.publicUrl() + "/api/v1/auth/token", body);
    }

    /** Fails unless the control API accepts the request. */
    JsonNode control(String method, String path, Object body) {
        Response response = call(method, gateway.managementUrl() + "/mock/v1" + path, body);
        if (response.status() >= 300) {
            throw new AssertionError(method + " " + path + ": " + response);
        }
        return response.body();
    }

    JsonNode read(String path) {
        return control("GET", path, null);
    }

    @Override
    public void close() {
        control("DELETE", "/namespaces/" + namespace, null);
    }

    private Response call(String method, String url, Object body) {
        try {
            var json = body == null ? "" : JSON.writeValueAsString(body);
            var request = HttpRequest.newBuilder(URI.create(url)).method(method, BodyPublishers.ofString(json))
                    .header("Mock-Namespace", namespace).header("Content-Type", "application/json").build();
            var response = HTTP.send(request, BodyHandlers.ofString());
            return new Response(response.statusCode(), JSON.readTree(response.body()));
        } catch (IOException broken) {
            throw new UncheckedIOException(broken);
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException(interrupted);
        }
    }
}
