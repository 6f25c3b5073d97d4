"""Replicas that share a Redis: the start with many revocations, and many logouts a second.

The IAM is the mock, in a process of its own, so that all replicas have one IAM.
"""

import base64
import contextlib
import hashlib
import hmac
import json
import multiprocessing
import random
import shutil
import socket
import statistics
import struct
import time

import load
import machine
import open_loop
import servers
import wire
from load import Load
from report import AT_LEAST, AT_MOST, Figure
from rounds import Series
from servers import Failure

PREFIX = "auth-gateway:bench"
STREAM = f"{PREFIX}:revocations"
REVOCATIONS = 1_000_000
START_SECONDS, START_MIB = 3, 150
LOGOUTS_A_SECOND = 2_000
LOGOUT_SECONDS = 60
PAIRS = 6
PROPAGATION_MS = 100
RATIO = 0.90
CLIENT_SECRET = "a-secret-of-the-measurement-0123456789"
# All sessions belong to a few accounts.
SETTINGS = {
    "login_limits.rate": 0,
    "login_limits.account_sessions_per_minute": 0,
    "login_limits.account_failures": 0,
    "login_limits.account_failures_in_a_row": 0,
    "login_limits.address_failures": 0,
    "session.freshness": "10m",
    "permissions.ttl": "10m",
    "iam.keycloak.realm": "shop",
    "iam.keycloak.client_id": "auth-gateway",
    "iam.keycloak.client_secret": CLIENT_SECRET,
    "iam.keycloak.permissions_client": "shop",
    "http.workers": 1,
}


@contextlib.contextmanager
def redis(bench):
    program = shutil.which("redis-server")
    if program is None:
        raise machine.CannotRun("redis-server is not installed (on Debian: apt-get install redis-server)")
    (port,) = machine.free_ports(1)
    command = [program, "--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no"]
    with servers.process(command, bench.both, bench.folder / "redis.log") as child:
        for _ in range(500):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            time.sleep(0.01)
        yield port


def command(*arguments):
    """A command of RESP."""
    encoded = [part if isinstance(part, bytes) else str(part).encode() for part in arguments]
    return b"*%d\r\n" % len(encoded) + b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in encoded)


def secret_of(folder):
    (file,) = folder.glob("*.jwk")
    text = json.loads(file.read_text())["k"]
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def entries(secret, count):
    """Valid entries of the stream, as crates/replication/src/format.rs describes them."""
    derived = hmac.digest(bytes(32), secret, "sha256")
    key = hmac.digest(derived, b"auth-gateway entries of revocations 1" + b"\1", "sha256")
    key_id = hmac.digest(key, b"key id", "sha256")[:4]
    forget_at = int(time.time()) + 8 * 3600
    for _ in range(count):
        text = struct.pack(">BQQB", 2, forget_at, (1 << 64) - 1, 1) + random.randbytes(16) + key_id
        yield text + hmac.digest(key, text, "sha256")[:16]


def fill(port, secret, count):
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        batch, sent = [], 0
        for entry in entries(secret, count):
            batch.append(command("XADD", STREAM, "*", "r", entry))
            if len(batch) == 1_000 or sent + len(batch) == count:
                connection.sendall(b"".join(batch))
                responses = b""
                while responses.count(b"\r\n") < 2 * len(batch):
                    responses += connection.recv(1 << 16)
                sent, batch = sent + len(batch), []


