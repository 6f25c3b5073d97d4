"""Heads of requests that are too long, too many, or too many at once."""

import contextlib
import socket
import threading

import fixture
import smuggling
from fixture import expect

REQUESTS = 5000
GROWTH_MIB = 32


def line(path="/nowhere"):
    return f"GET {path} HTTP/1.1\r\nHost: gateway\r\n"


def too_long():
    """Each with how it may be refused."""
    return {
        "one header of 17 KiB": line() + f"X: {'a' * 17 * 1024}\r\n\r\n",
        "one header of 1 MiB": line() + f"X: {'a' * (1 << 20)}\r\n\r\n",
        "a thousand headers": line() + "".join(f"X-{number}: a\r\n" for number in range(1000)) + "\r\n",
        "eighty long headers": line() + "".join(f"X-{number}: {'a' * 250}\r\n" for number in range(80)) + "\r\n",
        "a hundred thousand headers": line() + "X: a\r\n" * 100_000 + "\r\n",
        "a path of 17 KiB": line("/" + "a" * 17 * 1024) + "\r\n",
        "a path of 100 KiB": line("/" + "a" * 100 * 1024) + "\r\n",
        "a query of 64 KiB": line("/?" + "a" * (1 << 16)) + "\r\n",
        "a method of 20 KiB": "G" * 20 * 1024 + " / HTTP/1.1\r\nHost: gateway\r\n\r\n",
        "a line without an end": "GET /" + "a" * (1 << 20),
    }


def run():
    """Headers, paths and methods without measure: 431 in form, on the first request and on a later one."""
    with fixture.running() as gateway:
        for before, name_before in ((b"", "first"), (f"{line()}\r\n".encode(), "later")):
            for name, request in too_long().items():
                received, closed = smuggling.sent(gateway.address, before + request.encode(), 8)
                statuses = smuggling.STATUS.findall(received)
                expected = [b"404", b"431"] if before else [b"431"]
                expect(statuses == expected and closed, f"{name}, {name_before}: {statuses}, closed: {closed}")
                expect(received.rstrip().endswith(b"}") and b'"request_id"' in received, f"{name}: not in form")
        # As long as one may be.
        fits = line() + f"X: {'a' * 15 * 1024}\r\n\r\n"
        received, _ = smuggling.sent(gateway.address, fits.encode(), 0.5)
        expect(smuggling.STATUS.findall(received) == [b"404"], f"a head of 15 KiB: {received[:100]!r}")
        gateway.serves("afterwards")


def pipelining():
    """Thousands of requests in a row: all answered in order to who reads, and who does not read costs nothing."""
    with fixture.running({"http.workers": 1}) as gateway:
        gateway.serves("before")
        rss = gateway.rss_mib()
        in_order(gateway)
        with fixture.served_all_the_while(gateway), contextlib.ExitStack() as stack:
            for _ in range(20):
                client = stack.enter_context(socket.socket())
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                client.connect(gateway.address)
                client.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    while True:
                        client.send(f"{line('/openapi.yaml')}\r\n".encode() * 1000)
            began = gateway.cpu_seconds()
            fixture.eventually(lambda: len(gateway.sockets()) < 15, 8, "clients that do not read are never disconnected")
            busy = gateway.cpu_seconds() - began
        expect(busy < 4, f"{busy:.1f} s of a core were spent on clients that do not read")
        growth = gateway.rss_mib() - rss
        expect(growth < GROWTH_MIB, f"{growth:.0f} MiB")
        print(f"  {REQUESTS} in a row; 20 that do not read: {busy:.1f} s of a core, +{growth:.0f} MiB")


def in_order(gateway):
    with socket.create_connection(gateway.address, timeout=20) as client:
        def ask():
            for number in range(REQUESTS):
                client.sendall(f"{line()}X-Request-Id: r{number}\r\n\r\n".encode())

        asking = threading.Thread(target=ask)
        asking.start()
        received = bytearray()
        while received.count(b"\r\nx-request-id: ") < REQUESTS:
            part = client.recv(1 << 16)
            expect(part, "closed in the midst of it")
            received += part
        asking.join()
    ids = smuggling.IDS.findall(bytes(received))
    expect(ids == [f"r{number}".encode() for number in range(REQUESTS)], "not in their order")
