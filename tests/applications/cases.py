"""What every client must do: `SCRIPTED` with a scripted server, `REAL` with a gateway and the mock IAM. `PYTHON` is for that
language, whose HTTP client has no time limit of a whole request; `RUST` is for that one, which has several runtimes."""

import json
import re
import socket
import threading
import time
import urllib.request
from pathlib import Path

from server import closed, dribbled, held, reply, reset, silent, truncated

PAGE = Path(__file__).resolve().parents[2] / "docs" / "applications.md"
READ, WRITE = "urn:shop:orders:order:read", "urn:shop:orders:order:write"
EMAIL, PASSWORD = "alice@example.test", "alice-pass"
SESSION = {"session_id": "session-1", "session_token": "secret-of-the-session"}
TIMES = {"verified_at": "2026-11-21T02:50:41+00:00", "expires_at": "2026-11-21T12:50:41+00:00"}
LOGGED_IN = reply(200, SESSION | TIMES)
LOGGED_OUT = reply(200, {"status": "Ok"})
LIFETIME = 3600
DEADLINE = 20
# The time for which a response is held, so that calls which do not share one exchange all send a request.
OVERLAP_SECONDS = 0.2
# The members `error_description` and `request_id` of every error response.
DETAILS = {"error_description": "for people", "request_id": "request-1"}
UNAVAILABLE = {"error": "temporarily_unavailable", **DETAILS}
HTML = "<html>not of the gateway</html>"

SCRIPTED, REAL, PYTHON, RUST = [], [], [], []


def scripted(case):
    SCRIPTED.append(case)
    return case


def real(case):
    REAL.append(case)
    return case


def python(case):
    PYTHON.append(case)
    return case


def rust(case):
    RUST.append(case)
    return case


def issued(number=1, scope=READ, lifetime=LIFETIME):
    body = {"access_token": f"secret-token-{number}", "scope": scope, "expires_in": lifetime, "token_type": "bearer"}
    return reply(200, body)


def refused(status, error, **headers):
    return reply(status, {"error": error, **DETAILS}, **headers)


def resumed(client, server, **options):
    client.new(server.url, **options)
    client("resume", **SESSION)


def equal(found, expected):
    assert found == expected, f"found {found!r}, expected {expected!r}"


def between(least, found, most):
    assert least <= found <= most, f"found {found!r}, expected from {least} to {most}"


# ---- Requests


@scripted
def requests_have_the_members_of_the_interface_and_no_secret_elsewhere(client, server):
    server.prescribe("login", LOGGED_IN, LOGGED_IN)
    server.prescribe("token", issued())
    server.prescribe("logout", LOGGED_OUT)
    client.new(server.url)
    client("login", email=EMAIL, password=PASSWORD, otp="755224", address="2001:db8::7")
    equal(client("login", email=EMAIL, password=PASSWORD), SESSION | {"expires_at": TIMES["expires_at"]})
    equal(client("token", scope=READ), {"value": "secret-token-1", "scope": READ})
    client("logout")
    equal(
        [(request.target.rpartition("/")[2], request.body) for request in server.requests],
        [
            ("login", {"email": EMAIL, "password": PASSWORD, "otp": "755224"}),
            ("login", {"email": EMAIL, "password": PASSWORD}),
            ("token", SESSION | {"grant_type": "session", "scope": READ}),
            ("logout", SESSION),
        ],
    )
    equal([request.headers.get("x-forwarded-for") for request in server.requests], ["2001:db8::7", None, None, None])
    for request in server.requests:
        equal(request.headers["content-type"].partition(";")[0], "application/json")
        assert not re.search("secret|755224|alice", f"{request.target} {request.headers}")


@scripted
def a_redirect_is_not_followed(client, server):
    server.prescribe("login", reply(307, HTML, Location=f"{server.url}/elsewhere"))
    client.new(server.url)
    equal(client.error("login", email=EMAIL, password=PASSWORD)["error"], "GatewayFault")
    equal(len(server.requests), 1)


@scripted
def nothing_that_a_program_prints_has_a_secret(client, server):
    server.prescribe("login", LOGGED_IN)
    server.prescribe("token", issued())
    client.new(server.url)
    client("login", email=EMAIL, password=PASSWORD)
    client("token", scope=READ)
    shown = client("shown")
    assert "session-1" in shown and not re.search("secret|pass", shown), shown


