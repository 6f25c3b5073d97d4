"""The servers of the test: each can be started, killed, stopped, and started again at the same address."""

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import machine

LAUNCHERS = Path(__file__).resolve().parents[1] / "live"
SETTINGS_PREFIX = "AUTH_GATEWAY__"
READY_SECONDS = 60
# The first start downloads the server.
LAUNCHED_SECONDS = 1500


class ServerError(Exception):
    """A server does not work, so the results of the test are meaningless."""


class Server:
    """A process at a fixed address. Its output is appended to one log over all restarts."""

    stdin = subprocess.DEVNULL

    def __init__(self, name, folder):
        self.name = name
        self.log = folder / f"{name}.log"
        self.child = None
        # When the running process was started.
        self.started = 0.0
        self.start_seconds = []

    def command(self):
        raise NotImplementedError

    def environment(self):
        return None

    def is_ready(self):
        raise NotImplementedError

    def start(self):
        self.started = time.monotonic()
        with self.log.open("ab") as sink:
            self.child = subprocess.Popen(
                [str(argument) for argument in self.command()], env=self.environment(), stdin=self.stdin,
                stdout=sink, stderr=sink)
        self.await_ready()
        self.start_seconds.append(time.monotonic() - self.started)

    def await_ready(self):
        deadline = time.monotonic() + READY_SECONDS
        while not self.is_ready():
            if self.child.poll() is not None or time.monotonic() > deadline:
                raise ServerError(f"{self.name} is not ready (exit code so far: {self.child.poll()}):\n{self.log_tail()}")
            time.sleep(0.005)

    def kill(self):
        self.child.kill()
        self.child.wait()

    def stop(self, timeout=20):
        """Stops it by SIGTERM, and returns the seconds that this took."""
        started = time.monotonic()
        self.child.terminate()
        self.child.wait(timeout=timeout)
        return time.monotonic() - started

    def shut_down(self):
        """Stops it at the end of the test."""
        if self.child is None or self.child.poll() is not None:
            return
        try:
            self.stop()
        except subprocess.TimeoutExpired:
            self.kill()

    def check(self):
        if self.child.poll() is not None:
            raise ServerError(f"{self.name} exited with {self.child.returncode}:\n{self.log_tail()}")

    def log_tail(self):
        return self.log.read_text(errors="replace")[-2000:]


def responds_200(url):
    try:
        with urllib.request.urlopen(url, timeout=2) as response:
            return response.status == 200
    except OSError:
        return False


def settings_environment(settings):
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(SETTINGS_PREFIX)}
    chosen = {SETTINGS_PREFIX + name.upper().replace(".", "__"): str(value) for name, value in settings.items()}
    return {**inherited, **chosen}


class Gateway(Server):
    def __init__(self, number, folder, binary, settings):
        super().__init__(f"replica-{number}", folder)
        self.binary = binary
        # When each of its processes was started.
        self.starts = []
        self.public, self.management = machine.free_ports(2)
        self.settings = {
            **settings,
            "http.listen": f"127.0.0.1:{self.public}",
            "management.listen": f"127.0.0.1:{self.management}",
        }

    def command(self):
        return [self.binary]

    def start(self):
        self.starts.append(time.monotonic())
        super().start()

    def environment(self):
        return settings_environment(self.settings)

    def is_ready(self):
        return responds_200(f"http://127.0.0.1:{self.management}/health/ready")


class Balancer(Server):
    """HAProxy with a usual configuration, except that it never retries: only the retry of the client hides a failure."""

    CONFIGURATION = """
global
    maxconn 4096
defaults
    mode http
    retries 0
    no option redispatch
    timeout connect 1s
    timeout client 30s
    timeout server 30s
    timeout queue 1s
    # The default is the interval of the checks: on a busy machine, checks of running replicas would time out.
    timeout check 2s
frontend api
    bind 127.0.0.1:{port}
    default_backend replicas
backend replicas
    balance roundrobin
    option httpchk GET /health/ready
    http-check expect status 200
    http-response set-header x-served-by %s
    default-server check inter 100ms fall 1 rise 1 on-marked-down shutdown-sessions
{replicas}
"""

    def __init__(self, haproxy, folder, port, gateways):
        super().__init__("balancer", folder)
        self.haproxy, self.port = haproxy, port
        self.file = folder / "haproxy.cfg"
        lines = [f"    server {one.name} 127.0.0.1:{one.public} port {one.management}" for one in gateways]
        self.file.write_text(self.CONFIGURATION.format(port=port, replicas="\n".join(lines)))

    def command(self):
        return [self.haproxy, "-db", "-f", self.file]

    def is_ready(self):
        return responds_200(f"http://127.0.0.1:{self.port}/.well-known/jwks.json")


