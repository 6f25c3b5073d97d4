"""A machine without free file descriptors, memory or disk space for the log."""

import contextlib
import os
import shutil
import socket
import threading
import time
from pathlib import Path

import machine
import fixture
from fixture import expect

FILES = 1024
MEMORY_MIB = 128
# More than the default of http.max_connections, and the memory that docs/capacity.md has for them.
UNFINISHED = 12_000
UNFINISHED_MIB = 200


def descriptors():
    """With 1,024 file descriptors the gateway keeps some for the IAM, does not busy-loop, and continues to serve."""
    limited = ["prlimit", f"--nofile={FILES}:{FILES}"]
    if shutil.which("prlimit") is None:
        raise machine.CannotRun("prlimit is not installed")
    with fixture.running({"http.workers": 2}, prefix=limited) as gateway:
        gateway.check_serves("before")
        with fixture.regular_client_served(gateway), contextlib.ExitStack() as stack:
            for _ in range(4 * FILES):
                with contextlib.suppress(TimeoutError, ConnectionError):
                    client = stack.enter_context(socket.create_connection(gateway.address, timeout=2))
                    client.sendall(b"POST /api/v1/auth/login HTTP/1.1\r\n")
            most = gateway.fds()
            began = gateway.cpu_seconds()
            time.sleep(3)
            busy = gateway.cpu_seconds() - began
            expect(most < FILES, f"{most} files are open: none is free for the IAM")
        # The regular client uses some of it.
        expect(busy < 2, f"{busy:.1f} s of a core within 3 s")
        expect(gateway.shed("idle") > 0, "no connection was closed: the attack had no effect")
        gateway.check_serves("afterwards")
        print(f"  {most} of {FILES} files for {4 * FILES} connections; {busy:.1f} s of a core within 3 s")


def log():
    """With a full disk, a closed pipe, an unread pipe or no standard output, no request fails or waits for the log."""
    for name, stdout in (("a full disk", full_disk), ("a closed pipe", closed_pipe), ("an unread pipe", unread_pipe)):
        with stdout() as sink, fixture.running(stdout=sink) as gateway:
            began = time.monotonic()
            for _ in range(50):
                gateway.check_serves(name)
            # The log of 50 sessions is larger than the buffer of a pipe.
            expect(time.monotonic() - began < 20, f"{name}: requests wait for the log")
    shell = ["sh", "-c", 'exec "$0" >&-']
    with fixture.running(prefix=shell) as gateway:
        gateway.check_serves("no standard output")


@contextlib.contextmanager
def full_disk():
    with open("/dev/full", "wb") as sink:
        yield sink


@contextlib.contextmanager
def closed_pipe():
    reading, writing = os.pipe()
    os.close(reading)
    try:
        yield writing
    finally:
        os.close(writing)


@contextlib.contextmanager
def unread_pipe():
    reading, writing = os.pipe()
    # The gateway writes its last lines when it stops, and needs a reader for them.
    drain = threading.Timer(30, lambda: os.read(reading, 1 << 20))
    drain.daemon = True
    try:
        yield writing
    finally:
        drain.cancel()
        os.close(writing)
        os.close(reading)


def memory():
    """With 128 MiB and two thousand connections with 8 KiB of an incomplete head each, the gateway continues to serve."""
    with bounded() as prefix, fixture.running({"http.workers": 2, "cache.max_bytes": 16 << 20}, prefix=prefix) as gateway:
        with fixture.regular_client_served(gateway), contextlib.ExitStack() as stack:
            head = b"POST /api/v1/auth/login HTTP/1.1\r\nHost: a\r\nX: "
            for _ in range(2000):
                client = stack.enter_context(socket.create_connection(gateway.address, timeout=5))
                client.sendall(head + b"a" * 8000)
            most = gateway.rss_mib()
            time.sleep(6)
        gateway.check_serves("afterwards")
        expect(most < MEMORY_MIB, f"{most:.0f} MiB: the bound does not hold")
        print(f"  {most:.0f} of {MEMORY_MIB} MiB with 2000 heads of 8 KiB, bounded by {prefix[0]}")


def unfinished():
    """More connections than the limit, each with a long head and an unfinished body, hold a bounded amount of memory."""
    begin = b"POST /api/v1/auth/login HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 16384\r\nX: "
    head = begin + b"a" * (8000 - len(begin)) + b"\r\n\r\n"
    for name, request in (("nothing", b""), ("a head", head), ("a head and half of a body", head + b" " * 8192)):
        with fixture.running({"http.workers": 2}) as gateway:
            gateway.check_serves("before")
            before = most = gateway.rss_mib()
            with contextlib.ExitStack() as stack:
                for number in range(UNFINISHED):
                    with contextlib.suppress(ConnectionError):
                        client = stack.enter_context(socket.create_connection(gateway.address, timeout=10))
                        client.sendall(request)
                    if number % 100 == 0:
                        most = max(most, gateway.rss_mib())
                        time.sleep(0.02)
                most = max(most, gateway.rss_mib())
                gateway.check_serves("meanwhile")
            gateway.check_serves("afterwards")
            expect(most - before < UNFINISHED_MIB, f"{name}: {most - before:.0f} MiB more")
            expect(gateway.shed("idle") > 0, f"{name}: no connection was closed")
            print(f"  {name}: +{most - before:.0f} MiB")


@contextlib.contextmanager
def bounded():
    """Yields a command that bounds the memory of a program: by a control group, or else by a limit on its data segment."""
    place = Path(f"/sys/fs/cgroup/auth-gateway-hostile-{os.getpid()}")
    with contextlib.suppress(OSError):
        place.mkdir()
    try:
        # Only a control group has this file.
        if (place / "memory.max").exists():
            (place / "memory.max").write_text(str(MEMORY_MIB << 20))
            yield ["sh", "-c", f'echo $$ > {place}/cgroup.procs && exec "$0"']
        elif shutil.which("prlimit"):
            yield ["prlimit", f"--data={MEMORY_MIB << 20}"]
        else:
            raise machine.CannotRun("there is neither a writable control group nor prlimit")
    finally:
        with contextlib.suppress(OSError):
            place.rmdir()
