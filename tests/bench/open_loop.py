"""Open-loop load: requests are sent at a fixed rate, however slow the responses are.

A latency is measured from the time at which the request was due. So a pause of the server counts for every request that
was due during the pause, which a closed loop would not send.
"""

import collections
import contextlib
import gc
import os
import select
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass

import wire
from wire import Failure

RESPONSE_TIMEOUT_SECONDS = 10


@dataclass(frozen=True)
class Outcome:
    rate: float  # responses a second, as achieved
    latencies_ms: list  # in the order of the responses
    late_p99_ms: float  # how late the generator itself was, while a connection was free

    def percentile(self, percent):
        ordered = sorted(self.latencies_ms)
        return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


@contextlib.contextmanager
def pinned(cores):
    """This process on these cores only."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextlib.contextmanager
def awake(cores):
    """These cores do not sleep: one process on each calculates while nothing else has work for the core."""
    spin = "import os, sys\nos.sched_setaffinity(0, {int(sys.argv[1])})\n" \
        "os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))\nprint(flush=True)\nwhile True: pass"
    with contextlib.ExitStack() as stack:
        for core in cores:
            child = subprocess.Popen([sys.executable, "-c", spin, str(core)], stdout=subprocess.PIPE)
            stack.callback(child.wait)
            stack.callback(child.kill)
            stack.enter_context(child.stdout).readline()
        yield


@contextlib.contextmanager
def without_garbage_collection():
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class ConnectionPool:
    """Connections, `count` to each server: free ones, and those with a request in flight."""

    def __init__(self, urls, count, stack):
        self.poll = stack.enter_context(contextlib.closing(select.epoll()))
        self.open = {}
        for url in urls * count:
            connection = stack.enter_context(wire.connect(url))
            connection.setblocking(False)
            self.poll.register(connection, select.EPOLLIN)
            self.open[connection.fileno()] = connection
        self.free = collections.deque(self.open)
        # By connection in use: when its request was due, what makes the next request, and the received bytes.
        self.waiting = {}

    def send(self, content, due, follow):
        self._send_on(self.free.popleft(), content, due, follow)

    def _send_on(self, number, content, due, follow):
        if self.open[number].send(content) != len(content):
            raise Failure("a request does not fit into the socket's buffer")
        self.waiting[number] = due, follow, bytearray()

    def responses(self, timeout):
        """Yields (due, response) for each response that arrives within `timeout` seconds."""
        # The timeout of epoll has a resolution of one millisecond, which is too coarse.
        if timeout > 0:
            select.select([self.poll], [], [], timeout)
        for number, _ in self.poll.poll(0):
            part = self.open[number].recv(1 << 16)
            if not part or number not in self.waiting:
                raise Failure("the server closed a connection, or sent an unexpected response")
            due, follow, received = self.waiting[number]
            received += part
            response = wire.parse(received)
            if response is None:
                continue
            if follow is not None:
                if response.status != 200:
                    raise Failure(f"{response.status} {response.body[:300]!r}")
                self._send_on(number, follow(response.body), due, None)
                continue
            del self.waiting[number]
            self.free.append(number)
            yield due, response


def run(url, requests, rate, connections, expect, spin, follow=None, status=200, begin=None):
    """Sends each of the requests once, `rate` a second.

    `follow` makes the next request on the same connection of the body of each response; the latency is that of both.

    `status`: of each response. `begin`: when the first request is due, by `time.perf_counter`; default: at once.

    `spin`: polls without sleeping, for rates at which a wake-up costs more than a request; needs its own core.
    """
    latencies, lateness = [], []
    clock = time.perf_counter
    with contextlib.ExitStack() as stack:
        pool = ConnectionPool([url], connections, stack)
        stack.enter_context(without_garbage_collection())
        begin = begin or clock() + 0.01
        deadline = begin + len(requests) / rate + RESPONSE_TIMEOUT_SECONDS
        sent, no_connection_free = 0, False
        while len(latencies) < len(requests):
            now = clock()
            due = begin + sent / rate
            while sent < len(requests) and due <= now and pool.free:
                pool.send(requests[sent], due, follow)
                if not no_connection_free:
                    lateness.append(now - due)
                sent += 1
                due = begin + sent / rate
                now = clock()
            no_connection_free = sent < len(requests) and due <= now
            if now > deadline:
                raise Failure(f"{url}: {len(latencies)} responses to {sent} requests")
            timeout = due - now if sent < len(requests) and pool.free else RESPONSE_TIMEOUT_SECONDS
            for due, response in pool.responses(0 if spin else max(timeout, 0)):
                if response.status != status or expect not in response.body:
                    raise Failure(f"{url}: {response.status} {response.body[:300]!r}")
                latencies.append((clock() - due) * 1e3)
        achieved = len(requests) / (clock() - begin)
    late = statistics.quantiles(lateness, n=100)[-1] * 1e3 if len(lateness) > 1 else 0.0
    return Outcome(achieved, latencies, late)