class Redis(Server):
    """Redis without persistence: a kill loses the revocations."""

    def __init__(self, redis, folder, name="redis", primary=None):
        super().__init__(name, folder)
        self.redis = redis
        # The server whose data it copies, or None.
        self.primary = primary
        (self.port,) = machine.free_ports(1)

    def command(self):
        copied = ["--replicaof", "127.0.0.1", self.primary.port] if self.primary else []
        # A replica writes what it copies to a file first.
        files = ["--dir", self.log.parent, "--dbfilename", f"{self.name}.rdb"]
        return [self.redis, "--bind", "127.0.0.1", "--port", self.port, "--save", "", "--appendonly", "no", *files, *copied]

    def is_ready(self):
        if self.primary is None:
            return redis_cli(self.port, "ping") == ["PONG"]
        return redis_cli(self.port, "role")[3:4] == ["connected"]


def redis_cli(port, *words):
    """The lines of the response."""
    done = subprocess.run(["redis-cli", "-p", str(port), *words], capture_output=True, text=True, timeout=10)
    return done.stdout.split("\n")[:-1]


class Sentinel(Server):
    """One Sentinel, whose word suffices."""

    PRIMARY = "of-the-test"

    def __init__(self, redis, folder, primary):
        super().__init__("sentinel", folder)
        self.redis = redis
        (self.port,) = machine.free_ports(1)
        self.file = folder / "sentinel.conf"
        self.file.write_text(
            f"port {self.port}\nbind 127.0.0.1\ndir {folder}\n"
            f"sentinel monitor {self.PRIMARY} 127.0.0.1 {primary.port} 1\n"
            f"sentinel down-after-milliseconds {self.PRIMARY} 500\n"
            f"sentinel failover-timeout {self.PRIMARY} 2000\n")

    def command(self):
        return [self.redis, self.file, "--sentinel"]

    def is_ready(self):
        """Ready when it knows the replica, which it needs for a failover."""
        return "slave" in redis_cli(self.port, "sentinel", "replicas", self.PRIMARY)

    def primary_port(self):
        return int(redis_cli(self.port, "sentinel", "get-master-addr-by-name", self.PRIMARY)[1])


class FailingOverRedis:
    """A primary and a replica without persistence, and a Sentinel. Killing the primary makes the other one the primary."""

    name = "redis"

    def __init__(self, redis, folder):
        self.primary = Redis(redis, folder, "redis-1")
        self.other = Redis(redis, folder, "redis-2", self.primary)
        self.sentinel = Sentinel(redis, folder, self.primary)
        self.failover_seconds = []

    def servers(self):
        """In the order of their start."""
        return self.primary, self.other, self.sentinel

    def settings(self):
        return {
            # Nothing listens there: the address comes from the Sentinel.
            "redis.url": "redis://127.0.0.1:1",
            "redis.sentinel.addresses": f"127.0.0.1:{self.sentinel.port}",
            "redis.sentinel.master": Sentinel.PRIMARY,
        }

    def check(self):
        for server in self.servers():
            server.check()

    def kill(self):
        """Returns when the Sentinel names the other one."""
        killed = time.monotonic()
        self.primary.kill()
        while self.sentinel.primary_port() != self.other.port:
            if time.monotonic() - killed > READY_SECONDS:
                raise ServerError(f"no failover:\n{self.sentinel.log_tail()}")
            time.sleep(0.05)
        self.failover_seconds.append(time.monotonic() - killed)
        self.primary, self.other = self.other, self.primary

    def start(self):
        """Starts the killed one as a replica of the new primary."""
        self.primary.primary, self.other.primary = None, self.primary
        self.other.start()