def start_with_many(bench):
    count = bench.size(REVOCATIONS, 10_000)
    sealing = bench.sealing()
    durations, resident, peak = [], [], []
    with redis(bench) as port:
        bench.log(f"replicas: adding {count:,} revocations to Redis")
        fill(port, secret_of(sealing), count)
        settings = {
            "keys.sealing_dir": sealing,
            "redis.url": f"redis://127.0.0.1:{port}",
            "redis.prefix": PREFIX,
        }
        for _ in range(bench.size(5, 1)):
            began = time.perf_counter()
            with servers.gateway(bench, bench.both, settings) as gateway:
                durations.append(time.perf_counter() - began)
                now, maximum = gateway.memory_mib()
                resident.append(now)
                peak.append(maximum)
                received = gateway.counters()["auth_gateway_revocations_received_total"]
            if received != count:
                raise Failure(f"replicas: the gateway has {received:,.0f} of {count:,} revocations")
    yield Figure(
        "replica-start", f"from the start to ready with {count:,} revocations in Redis", statistics.median(durations),
        min(durations), max(durations), "s", AT_MOST, START_SECONDS, f"{len(durations)} starts", [], {"seconds": durations})
    yield Figure(
        "replica-memory", f"memory of a replica with {count:,} revocations, at its maximum", statistics.median(peak),
        min(peak), max(peak), "MiB", AT_MOST, START_MIB, f"{statistics.median(resident):.0f} MiB when ready", [],
        {"resident": resident, "peak": peak})


@contextlib.contextmanager
def replicas(bench, iam, port):
    """Three gateways in front of one IAM, with Redis if `port` is not None."""
    key = "a-key-of-the-measurement-0123456789"
    shared = {**SETTINGS, "iam.keycloak.url": iam, "keys.sealing_dir": bench.sealing(), "keys.identifier_key": key}
    if port:
        shared |= {"redis.url": f"redis://127.0.0.1:{port}", "redis.prefix": PREFIX}
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(servers.gateway(bench, bench.both, shared)) for _ in range(3)]


@contextlib.contextmanager
def mock_iam(bench, receiver="none", users=None):
    """Sends logout tokens to the `receiver`, a URL. `users`: a file with its users."""
    (port,) = machine.free_ports(1)
    url = f"http://127.0.0.1:{port}"
    settings = bench.folder / "mock-iam.toml"
    keycloak = {name.rpartition(".")[2]: value for name, value in SETTINGS.items() if name.startswith("iam.keycloak.")}
    lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in {**keycloak, "url": url}.items())
    settings.write_text(f"[iam.keycloak]\n{lines}")
    command = [bench.binary, "mock-iam", "--config", settings, "--listen", f"127.0.0.1:{port}",
               "--backchannel-logout-url", receiver, *(["--users-file", users] if users else [])]
    with servers.process(command, bench.both, bench.folder / "mock-iam.log", servers.environment({})) as child:
        servers.wait_for(child, "GET", f"{url}/realms/shop/.well-known/openid-configuration")
        yield url


def log_in_all(bench, gateway, count):
    login, responses = bench.folder / "replicas-login", bench.folder / "replicas-sessions"
    login.write_text(json.dumps(servers.CREDENTIALS) + "\n")
    logins = Load("login", f"{gateway.url}/api/v1/auth/login", login, '"session_token":"')
    load.run(logins, bench.both, bench.connections, count=count, keep=responses)
    return [json.loads(line) for line in responses.read_text().splitlines()]


def credentials_of(session):
    return json.dumps({name: session[name] for name in ("session_id", "session_token")})


def log_out_all(url, sessions, rate, results):
    """Runs in a separate process, at a fixed rate."""
    requests = [
        wire.request("POST", f"{url}/api/v1/auth/logout", servers.JSON, credentials_of(session).encode())
        for session in sessions
    ]
    try:
        outcome = open_loop.run(url, requests, rate, 64, b"", spin=False)
        results.put((outcome.rate, outcome.percentile(99)))
    except Failure as failure:
        results.put(failure)


def probe(first, other, sessions, results):
    """How long after the response to a logout at one replica the session is still accepted at another one."""
    times = []
    for session in sessions:
        body = servers.exchange_body(session).encode()
        exchange = f"{other}/api/v1/auth/token"
        if wire.send("POST", exchange, servers.JSON, body).status != 200:
            results.put(Failure("replicas: a session is refused before its logout"))
            return
        response = wire.send("POST", f"{first}/api/v1/auth/logout", servers.JSON, credentials_of(session).encode())
        began = time.perf_counter()
        if response.status != 200:
            results.put(Failure(f"replicas: a logout got {response.status}"))
            return
        while wire.send("POST", exchange, servers.JSON, body).status == 200:
            pass
        times.append((time.perf_counter() - began) * 1e3)
        time.sleep(0.05)
    results.put(times)


