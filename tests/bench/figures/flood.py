"""Back-channel logout beside 10,000 forged logout tokens a second from one network, with the mock over the wire.

Half of the forged tokens name the IAM's key, the others keys that do not exist. The clients are behind a trusted proxy, so that
the IAM and the forger have different addresses.
"""

import base64
import contextlib
import json
import multiprocessing
import time
from concurrent.futures import ThreadPoolExecutor

import load
import machine
import open_loop
import servers
import wire
from figures.fresh import one_session
from figures.mock import processor_seconds
from figures.replicas import SETTINGS, mock_iam
from load import Load
from report import AT_LEAST, AT_MOST, Figure
from rounds import Rounds, Series
from wire import Failure

FORGED_A_SECOND = 10_000
FORGED_CONNECTIONS = 64
RATIO = 0.90
# Below the 600 logout tokens a second that a replica accepts of one IAM.
LOGOUTS_A_SECOND = 150
LOGOUT_SECONDS = 10
EFFECT_SECONDS = 1
FETCHES = 1
FETCH_WINDOW_SECONDS = 10
KEY_IDS = 1_000
ACCOUNTS = [{"email": f"user{number}@example.test", "password": "a-pass"} for number in range(LOGOUTS_A_SECOND * LOGOUT_SECONDS)]


def part(value):
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def forged(bench, gateway, iam):
    """The load of forged tokens: well-formed, and with wrong signatures."""
    issuer = f"{iam}/realms/{SETTINGS['iam.keycloak.realm']}"
    keys = json.loads(wire.send("GET", f"{issuer}/protocol/openid-connect/certs").body)["keys"]
    known = next(key["kid"] for key in keys if key.get("use") == "sig")
    claims = part({
        "iss": issuer, "aud": SETTINGS["iam.keycloak.client_id"], "iat": int(time.time()), "exp": int(time.time()) + 120,
        "jti": "forged", "sub": "nobody", "events": {"http://schemas.openid.net/event/backchannel-logout": {}},
    })
    bodies = bench.folder / "flood"
    with bodies.open("w") as lines:
        for number in range(KEY_IDS):
            header = part({"alg": "RS256", "typ": "logout+jwt", "kid": known if number % 2 else f"unknown-{number}"})
            lines.write(f"logout_token={header}.{claims}.{'A' * 342}\n")
    headers = {"Content-Type": "application/x-www-form-urlencoded", "X-Forwarded-For": "203.0.113.9"}
    return Load("forged tokens", f"{gateway.url}/api/v1/auth/backchannel-logout", bodies, "", headers)


@contextlib.contextmanager
def flood(bench, tokens, seconds):
    """The forged tokens arrive during the block, for at most so many seconds."""
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(load.run, tokens, bench.second, FORGED_CONNECTIONS, seconds=seconds, rate=FORGED_A_SECOND, refused=True)
        time.sleep(0.5)
        yield running


@contextlib.contextmanager
def gateway_with_iam(bench):
    """A gateway with one worker on the first core, and an IAM that sends it logout tokens."""
    entries = [{**account, "permissions": servers.SCOPE.split()} for account in (servers.CREDENTIALS, *ACCOUNTS)]
    users = bench.folder / "flood-users.json"
    users.write_text(json.dumps({"users": entries}))
    (port,) = machine.free_ports(1)
    url = f"http://127.0.0.1:{port}"
    with mock_iam(bench, f"{url}/api/v1/auth/backchannel-logout", users) as iam:
        settings = {
            **SETTINGS, "iam.keycloak.url": iam, "keys.sealing_dir": bench.sealing(), "http.trusted_proxies": "127.0.0.0/8",
            "http.listen": f"127.0.0.1:{port}", "http.public_url": url,
            "keys.identifier_key": "a-key-of-the-measurement-0123456789",
        }
        with servers.gateway(bench, bench.first, settings) as gateway:
            yield gateway, iam


