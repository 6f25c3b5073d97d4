"""Checks the formulas of docs/capacity.md: computes what three replicas with Redis use from constants of one, and compares.

The constants are measured first, with one kind of request at a time, at the rate at which a replica gets requests in the run.
"""

import contextlib
import dataclasses
import json
import math
import multiprocessing
import random
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import load
import machine
import open_loop
import servers
import wire
from figures.mock import processor_seconds
from figures.replicas import SETTINGS, command, credentials_of, mock_iam, redis
from figures.sessions import write_users
from load import Load
from report import AT_MOST, Figure
from wire import Failure

REPLICAS = 3
# Each with a session that is exchanged.
USERS = 6_000
# Requests a second at all replicas.
EXCHANGES, LOGINS, LOGOUTS = 1_200, 60, 60
FRESHNESS = 20
# Twice the freshness, so that little of the common time of the logins is left.
WARM_UP = 2 * FRESHNESS
SECONDS = 60
CONNECTIONS = 16
# Requests of each kind for its constants.
SAMPLES = 3_000
IDLE_SECONDS = 15
SETTLE_SECONDS = 3
BOUND = 0.15
USES = {"processor": "processor time of the replicas, s", "calls": "calls to the IAM", "commands": "commands of Redis",
        "to-redis": "bytes to Redis", "from-redis": "bytes from Redis"}
REVOCATION_BYTES = 69  # of a replica: docs/capacity.md
CONNECTION_BYTES = 14 * 1024  # in use: the same