# ---- The table of errors


@scripted
def the_table_of_errors_is_what_the_client_does(client, server):
    rows = table_of_errors()
    assert len(rows) >= 15
    calls = {
        "login": {"do": "login", "email": EMAIL, "password": PASSWORD},
        "login with `otp`": {"do": "login", "email": EMAIL, "password": PASSWORD, "otp": "755224"},
        "exchange": {"do": "token", "scope": READ},
        "logout": {"do": "logout"},
    }
    succeeds = {"login": LOGGED_IN, "token": issued(), "logout": LOGGED_OUT}
    fails = {
        "ask the user again": "InvalidCredentials", "log in again": "SessionOver", "give up": "RequestRefused",
        "report": "GatewayFault", "show": "Unavailable",
    }
    for row in rows:
        for column, call in calls.items():
            action, operation = row[column], {"exchange": "token"}.get(column, call["do"])
            if action == "–":
                continue
            server.reset()
            server.prescribe(operation, row["response"], succeeds[operation])
            resumed(client, server)
            place = f"{row['status']} {row['error']}, {column}: {action}"
            if action == "repeat":
                client(**call)
                assert server.count(operation) == 2 and len(client("pauses")) == 1, place
            else:
                error = client.error(**call)
                assert (error["error"], server.count(operation)) == (fails[action], 1), f"{place}: {error}"
    server.reset()


def table_of_errors():
    """The rows of the page, each with a response that it is about."""
    table = PAGE.read_text().partition("\n| status |")[2].partition("\n\n")[0]
    header, _, *lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in f"status |{table}".splitlines()]
    rows = []
    for line in lines:
        row = dict(zip(header, line, strict=True))
        error = row["error"] = row.pop("`error`").strip("`")
        for status in row.pop("status").split(", "):
            rows.append({**row, "status": status, "response": response_of(status, error)})
    return rows


def response_of(status, error):
    if status == "none":
        return reset
    return reply(int(status), HTML) if error == "none" else refused(int(status), error)


@scripted
def the_table_of_errors_has_all_errors_of_the_interface(client, server):
    ours = {(row["status"], row["error"]) for row in table_of_errors() if "none" not in (row["status"], row["error"])}
    text = (PAGE.parent / "errors.md").read_text()
    theirs = {
        (status, error)
        for statuses, error in re.findall(r"^\| ([\d, ]+) \| `(\w+)` \|", text, re.M)
        for status in statuses.split(", ")
        if error not in ("invalid_token", "access_denied")  # Of calls of operators.
    }
    # With http.precise_backend_status.
    theirs |= {("502", "server_error"), ("502", "temporarily_unavailable"), ("504", "temporarily_unavailable")}
    equal(sorted(ours ^ theirs), [])


@scripted
def the_wait_is_retry_after_and_a_backoff(client, server):
    for operation, arguments, success in (
        ("login", {"email": EMAIL, "password": PASSWORD}, LOGGED_IN),
        ("token", {"scope": READ}, issued()),
        ("logout", {}, LOGGED_OUT),
    ):
        without, of_seconds = reply(503, UNAVAILABLE), reply(503, UNAVAILABLE, Retry_After=3)
        of_date = reply(503, UNAVAILABLE, Retry_After="Wed, 21 Oct 2026 07:28:00 GMT")
        server.prescribe(operation, without, of_seconds, of_date, success)
        resumed(client, server)
        client(operation, **arguments)
        first, second, third = client("pauses")
        between(0.125, first, 0.25)
        between(3.25, second, 3.5)
        between(0.5, third, 1)


@scripted
def two_clients_do_not_wait_equally_long(client, server):
    for value, expected in ((0, 0.125), (1, 0.25)):
        server.prescribe("token", reply(503, UNAVAILABLE), issued())
        resumed(client, server)
        client("random", value=value)
        client("token", scope=READ)
        equal([round(pause, 6) for pause in client("pauses")], [expected])


@scripted
def a_wait_beyond_the_deadline_is_an_error_at_once(client, server):
    for operation, arguments in (("login", {"email": EMAIL, "password": PASSWORD}), ("token", {"scope": READ}), ("logout", {})):
        server.prescribe(operation, reply(429, UNAVAILABLE, Retry_After=30))
        resumed(client, server)
        error = client.error(operation, **arguments)
        equal((error["error"], error["retry_after"], error["request_id"]), ("Unavailable", 30, "request-1"))
        equal((client("pauses"), server.count(operation)), ([], 1))


