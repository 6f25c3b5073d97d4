"""Clients that hold connections by being slow: headers, bodies, reading, or nothing at all."""

import contextlib
import select
import socket
import subprocess
import time

import fixture
from fixture import expect

CONNECTIONS = 3000
# Five seconds for a head, a body, or an answer, fifteen for a further request; one more for the machine that all share.
PATIENCE_SECONDS = 6.0
IDLE_SECONDS = 16.0
# Two buffers of 8 KiB each, the task and its timer, and what the kernel's view of it costs here.
KIB_A_CONNECTION = 48


def with_tool(mode, *more, closed_within, opened_a_second=1500):
    """slowhttptest opens its connections and drips on; all are closed in time, and normal clients served meanwhile."""
    with fixture.running({"http.workers": 2}) as gateway:
        gateway.serves("before")
        fds, rss = gateway.fds(), gateway.rss_mib()
        command = [
            "slowhttptest", mode, "-c", CONNECTIONS, "-r", opened_a_second, "-i", 1, "-l", 60, "-p", 5, "-v", 0,
            "-u", f"{gateway.url}/api/v1/auth/login", *more,
        ]
        with fixture.served_all_the_while(gateway):
            tool = subprocess.Popen(
                [str(argument) for argument in command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL)
            try:
                lasted, most, most_rss = measured(gateway)
            finally:
                tool.kill()
                tool.wait()
        expect(lasted <= closed_within, f"a connection was open for {lasted:.1f} s")
        fixture.eventually(lambda: gateway.fds() <= fds + 2, 30, lambda: f"{gateway.fds()} descriptors where {fds} were")
        expect((most_rss - rss) * 1024 < CONNECTIONS * KIB_A_CONNECTION, f"{most_rss - rss:.0f} MiB for {most}")
        gateway.serves("afterwards")
        print(f"  {most} open at once, none for longer than {lasted:.1f} s; +{most_rss - rss:.0f} MiB")


def measured(gateway):
    """Until the attack is over: how long a connection lasted at most, how many there were at once, and the memory."""
    first_seen, ended = {}, set()
    lasted = most = most_rss = 0
    give_up = time.monotonic() + 60
    while True:
        now, open_now = time.monotonic(), gateway.sockets()
        for socket_id in open_now:
            lasted = max(lasted, now - first_seen.setdefault(socket_id, now))
        ended = first_seen.keys() - open_now
        most, most_rss = max(most, len(open_now)), max(most_rss, gateway.rss_mib())
        # The tool looks in from time to time by a few connections that are no part of the attack.
        if len(ended) >= CONNECTIONS and len(open_now) < 20:
            return lasted, most, most_rss
        expect(now < give_up, f"{len(open_now)} connections are open, {len(ended)} came and went: {CONNECTIONS} should")
        time.sleep(0.1)


def headers():
    """Headers that never end."""
    with_tool("-H", "-x", 20, closed_within=PATIENCE_SECONDS)


def body():
    """Bodies that come byte by byte."""
    with_tool("-B", "-s", 8192, "-f", "application/json", "-x", 10, closed_within=PATIENCE_SECONDS)


def reading():
    """Responses that the client does not read: pipelined requests, and a window of a few bytes."""
    with_tool("-X", "-w", 10, "-y", 20, "-n", 5, "-z", 5, "-k", 3, closed_within=IDLE_SECONDS, opened_a_second=500)


def half_open():
    """Connections with nothing, or half of a request, on them: each has its five seconds, and no more."""
    begins = [b"", b"P", b"POST /api/v1/auth/login HT", b"POST /api/v1/auth/login HTTP/1.1\r\nHost: a\r\nContent-"]
    with fixture.running({"http.workers": 2}) as gateway, fixture.served_all_the_while(gateway):
        fds = gateway.fds()
        lasted = lifetimes(gateway.address, [begins[number % len(begins)] for number in range(CONNECTIONS)])
        expect(lasted[-1] <= PATIENCE_SECONDS, f"one was open for {lasted[-1]:.2f} s")
        expect(lasted[0] >= 4.5, f"one was closed after {lasted[0]:.2f} s already")
        fixture.eventually(lambda: gateway.fds() <= fds + 10, 10, "descriptors are left over")
        print(f"  {CONNECTIONS} connections, closed after {lasted[0]:.2f} to {lasted[-1]:.2f} s")


def lifetimes(address, begins, patience=30, meanwhile=lambda: None):
    """How long each connection lasted on which no more than this was sent, sorted, in seconds."""
    lasted = []
    with contextlib.ExitStack() as stack:
        poll = stack.enter_context(contextlib.closing(select.epoll()))
        opened = {}
        for begin in begins:
            client = stack.enter_context(socket.create_connection(address, timeout=10))
            if begin:
                client.sendall(begin)
            client.setblocking(False)
            poll.register(client, select.EPOLLIN)
            opened[client.fileno()] = client, time.monotonic()
            drop_closed(poll, opened, lasted, 0)
        meanwhile()
        give_up = time.monotonic() + patience
        while opened and time.monotonic() < give_up:
            drop_closed(poll, opened, lasted, 0.2)
        expect(not opened, f"{len(opened)} of {len(begins)} connections are still open after {patience} s")
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


def crowd():
    """Far more connections than the limit: idle ones are closed for clients that send requests."""
    places = 1000
    with fixture.running({"http.workers": 1, "http.max_connections": places}) as gateway:
        with fixture.served_all_the_while(gateway), contextlib.ExitStack() as stack:
            most, until, count = 0, time.monotonic() + 8, 0
            clients = []
            while time.monotonic() < until:
                # Twice as many as there are places live at any time, as far as the gateway lets them.
                for _ in range(50):
                    client = socket.create_connection(gateway.address, timeout=10)
                    client.sendall(b"POST /api/v1/auth/login HTTP/1.1\r\n")
                    clients.append(client)
                    count += 1
                most = max(most, gateway.fds())
                for client in clients[:-2 * places]:
                    client.close()
                del clients[:-2 * places]
                time.sleep(0.05)
            for client in clients:
                stack.callback(client.close)
        made_room = gateway.shed("idle")
        expect(count > 2 * places and made_room > 0, f"{count} connections and {made_room} idle ones closed")
        expect(most < places + 64 + 60, f"{most} descriptors for {places} places")
        print(f"  {count} half-open connections for a limit of {places}; {made_room} idle ones closed")
