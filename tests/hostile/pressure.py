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

FILES = 256
MEMORY_MIB = 128


def descriptors():
    """256 files: the gateway takes as many connections as leave it some, does not spin, and goes on."""
    limited = ["prlimit", f"--nofile={FILES}:{FILES}"]
    if shutil.which("prlimit") is None:
        raise machine.CannotRun("prlimit is not installed")
    with fixture.running({"http.workers": 2}, prefix=limited) as gateway:
        gateway.serves("before")
        with fixture.served_all_the_while(gateway), contextlib.ExitStack() as stack:
            for _ in range(4 * FILES):
                with contextlib.suppress(TimeoutError, ConnectionError):
                    client = stack.enter_context(socket.create_connection(gateway.address, timeout=2))
                    client.sendall(b"POST /api/v1/auth/login HTTP/1.1\r\n")
            most = gateway.fds()
            began = gateway.cpu_seconds()
            time.sleep(3)
            busy = gateway.cpu_seconds() - began
            expect(most < FILES, f"{most} files are open: none is left for the IAM")
        # The client that is served meanwhile needs some of it.
        expect(busy < 2, f"{busy:.1f} s of a core within 3 s")
        expect(gateway.shed("idle") > 0, "no connection was closed: the attack had no effect")
        gateway.serves("afterwards")
        print(f"  {most} of {FILES} files for {4 * FILES} connections; {busy:.1f} s of a core within 3 s")


def log():
    """A full disk, a reader that is gone, one that does not read, and none: no request fails or waits for the log."""
    for name, stdout in (("a full disk", full_disk), ("a reader that is gone", gone), ("a reader that does not read", stuck)):
        with stdout() as sink, fixture.running(stdout=sink) as gateway:
            began = time.monotonic()
            for _ in range(50):
                gateway.serves(name)
            # More than fits into a pipe.
            expect(time.monotonic() - began < 20, f"{name}: requests wait for the log")
    shell = ["sh", "-c", 'exec "$0" >&-']
    with fixture.running(prefix=shell) as gateway:
        gateway.serves("no standard output at all")


@contextlib.contextmanager
def full_disk():
    with open("/dev/full", "wb") as sink:
        yield sink


@contextlib.contextmanager
def gone():
    reading, writing = os.pipe()
    os.close(reading)
    try:
        yield writing
    finally:
        os.close(writing)


@contextlib.contextmanager
def stuck():
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
    """128 MiB: two thousand connections with half a head of 8 KiB on each, and the gateway lives and serves."""
    with bounded() as prefix, fixture.running({"http.workers": 2, "cache.max_bytes": 16 << 20}, prefix=prefix) as gateway:
        with fixture.served_all_the_while(gateway), contextlib.ExitStack() as stack:
            head = b"POST /api/v1/auth/login HTTP/1.1\r\nHost: a\r\nX: "
            for _ in range(2000):
                client = stack.enter_context(socket.create_connection(gateway.address, timeout=5))
                client.sendall(head + b"a" * 8000)
            most = gateway.rss_mib()
            time.sleep(6)
        gateway.serves("afterwards")
        expect(most < MEMORY_MIB, f"{most:.0f} MiB: the bound does not hold")
        print(f"  {most:.0f} of {MEMORY_MIB} MiB with 2000 heads of 8 KiB, bounded by {prefix[0]}")


@contextlib.contextmanager
def bounded():
    """The command by which a program gets no more memory: a control group, or else a bound on what it may map."""
    place = Path(f"/sys/fs/cgroup/auth-gateway-hostile-{os.getpid()}")
    with contextlib.suppress(OSError):
        place.mkdir()
    try:
        # What is no group has no such file in it.
        if (place / "memory.max").exists():
            (place / "memory.max").write_text(str(MEMORY_MIB << 20))
            yield ["sh", "-c", f'echo $$ > {place}/cgroup.procs && exec "$0"']
        elif shutil.which("prlimit"):
            yield ["prlimit", f"--data={MEMORY_MIB << 20}"]
        else:
            raise machine.CannotRun("there is neither a control group that may be written to nor prlimit")
    finally:
        with contextlib.suppress(OSError):
            place.rmdir()
