"""The hit ratio of the caches with 1,000,000 sessions of 200,000 users, by `cache.max_bytes`.

A few sessions make most exchanges: the one of rank n makes 1/n as many as the first one (Zipf's law). All sessions are younger than
their freshness, so that only the bound evicts them.
"""

import itertools
import json
import random

import load
import servers
from load import Load
from report import AT_LEAST, Figure

USERS = 200_000
SESSIONS_OF_A_USER = 5
BOUNDS_MIB = (64, 256, 512)
WARM_UP, MEASURED = 1_000_000, 500_000
# As many bodies as wrk reads at once.
BATCH = 200_000
SETTINGS = {
    "session.freshness": "1h",
    "permissions.ttl": "1h",
    "login_limits.rate": 0,
    "login_limits.account_sessions_per_minute": 0,
}


def write_users(bench, count):
    accounts = [{"email": f"user{number}@example.test", "password": "a-pass"} for number in range(count)]
    users, logins = bench.folder / "sessions-users.json", bench.folder / "sessions-logins"
    users.write_text(json.dumps({"users": [{**account, "permissions": servers.SCOPE.split()} for account in accounts]}))
    logins.write_text("".join(json.dumps(account) + "\n" for account in accounts))
    return users, logins


class Exchanges:
    """Exchanges at one gateway, in batches."""

    def __init__(self, bench, gateway):
        self.bench, self.gateway, self.bodies = bench, gateway, bench.folder / "sessions-exchanges"

    def run(self, lines):
        """Exchanges a second, weighted by the batches."""
        seconds = 0
        for begin in range(0, len(lines), BATCH):
            batch = lines[begin:begin + BATCH]
            self.bodies.write_text("\n".join(batch) + "\n")
            exchanging = servers.exchanges("exchange", self.gateway.url, self.bodies)
            seconds += len(batch) / load.run(exchanging, self.bench.both, self.bench.connections, count=len(batch)).rate
            self.gateway.truncate_log()
        return len(lines) / seconds

    def by_source(self):
        counters = self.gateway.counters()
        return {source: counters.get(f'auth_gateway_exchanges_total{{source="{source}",iam="mock"}}', 0) for source in ("hit", "miss")}


def log_in_all(bench, gateway, logins, users, exchanges):
    """The exchanges of all sessions, each of which was exchanged once."""
    sessions, responses = [], bench.folder / "sessions-responses"
    logging_in = Load("login", f"{gateway.url}/api/v1/auth/login", logins, '"session_token":"')
    for _ in range(SESSIONS_OF_A_USER):
        load.run(logging_in, bench.both, bench.connections, count=users, keep=responses)
        gateway.truncate_log()
        with responses.open() as lines:
            new = [servers.exchange_body(json.loads(line)) for line in lines]
        exchanges.run(new)
        sessions += new
        bench.log(f"sessions: {len(sessions):,}")
    return sessions


def with_bound(bench, mib, files, users, draws):
    settings = {**SETTINGS, "cache.max_bytes": mib * 2**20, "iam.mock.users_file": files[0]}
    with servers.gateway(bench, bench.both, settings) as gateway:
        exchanges = Exchanges(bench, gateway)
        sessions = log_in_all(bench, gateway, files[1], users, exchanges)
        warm_up, measured = ([sessions[index] for index in part] for part in draws)
        exchanges.run(warm_up)
        before = exchanges.by_source()
        rate = exchanges.run(measured)
        hits, misses = (count - before[source] for source, count in exchanges.by_source().items())
        if hits + misses < 0.99 * len(measured):
            raise servers.Failure(f"sessions: {hits:.0f} hits and {misses:.0f} misses of {len(measured)} exchanges")
        counters = gateway.counters()
        entries = {cache: counters[f'auth_gateway_cache_entries{{cache="{cache}"}}'] for cache in ("liveness", "permissions")}
    ratio = hits / (hits + misses)
    return Figure(
        f"sessions-{mib}", f"hit ratio with `cache.max_bytes` of {mib} MiB, {len(sessions):,} sessions of {users:,} users", ratio,
        ratio, ratio, "", AT_LEAST, None,
        f"{rate:,.0f} exchanges/s; {entries['liveness']:,.0f} sessions and {entries['permissions']:,.0f} users in the caches", [],
        {"rate": rate, "entries": entries})


def measure(bench):
    users = bench.size(USERS, 2_000)
    count = users * SESSIONS_OF_A_USER
    files = write_users(bench, users)
    # The same for each bound.
    chosen = random.Random(1)
    by_rank = chosen.sample(range(count), count)
    weights = list(itertools.accumulate(1 / rank for rank in range(1, count + 1)))
    draws = [chosen.choices(by_rank, cum_weights=weights, k=bench.size(size, 2_000)) for size in (WARM_UP, MEASURED)]
    for mib in BOUNDS_MIB:
        yield with_bound(bench, mib, files, users, draws)