@scripted
def repetitions_end_with_the_deadline(client, server):
    server.prescribe("token", *[reply(503, UNAVAILABLE, Retry_After=2)] * 30)
    resumed(client, server)
    error = client.error("token", scope=READ)
    equal((error["error"], error["retry_after"]), ("Unavailable", 2))
    pauses = client("pauses")
    equal(server.count("token"), len(pauses) + 1)
    assert len(pauses) >= 2 and sum(pauses) < DEADLINE
    server.reset()


@scripted
def a_401_that_is_not_of_the_gateway_does_not_end_the_session(client, server):
    server.prescribe("token", reply(401, HTML), issued())
    resumed(client, server)
    equal(client.error("token", scope=READ)["error"], "RequestRefused")
    client("token", scope=READ)


@scripted
def an_error_has_the_code_and_the_request_id(client, server):
    server.prescribe("token", refused(400, "invalid_scope"), refused(500, "server_error"))
    resumed(client, server)
    error = client.error("token", scope="two  spaces")
    equal((error["error"], error["code"], error["request_id"]), ("RequestRefused", "invalid_scope", "request-1"))
    assert "for people" in error["shown"]
    equal(client.error("token", scope=READ)["request_id"], "request-1")


# ---- Connections and responses that fail


@scripted
def an_exchange_and_a_logout_are_repeated_after_a_broken_connection(client, server):
    for operation, arguments, success in (("token", {"scope": READ}, issued()), ("logout", {}, LOGGED_OUT)):
        faults = (reset, closed, truncated(success))
        server.prescribe(operation, *faults, success)
        resumed(client, server)
        client(operation, **arguments)
        equal(len(client("pauses")), len(faults))


@scripted
def a_login_is_not_repeated_after_a_broken_connection(client, server):
    for fault in (reset, closed, truncated(LOGGED_IN)):
        server.prescribe("login", fault)
        client.new(server.url)
        equal(client.error("login", email=EMAIL, password=PASSWORD)["error"], "Unavailable")
    equal(server.count("login"), 3)


@scripted
def a_server_that_does_not_respond_in_time_is_given_up(client, server):
    for fault in (silent, dribbled(issued())):
        # More than one success: this short attempt can also fail on a busy machine.
        server.prescribe("token", fault, *[issued()] * 5)
        resumed(client, server, attempt=1)
        client("token", scope=READ)
        assert server.count("token") >= 2
        server.reset()
    server.prescribe("login", silent)
    client.new(server.url, attempt=0.2)
    equal(client.error("login", email=EMAIL, password=PASSWORD)["error"], "Unavailable")
    equal(server.count("login"), 1)


@scripted
def a_slow_response_in_time_is_used(client, server):
    released = threading.Event()
    server.prescribe("token", held(released, issued()))
    resumed(client, server)
    call = client.start("token", scope=READ)
    server.wait_for("token", 1)
    time.sleep(OVERLAP_SECONDS)
    released.set()
    equal(call.result()["value"], "secret-token-1")


@scripted
def a_server_that_is_not_there_is_unavailable(client, server):
    client.new("http://127.0.0.1:1")
    client("resume", **SESSION)
    for do, arguments in (("login", {"email": EMAIL, "password": PASSWORD}), ("token", {"scope": READ}), ("logout", {})):
        equal(client.error(do, **arguments)["error"], "Unavailable")


@python
def the_time_limit_includes_the_connection(client, server):
    # Its queue is full, so further connections are neither accepted nor refused.
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, socket.create_connection(full.getsockname()):
        for host in ("unresolved.test", "many.test"):
            client.new(f"http://{host}:{full.getsockname()[1]}", attempt=0.2)
            equal(client.error("login", email=EMAIL, password=PASSWORD)["error"], "Unavailable")


