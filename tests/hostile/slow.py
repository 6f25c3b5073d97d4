"""Clients that keep connections open: slow headers, slow bodies, slow reading, or no data."""

import contextlib
import select
import socket
import subprocess
import time

import fixture
from fixture import expect

CONNECTIONS = 3000
# The gateway allows 5 s for a head, a body or a response, and 15 s idle; one more second for a busy machine.
PHASE_SECONDS = 6.0
IDLE_SECONDS = 16.0
# Two buffers of 8 KiB each, the task, its timer, and the overhead in the process.
KIB_A_CONNECTION = 48


def with_tool(mode, *options, closed_within, opened_a_second=1500):
    """slowhttptest sends slowly on its connections; all are closed in time, and a regular client is served."""
    with fixture.running({"http.workers": 2}) as gateway:
        gateway.check_serves("before")
        fds, rss = gateway.fds(), gateway.rss_mib()
        command = [
            "slowhttptest", mode, "-c", CONNECTIONS, "-r", opened_a_second, "-i", 1, "-l", 60, "-p", 5, "-v", 0,
            "-u", f"{gateway.url}/api/v1/auth/login", *options,
        ]
        with fixture.regular_client_served(gateway):
            tool = subprocess.Popen(
                [str(argument) for argument in command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL)
            try:
                longest, count, peak_rss = measured(gateway)
            finally:
                tool.kill()
                tool.wait()
        expect(longest <= closed_within, f"a connection was open for {longest:.1f} s")
        fixture.eventually(lambda: gateway.fds() <= fds + 2, 30, lambda: f"{gateway.fds()} descriptors where {fds} were before")
        expect((peak_rss - rss) * 1024 < CONNECTIONS * KIB_A_CONNECTION, f"{peak_rss - rss:.0f} MiB for {count}")
        gateway.check_serves("afterwards")
        print(f"  {count} open at once, none for longer than {longest:.1f} s; +{peak_rss - rss:.0f} MiB")


def measured(gateway):
    """Observes the attack; returns the longest lifetime of a connection, the maximum number of connections, and the peak memory."""
    first_seen, ended = {}, set()
    longest = count = peak_rss = 0
    deadline = time.monotonic() + 60
    while True:
        now, open_now = time.monotonic(), gateway.sockets()
        for socket_id in open_now:
            longest = max(longest, now - first_seen.setdefault(socket_id, now))
        ended = first_seen.keys() - open_now
        count, peak_rss = max(count, len(open_now)), max(peak_rss, gateway.rss_mib())
        # The tool also probes the server with a few connections that are not part of the attack.
        if len(ended) >= CONNECTIONS and len(open_now) < 20:
            return longest, count, peak_rss
        expect(now < deadline, f"{len(open_now)} connections are open, {len(ended)} of {CONNECTIONS} are closed")
        time.sleep(0.1)


def headers():
    """Headers that never end."""
    with_tool("-H", "-x", 20, closed_within=PHASE_SECONDS)


def body():
    """Bodies that are sent byte by byte."""
    with_tool("-B", "-s", 8192, "-f", "application/json", "-x", 10, closed_within=PHASE_SECONDS)


def reading():
    """Responses that the client does not read: pipelined requests, and a window of a few bytes."""
    with_tool("-X", "-w", 10, "-y", 20, "-n", 5, "-z", 5, "-k", 3, closed_within=IDLE_SECONDS, opened_a_second=500)


def half_open():
    """Connections with no data or half of a request are closed after five seconds."""
    beginnings = [b"", b"P", b"POST /api/v1/auth/login HT", b"POST /api/v1/auth/login HTTP/1.1\r\nHost: a\r\nContent-"]
    with fixture.running({"http.workers": 2}) as gateway, fixture.regular_client_served(gateway):
        fds = gateway.fds()
        lasted = lifetimes(gateway.address, [beginnings[number % len(beginnings)] for number in range(CONNECTIONS)])
        expect(lasted[-1] <= PHASE_SECONDS, f"a connection was open for {lasted[-1]:.2f} s")
        expect(lasted[0] >= 4.5, f"a connection was closed after only {lasted[0]:.2f} s")
        fixture.eventually(lambda: gateway.fds() <= fds + 10, 10, "descriptors are still open")
        print(f"  {CONNECTIONS} connections, closed after {lasted[0]:.2f} to {lasted[-1]:.2f} s")


def lifetimes(address, beginnings, timeout=30, meanwhile=lambda: None):
    """Opens one connection for each beginning, sends only that, and returns the sorted lifetimes in seconds."""
    lasted = []
    with contextlib.ExitStack() as stack:
        poll = stack.enter_context(contextlib.closing(select.epoll()))
        opened = {}
        for beginning in beginnings:
            client = stack.enter_context(socket.create_connection(address, timeout=10))
            if beginning:
                client.sendall(beginning)
            client.setblocking(False)
            poll.register(client, select.EPOLLIN)
            opened[client.fileno()] = client, time.monotonic()
            drop_closed(poll, opened, lasted, 0)
        meanwhile()
        deadline = time.monotonic() + timeout
        while opened and time.monotonic() < deadline:
            drop_closed(poll, opened, lasted, 0.2)
        expect(not opened, f"{len(opened)} of {len(beginnings)} connections are still open after {timeout} s")
    return sorted(lasted)


def drop_closed(poll, opened, lasted, timeout):
    for number, _ in poll.poll(timeout):
        client, since = opened[number]
        with contextlib.suppress(ConnectionResetError):
            if client.recv(1 << 16):
                continue
        lasted.append(time.monotonic() - since)
        poll.unregister(number)
        del opened[number]


def connections():
    """With far more connections than the limit, idle ones are closed for clients that send requests."""
    limit = 1000
    with fixture.running({"http.workers": 1, "http.max_connections": limit}) as gateway:
        with fixture.regular_client_served(gateway), contextlib.ExitStack() as stack:
            peak_fds, until, count = 0, time.monotonic() + 8, 0
            clients = []
            while time.monotonic() < until:
                # Keeps twice as many connections open as the limit, unless the gateway closes them.
                for _ in range(50):
                    client = socket.create_connection(gateway.address, timeout=10)
                    client.sendall(b"POST /api/v1/auth/login HTTP/1.1\r\n")
                    clients.append(client)
                    count += 1
                peak_fds = max(peak_fds, gateway.fds())
                for client in clients[:-2 * limit]:
                    client.close()
                del clients[:-2 * limit]
                time.sleep(0.05)
            for client in clients:
                stack.callback(client.close)
        shed = gateway.shed("idle")
        expect(count > 2 * limit and shed > 0, f"{count} connections and {shed} idle ones closed")
        expect(peak_fds < limit + 64 + 60, f"{peak_fds} descriptors with a limit of {limit} connections")
        print(f"  {count} half-open connections with a limit of {limit}; {shed} idle ones closed")
