"""Exchanges with stale data and logins over a directory, compared with the calls that they make, and the memory of 64 clients."""

import json
import threading
import time
import urllib.parse
from pathlib import Path

import load
import open_loop
import servers
from authorization_servers import started
from figures.stale import check_calls
from load import Load
from openldap import OpenLdap, load_program
from realm import gateway_sessions
from report import AT_LEAST, AT_MOST, Figure
from rounds import Rounds, Series

EXCHANGE_TARGET = 0.60
LOGIN_TARGET_MS = 0.5
SESSIONS = 4_000
# In one block, one after another.
LOGINS = 300
BLOCKS = 20
CLIENTS = 64
LOGINS_OF_CLIENT = 20
FRESHNESS_SECONDS = 1
SETTLE_SECONDS = 3
EMAIL, PASSWORD = servers.CREDENTIALS["email"], servers.CREDENTIALS["password"]


def measure(bench):
    program = load_program()
    with started(bench, OpenLdap) as directory:
        measured = Measured(bench, directory, program)
        yield measured.exchange()
        yield measured.login()
        yield measured.memory()


class Measured:
    def __init__(self, bench, directory, program):
        self.bench, self.directory, self.program = bench, directory, program
        self.settings = directory.settings(bench.sealing())
        self.permissions = directory.permissions(bench.folder)

    def gateway(self, **settings):
        settings = {**self.settings, **{name.replace("__", "."): value for name, value in settings.items()}}
        return servers.gateway(self.bench, self.bench.both, settings, config=self.permissions)

    def logins(self, gateway):
        body = self.bench.folder / "directory-login"
        body.write_text(json.dumps(servers.CREDENTIALS) + "\n")
        return Load("login", f"{gateway.url}/api/v1/auth/login", body, '"session_token":"')

    def exchange(self):
        bench, directory = self.bench, self.directory
        rounds, count = Rounds(bench, "directory exchange"), bench.size(SESSIONS, 200)
        bench.log(f"making {count} sessions")
        bodies = bench.folder / "directory-exchange"
        bodies.write_text("\n".join(gateway_sessions(bench, self.settings, count, self.permissions)) + "\n")
        subject = directory.value(directory.user_dn(EMAIL), "entryUUID")

        def exchange():
            # A gateway that has just started has an empty cache.
            with self.gateway() as gateway:
                exchanges = servers.exchanges("exchange", gateway.url, bodies)
                outcome = load.run(exchanges, bench.both, bench.connections, count=count)
                check_calls("directory", gateway, outcome.requests)
                gateway.check_log()
            return outcome.rate

        def search(connections):
            def one():
                at_once = bench.connections // connections
                return directory.load(self.program, bench.both, "entryUUID", subject, count, connections, at_once)[0]

            return one

        exchange()
        measures = (exchange, search(1), search(bench.connections))
        exchanges, shared, own = rounds.in_turn(bench.size(2 * bench.rounds, bench.rounds), measures)
        ratios = Series(tuple(of_gateway / of_search for of_gateway, of_search in zip(exchanges, shared)))
        medians = [Series(values).median for values in (exchanges, shared, own)]
        return Figure(
            "directory-exchange", "exchange with stale data over OpenLDAP, relative to the search that it makes, same two cores",
            ratios.median, ratios.low, ratios.high, "", AT_LEAST, EXCHANGE_TARGET,
            f"{medians[0]:,.0f}/s and {medians[1]:,.0f}/s, both over one connection; {medians[2]:,.0f}/s searches over "
            f"{bench.connections} connections", rounds.warnings(ratios),
            {"gateway_rates": exchanges, "search_rates": shared, "search_rates_own_connections": own},
        )

    def login(self):
        bench = self.bench
        rounds, count = Rounds(bench, "directory login"), bench.size(LOGINS, 20)
        with self.gateway(http__workers=1) as gateway:
            logins = self.logins(gateway)

            def awake(measured):
                with open_loop.awake((bench.first, bench.second)):
                    return measured()

            def log_in():
                return awake(lambda: load.run(logins, bench.both, 1, count=count).p50_ms)

            def calls():
                return awake(lambda: self.directory.load(
                    self.program, bench.both, "mail", EMAIL, count, password=PASSWORD)[1])

            log_in()
            pairs = rounds.paired(bench.size(BLOCKS, 3), log_in, calls)
            gateway.check_log()
        added = Series(tuple(of_gateway - of_calls for of_gateway, of_calls in zip(pairs.a, pairs.b)))
        gateway_ms, calls_ms = pairs.series(lambda p50: p50)
        return Figure(
            "directory-login", "time that the gateway adds to the calls of a login over OpenLDAP, p50", added.median, added.low,
            added.high, "ms", AT_MOST, LOGIN_TARGET_MS,
            f"{gateway_ms.median:.2f} ms and {calls_ms.median:.2f} ms, one after another",
            rounds.warnings(added, bound=None),
            {"added_ms": added.values, "gateway_p50_ms": gateway_ms.values, "calls_p50_ms": calls_ms.values},
        )

    def memory(self):
        """The same work is done before by one client, so the difference is that of the connections."""
        freshness = f"{FRESHNESS_SECONDS}s"
        settings = {"session__freshness": freshness, "permissions__ttl": freshness, "upstream__login_concurrency": CLIENTS,
                    "upstream__introspection_deadline": freshness}
        with self.gateway(**settings) as gateway:
            self.work(gateway, 1)
            before, _ = gateway.memory_mib()
            with Connections(self.directory) as connections:
                self.work(gateway, CLIENTS)
            after, peak = gateway.memory_mib()
        kib = (peak - before) * 1024 / CLIENTS
        return Figure(
            "directory-memory", f"additional memory for each of {CLIENTS} clients that log in and exchange at once", kib, kib,
            kib, "KiB", AT_MOST, None,
            f"{before:.1f} MiB after the same work by one client, {peak:.1f} MiB at the peak, {after:.1f} MiB at the end; "
            f"{connections.most} connections to OpenLDAP at once",
            [], {"before_mib": before, "peak_mib": peak, "after_mib": after, "connections": connections.most},
        )

    def work(self, gateway, clients):
        """Logins, and an exchange with stale data of each session."""
        count = CLIENTS * self.bench.size(LOGINS_OF_CLIENT, 1)
        responses, bodies = (self.bench.folder / f"directory-{name}" for name in ("sessions", "exchanges"))
        load.run(self.logins(gateway), self.bench.both, clients, count=count, keep=responses)
        sessions = responses.read_text().splitlines()
        bodies.write_text("".join(servers.exchange_body(json.loads(line)) + "\n" for line in sessions))
        time.sleep(FRESHNESS_SECONDS + 0.1)
        load.run(servers.exchanges("exchange", gateway.url, bodies), self.bench.both, clients, count=count)
        time.sleep(SETTLE_SECONDS)


class Connections(threading.Thread):
    """Counts the established connections to the directory until the end of the block."""

    def __init__(self, directory):
        super().__init__()
        self._port = f":{urllib.parse.urlsplit(directory.facts['url']).port:04X}"
        self._ended = threading.Event()
        self.most = 0

    def run(self):
        established = "01"
        while not self._ended.wait(0.002):
            rows = map(str.split, Path("/proc/net/tcp").read_text().splitlines()[1:])
            now = sum(row[2].endswith(self._port) and row[3] == established for row in rows)
            self.most = max(self.most, now)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self.join()