def info(port, section):
    """The numbers of a section of Redis' INFO; of a command, its calls; of the database, its keys."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(command("INFO", section))
        received = connection.recv(1 << 16)
        while len(received) < int(received[1:received.index(b"\r\n")]):
            received += connection.recv(1 << 16)
    found = re.findall(r"^(\w+):(?:calls=|keys=)?(\d+(?:\.\d+)?)", received.decode(), re.M)
    return {name: float(number) for name, number in found}


def used(gateways, port):
    """What was used so far, in the order of USES."""
    stats, commands = info(port, "stats"), info(port, "commandstats")
    return [
        sum(processor_seconds(gateway.child) for gateway in gateways),
        sum(gateway.iam_calls(kind) for gateway in gateways for kind in ("introspection", "login", "logout")),
        sum(calls for name, calls in commands.items() if name != "cmdstat_info"),
        stats["total_net_input_bytes"], stats["total_net_output_bytes"],
    ]


def processor_of_redis(port):
    cpu = info(port, "cpu")
    return cpu["used_cpu_user"] + cpu["used_cpu_sys"]


def plus(*terms):
    """The sum of pairs of a number and what one of it uses."""
    return [sum(number * uses[index] for number, uses in terms) for index in range(len(USES))]


def by_source(gateways):
    name, counters = 'auth_gateway_exchanges_total{{source="{}",iam="keycloak"}}', [gateway.counters() for gateway in gateways]
    return {source: sum(each.get(name.format(source), 0) for each in counters) for source in ("hit", "shared", "miss")}


def redis_bytes():
    """Of a revocation and of a shared session, as docs/capacity.md has them."""
    tool = Path(__file__).resolve().parents[1] / "redis_memory"
    output = subprocess.run([sys.executable, tool], check=True, capture_output=True, text=True).stdout
    return {name: int(number) for name, number in re.findall(r"^(.+): (\d+) bytes$", output, re.M)}


class Bodies:
    """Requests with sessions, each of which is used once for each purpose."""

    def __init__(self, sessions, logins):
        self.sessions = sessions
        self.exchanges = [post("token", servers.exchange_body(session)) for session in sessions[:USERS]]
        self.logins = [post("login", line) for line in logins.read_text().splitlines()]
        self.ended = (post("logout", credentials_of(session)) for session in sessions[USERS:])

    def logouts(self, count):
        return [next(self.ended) for _ in range(count)]


def post(path, body):
    return wire.request("POST", f"http://127.0.0.1/api/v1/auth/{path}", servers.JSON, body.encode())


@dataclasses.dataclass
class Constants:
    uses: dict  # of each kind of request, and of an idle second
    idle_bytes: float
    session_bytes: float
    user_bytes: float


def constants(bodies, gateway, port):
    """Those of one replica; `gateway()` starts one."""
    rate = (EXCHANGES + LOGINS + LOGOUTS) / REPLICAS
    uses = {}

    def measured(running, requests, source=None):
        before, sources, began = used(running, port), by_source(running), time.monotonic()
        if requests:
            # At the last one.
            open_loop.run(running[-1].url, requests, rate, CONNECTIONS, b"", spin=False)
        else:
            time.sleep(IDLE_SECONDS)
        seconds = time.monotonic() - began
        whole = plus((1, used(running, port)), (-1, before))
        if source and by_source(running)[source] - sources[source] < 0.99 * len(requests):
            raise Failure(f"capacity: not all exchanges are {source}: {sources}, then {by_source(running)}")
        if not requests:
            return plus((1 / seconds, whole))
        return plus((1 / len(requests), whole), (-seconds * len(running) / len(requests), uses["idle"]))

    some = bodies.exchanges[:SAMPLES]
    with gateway() as first:
        # Until it has read the known networks.
        time.sleep(SETTLE_SECONDS)
        idle_bytes = first.memory_mib()[0] * 2**20
        uses["idle"] = measured([first], [])
        uses["login"] = measured([first], bodies.logins[:SAMPLES])
        with gateway() as second:
            # It uses no shared data from before its start, and counts shared data as a second older than it is.
            time.sleep(SETTLE_SECONDS)
            uses["introspected"] = measured([second, first], some, "miss")
            counters = first.counters()
            stored = 'auth_gateway_cache_{}{{cache="{}"}}'
            session_bytes, user_bytes = (
                counters[stored.format("bytes", cache)] / counters[stored.format("entries", cache)]
                for cache in ("liveness", "permissions"))
            uses["shared"] = measured([first, second], some, "shared")
            uses["cached"] = measured([second, first], some, "hit")
            both = measured([second, first], bodies.logouts(SAMPLES))
        uses["logout"] = measured([first], bodies.logouts(SAMPLES))
        uses["received"] = plus((1, both), (-1, uses["logout"]))
    # The constants of `introspected` are those of look-ups that find nothing.
    uses["outdated"] = [0] * (len(USES) - 1) + uses["shared"][-1:]
    return Constants(uses, idle_bytes, session_bytes, user_bytes)


def exchanges_by_source():
    """How many exchanges a second introspect, find shared data, and find data of their own replica.

    A session gets `EXCHANGES / USERS` exchanges a second at random times, each at a random replica. Its data is used for 95 % of
    the freshness, on average, and at other replicas a second less. The first exchange after that introspects, and the first one
    at each of the others finds shared data. `outdated`: those that introspect although Redis still has the data.
    """
    pause = USERS / EXCHANGES
    lifetime = 0.95 * FRESHNESS - 1
    introspected = USERS / (lifetime + pause)
    shared = introspected * (REPLICAS - 1) * (1 - math.exp(-lifetime / (REPLICAS * pause)))
    outdated = introspected * (1 - math.exp(-(FRESHNESS - lifetime) / pause))
    return {"introspected": introspected, "shared": shared, "cached": EXCHANGES - introspected - shared, "outdated": outdated}


def computed_uses(constants_, seconds):
    rates = {
        **exchanges_by_source(), "login": LOGINS, "logout": LOGOUTS, "received": LOGOUTS * (REPLICAS - 1), "idle": REPLICAS}
    return plus(*((rate * seconds, constants_.uses[kind]) for kind, rate in rates.items()))


def redis_data(port):
    """The memory of Redis without that of its connections."""
    memory = info(port, "memory")
    return memory["used_memory"] - memory["mem_clients_normal"]


def computed_redis(sizes, logouts):
    """With a tenth of keys that have expired: Redis removes expired keys until fewer than that are left."""
    sessions = (exchanges_by_source()["introspected"] + LOGINS) * FRESHNESS / 0.9
    return sessions * sizes["shared session"] + logouts * sizes["revocation"] + USERS * sizes["login event or network"]


def computed_memory(constants_, logouts):
    """Of one replica: its sessions are those that it exchanged within the freshness, and those of its logins."""
    sessions = USERS * (1 - math.exp(-FRESHNESS * EXCHANGES / USERS / REPLICAS)) + LOGINS / REPLICAS * FRESHNESS
    return (constants_.idle_bytes + sessions * constants_.session_bytes + USERS * constants_.user_bytes
            + logouts * REVOCATION_BYTES + CONNECTIONS * CONNECTION_BYTES)


def send_all(url, requests, begin, results):
    """Runs in a separate process."""
    try:
        rate = (EXCHANGES + LOGINS + LOGOUTS) / REPLICAS
        outcome = open_loop.run(url, requests, rate, CONNECTIONS, b"", spin=False, begin=begin)
        results.put(f"p99 {outcome.percentile(99):.1f} ms")
    except Failure as failure:
        results.put(failure)


def mixed(bodies, seconds):
    """The requests for one replica."""
    chosen = random.choices(bodies.exchanges, k=EXCHANGES * seconds // REPLICAS)
    chosen += random.choices(bodies.logins, k=LOGINS * seconds // REPLICAS)
    chosen += bodies.logouts(LOGOUTS * seconds // REPLICAS)
    random.shuffle(chosen)
    return chosen


def under_load(bench, bodies, gateways, port):
    """What the replicas use in SECONDS, the number of seconds, and the exchanges by source."""
    context = multiprocessing.get_context("fork")
    results, length = context.Queue(), WARM_UP + SECONDS + 2
    lists = [mixed(bodies, length) for _ in gateways]
    begin = time.perf_counter() + 2
    children = [context.Process(target=send_all, args=(gateway.url, requests, begin, results))
                for gateway, requests in zip(gateways, lists)]
    for child in children:
        child.start()
    try:
        time.sleep(begin + WARM_UP - time.perf_counter())
        before, sources, began = used(gateways, port), by_source(gateways), time.monotonic()
        time.sleep(SECONDS)
        after, seconds = used(gateways, port), time.monotonic() - began
        sources = {source: (count - sources[source]) / seconds for source, count in by_source(gateways).items()}
        for _ in children:
            result = results.get(timeout=60)
            if isinstance(result, Failure):
                raise result
            bench.log(f"capacity: {result}")
    finally:
        for child in children:
            child.terminate()
            child.join()
    return plus((1, after), (-1, before)), seconds, sources


def measure(bench):
    if bench.quick:
        raise machine.CannotRun("the formulas hold for a run of minutes")
    sizes = redis_bytes()
    logouts = LOGOUTS * (WARM_UP + SECONDS + 2)
    users, logins = write_users(bench, USERS)
    with mock_iam(bench, users=users) as iam, redis(bench) as port:
        empty = redis_data(port)
        settings = {
            **SETTINGS, "iam.keycloak.url": iam, "keys.sealing_dir": bench.sealing(), "keys.signing_dir": signing_keys(bench),
            "keys.identifier_key": "a-key-of-the-measurement-0123456789", "session.freshness": f"{FRESHNESS}s",
            "permissions.ttl": f"{FRESHNESS}s", "redis.url": f"redis://127.0.0.1:{port}", "redis.prefix": "auth-gateway:bench"}

        def gateway(others={}):
            return servers.gateway(bench, bench.both, {**settings, **others})

        # So that Redis' table of keys gets no larger than in the run.
        with gateway({"redis.share_knowledge": "false"}) as first:
            kept = bench.folder / "capacity-sessions"
            logging_in = Load("login", f"{first.url}/api/v1/auth/login", logins, '"session_token":"')
            load.run(logging_in, bench.both, bench.connections, count=USERS + logouts + 2 * SAMPLES + 1, keep=kept)
            sessions = [json.loads(line) for line in kept.read_text().splitlines()]
            bodies = Bodies(sessions, logins)
            # A stream without entries is read by one command less.
            wire.send("POST", f"{first.url}/api/v1/auth/logout", servers.JSON, credentials_of(sessions.pop()).encode())
            wire.send("POST", f"{first.url}/api/v1/auth/login", servers.JSON, b'{"email": "user0@example.test", "password": "-"}')
        found = constants(bodies, gateway, port)
        with contextlib.ExitStack() as stack:
            gateways = [stack.enter_context(gateway()) for _ in range(REPLICAS)]
            busy, began = -processor_of_redis(port), time.monotonic()
            uses, seconds, sources = under_load(bench, bodies, gateways, port)
            busy = (busy + processor_of_redis(port)) / (time.monotonic() - began)
            resident = [replica.memory_mib()[0] for replica in gateways]
            stored = redis_data(port) - empty
            keys = info(port, "keyspace")["db0"]
    for kind, (processor, *others) in found.uses.items():
        values = [f"{what} {value:.2f}" for what, value in zip(list(USES)[1:], others)]
        bench.log(f"capacity: {kind}: {processor * 1e6:.0f} µs of a replica, {', '.join(values)}")
    bench.log(f"capacity: {dataclasses.replace(found, uses={})}; Redis: {sizes}")
    bench.log(f"capacity: Redis has {keys:,.0f} keys, and used {busy:.1%} of a core")
    bench.log(f"capacity: exchanges a second, computed {exchanges_by_source()}, measured {sources}")
    rows = list(zip(USES, USES.values(), computed_uses(found, seconds), uses))
    ended = logouts + 2 * SAMPLES
    rows.append(("redis-memory", "memory of Redis, KiB", computed_redis(sizes, ended) / 1024, stored / 1024))
    rows.append(("memory", "resident memory of a replica, MiB", computed_memory(found, ended) / 2**20, sum(resident) / REPLICAS))
    for name, what, computed, measured in rows:
        ratio = measured / computed
        yield Figure(f"capacity-{name}", f"{what}: measured relative to computed", ratio, ratio, ratio, "", AT_MOST, 1 + BOUND,
                     f"{measured:,.1f} and {computed:,.1f}")
    wrong = [what for _, what, computed, measured in rows if abs(measured / computed - 1) > BOUND]
    if wrong:
        raise Failure(f"capacity: {', '.join(wrong)}: the difference is above {BOUND:.0%}")


def signing_keys(bench):
    folder = bench.folder / "signing"
    folder.mkdir(mode=0o700, exist_ok=True)
    machine.build([bench.binary, "keys", "generate", "--dir", folder, "--first-use", "now"])
    return folder
