"""Open-loop load: requests leave when they are due, however slow the answers are.

A latency counts from the moment when the request was due. So a server that stalls is charged for all the requests that
would have come meanwhile, which a closed loop would leave out.
"""

import collections
import contextlib
import gc
import os
import select
import statistics
import time
from dataclasses import dataclass

import wire
from wire import Failure

GIVE_UP_SECONDS = 10


@dataclass(frozen=True)
class Outcome:
    rate: float  # answers a second, as achieved
    latencies_ms: list  # in the order of the answers
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
def without_garbage_collection():
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class Wires:
    """Connections to one server, those free and those that wait for an answer."""

    def __init__(self, url, count, stack):
        self.poll = stack.enter_context(contextlib.closing(select.epoll()))
        self.open = {}
        for _ in range(count):
            connection = stack.enter_context(wire.connect(url))
            connection.setblocking(False)
            self.poll.register(connection, select.EPOLLIN)
            self.open[connection.fileno()] = connection
        self.free = collections.deque(self.open)
        self.waiting = {}  # of each busy connection: when its request was due, and what has come

    def send(self, content, due):
        number = self.free.popleft()
        if self.open[number].send(content) != len(content):
            raise Failure("a request does not fit into the socket's buffer")
        self.waiting[number] = due, bytearray()

    def answers(self, timeout):
        """Yields (due, answer) of what has come; waits for it up to so many seconds."""
        # epoll itself counts in milliseconds, which is far too coarse here.
        if timeout > 0:
            select.select([self.poll], [], [], timeout)
        for number, _ in self.poll.poll(0):
            part = self.open[number].recv(1 << 16)
            if not part or number not in self.waiting:
                raise Failure("the server closed a connection, or sent an unexpected response")
            due, received = self.waiting[number]
            received += part
            answer = wire.parse(received)
            if answer is not None:
                del self.waiting[number]
                self.free.append(number)
                yield due, answer


def run(url, requests, rate, connections, expect, spin):
    """Sends each of the requests once, `rate` a second.

    `spin`: never sleeps, for rates at which waking up costs more than a request; keep it on a core of its own.
    """
    latencies, lateness = [], []
    clock = time.perf_counter
    with contextlib.ExitStack() as stack:
        wires = Wires(url, connections, stack)
        stack.enter_context(without_garbage_collection())
        begin = clock() + 0.01
        give_up = begin + len(requests) / rate + GIVE_UP_SECONDS
        sent, had_to_wait = 0, False
        while len(latencies) < len(requests):
            now = clock()
            due = begin + sent / rate
            while sent < len(requests) and due <= now and wires.free:
                wires.send(requests[sent], due)
                if not had_to_wait:
                    lateness.append(now - due)
                sent += 1
                due = begin + sent / rate
                now = clock()
            had_to_wait = sent < len(requests) and due <= now
            if now > give_up:
                raise Failure(f"{url}: {len(latencies)} answers to {sent} requests, and no more came")
            to_come = due - now if sent < len(requests) and wires.free else GIVE_UP_SECONDS
            for due, answer in wires.answers(0 if spin else max(to_come, 0)):
                if answer.status != 200 or expect not in answer.body:
                    raise Failure(f"{url}: {answer.status} {answer.body[:300]!r}")
                latencies.append((clock() - due) * 1e3)
        achieved = len(requests) / (clock() - begin)
    late = statistics.quantiles(lateness, n=100)[-1] * 1e3 if len(lateness) > 1 else 0.0
    return Outcome(achieved, latencies, late)
