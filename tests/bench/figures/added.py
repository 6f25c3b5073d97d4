"""The time that the gateway adds, without queueing, to the calls that an adapter makes for an exchange or a login.

The cores are kept awake: waking a sleeping one takes up to 0.1 ms on a virtual machine, and a request through the gateway
has two more wake-ups. The gateway has one worker, because the other core has the IAM and the load generator.
"""

import contextlib
import itertools
import json
import statistics

import open_loop
import realm
import servers
import wire
from authorization_servers import DjangoOAuthToolkit, Glewlwyd, started
from figures.stale import check_calls
from machine import CannotRun
from report import AT_MOST, Figure
from rounds import Rounds, Series

TARGET_MS = 0.5
RATE = 100
# Blocks of one second each, alternating between the two.
BLOCKS = 20
# Each is used again after three blocks. By then its data is stale.
SESSIONS = 3 * RATE
FRESHNESS = "1s"
# At these rates no request waits for a connection unless a response takes a hundred times as long as usual.
CONNECTIONS = 8
SERVERS = {"keycloak": realm.Keycloak, "glewlwyd": Glewlwyd, "django": DjangoOAuthToolkit}


def requests(url, headers, bodies):
    return [wire.request("POST", url, headers, body.encode()) for body in bodies]


def blocks_of(all_requests, size):
    """Blocks of this size, from the beginning again after the last one."""
    begins = range(0, len(all_requests), size)
    return itertools.cycle([all_requests[begin:begin + size] for begin in begins])


class Measured:
    """One server, with and without a gateway before it."""

    def __init__(self, bench, server, gateway):
        self.bench, self.server, self.gateway = bench, server, gateway
        self.as_client = server.as_client()

    def paced(self, url, block, rate, expect, follow=None):
        with open_loop.awake((self.bench.first, self.bench.second)):
            outcome = open_loop.run(url, block, rate, CONNECTIONS, expect.encode(), spin=False, follow=follow)
        return outcome.latencies_ms

    def introspect(self, body):
        """The request that introspects the session of a token response."""
        introspection = self.server.introspection(json.loads(body))
        return wire.request("POST", self.server.endpoint("introspection"), self.as_client, introspection.encode())

    def logins(self, count):
        """Bodies of exchanges and of introspections, of sessions of their own."""
        exchanges, introspected = [], []
        grant = self.server.grant().encode()
        for _ in range(count):
            response = wire.send("POST", self.server.endpoint("token"), self.as_client, grant)
            introspected.append(self.server.introspection(json.loads(response.body)))
            exchanges.append(servers.exchange_body(servers.log_in(self.gateway.url)))
        return exchanges, introspected

    def exchange(self, key):
        self.bench.log(f"{key}: making {SESSIONS} sessions")
        exchanges, introspected = self.logins(SESSIONS)
        url, endpoint = f"{self.gateway.url}/api/v1/auth/token", self.server.endpoint("introspection")
        exchange_blocks = blocks_of(requests(url, servers.JSON, exchanges), RATE)
        introspection_blocks = blocks_of(requests(endpoint, self.as_client, introspected), RATE)
        before = self.gateway.iam_calls("introspection")
        expect = f'"scope":"{servers.SCOPE}"'
        pairs, figure = self.compare(
            f"added-{key}-exchange", f"an exchange with stale data at {self.server.name}, {RATE}/s", ("token", "introspection"),
            lambda: self.paced(url, next(exchange_blocks), RATE, expect),
            lambda: self.paced(endpoint, next(introspection_blocks), RATE, self.server.active))
        check_calls(f"added-{key}", self.gateway, sum(map(len, pairs.a)), before)
        return figure

    def login(self, key):
        rate = self.server.login_rate
        url, endpoint = f"{self.gateway.url}/api/v1/auth/login", self.server.endpoint("token")
        logins = requests(url, servers.JSON, [json.dumps(servers.CREDENTIALS)] * rate)
        grants = requests(endpoint, self.as_client, [self.server.grant()] * rate)
        _, figure = self.compare(
            f"added-{key}-login", f"a login at {self.server.name}, {rate}/s", ("login", "login"),
            lambda: self.paced(url, logins, rate, '"session_token":"'),
            lambda: self.paced(endpoint, grants, rate, self.server.active, self.introspect))
        return figure

    def seconds_without_calls(self, route, operation):
        """The time of all requests of a route without that of the calls, by the gateway's own metrics."""
        counters = self.gateway.counters()
        requests = counters[f'auth_gateway_request_duration_seconds_sum{{route="{route}"}}']
        labels = f'operation="{operation}",iam="{self.server.iam}"'
        return requests - counters[f"auth_gateway_iam_call_duration_seconds_sum{{{labels}}}"]

    def compare(self, name, what, labels, with_gateway, without):
        rounds = Rounds(self.bench, name)
        before = self.seconds_without_calls(*labels)
        pairs = rounds.paired(self.bench.size(BLOCKS, 3), with_gateway, without)
        own_seconds = self.seconds_without_calls(*labels) - before
        self.gateway.check_log()
        added = Series(tuple(
            statistics.median(gateway) - statistics.median(calls) for gateway, calls in zip(pairs.a, pairs.b)))
        gateway, calls = (statistics.median(sum(blocks, [])) for blocks in (pairs.a, pairs.b))
        own_ms = own_seconds / sum(map(len, pairs.a)) * 1e3
        return pairs, Figure(
            name, f"time that the gateway adds to the calls of {what}, p50", added.median, added.low, added.high,
            "ms", AT_MOST, TARGET_MS, f"{gateway:.2f} ms and {calls:.2f} ms; {own_ms:.2f} ms in the gateway outside of its calls",
            # The difference is near zero, so its relative spread means nothing.
            rounds.warnings(added, bound=None),
            {"added_ms": added.values, "gateway_p50_ms": gateway, "calls_p50_ms": calls, "outside_of_calls_ms": own_ms},
        )


def running(bench, kind):
    """The Keycloak of the other figures, or a server of this figure alone."""
    return contextlib.nullcontext(bench.keycloak()) if kind is realm.Keycloak else started(bench, kind)


def measure(bench):
    for key, kind in SERVERS.items():
        try:
            with running(bench, kind) as server:
                settings = {
                    **server.settings(bench.sealing()), "session.freshness": FRESHNESS, "permissions.ttl": FRESHNESS,
                    "upstream.introspection_deadline": FRESHNESS, "http.workers": 1,
                }
                with servers.gateway(bench, bench.both, settings) as gateway:
                    measured = Measured(bench, server, gateway)
                    yield measured.exchange(key)
                    yield measured.login(key)
        except CannotRun as reason:
            bench.not_run(f"added-{key}", str(reason))
