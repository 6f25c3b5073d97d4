"""Request smuggling: directly, and through proxies that share one connection to the gateway between clients."""

import concurrent.futures
import contextlib
import json
import re
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import framings
import machine
import fixture
from fixture import expect

IDS = re.compile(rb"\r\nx-request-id: ([^\r\n]+)\r\n", re.IGNORECASE)
STATUS = re.compile(rb"HTTP/1\.1 (\d\d\d) ")
USERS = {"alice@example.test": "alice-pass", "bob@example.test": "bob-pass"}


def send_raw(address, content, timeout):
    """Sends the bytes; returns everything received, and whether the connection was closed."""
    received = bytearray()
    with socket.create_connection(address, timeout=10) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(content)
        connection.settimeout(timeout)
        while True:
            try:
                part = connection.recv(1 << 16)
            except TimeoutError:
                return bytes(received), False
            except ConnectionResetError:
                part = b""
            if not part:
                return bytes(received), True
            received += part


def logged_request_ids(gateway):
    """The ids of all requests in the log of the gateway."""
    # The log is written with a short delay.
    time.sleep(0.5)
    gateway.log.seek(0)
    lines = (json.loads(line) for line in gateway.log.read().splitlines() if line.startswith(b"{"))
    return [line["request_id"] for line in lines if "request_id" in line]


def direct():
    """Every framing on its own connection: ambiguous ones are refused and the connection closed; the others have one meaning."""
    all_framings = framings.all_framings()
    with fixture.running() as gateway:
        for framing in all_framings:
            received, closed = send_raw(gateway.address, framing.content, 3 if framing.refused else 0.5)
            statuses = STATUS.findall(received)
            if framing.refused:
                expect(statuses == [b"400"] and closed, f"{framing.name}: {statuses}, closed: {closed}")
            else:
                expect(statuses and b"500" not in statuses, f"{framing.name}: {statuses}")
        served = logged_request_ids(gateway)
        for framing in all_framings:
            times = served.count(framings.marker(framing.name))
            expect(times == int(framing.own), f"{framing.name}: the hidden request was served {times} times")
        gateway.check_serves("afterwards")
    print(f"  {len(all_framings)} framings, {sum(framing.refused for framing in all_framings)} refused")


def login(number, user):
    body = json.dumps({"email": user, "password": USERS[user]})
    return (
        f"POST /api/v1/auth/login HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\n"
        f"X-Request-Id: victim-{number}\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    ).encode()


def log_in_as_victim(address, number, user="alice@example.test"):
    """A login of another client, which must get its own response."""
    received, _ = send_raw(address, login(number, user), 10)
    statuses, ids = STATUS.findall(received), IDS.findall(received)
    own = f"victim-{number}".encode()
    expect(statuses == [b"200"] and ids == [own], f"victim {number} got {statuses} for {ids}")
    return json.loads(received[received.index(b"\r\n\r\n") + 4:])


def through(proxy, gateway, address):
    """Sends every framing through a proxy, and two logins of other clients after each."""
    victim = 0
    own = 0
    for framing in framings.all_framings():
        received, _ = send_raw(address, framing.content, 0.3)
        marker = framings.marker(framing.name).encode()
        ids = IDS.findall(received)
        expect(not any(one.startswith(b"victim") for one in ids), f"{framing.name}: got the response of another client")
        own += marker in ids
        for _ in range(2):
            victim += 1
            try:
                log_in_as_victim(address, victim)
            except fixture.Failure as failure:
                raise fixture.Failure(f"{proxy}, after {framing.name}: {failure}") from None
    # A hidden request that the proxy treats as a pipelined request gets its response on the same connection. No other is served.
    served = sum(one.startswith("smuggled") for one in logged_request_ids(gateway))
    expect(served == own, f"{served} hidden requests were served, of which {own} to their sender")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        users = list(USERS) * 250
        sessions = list(pool.map(lambda one: log_in_as_victim(address, f"p{one[0]}", one[1]), enumerate(users)))
    expect(len({session["session_id"] for session in sessions}) == len(users), "two clients got the same session")
    print(f"  {proxy}: {victim + len(users)} clients got their own responses; {own} hidden requests were pipelined requests")


@contextlib.contextmanager
def proxy(name, configuration, command):
    """Runs a proxy with the given configuration in front of a gateway."""
    with fixture.running({"http.trusted_proxies": "127.0.0.0/8"}) as gateway, tempfile.TemporaryDirectory() as folder:
        port = machine.free_ports(1)[0]
        path = Path(folder) / "configuration"
        path.write_text(configuration.format(port=port, upstream=gateway.address[1], folder=folder))
        # The workers of the proxy run as another user.
        Path(folder).chmod(0o755)
        with tempfile.TemporaryFile() as log:
            child = subprocess.Popen(
                [argument.format(path=path, folder=folder) for argument in command], stdin=subprocess.DEVNULL, stdout=log,
                stderr=log)
            try:
                def listens():
                    with contextlib.suppress(OSError):
                        socket.create_connection(("127.0.0.1", port), timeout=1).close()
                        return True
                    return False

                fixture.eventually(listens, 10, f"{name} does not listen")
                yield gateway, ("127.0.0.1", port)
            except BaseException:
                log.seek(0)
                print(log.read().decode(errors="replace")[-1000:])
                raise
            finally:
                machine.end(child, patience=10)


NGINX = """
user root;
daemon off;
worker_processes 1;
pid {folder}/pid;
error_log stderr crit;
events {{ worker_connections 512; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    # As tolerant as possible, so that most framings reach the gateway.
    ignore_invalid_headers off;
    underscores_in_headers on;
    upstream gateway {{ server 127.0.0.1:{upstream}; keepalive 1; }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://gateway;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_request_buffering off;
        }}
    }}
}}
"""

HAPROXY = """
global
    maxconn 512
defaults
    mode http
    timeout connect 2s
    timeout client 5s
    timeout server 10s
frontend clients
    bind 127.0.0.1:{port}
    %s
    default_backend gateway
backend gateway
    http-reuse always
    server gateway 127.0.0.1:{upstream}
"""


def through_nginx():
    """Every framing through nginx."""
    with proxy("nginx", NGINX, [*machine.debian("nginx"), "-e", "stderr", "-c", "{path}"]) as (gateway, address):
        through("nginx", gateway, address)


def through_haproxy():
    """Every framing through HAProxy, with its defaults and as tolerant as possible."""
    for name, option in (("HAProxy", ""), ("HAProxy, tolerant", "option accept-invalid-http-request")):
        with proxy(name, HAPROXY % option, [*machine.debian("haproxy"), "-db", "-f", "{path}"]) as (gateway, address):
            through(name, gateway, address)