@scripted
def a_success_that_is_not_understood_is_a_fault_and_is_not_quoted(client, server):
    token = json.dumps({"access_token": "secret-token-1", "scope": READ, "expires_in": 60})
    answers = (token[:-1], f"[{token}]", "[]", "", json.dumps({"access_token": "secret-token-1", "expires_in": 60}),
               token.replace("60", '"60"'), token.replace(f'"{READ}"', "7"))
    server.prescribe("token", *(reply(200, text or "null") for text in answers))
    server.prescribe("login", reply(200, json.dumps(SESSION)[:-1]), reply(200, {"session_token": "secret"}))
    resumed(client, server)
    for _ in answers:
        equal(client.error("token", scope=READ)["error"], "GatewayFault")
    for _ in range(2):
        equal(client.error("login", email=EMAIL, password=PASSWORD)["error"], "GatewayFault")
    equal(server.count("token"), len(answers))


# ---- The cache of access tokens


@scripted
def a_token_is_cached_for_its_scope(client, server):
    server.prescribe("token", issued(1), issued(2, WRITE))
    resumed(client, server)
    for _ in range(3):
        equal(client("token", scope=READ)["value"], "secret-token-1")
        equal(client("token", scope=WRITE), {"value": "secret-token-2", "scope": WRITE})


@scripted
def the_granted_scope_is_that_of_the_response(client, server):
    server.prescribe("token", issued(scope=""))
    resumed(client, server)
    equal(client("token", scope=READ)["scope"], "")


@scripted
def a_token_is_renewed_before_it_expires_at_a_random_time(client, server):
    for lifetime in (LIFETIME, 300):
        for value, share in ((0, 0.7), (1, 0.85)):
            server.reset()
            server.prescribe("token", issued(1, lifetime=lifetime), issued(2, lifetime=lifetime))
            resumed(client, server)
            client("random", value=value)
            client("token", scope=READ)
            client("advance", seconds=lifetime * (share - 0.1))
            equal(client("token", scope=READ)["value"], "secret-token-1")
            client("advance", seconds=lifetime * 0.1 + 1)
            equal(client("token", scope=READ)["value"], "secret-token-2")


@scripted
def while_a_renewal_fails_the_old_token_is_used_as_long_as_it_can_be(client, server):
    failures = (
        reply(503, UNAVAILABLE, Retry_After=60), refused(500, "server_error"), reset, reply(404, HTML), reply(401, HTML),
    )
    server.prescribe("token", issued(1), *failures)
    resumed(client, server)
    client("token", scope=READ)
    client("advance", seconds=LIFETIME * 0.86)
    for count, pause in ((2, 60), (3, 5), (4, 5), (5, 5), (6, 5)):
        for _ in range(3):
            equal(client("token", scope=READ)["value"], "secret-token-1")
        equal(server.count("token"), count)  # One attempt, and none before the pause is over.
        client("advance", seconds=pause + 1)
    equal(client("pauses"), [])
    client("advance", seconds=LIFETIME * 0.1)
    server.prescribe("token", refused(500, "server_error"), issued(2))
    equal(client.error("token", scope=READ)["error"], "GatewayFault")
    equal(client("token", scope=READ)["value"], "secret-token-2")


@scripted
def a_token_is_not_used_shortly_before_it_expires(client, server):
    server.prescribe("token", issued(1), reply(503, UNAVAILABLE), issued(2))
    resumed(client, server)
    client("token", scope=READ)
    client("advance", seconds=LIFETIME * 0.96)
    equal(client("token", scope=READ)["value"], "secret-token-2")


@scripted
def a_token_that_a_service_refused_is_replaced(client, server):
    server.prescribe("token", issued(1), issued(2))
    resumed(client, server)
    client("token", scope=READ)
    client("discard")
    equal(client("token", scope=READ)["value"], "secret-token-2")


def renewal(client, server, late, *later):
    """A call that renews the first token, and the event that lets it get this response. Further exchanges get the later ones."""
    server.reset()
    released = threading.Event()
    server.prescribe("token", issued(1), held(released, late), *later)
    resumed(client, server)
    client("token", scope=READ)
    client("advance", seconds=LIFETIME * 0.86)
    call = client.start("token", scope=READ)
    server.wait_for("token", 2)
    return call, released


@scripted
def a_token_that_a_service_refused_during_a_renewal_is_not_used_again(client, server):
    for late, error in ((reply(503, UNAVAILABLE), "Unavailable"), (refused(500, "server_error"), "GatewayFault")):
        call, released = renewal(client, server, late, issued(2))
        client("discard")
        released.set()
        equal(call.failure()["error"], error)
        equal(client("token", scope=READ)["value"], "secret-token-2")


