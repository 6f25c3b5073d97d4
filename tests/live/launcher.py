"""Fetches, starts and stops a real server for tests: what the launchers in this folder share.

A launcher is a program that calls `main` with its `Server`. Only the standard library is used.
"""

import argparse
import contextlib
import fcntl
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

from machine import LIVE, free_ports, says_what_is_missing


class Server:
    """A server that can be started any number of times, each time with a folder and a port of its own."""

    name = ""

    def add_options(self, start):
        """Adds further options of the command `start`."""

    def choose(self, asked):
        """Reads the options of every command."""

    def fetch(self):
        """Installs what an instance needs; returns the path that the command `fetch` prints."""
        raise NotImplementedError

    def prepare(self, home, port, asked):
        """Writes the files of an instance. Returns its command, in which the home's path occurs, and its environment."""
        raise NotImplementedError

    def facts(self, home, port):
        """Returns what a test needs to know; raises OSError or ValueError until the instance is ready."""
        raise NotImplementedError

    def note(self, text):
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
    end = commands.add_parser("stop", help="end every instance whose home lies in the folder; remove the homes")
    end.add_argument("folder")
    asked = arguments.parse_args()
    with says_what_is_missing():
        if asked.command == "stop":
            return stop(asked.folder)
        LIVE.mkdir(parents=True, exist_ok=True)
        with locked(server.name):
            path = server.fetch()
        if asked.command == "fetch":
            return print(path)
        start(server, asked)


def start(server, asked):
    """Becomes the server: the caller's child is the server itself, so ending that child, even by kill -9, ends it.

    When it is ready, one line of JSON with its facts is printed; if it never is, standard output ends without a line.
    Started again with the same `--home` and `--http-port`, it has the same data and the same address.
    """
    home = asked.home
    if home is None:
        homes = Path(os.environ.get("SERVER_HOMES") or LIVE)
        homes.mkdir(parents=True, exist_ok=True)
        home = tempfile.mkdtemp(prefix="run-", dir=homes)
    home = Path(home).resolve()
    home.mkdir(parents=True, exist_ok=True)
    port = asked.http_port or free_ports(1)[0]
    command, environment = server.prepare(home, port, asked)
    pid = os.getpid()
    (home / "pid").write_text(str(pid))
    if os.fork() == 0:
        ready = False
        try:
            ready = announce(server, home, port, pid, asked.timeout)
        except Exception:
            traceback.print_exc()
        if not ready and os.getppid() == pid:
            os.kill(pid, signal.SIGKILL)
        os._exit(0 if ready else 1)
    with (home / f"{server.name}.log").open("ab") as log, open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    os.chdir(home)
    os.execve(command[0], [str(argument) for argument in command], environment)


def announce(server, home, port, pid, timeout):
    """Waits beside the starting server until it is ready, and prints its facts."""
    give_up = time.monotonic() + timeout
    # A process whose parent ended has another parent: then there is no server to wait for.
    while time.monotonic() < give_up and os.getppid() == pid:
        with contextlib.suppress(OSError, ValueError):
            facts = {**server.facts(home, port), "pid": pid, "home": str(home)}
            print(json.dumps(facts), flush=True)
            return True
        time.sleep(0.1)
    server.note(f"not ready after {timeout} s, or has ended; the log is {home}/{server.name}.log")
    return False


def stop(folder):
    for pid_file in Path(folder).resolve().glob("run-*/pid"):
        home, pid = pid_file.parent, int(pid_file.read_text())
        for signal_number in (signal.SIGTERM, signal.SIGKILL):
            give_up = time.monotonic() + 10
            if runs_in(home, pid):
                os.kill(pid, signal_number)
            while runs_in(home, pid) and time.monotonic() < give_up:
                time.sleep(0.1)
        shutil.rmtree(home, ignore_errors=True)


def runs_in(home, pid):
    """The number alone may belong to another process by now."""
    command = ["ps", "-ww", "-o", "args=", "-p", str(pid)]
    said = subprocess.run(command, capture_output=True, text=True).stdout
    return re.search(rf"{re.escape(str(home))}(/|\s|$)", said) is not None


@contextlib.contextmanager
def locked(name):
    with (LIVE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def made_whole(target):
    """A scratch folder that gets its real name only when everything in it is done."""
    scratch = Path(tempfile.mkdtemp(prefix="unfinished-", dir=LIVE))
    try:
        yield scratch
        scratch.rename(target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def seed_folder(name, ingredients):
    """A folder with initial data, named after what goes into it, so that a changed ingredient makes a new one."""
    return LIVE / f"{name}-seed-{hashlib.sha256(ingredients).hexdigest()[:12]}"
