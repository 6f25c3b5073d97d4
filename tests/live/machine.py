"""Requirements of the scripts that start real programs: packages, ports, virtual environments. Standard library only."""

import contextlib
import fcntl
import hashlib
import os
import random
import shutil
import socket
import subprocess
import sys
from pathlib import Path

TARGET = Path(os.environ.get("CARGO_TARGET_DIR") or Path(__file__).resolve().parents[2] / "target").resolve()
# Downloads and their builds, kept between runs.
LIVE = TARGET / "live"

# Below it are ports of usual servers.
LOWEST_PORT = 10_000

# The exit code if this machine lacks a requirement, which is neither a success nor a failure of the test.
CANNOT_RUN = 77


class CannotRun(Exception):
    """A requirement that this machine lacks."""


@contextlib.contextmanager
def reporting_missing_requirements():
    """Prints the reason, and writes it to $CANNOT_RUN_FILE if that is set."""
    try:
        yield
    except CannotRun as reason:
        print(f"cannot run: {reason}", file=sys.stderr)
        if os.environ.get("CANNOT_RUN_FILE"):
            Path(os.environ["CANNOT_RUN_FILE"]).write_text(f"{reason}\n")
        sys.exit(CANNOT_RUN)


def free_ports(count):
    """Ports that nothing uses. They are below those that the system gives to connections: a server can start long afterwards."""
    above = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    ports = []
    with contextlib.ExitStack() as held:
        for port in random.sample(range(LOWEST_PORT, above), above - LOWEST_PORT):
            if len(ports) == count:
                break
            probe = held.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                ports.append(port)
    return ports


def end(child, patience=20):
    """Ends a process that was started with Popen."""
    child.terminate()
    try:
        child.wait(timeout=patience)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def keycloak_settings(facts):
    """The settings of a gateway before the Keycloak of which `keycloak.py` printed these facts."""
    settings = {f"iam.keycloak.{name}": facts[name] for name in ("url", "realm", "client_id", "client_secret")}
    return {**settings, "iam.keycloak.permissions_client": "shop-api"}


def run(command, timeout=300, **options):
    """Runs a command silently within the timeout; returns the exit code and the output."""
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=timeout, **options,
    )
    return done.returncode, done.stdout.strip()


def build(command, **options):
    """Runs a step that needs no download; a failure is an error in the project."""
    code, output = run(command, **options)
    if code != 0:
        sys.exit(f"{command[0]} failed:\n{output[-4000:]}")


def install(command, timeout=900, **options):
    """Runs a step that downloads or installs; a failure is a missing requirement of the machine."""
    try:
        code, output = run(command, timeout=timeout, **options)
    except FileNotFoundError:
        raise CannotRun(f"{command[0]} is not installed") from None
    except subprocess.TimeoutExpired:
        raise CannotRun(f"{command[0]} took longer than {timeout} s") from None
    if code != 0:
        raise CannotRun(f"{command[0]} failed: {(output.splitlines() or ['no output'])[-1]}\n{output[-2000:]}")


@contextlib.contextmanager
def locked(name):
    """Waits while another process holds this lock: several scripts may need the same download at once."""
    LIVE.mkdir(parents=True, exist_ok=True)
    with (LIVE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def go_program(folder, package, name=None, tags=""):
    """Builds a package with the versions in the folder's go.mod; returns the program. Changed versions need a new build."""
    sums = hashlib.sha256(b"".join(path.read_bytes() for path in sorted([folder / "go.sum", *folder.glob("*.go")])))
    program = LIVE / f"{name or package.rpartition('/')[2]}-{sums.hexdigest()[:12]}"
    with locked(program.name):
        if not program.exists():
            print(f"building {program.name} (minutes)", file=sys.stderr, flush=True)
            install(["go", "mod", "download"], cwd=folder)
            build(["go", "build", "-mod=readonly", "-tags", tags, "-o", program, package], cwd=folder, timeout=1500)
    return program


def debian(*wanted):
    """Installs the Debian packages of missing programs, without starting their services.

    A program is given as PROGRAM, if its package has the same name, or as PROGRAM=PACKAGE,…. Returns the path of each.
    """
    programs = [name.partition("=")[0] for name in wanted]

    def found():
        return [shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin") for name in programs]

    if None in found():
        with locked("debian"):
            missing = [name.rpartition("=")[2].split(",") for name, path in zip(wanted, found()) if path is None]
            if missing:
                install_packages([package for packages in missing for package in packages])
    return found()


def install_packages(packages):
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise CannotRun(f"{', '.join(packages)}: not installed; installing needs root on Debian")
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    apt = ["apt-get", "-qq", "-o", "DPkg::Lock::Timeout=300", "-o", "Acquire::Retries=2"]
    with services_disabled():
        install([*apt, "update"], env=quiet)
        install([*apt, "install", "--yes", "--no-install-recommends", *packages], env=quiet)


@contextlib.contextmanager
def services_disabled():
    """Prevents packages from starting their services on default ports during installation."""
    policy = Path("/usr/sbin/policy-rc.d")
    try:
        with policy.open("x") as file:
            file.write("#!/bin/sh\nexit 101\n")
    except FileExistsError:
        # Keep a policy that the machine already has.
        yield
        return
    policy.chmod(0o755)
    try:
        yield
    finally:
        policy.unlink(missing_ok=True)


def virtual_environment(name, requirements):
    """A Python with the pinned packages; created again when the pins change."""
    place = LIVE / name
    pins = requirements.read_text()
    installed = place / "installed.txt"
    with locked(name):
        if not installed.exists() or installed.read_text() != pins:
            install(["python3", "-m", "venv", "--clear", place])
            install([place / "bin" / "pip", "install", "--quiet", "--no-input", "-r", requirements])
            installed.write_text(pins)
    return str(place / "bin" / "python")
