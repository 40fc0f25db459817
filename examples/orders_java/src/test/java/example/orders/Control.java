package example.orders;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The server's control, by plain HTTP: what curl could do, with the few requests that these tests need. */
class Control {
    private final HttpClient http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    private final String url;
    private final String scope;

    Control(String url, String scope) {
        this.url = url;
        this.scope = scope;
    }

    /** Sets a fault rule; returns its id. */
    String fault(String match, String action, String extent) {
        String rule = """
                {"match": {%s}, "action": {%s}, "extent": {%s}, "scope": "%s"}""".formatted(match, action, extent, scope);
        return field(send("POST", "/v1/faults", rule), "\"id\": ?\"([^\"]+)\"");
    }

    /** Waits until a rule is at `acted:N` or `held:N`. */
    void waitFor(String fault, String until) {
        reached("/v1/faults/" + fault + "?until=" + until);
    }

    /** Removes a rule; what it holds is released. */
    void clear(String fault) {
        send("DELETE", "/v1/faults/" + fault, null);
    }

    /** Records the requests that match and their answers; returns the recording's id. */
    String record(String match) {
        String wanted = "{\"match\": {%s}, \"scope\": \"%s\"}".formatted(match, scope);
        return field(send("POST", "/v1/recordings", wanted), "\"id\": ?\"([^\"]+)\"");
    }

    /** What a recording has so far, as JSON. */
    String entries(String recording) {
        return send("GET", "/v1/recordings/" + recording, null);
    }

    /** The id of the only member of a group. */
    String onlyMember(String group) {
        return field(send("GET", "/v1/groups/" + group, null), "\"member_id\": ?\"([^\"]+)\"");
    }

    /** Ends the session of a member. */
    void expireSession(String group, String member) {
        send("POST", "/v1/groups/" + group + "/members/" + member + "/expire-session", "{}");
    }

    /** Waits for a state of a group, such as `state:Stable,members:1`. */
    void waitForGroup(String group, String until) {
        reached("/v1/groups/" + group + "?until=" + until);
    }

    /** The generation of a group. */
    int generation(String group) {
        return Integer.parseInt(field(send("GET", "/v1/groups/" + group, null), "\"generation\": ?([0-9]+)"));
    }

    void rebalance(String group) {
        send("POST", "/v1/groups/" + group + "/rebalance", "{\"reason\": \"a test\"}");
    }

    void reload(String group, int forMs) {
        send("POST", "/v1/groups/" + group + "/reload", "{\"for_ms\": " + forMs + "}");
    }

    void stopClock() {
        send("POST", "/v1/clock", "{\"mode\": \"manual\"}");
    }

    /** Advances the clock; returns what fired. */
    String advance(int ms) {
        return send("POST", "/v1/clock", "{\"advance_ms\": " + ms + "}");
    }

    /** Clears what the test has set, and lets the clock run. */
    void end() {
        send("DELETE", "/v1/faults?scope=" + scope, null);
        send("DELETE", "/v1/recordings?scope=" + scope, null);
        send("POST", "/v1/clock", "{\"mode\": \"real\"}");
    }

    private void reached(String path) {
        String answer = send("GET", path + "&timeout_ms=10000", null);
        if (!Pattern.compile("\"reached\": ?true").matcher(answer).find()) {
            throw new AssertionError(path + " was not reached: " + answer);
        }
    }

    private String send(String method, String path, String body) {
        HttpRequest.BodyPublisher content = body == null
                ? HttpRequest.BodyPublishers.noBody() : HttpRequest.BodyPublishers.ofString(body);
        HttpRequest request = HttpRequest.newBuilder(URI.create(url + path))
                .header("Content-Type", "application/json").method(method, content).build();
        try {
            HttpResponse<String> response = http.send(request, HttpResponse.BodyHandlers.ofString());
            if (response.statusCode() >= 300) {
                throw new AssertionError(method + " " + path + ": " + response.statusCode() + " " + response.body());
            }
            return response.body();
        } catch (IOException | InterruptedException error) {
            throw new AssertionError(method + " " + path, error);
        }
    }

    private static String field(String json, String pattern) {
        Matcher found = Pattern.compile(pattern).matcher(json);
        if (!found.find()) {
            throw new AssertionError(pattern + " is not in " + json);
        }
        return found.group(1);
    }
}
