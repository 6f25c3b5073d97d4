"""What a replica holds in memory: at rest, and after a long day."""

import json
import time

import load
import servers
from load import Load
from report import AT_MOST, Figure

IDLE_MIB = 30
# The default of `cache.max_bytes`, set here too, so that the bound is the one that was asked for.
CACHE_BYTES = 64 * 1024 * 1024
SETTLE_SECONDS = 3


def measure(bench):
    logins, exchanges = bench.size(100_000, 2_000), bench.size(1_000_000, 20_000)
    settings = {"cache.max_bytes": CACHE_BYTES}
    with servers.gateway(bench, bench.both, settings) as gateway:
        time.sleep(SETTLE_SECONDS)
        idle, _ = gateway.memory_mib()
        bench.say(f"memory: {idle:.1f} MiB idle")
        login, answers, bodies = (bench.folder / f"memory-{name}" for name in ("login", "sessions", "exchanges"))
        login.write_text(json.dumps(servers.CREDENTIALS) + "\n")
        logging_in = Load("login", f"{gateway.url}/api/v1/auth/login", login, '"session_token":"')
        load.run(logging_in, bench.both, bench.connections, count=logins, keep=answers)
        gateway.forget_log()
        bench.say(f"memory: {gateway.memory_mib()[0]:.1f} MiB after {logins:,} logins")
        with answers.open() as sessions, bodies.open("w") as lines:
            lines.writelines(servers.exchange_body(json.loads(line)) + "\n" for line in sessions)
        exchanging = servers.exchanges("exchange", gateway.url, bodies)
        load.run(exchanging, bench.both, bench.connections, count=exchanges)
        served = gateway.counters()['auth_gateway_requests_total{route="token",outcome="ok"}']
        time.sleep(SETTLE_SECONDS)
        now, most = gateway.memory_mib()
    if served != exchanges:
        raise servers.Failure(f"memory: the gateway counts {served:.0f} exchanges, {exchanges} were answered")
    yield Figure(
        "memory-idle", "resident memory, idle", idle, idle, idle, "MiB", AT_MOST, IDLE_MIB, "mock, as started")
    yield Figure(
        "memory-used", f"resident memory beyond idle, after {logins:,} logins and {exchanges:,} exchanges", now - idle,
        now - idle, now - idle, "MiB", AT_MOST, CACHE_BYTES / 2**20,
        f"{now:.0f} MiB, at the most {most:.0f} MiB; target: `cache.max_bytes`", [],
        {"idle_mib": idle, "after_mib": now, "most_mib": most},
    )
