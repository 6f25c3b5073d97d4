"""The cost of the mock in tests: a reset, and its share of the processor time in a load test.

A load test with the mock measures the gateway only if the mock is not the bottleneck. The share is the duration of the
calls to the mock, relative to the processor time of the whole process.
"""

import contextlib
import json
import os
import time
from pathlib import Path

import load
import machine
import realm
import servers
import wire
from load import Load
from report import AT_MOST, Figure
from rounds import Rounds, Series
from wire import Failure

RESET_MS = 5
START_MS = 150
SHARE = 0.2
# It parses HTTP like the gateway and signs nothing. Two servers with equal cost would have one half each.
WIRE_SHARE = 0.5
USERS, SESSIONS = 10_000, 1_000
ADVANCE_BODY = json.dumps({"by": "1h"}).encode()


def control(gateway, method, path, body=None):
    response = wire.send(method, f"{gateway.management}/mock/v1/{path}", servers.JSON if body else {}, body or b"")
    if response.status not in (200, 204):
        raise Failure(f"{path}: {response.status} {response.body[:300]!r}")
    return response


def processor_seconds(child):
    fields = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def call_seconds(gateway, operation):
    return gateway.counters()[f'auth_gateway_iam_call_duration_seconds_sum{{operation="{operation}",iam="mock"}}']


def logging_in(bench, gateway):
    body = bench.folder / "mock-login"
    body.write_text(json.dumps(servers.CREDENTIALS) + "\n")
    return Load("login", f"{gateway.url}/api/v1/auth/login", body, '"session_token":"')


def share(gateway, operation, work):
    """The duration of the calls of this operation, relative to the processor time of the process."""
    calls, used = call_seconds(gateway, operation), processor_seconds(gateway.child)
    work()
    return (call_seconds(gateway, operation) - calls) / (processor_seconds(gateway.child) - used)


def resets(bench):
    rounds = Rounds(bench, "mock-reset")
    users = bench.folder / "users.json"
    entries = [{"email": f"user{number}@example.test", "password": "a-pass"} for number in range(USERS)]
    users.write_text(json.dumps({"users": [*entries, {**servers.CREDENTIALS, "permissions": servers.SCOPE.split()}]}))
    with servers.gateway(bench, bench.both, {"iam.mock.users_file": users}) as gateway:
        login = logging_in(bench, gateway)

        def one():
            load.run(login, bench.both, bench.connections, count=bench.size(SESSIONS, 50))
            began = time.perf_counter()
            control(gateway, "POST", "reset")
            return (time.perf_counter() - began) * 1e3

        took = Series(rounds.alone(bench.size(20, 3), one))
    yield Figure(
        "mock-reset", f"reset of a mock with {USERS:,} users and {SESSIONS:,} sessions, connection included",
        took.median, took.low, took.high, "ms", AT_MOST, RESET_MS, f"{len(took.values)} resets",
        rounds.warnings(took, bound=None), {"ms": took.values},
    )


def shares(bench):
    rounds = Rounds(bench, "mock-share")
    count = bench.size(40_000, 500)
    responses, bodies = bench.folder / "mock-sessions", bench.folder / "mock-exchanges"

    def both():
        with servers.gateway(bench, bench.both) as gateway:
            login = logging_in(bench, gateway)
            logins = share(gateway, "login", lambda: load.run(
                login, bench.both, bench.connections, count=count, keep=responses))
            with responses.open() as sessions, bodies.open("w") as lines:
                lines.writelines(servers.exchange_body(json.loads(line)) + "\n" for line in sessions)
            control(gateway, "POST", "time/advance", ADVANCE_BODY)
            exchanging = servers.exchanges("exchange", gateway.url, bodies)
            exchanges = share(gateway, "introspection", lambda: load.run(
                exchanging, bench.both, bench.connections, count=count))
            calls = gateway.counters()['auth_gateway_iam_calls_total{operation="introspection",outcome="ok",iam="mock"}']
            if calls != count:
                raise Failure(f"{count} exchanges made {calls:.0f} introspections")
            gateway.check_log()
        return logins, exchanges

    found = rounds.alone(bench.size(5, 1), both)
    for name, what, index in (("mock-login", "logins", 0), ("mock-exchange", "exchanges that each call the mock", 1)):
        parts = Series(tuple(pair[index] for pair in found))
        yield Figure(
            name, f"share of the mock in the processor time of {what}", parts.median, parts.low, parts.high, "",
            AT_MOST, SHARE, f"{count:,} in each of {len(found)} rounds", rounds.warnings(parts), {"parts": parts.values},
        )


@contextlib.contextmanager
def mock_iam(bench, settings):
    """Starts the mock over the wire; yields its process and the milliseconds until its first response."""
    environment = servers.environment(settings)
    began = time.perf_counter()
    with servers.process([bench.binary, "mock-iam"], bench.both, bench.folder / "mock-iam.log", environment) as child:
        url = f"{settings['iam.keycloak.url']}/realms/shop/.well-known/openid-configuration"
        servers.wait_for(child, "GET", url, 0.0005)
        yield child, (time.perf_counter() - began) * 1e3


def over_the_wire(bench):
    rounds = Rounds(bench, "mock-iam")
    count = bench.size(10_000, 200)
    (port,) = machine.free_ports(1)
    settings = {
        "iam.keycloak.url": f"http://127.0.0.1:{port}",
        "iam.keycloak.realm": "shop",
        "iam.keycloak.client_id": "auth-gateway",
        "iam.keycloak.client_secret": "the secret of a benchmark",
        "keys.sealing_dir": bench.sealing(),
        # All sessions belong to one user.
        "login_limits.account_failures": 0,
        "login_limits.account_sessions_per_minute": 0,
        "login_limits.rate": 0,
    }
    bodies = bench.folder / "mock-iam-exchanges"

    def one():
        with mock_iam(bench, settings) as (iam, ready_ms):
            sessions = realm.gateway_sessions(bench, settings, count)
            bodies.write_text("\n".join(sessions) + "\n")
            # A gateway that has just started has an empty cache.
            with servers.gateway(bench, bench.both, settings) as gateway:
                exchanging = servers.exchanges("exchange", gateway.url, bodies)
                before = [processor_seconds(child) for child in (iam, gateway.child)]
                load.run(exchanging, bench.both, bench.connections, count=count)
                after = [processor_seconds(child) for child in (iam, gateway.child)]
                gateway.check_log()
        iam_seconds, gateway_seconds = (late - early for late, early in zip(after, before))
        return ready_ms, iam_seconds / (iam_seconds + gateway_seconds)

    found = rounds.alone(bench.size(5, 1), one)
    took, parts = (Series(tuple(pair[index] for pair in found)) for index in (0, 1))
    yield Figure(
        "mock-iam-start", "from the start to the first response of `mock-iam`", took.median, took.low, took.high, "ms",
        AT_MOST, START_MS, f"{len(found)} starts", rounds.warnings(took, bound=None), {"ms": took.values},
    )
    yield Figure(
        "mock-iam-exchange", "share of `mock-iam` in the processor time of it and the gateway, for exchanges that each call it", parts.median, parts.low, parts.high, "", AT_MOST, WIRE_SHARE,
        f"{count:,} in each of {len(found)} rounds", rounds.warnings(parts), {"parts": parts.values},
    )


def measure(bench):
    yield from resets(bench)
    yield from shares(bench)
    yield from over_the_wire(bench)