def under_logouts(bench, iam, port, seconds, probes):
    """The exchange rate of one replica while sessions end at another, and the delays at the third one."""
    rate = bench.size(LOGOUTS_A_SECOND, 200)
    with replicas(bench, iam, port) as (first, second, third):
        bench.log(f"replicas: {seconds * rate:,} logins")
        # Redis still has the revocations of earlier rounds.
        before = first.counters()["auth_gateway_revocations_received_total"]
        sessions = log_in_all(bench, first, seconds * rate + probes + 8)
        kept, probed, ended = sessions[:8], sessions[8:8 + probes], sessions[8 + probes:]
        bodies = bench.folder / "replicas-exchanges"
        bodies.write_text("".join(servers.exchange_body(session) + "\n" for session in kept))
        exchanging = servers.exchanges("exchange", first.url, bodies)
        context = multiprocessing.get_context("fork")
        logouts, delays = context.Queue(), context.Queue()
        children = [context.Process(target=log_out_all, args=(second.url, ended, rate, logouts))]
        if probes:
            children.append(context.Process(target=probe, args=(second.url, third.url, probed, delays)))
        for child in children:
            child.start()
        try:
            # The logouts continue for longer than the exchanges.
            outcome = load.run(exchanging, bench.both, 8, seconds=max(seconds - 2, 1))
            achieved = logouts.get(timeout=120)
            delayed = delays.get(timeout=600) if probes else []
        finally:
            for child in children:
                child.terminate()
                child.join()
        for result in (achieved, delayed):
            if isinstance(result, Failure):
                raise result
        if port:
            for replica in (first, third):
                received = replica.counters()["auth_gateway_revocations_received_total"] - before
                if received != len(ended) + len(probed):
                    raise Failure(f"replicas: {received:,.0f} of {len(ended) + len(probed):,} revocations received")
    bench.log(f"replicas: {outcome.rate:,.0f} exchanges/s beside {achieved[0]:,.0f} logouts/s "
              f"{'with' if port else 'without'} Redis, logout p99 {achieved[1]:.0f} ms")
    return outcome.rate, achieved, sorted(delayed)


def measure(bench):
    yield from start_with_many(bench)
    seconds, pairs = bench.size(LOGOUT_SECONDS, 2), bench.size(PAIRS, 1)
    # Without logout tokens: their RSA signatures would take half of a core.
    with mock_iam(bench) as iam, redis(bench) as port:
        _, logouts, delays = under_logouts(bench, iam, port, seconds, probes=10 * seconds)
        # Alternating, and without probes, which use the same cores.
        with_redis, without = [], []
        for pair in range(pairs):
            both = [(without, None), (with_redis, port)]
            for rates, of_port in both if pair % 2 else reversed(both):
                rates.append(under_logouts(bench, iam, of_port, max(seconds // pairs, 2), probes=0)[0])
    p99 = delays[min(len(delays) - 1, len(delays) * 99 // 100)]
    yield Figure(
        "replica-propagation", f"from a logout to its effect at another replica, at {LOGOUTS_A_SECOND:,} logouts/s, p99",
        p99, delays[0], delays[-1], "ms", AT_MOST, PROPAGATION_MS,
        f"{len(delays)} logouts, p50 {statistics.median(delays):.1f} ms; {logouts[0]:,.0f} logouts/s, three replicas", [],
        {"delays_ms": delays})
    ratios = Series(tuple(rate / other for rate, other in zip(with_redis, without)))
    yield Figure(
        "replica-rate", "exchange rate beside these logouts, with Redis relative to without", ratios.median, ratios.low,
        ratios.high, "", AT_LEAST, RATIO,
        f"{statistics.median(with_redis):,.0f}/s and {statistics.median(without):,.0f}/s", [],
        {"with": with_redis, "without": without})
