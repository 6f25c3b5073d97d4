"""The memory of a replica: idle, and after many logins and exchanges."""

import json
import time

import load
import servers
from load import Load
from report import AT_MOST, Figure

IDLE_MIB = 30
# The default of `cache.max_bytes`, set explicitly because the target depends on it.
CACHE_BYTES = 64 * 1024 * 1024
SETTLE_SECONDS = 3


def measure(bench):
    logins, exchanges = bench.size(100_000, 2_000), bench.size(1_000_000, 20_000)
    settings = {"cache.max_bytes": CACHE_BYTES}
    with servers.gateway(bench, bench.both, settings) as gateway:
        time.sleep(SETTLE_SECONDS)
        idle, _ = gateway.memory_mib()
        bench.log(f"memory: {idle:.1f} MiB idle")
        login, responses, bodies = (bench.folder / f"memory-{name}" for name in ("login", "sessions", "exchanges"))
        login.write_text(json.dumps(servers.CREDENTIALS) + "\n")
        logging_in = Load("login", f"{gateway.url}/api/v1/auth/login", login, '"session_token":"')
        load.run(logging_in, bench.both, bench.connections, count=logins, keep=responses)
        gateway.truncate_log()
        bench.log(f"memory: {gateway.memory_mib()[0]:.1f} MiB after {logins:,} logins")
        with responses.open() as sessions, bodies.open("w") as lines:
            lines.writelines(servers.exchange_body(json.loads(line)) + "\n" for line in sessions)
        exchanging = servers.exchanges("exchange", gateway.url, bodies)
        load.run(exchanging, bench.both, bench.connections, count=exchanges)
        served = gateway.counters()['auth_gateway_requests_total{route="token",outcome="ok"}']
        time.sleep(SETTLE_SECONDS)
        now, peak = gateway.memory_mib()
    if served != exchanges:
        raise servers.Failure(f"memory: the gateway counts {served:.0f} exchanges, {exchanges} were sent")
    yield Figure(
        "memory-idle", "resident memory, idle", idle, idle, idle, "MiB", AT_MOST, IDLE_MIB, "with the mock")
    yield Figure(
        "memory-used", f"additional memory, after {logins:,} logins and {exchanges:,} exchanges", now - idle,
        now - idle, now - idle, "MiB", AT_MOST, CACHE_BYTES / 2**20,
        f"{now:.0f} MiB, peak {peak:.0f} MiB; target: `cache.max_bytes`", [],
        {"idle_mib": idle, "after_mib": now, "peak_mib": peak},
    )