class Launched(Server):
    """A server with a launcher in tests/live. A restart with the same home and port keeps its data."""

    def __init__(self, name, folder, *options):
        super().__init__(name, folder)
        self.home, self.options = folder / f"run-{name}", options
        (self.port,) = machine.free_ports(1)
        self.facts = None

    def command(self):
        launcher = LAUNCHERS / f"{self.name}.py"
        return [sys.executable, launcher, "start", *self.options, "--home", self.home, "--http-port", self.port]

    def start(self):
        self.started = time.monotonic()
        self.child = subprocess.Popen(
            [str(argument) for argument in self.command()], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        # The child becomes the server; a second process writes one line when it is ready.
        readable, _, _ = select.select([self.child.stdout], [], [], LAUNCHED_SECONDS)
        line = self.child.stdout.readline() if readable else b""
        if not line:
            self.child.kill()
            if self.child.wait() == machine.CANNOT_RUN:
                raise machine.CannotRun(f"there is no {self.name}, see above")
            raise ServerError(f"{self.name} does not start; its log is in {self.home}")
        self.facts = json.loads(line)
        self.start_seconds.append(time.monotonic() - self.started)


class Keycloak(Launched):
    """Keycloak, which loses no committed data when it is killed."""

    PASSWORDS = "hashAlgorithm(pbkdf2-sha256) and hashIterations(1)"

    def __init__(self, folder):
        super().__init__("keycloak", folder, "--durable")

    def settings(self):
        return machine.keycloak_settings(self.facts)

    def use_cheap_password_hashes(self, users):
        """The cost of a password hash is not tested here. Sets the subjects of the users."""
        self.administer("PUT", "", {"passwordPolicy": self.PASSWORDS})
        for user in users:
            email = urllib.parse.quote(user.email)
            (found,) = self.administer("GET", f"/users?exact=true&email={email}")
            user.subject = found["id"]
            password = {"type": "password", "temporary": False, "value": user.password}
            self.administer("PUT", f"/users/{user.subject}/reset-password", password)

    def administer(self, method, path, body=None):
        """A request to the administration API of the realm."""
        token = self._ask("POST", "/realms/master/protocol/openid-connect/token", form={
            "grant_type": "password", "client_id": "admin-cli",
            "username": self.facts["admin_user"], "password": self.facts["admin_password"]})["access_token"]
        return self._ask(method, f"/admin/realms/{self.facts['realm']}{path}", token, body)

    def _ask(self, method, path, token=None, body=None, form=None):
        headers = {"authorization": f"Bearer {token}"} if token else {}
        data = None
        if form is not None:
            data = urllib.parse.urlencode(form).encode()
        elif body is not None:
            data, headers["content-type"] = json.dumps(body).encode(), "application/json"
        request = urllib.request.Request(self.facts["url"] + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                content = response.read()
        except urllib.error.HTTPError as error:
            raise ServerError(f"{method} {path}: {error.code} {error.read()[:300]!r}") from None
        return json.loads(content) if content else None


class Outages:
    """When a server was down: from just before the kill until all replicas have detected its restart."""

    def __init__(self, detection_seconds, windows=()):
        """`windows`: the beginnings and ends of earlier ones."""
        self.detection_seconds = detection_seconds
        self._lock = threading.Lock()
        self._windows = [[*window] for window in windows]

    def begin(self):
        with self._lock:
            self._windows.append([time.monotonic(), float("inf")])

    def end(self):
        with self._lock:
            self._windows[-1][1] = time.monotonic() + self.detection_seconds

    def overlap(self, begin, end):
        return any(start <= end for start, _ in self.since(begin))

    def since(self, begin):
        """The beginnings and ends of those that were not over then."""
        with self._lock:
            return [(start, stop) for start, stop in self._windows if begin <= stop]

    def total(self, now):
        with self._lock:
            return sum(min(stop, now) - start for start, stop in self._windows)