def rates(bench, gateway, tokens):
    """Exchanges with the flood, relative to those without it."""
    rounds = Rounds(bench, "flood")
    exchanges = one_session(bench, "flood", gateway.url)
    size, _ = servers.inspect(exchanges)

    def alone():
        before = processor_seconds(gateway.child)
        outcome = load.run(exchanges, bench.second, bench.connections, seconds=bench.seconds, size=size)
        gateway.truncate_log()
        return outcome.rate, (processor_seconds(gateway.child) - before) / outcome.requests

    def beside():
        with flood(bench, tokens, bench.seconds + 2) as running:
            outcome = alone()
        return *outcome, running.result().rate

    alone()
    with_flood, without = rounds.in_turn(bench.rounds, (beside, alone))
    ratios = Series(tuple(one[0] / other[0] for one, other in zip(with_flood, without)))
    medians = [Series(tuple(one[0] for one in outcomes)).median for outcomes in (with_flood, without)]
    forged_rate = Series(tuple(one[2] for one in with_flood)).median
    # What a second took more for all exchanges in it was for the forged tokens.
    costs = [(total - alone_cost) * rate / sent for (rate, total, sent), (_, alone_cost) in zip(with_flood, without)]
    yield Figure(
        "flood-rate", f"exchange rate beside {FORGED_A_SECOND:,} forged logout tokens/s, relative to without, one worker",
        ratios.median, ratios.low, ratios.high, "", AT_LEAST, RATIO,
        f"{medians[0]:,.0f}/s and {medians[1]:,.0f}/s; {forged_rate:,.0f} forged/s, each {Series(tuple(costs)).median * 1e6:.1f} µs of the "
        "processor", rounds.warnings(ratios),
        {"with": with_flood, "without": without})


def log_in(bench, gateway, accounts):
    """A session of each account. On one connection, so that the responses have the order of the accounts."""
    bodies, responses = bench.folder / "flood-logins", bench.folder / "flood-sessions"
    bodies.write_text("".join(json.dumps(account) + "\n" for account in accounts))
    logins = Load("login", f"{gateway.url}/api/v1/auth/login", bodies, '"session_token":"')
    load.run(logins, bench.second, 1, count=len(accounts), keep=responses)
    return [json.loads(line) for line in responses.read_text().splitlines()]


def check_ended(url, sessions, rate, begin, results):
    """Exchanges each session once, at a fixed rate. Runs in a separate process."""
    requests = [wire.request("POST", f"{url}/api/v1/auth/token", servers.JSON, servers.exchange_body(session).encode())
                for session in sessions]
    try:
        open_loop.run(url, requests, rate, 64, b'"invalid_grant"', spin=False, status=401, begin=begin)
        results.put(None)
    except Failure as failure:
        results.put(failure)


def logouts(bench, gateway, iam, tokens):
    """Genuine logout tokens beside the flood. Each session must be refused one second after it ended at the IAM."""
    rate, seconds = bench.size(LOGOUTS_A_SECOND, 50), bench.size(LOGOUT_SECONDS, 2)
    accounts = ACCOUNTS[:rate * seconds]
    sessions = log_in(bench, gateway, accounts)
    requests = [wire.request("DELETE", f"{iam}/mock/v1/users/{account['email']}/sessions?notify=true") for account in accounts]
    results = multiprocessing.get_context("fork").Queue()
    calls, fetches = gateway.iam_calls("introspection"), gateway.iam_calls("keys")
    flooded = max(2 * FETCH_WINDOW_SECONDS, seconds + 5) if not bench.quick else seconds + 3
    with flood(bench, tokens, flooded) as running:
        begin = time.perf_counter() + 0.5
        checking = multiprocessing.get_context("fork").Process(
            target=check_ended, args=(gateway.url, sessions, rate, begin + EFFECT_SECONDS, results))
        checking.start()
        try:
            ended = open_loop.run(iam, requests, rate, 64, b'"notified":1', spin=False, begin=begin)
            failure = results.get(timeout=60)
        finally:
            checking.terminate()
            checking.join()
    if failure:
        raise failure
    if gateway.iam_calls("introspection") != calls:
        raise Failure("flood: a session was refused by an introspection, and not by its logout token")
    achieved, fetched = running.result().rate, gateway.iam_calls("keys") - fetches
    p99 = ended.percentile(99)
    yield Figure(
        "flood-logouts", f"from the end of a session at the IAM to the gateway's response to its logout token, at {rate}/s beside the "
        "forged ones, p99", p99, ended.percentile(0), ended.percentile(100), "ms", AT_MOST, EFFECT_SECONDS * 1e3,
        f"{len(sessions):,} logouts, {ended.rate:,.0f}/s, p50 {ended.percentile(50):.1f} ms; each session was refused after 1 s; "
        f"{achieved:,.0f} forged/s", [], {"latencies_ms": ended.latencies_ms})
    # The first one comes at once, and each further one ten seconds after the one before.
    later = (fetched - 1) * FETCH_WINDOW_SECONDS / flooded
    yield Figure(
        "flood-fetches", f"key fetches at the IAM in 10 s of {FORGED_A_SECOND:,} forged logout tokens/s, after the first one", later,
        later, later, "", AT_MOST, FETCHES, f"{fetched:.0f} in {flooded} s", [], {"fetches": fetched})


def measure(bench):
    with gateway_with_iam(bench) as (gateway, iam):
        tokens = forged(bench, gateway, iam)
        yield from rates(bench, gateway, tokens)
        yield from logouts(bench, gateway, iam, tokens)
