"""Request bodies made to overload a parser."""

import concurrent.futures
import contextlib
import gzip
import socket
import time

import fixture
import smuggling
from fixture import expect

LARGEST = 16 * 1024
PARALLEL = 1000
# The memory of a thousand bodies of 16 KiB and their connections.
GROWTH_MIB = 96
PATHS = ("login", "token", "logout")


def hostile_bodies():
    keys = ",".join(f'"k{number}":0' for number in range(100_000))
    pad = '{"email":"%s"'
    return {
        "nested a million times": b"[" * 1_000_000,
        "nested as deep as the size limit allows": b'{"a":' * (LARGEST // 5),
        "nested in an ignored member": b'{"x":' + b"[" * 8000 + b"]" * 8000 + b"}",
        "a hundred thousand members": b"{" + keys.encode() + b"}",
        "duplicate members": b'{"email":"a@b.test","email":"c@d.test","password":"x",' * 200 + b'"a":1}',
        "an array instead of an object": b'["alice@example.test","alice-pass"]',
        "one byte over the size limit": (pad % ("a" * (LARGEST - 10))).encode(),
        "a number without an end": b'{"email":' + b"9" * 16_000 + b"}",
        "a string without an end": b'{"email":"' + b"\\u0041" * 2_500,
        "compressed": gzip.compress(b"a" * 10_000_000),
        "not UTF-8": b'{"email":"\xff\xfe"}',
        "empty": b"",
    }


def head(path, headers, length=None):
    content_length = "" if length is None else f"Content-Length: {length}\r\n"
    return (
        f"POST {fixture.API}/{path} HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\n"
        f"Connection: close\r\n{headers}{content_length}\r\n"
    ).encode()


def refused(address, name, content):
    received, _ = smuggling.send_raw(address, content, 8)
    statuses = smuggling.STATUS.findall(received)
    expect(
        statuses and statuses[0] in (b"400", b"413", b"415"),
        f"{name}: {statuses or 'no response'} {received[:100]!r}")
    expect(b'"error":"invalid_request"' in received, f"{name}: not an error response: {received[-200:]!r}")


def endless(address):
    """Chunks until the server closes the connection."""
    began = time.monotonic()
    with socket.create_connection(address, timeout=10) as connection:
        connection.sendall(head("login", "Transfer-Encoding: chunked\r\n"))
        with contextlib.suppress(ConnectionError):
            while time.monotonic() - began < 5:
                connection.sendall(b"1000\r\n" + b" " * 4096 + b"\r\n")
    took = time.monotonic() - began
    expect(took < 4, f"chunks were accepted for {took:.1f} s")


def run():
    """Deep, wide, long, compressed and endless bodies are refused, and a thousand at once need little memory."""
    with fixture.running({"http.workers": 2}) as gateway:
        gateway.check_serves("before")
        for name, body in hostile_bodies().items():
            encoding = "Content-Encoding: gzip\r\n" if name == "compressed" else ""
            for path in PATHS:
                refused(gateway.address, f"{name}, {path}", head(path, encoding, len(body)) + body)
                if len(body) < 1 << 17:
                    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body) if body else b"0\r\n\r\n"
                    refused(
                        gateway.address, f"{name}, {path}, in a chunk",
                        head(path, f"{encoding}Transfer-Encoding: chunked\r\n") + chunked)
        for length in (LARGEST + 1, 2 << 30, (1 << 64) - 1):
            refused(gateway.address, f"Content-Length: {length}", head("login", "", length))
        endless(gateway.address)
        rss = gateway.rss_mib()
        growth = parallel_bodies(gateway, rss)
        gateway.check_serves("afterwards")
    print(f"  {PARALLEL} at once: up to +{growth:.0f} MiB")


def parallel_bodies(gateway, rss):
    """Sends all bytes but the last on every connection, then the last byte on each, so that all bodies are in memory at once."""
    body = b'{"x":' + b"[" * (LARGEST - 6) + b"}"
    content = head("login", "", len(body)) + body
    with concurrent.futures.ThreadPoolExecutor(8) as pool, fixture.regular_client_served(gateway, slowest=20):
        clients = list(pool.map(lambda _: socket.create_connection(gateway.address, timeout=10), range(PARALLEL)))
        try:
            for client in clients:
                client.sendall(content[:-1])
            time.sleep(0.5)
            growth = gateway.rss_mib() - rss
            for client in clients:
                client.sendall(content[-1:])
            responses = [client.recv(1 << 16) for client in clients]
        finally:
            for client in clients:
                client.close()
    growth = max(growth, gateway.rss_mib() - rss)
    # A request that arrives while a thousand others are parsed may be refused with Retry-After.
    allowed = tuple(b"HTTP/1.1 %d " % status for status in (400, 408, 503))
    wrong = [response for response in responses if not response.startswith(allowed)]
    expect(not wrong, f"{len(wrong)} of {PARALLEL} responses: {wrong[:1]}")
    expect(growth < GROWTH_MIB, f"{growth:.0f} MiB for {PARALLEL} bodies")
    return growth
