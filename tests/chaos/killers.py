"""Kills servers during the load: one replica at a time, and the next only when the balancer routes to the one before."""

import subprocess
import threading
import time

# The balancer looks every 0.1 s.
FOUND_SECONDS = 0.5
# How long a stopping replica still serves after its readiness fails: longer than the balancer takes to detect it.
SHUTDOWN_DELAY_SECONDS = 1


class ReplicaKiller(threading.Thread):
    """Kills replicas, except while Keycloak is down: a replica that starts then has empty caches, and without the IAM
    it cannot serve any session, which other tests check."""

    def __init__(self, gateways, every_seconds, quiet, stopping):
        super().__init__(name="replicas", daemon=True)
        self.gateways, self.every, self.quiet, self.stopping = gateways, every_seconds, quiet, stopping
        self.killed = self.terminated = 0
        self.to_stop = []
        self.failure = None

    def run(self):
        number = 0
        try:
            while not self.stopping.wait(self.every):
                with self.quiet:
                    gateway = self.gateways[number % len(self.gateways)]
                    gateway.check()
                    # Two of three are killed, so that each replica meets both.
                    if number % 3 < 2:
                        gateway.kill()
                        self.killed += 1
                    else:
                        self.to_stop.append(gateway.stop())
                        self.terminated += 1
                    gateway.start()
                    time.sleep(FOUND_SECONDS)
                number += 1 + (number % 9 == 8)
        except (Exception, subprocess.TimeoutExpired) as failure:
            self.failure = failure
            self.stopping.set()


class BackendKiller(threading.Thread):
    """Kills Redis and Keycloak in turn. They restart with their data on disk, which for Redis is none."""

    DOWN_SECONDS = 4

    def __init__(self, servers, outages, every_seconds, settle_seconds, quiet, stopping):
        super().__init__(name="backends", daemon=True)
        self.servers, self.outages, self.every = servers, outages, every_seconds
        self.settle, self.quiet, self.stopping = settle_seconds, quiet, stopping
        self.killed = {server.name: 0 for server in servers}
        self.failure = None

    def run(self):
        number = 0
        try:
            while not self.stopping.wait(self.every):
                server = self.servers[number % len(self.servers)]
                server.check()
                if server.name == "keycloak":
                    with self.quiet:
                        # Each replica meets the sessions that there are before it has to do without Keycloak.
                        if not self.stopping.wait(self.settle):
                            self.strike(server)
                else:
                    self.strike(server)
                number += 1
        except Exception as failure:
            self.failure = failure
            self.stopping.set()

    def strike(self, server):
        outages = self.outages[server.name]
        outages.begin()
        server.kill()
        self.killed[server.name] += 1
        self.stopping.wait(self.DOWN_SECONDS)
        server.start()
        outages.end()
