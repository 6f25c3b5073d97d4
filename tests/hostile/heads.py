"""Request heads that are too long, and many pipelined requests."""

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
    """Request heads that exceed a limit, by name."""
    return {
        "one header of 9 KiB": line() + f"X: {'a' * 9 * 1024}\r\n\r\n",
        "one header of 1 MiB": line() + f"X: {'a' * (1 << 20)}\r\n\r\n",
        "a thousand headers": line() + "".join(f"X-{number}: a\r\n" for number in range(1000)) + "\r\n",
        "eighty long headers": line() + "".join(f"X-{number}: {'a' * 250}\r\n" for number in range(80)) + "\r\n",
        "a hundred thousand headers": line() + "X: a\r\n" * 100_000 + "\r\n",
        "a path of 9 KiB": line("/" + "a" * 9 * 1024) + "\r\n",
        "a path of 100 KiB": line("/" + "a" * 100 * 1024) + "\r\n",
        "a query of 64 KiB": line("/?" + "a" * (1 << 16)) + "\r\n",
        "a method of 20 KiB": "G" * 20 * 1024 + " / HTTP/1.1\r\nHost: gateway\r\n\r\n",
        "a line without an end": "GET /" + "a" * (1 << 20),
    }


def run():
    """Too long headers, paths and methods get a 431 error response, on the first request and on a later one."""
    with fixture.running() as gateway:
        for before, name_before in ((b"", "first"), (f"{line()}\r\n".encode(), "later")):
            for name, request in too_long().items():
                received, closed = smuggling.send_raw(gateway.address, before + request.encode(), 8)
                statuses = smuggling.STATUS.findall(received)
                expected = [b"404", b"431"] if before else [b"431"]
                expect(statuses == expected and closed, f"{name}, {name_before}: {statuses}, closed: {closed}")
                expect(received.rstrip().endswith(b"}") and b'"request_id"' in received, f"{name}: not an error response")
        # A head below the limit.
        fits = line() + f"X: {'a' * 7 * 1024}\r\n\r\n"
        received, _ = smuggling.send_raw(gateway.address, fits.encode(), 0.5)
        expect(smuggling.STATUS.findall(received) == [b"404"], f"a head of 7 KiB: {received[:100]!r}")
        gateway.check_serves("afterwards")


def pipelining():
    """Thousands of pipelined requests get responses in order; clients that do not read are disconnected."""
    with fixture.running({"http.workers": 1}) as gateway:
        gateway.check_serves("before")
        rss = gateway.rss_mib()
        in_order(gateway)
        with fixture.regular_client_served(gateway), contextlib.ExitStack() as stack:
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
        print(f"  {REQUESTS} pipelined; 20 clients that do not read: {busy:.1f} s of a core, +{growth:.0f} MiB")


def in_order(gateway):
    with socket.create_connection(gateway.address, timeout=20) as client:
        def send():
            for number in range(REQUESTS):
                client.sendall(f"{line()}X-Request-Id: r{number}\r\n\r\n".encode())

        sender = threading.Thread(target=send)
        sender.start()
        received = bytearray()
        while received.count(b"\r\nx-request-id: ") < REQUESTS:
            part = client.recv(1 << 16)
            expect(part, "the connection was closed early")
            received += part
        sender.join()
    ids = smuggling.IDS.findall(bytes(received))
    expect(ids == [f"r{number}".encode() for number in range(REQUESTS)], "responses are out of order")
