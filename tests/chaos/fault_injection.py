"""Kills servers during the load: one replica at a time, and the next only after the load balancer has found the previous one."""

import subprocess
import threading
import time

# The load balancer checks every 0.1 s.
HEALTH_CHECK_SECONDS = 0.5
# How long a stopping replica still serves after its readiness fails: longer than the load balancer takes to detect it.
SHUTDOWN_DELAY_SECONDS = 1


class ReplicaFaults(threading.Thread):
    """Kills and stops replicas, except while Keycloak is down: a replica that starts then has empty caches, and without the IAM
    it cannot serve any session, which other tests check."""

    def __init__(self, gateways, every_seconds, restart_lock, stopping):
        super().__init__(name="replicas", daemon=True)
        self.gateways, self.every, self.restart_lock, self.stopping = gateways, every_seconds, restart_lock, stopping
        self.killed = self.terminated = 0
        self.stop_seconds = []
        self.failure = None

    def run(self):
        number = 0
        try:
            while not self.stopping.wait(self.every):
                with self.restart_lock:
                    gateway = self.gateways[number % len(self.gateways)]
                    gateway.check()
                    # Two of three are killed and one is stopped; over time each replica gets both.
                    if number % 3 < 2:
                        gateway.kill()
                        self.killed += 1
                    else:
                        self.stop_seconds.append(gateway.stop())
                        self.terminated += 1
                    gateway.start()
                    time.sleep(HEALTH_CHECK_SECONDS)
                number += 1 + (number % 9 == 8)
        except (Exception, subprocess.TimeoutExpired) as failure:
            self.failure = failure
            self.stopping.set()


class BackendFaults(threading.Thread):
    """Kills Redis and Keycloak in turn. Keycloak keeps its data on disk; Redis has no persistence."""

    DOWN_SECONDS = 4

    def __init__(self, servers, outages, every_seconds, settle_seconds, restart_lock, stopping):
        super().__init__(name="backends", daemon=True)
        self.servers, self.outages, self.every = servers, outages, every_seconds
        self.settle, self.restart_lock, self.stopping = settle_seconds, restart_lock, stopping
        self.killed = {server.name: 0 for server in servers}
        self.failure = None

    def run(self):
        number = 0
        try:
            while not self.stopping.wait(self.every):
                server = self.servers[number % len(self.servers)]
                server.check()
                if server.name == "keycloak":
                    with self.restart_lock:
                        # So that each replica has the sessions in its cache before Keycloak is down.
                        if not self.stopping.wait(self.settle):
                            self.interrupt(server)
                else:
                    self.interrupt(server)
                number += 1
        except Exception as failure:
            self.failure = failure
            self.stopping.set()

    def interrupt(self, server):
        outages = self.outages[server.name]
        outages.begin()
        server.kill()
        self.killed[server.name] += 1
        self.stopping.wait(self.DOWN_SECONDS)
        server.start()
        outages.end()