# ---- The end of a session


@scripted
def a_401_ends_the_session_for_all_scopes_and_without_further_requests(client, server):
    server.prescribe("token", issued(1), refused(401, "invalid_grant"))
    resumed(client, server)
    client("token", scope=READ)
    for scope in (WRITE, READ, WRITE):
        equal(client.error("token", scope=scope)["error"], "SessionOver")
    equal(server.count("token"), 2)


@scripted
def a_401_at_a_renewal_ends_the_session_although_the_old_token_is_valid(client, server):
    server.prescribe("token", issued(1), refused(401, "invalid_grant"))
    resumed(client, server)
    client("token", scope=READ)
    client("advance", seconds=LIFETIME * 0.86)
    for _ in range(2):
        equal(client.error("token", scope=READ)["error"], "SessionOver")


@scripted
def a_401_at_a_repetition_ends_the_session(client, server):
    server.prescribe("token", reply(503, UNAVAILABLE), refused(401, "invalid_grant"))
    resumed(client, server)
    equal(client.error("token", scope=READ)["error"], "SessionOver")


@scripted
def after_a_logout_no_token_is_returned_even_if_the_logout_failed(client, server):
    for response in (LOGGED_OUT, refused(500, "server_error"), refused(400, "invalid_request")):
        server.reset()
        server.prescribe("token", issued())
        server.prescribe("logout", response, LOGGED_OUT)
        resumed(client, server)
        client("token", scope=READ)
        if response is LOGGED_OUT:
            client("logout")
        else:
            client.error("logout")
        equal(client.error("token", scope=READ)["error"], "SessionOver")
        client("logout")
        equal((server.count("token"), server.count("logout")), (1, 2))


# ---- Concurrent calls


def concurrent_calls(client, server, answer):
    """Twenty calls for one token, during whose exchange the server waits with its answer."""
    released = threading.Event()
    server.prescribe("token", held(released, answer))
    resumed(client, server)
    calls = [client.start("token", scope=READ) for _ in range(20)]
    server.wait_for("token", 1)
    time.sleep(OVERLAP_SECONDS)
    released.set()
    return calls


@scripted
def concurrent_calls_share_one_exchange(client, server):
    calls = concurrent_calls(client, server, issued())
    equal({call.result()["value"] for call in calls}, {"secret-token-1"})


@scripted
def concurrent_calls_share_the_failure_of_an_exchange(client, server):
    calls = concurrent_calls(client, server, refused(401, "invalid_grant"))
    equal({call.failure()["error"] for call in calls}, {"SessionOver"})


@scripted
def a_call_after_a_failed_exchange_makes_a_new_one(client, server):
    server.prescribe("token", refused(500, "server_error"), issued())
    resumed(client, server)
    equal(client.error("token", scope=READ)["error"], "GatewayFault")
    client("token", scope=READ)


def exchange_in_runtime(client, server):
    """An exchange without a response, in a runtime that the test ends. A further exchange succeeds."""
    server.prescribe("token", silent, issued())
    resumed(client, server)
    client("start_in_runtime", scope=READ)
    server.wait_for("token", 1)


@rust
def an_exchange_that_ended_with_its_runtime_is_made_again(client, server):
    exchange_in_runtime(client, server)
    client("end_runtime")
    equal(client("token", scope=READ)["value"], "secret-token-1")


@rust
def a_call_that_waits_for_an_exchange_makes_it_again_if_its_runtime_ends(client, server):
    exchange_in_runtime(client, server)
    call = client.start("token", scope=READ)
    time.sleep(OVERLAP_SECONDS)
    client("end_runtime")
    equal(call.result()["value"], "secret-token-1")


@scripted
def during_a_renewal_other_calls_get_the_old_token(client, server):
    call, released = renewal(client, server, issued(2))
    equal(client("token", scope=READ)["value"], "secret-token-1")
    released.set()
    equal(call.result()["value"], "secret-token-2")


