"""Fetches, starts and stops a real server for tests; shared by the launchers in this folder.

A launcher is a program that calls `main` with its `Server`. Only the standard library is used.
"""

import argparse
import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

from machine import LIVE, free_ports, locked, reporting_missing_requirements


class Server:
    """A server that can be started any number of times, each time with its own folder and port."""

    name = ""

    def add_options(self, start):
        """Adds further options of the command `start`."""

    def fetch(self):
        """Installs what an instance needs; returns the path that the command `fetch` prints."""
        raise NotImplementedError

    def prepare(self, home, port, options):
        """Writes the files of an instance. Returns its command, in which the home's path occurs, and its environment."""
        raise NotImplementedError

    def facts(self, home, port):
        """Returns what a test needs to know; raises OSError or ValueError until the instance is ready."""
        raise NotImplementedError

    def log(self, text):
        print(f"{self.name}: {text}", file=sys.stderr, flush=True)


def main(server, documentation):
    arguments = argparse.ArgumentParser(description=documentation, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = arguments.add_subparsers(dest="command", required=True)
    commands.add_parser("fetch", help="install everything; print the path")
    begin = commands.add_parser("start", help="run one instance until it is killed; print its facts as a line of JSON")
    begin.add_argument("--home", help="the instance's folder; default: a new one in $SERVER_HOMES")
    begin.add_argument("--http-port", type=int, help="default: a free one")
    begin.add_argument("--timeout", type=float, default=180, help="seconds until it must be ready")
    server.add_options(begin)
    end = commands.add_parser("stop", help="stop every instance whose home is in the folder, and remove the homes")
    end.add_argument("folder")
    options = arguments.parse_args()
    with reporting_missing_requirements():
        if options.command == "stop":
            return stop(options.folder)
        with locked(server.name):
            path = server.fetch()
        if options.command == "fetch":
            return print(path)
        start(server, options)


def start(server, options):
    """Replaces this process by the server, so that killing it, even by kill -9, ends the server.

    Prints one line of JSON when the server is ready, or closes standard output without a line if it never is.
    A restart with the same `--home` and `--http-port` keeps the data and the address.
    """
    home = options.home
    if home is None:
        homes = Path(os.environ.get("SERVER_HOMES") or LIVE)
        homes.mkdir(parents=True, exist_ok=True)
        home = tempfile.mkdtemp(prefix="run-", dir=homes)
    home = Path(home).resolve()
    home.mkdir(parents=True, exist_ok=True)
    port = options.http_port or free_ports(1)[0]
    command, environment = server.prepare(home, port, options)
    pid = os.getpid()
    (home / "pid").write_text(str(pid))
    if os.fork() == 0:
        ready = False
        try:
            ready = report_ready(server, home, port, pid, options.timeout)
        except Exception:
            traceback.print_exc()
        if not ready and os.getppid() == pid:
            os.kill(pid, signal.SIGKILL)
        os._exit(0 if ready else 1)
    with (home / f"{server.name}.log").open("ab") as log_file, open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
        os.dup2(log_file.fileno(), 1)
        os.dup2(log_file.fileno(), 2)
    os.chdir(home)
    os.execve(command[0], [str(argument) for argument in command], environment)


def report_ready(server, home, port, pid, timeout):
    """Waits in a second process until the server is ready, and prints its facts."""
    deadline = time.monotonic() + timeout
    # If the server has exited, this process has another parent.
    while time.monotonic() < deadline and os.getppid() == pid:
        with contextlib.suppress(OSError, ValueError):
            facts = {**server.facts(home, port), "pid": pid, "home": str(home)}
            print(json.dumps(facts), flush=True)
            return True
        time.sleep(0.1)
    server.log(f"not ready after {timeout} s, or has exited; the log is {home}/{server.name}.log")
    return False


def stop(folder):
    for pid_file in Path(folder).resolve().glob("run-*/pid"):
        home, pid = pid_file.parent, int(pid_file.read_text())
        for signal_number in (signal.SIGTERM, signal.SIGKILL):
            deadline = time.monotonic() + 10
            if runs_in(home, pid):
                os.kill(pid, signal_number)
            while runs_in(home, pid) and time.monotonic() < deadline:
                time.sleep(0.1)
        shutil.rmtree(home, ignore_errors=True)


def runs_in(home, pid):
    """Whether the process is the server of this home. The pid may have been reused by another process."""
    # Samba changes its arguments, and others their folder.
    with contextlib.suppress(OSError):
        if os.readlink(f"/proc/{pid}/cwd") == str(home):
            return True
    command = ["ps", "-ww", "-o", "args=", "-p", str(pid)]
    output = subprocess.run(command, capture_output=True, text=True).stdout
    return re.search(rf"{re.escape(str(home))}(/|\s|$)", output) is not None


@contextlib.contextmanager
def created_atomically(target):
    """Yields a temporary folder that is renamed to `target` when the block succeeds."""
    scratch = Path(tempfile.mkdtemp(prefix="unfinished-", dir=LIVE))
    try:
        yield scratch
        scratch.rename(target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def seed_folder(name, inputs):
    """A folder with initial data, named by a hash of its inputs, so that a changed input makes a new one."""
    return LIVE / f"{name}-seed-{hashlib.sha256(inputs).hexdigest()[:12]}"