@scripted
def a_logout_during_an_exchange_wins(client, server):
    for late in (issued(), reply(503, UNAVAILABLE), reset):
        server.reset()
        released = threading.Event()
        server.prescribe("token", held(released, late))
        server.prescribe("logout", LOGGED_OUT)
        resumed(client, server)
        calls = [client.start("token", scope=READ) for _ in range(3)]
        server.wait_for("token", 1)
        client("logout")
        released.set()
        equal({call.failure()["error"] for call in calls}, {"SessionOver"})
        equal(client.error("token", scope=READ)["error"], "SessionOver")
        equal((server.count("token"), server.count("logout")), (1, 1))


@scripted
def a_logout_during_a_renewal_wins(client, server):
    for late in (issued(2), reply(503, UNAVAILABLE), refused(500, "server_error"), reset):
        call, released = renewal(client, server, late)
        server.prescribe("logout", LOGGED_OUT)
        client("logout")
        released.set()
        equal(call.failure()["error"], "SessionOver")


# ---- A gateway with the mock IAM


class Gateway:
    def __init__(self, url, management_url):
        self.url, self.management_url = url, management_url

    def control(self, method, path, body=None):
        """Fails unless the control API accepts the request."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"{self.management_url}/mock/v1{path}", data, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=10) as response:
            text = response.read()
        return json.loads(text) if text else None

    def calls(self, operation):
        return self.control("GET", f"/journal?operation={operation}")["count"]

    def exchanges(self):
        with urllib.request.urlopen(f"{self.management_url}/metrics", timeout=10) as response:
            text = response.read().decode()
        return sum(float(value) for value in re.findall(r"^auth_gateway_exchanges_total\{.*\} (\S+)$", text, re.M))

    def fault(self, operation, times, **rule):
        self.control("POST", "/faults", {"operation": operation, "times": times, **rule})


def logged_in(client, gateway, **arguments):
    client.new(gateway.url)
    return client("login", email=EMAIL, password=PASSWORD, **arguments)


@real
def a_session_from_login_to_logout(client, gateway):
    logged_in(client, gateway)
    token = client("token", scope=f"{READ} urn:shop:vault:key:read")
    equal((token["scope"], token["value"].count(".")), (READ, 2))
    equal(client("token", scope=f"{READ} urn:shop:vault:key:read"), token)
    client("logout")
    client("logout")
    equal(client.error("token", scope=READ)["error"], "SessionOver")


@real
def a_stored_session_is_continued_and_its_end_is_found_out(client, gateway):
    stored = logged_in(client, gateway)
    client("logout")
    client("resume", session_id=stored["session_id"], session_token=stored["session_token"])
    equal(client.error("token", scope=READ)["error"], "SessionOver")
    client("resume", session_id=stored["session_id"], session_token="altered" + stored["session_token"])
    equal(client.error("token", scope=READ)["error"], "SessionOver")
    equal(client.error("logout")["error"], "RequestRefused")


@real
def refused_logins_look_alike_and_are_not_repeated(client, gateway):
    client.new(gateway.url)
    texts = set()
    for state in ("active", "locked", "disabled", "incomplete"):
        gateway.control("PATCH", f"/users/{EMAIL}", {"state": state})
        password = PASSWORD if state != "active" else "not her password"
        error = client.error("login", email=EMAIL, password=password)
        equal(error["error"], "InvalidCredentials")
        texts.add(re.sub(r"request \w+", "", error["shown"].replace(error["request_id"], "")))
    equal((len(texts), gateway.calls("login"), client("pauses")), (1, 4, []))


@real
def a_one_time_password_is_sent(client, gateway):
    gateway.control("PATCH", f"/users/{EMAIL}", {"totp_secret": "GEZDGNBVGY3TQOJQ"})
    client.new(gateway.url)
    equal(client.error("login", email=EMAIL, password=PASSWORD)["error"], "InvalidCredentials")
    logged_in(client, gateway, otp=gateway.control("GET", f"/users/{EMAIL}")["otp"])


@real
def the_address_of_the_user_reaches_the_iam(client, gateway):
    logged_in(client, gateway, address="2001:db8::7")
    [login] = gateway.control("GET", "/journal?operation=login")["entries"]
    equal(login["client_address"], "2001:db8::7")


@real
def a_login_limit_tells_how_long_to_wait(client, gateway):
    client.new(gateway.url)
    for _ in range(10):
        equal(client.error("login", email=EMAIL, password="not her password")["error"], "InvalidCredentials")
    error = client.error("login", email=EMAIL, password=PASSWORD)
    equal((error["error"], client("pauses")), ("Unavailable", []))
    between(21, error["retry_after"], 60)


@real
def a_limit_of_the_iam_is_waited_for(client, gateway):
    gateway.fault("login", 1, answer={"throttled": {"retry_after": "3s"}})
    logged_in(client, gateway)
    [pause] = client("pauses")
    between(3.125, pause, 3.25)


@real
def a_failed_login_is_repeated_without_a_one_time_password_only(client, gateway):
    gateway.fault("login", 1, answer="unreachable")
    logged_in(client, gateway)
    [pause] = client("pauses")
    assert pause > 2  # Retry-After is 2 or 3 seconds.
    for answer in ("unreachable", "timeout"):
        gateway.fault("login", 1, answer=answer)
        error = client.error("login", email=EMAIL, password=PASSWORD, otp="755224")
        equal((error["error"], client("pauses")), ("Unavailable", []))


@real
def an_exchange_is_repeated_while_the_iam_cannot_be_reached(client, gateway):
    logged_in(client, gateway)
    gateway.control("POST", "/forget")
    gateway.fault("introspection", 2, answer="unreachable")
    client("token", scope=READ)
    equal(len(client("pauses")), 1)


@real
def a_slow_iam_is_waited_for(client, gateway):
    logged_in(client, gateway)
    gateway.control("POST", "/forget")
    gateway.fault("introspection", 1, delay={"fixed": "300ms"})
    client("token", scope=READ)
    equal(client("pauses"), [])


@real
def an_iam_that_refuses_the_gateway_is_a_fault(client, gateway):
    logged_in(client, gateway)
    gateway.control("POST", "/forget")
    gateway.fault("introspection", 1, answer="misconfigured")
    error = client.error("token", scope=READ)
    equal((error["error"], client("pauses")), ("GatewayFault", []))


@real
def sessions_end_by_time_by_an_administrator_and_with_the_account(client, gateway):
    for end in (
        lambda: gateway.control("POST", "/time/advance", {"by": "8h"}),
        lambda: gateway.control("DELETE", f"/users/{EMAIL}/sessions"),
        lambda: gateway.control("PATCH", f"/users/{EMAIL}", {"state": "disabled"}),
    ):
        gateway.control("POST", "/reset")
        logged_in(client, gateway)
        client("token", scope=READ)
        end()
        gateway.control("POST", "/forget")
        equal(client("token", scope=READ)["scope"], READ)  # From the cache.
        client("advance", seconds=LIFETIME * 0.86)
        equal(client.error("token", scope=READ)["error"], "SessionOver")


@real
def a_removed_permission_is_missing_after_the_renewal(client, gateway):
    logged_in(client, gateway)
    equal(client("token", scope=f"{READ} {WRITE}")["scope"], f"{READ} {WRITE}")
    gateway.control("PATCH", f"/users/{EMAIL}", {"permissions": [READ]})
    gateway.control("POST", "/forget")
    client("advance", seconds=LIFETIME * 0.86)
    equal(client("token", scope=f"{READ} {WRITE}")["scope"], READ)


@real
def concurrent_calls_make_one_exchange_at_the_gateway(client, gateway):
    logged_in(client, gateway)
    gateway.control("POST", "/forget")
    gateway.fault("introspection", 1, delay={"fixed": "300ms"})
    before = gateway.exchanges()
    calls = [client.start("token", scope=READ) for _ in range(20)]
    equal(len({call.result()["value"] for call in calls}), 1)
    equal(gateway.exchanges() - before, 1)


@real
def a_logout_is_repeated_until_the_iam_confirms_it(client, gateway):
    logged_in(client, gateway)
    gateway.fault("logout", 2, answer="unreachable")
    client("logout")
    equal(len(client("pauses")), 1)
    equal(gateway.control("GET", "/sessions")["sessions"], [])


@real
def a_logout_during_an_exchange_at_the_gateway_wins(client, gateway):
    logged_in(client, gateway)
    gateway.control("POST", "/forget")
    gateway.fault("introspection", 1, delay={"fixed": "1s"})
    call = client.start("token", scope=READ)
    client("logout")
    equal(call.failure()["error"], "SessionOver")
