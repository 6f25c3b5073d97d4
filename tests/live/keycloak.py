#!/usr/bin/env python3
"""Fetches a real Keycloak and starts instances of it for the live tests.

    keycloak.py java            print the Java (21 or newer) that Keycloak runs with
    keycloak.py fetch           download, unpack, build and seed; print the folder
    keycloak.py start           run one instance until it is killed (see `start`)
    keycloak.py stop FOLDER     end every instance whose home lies in FOLDER, remove the homes

Everything is kept in target/live.
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
import urllib.request
from pathlib import Path

from machine import LIVE, CannotRun, build, free_ports, install, says_what_is_missing

VERSION = "26.7.4"
ARCHIVE = f"keycloak-quarkus-dist-{VERSION}.tar.gz"
# What is downloaded is trusted by this alone, so a half download or another file is never used.
SHA256 = "04823c336b797a7e18889a44262a7a64e6bf624cbbcc518c85e2622176ff2eee"
COPY_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"

HERE = Path(__file__).resolve().parent
REALM_FILE = HERE / "realm.json"
DISTRIBUTION = LIVE / f"keycloak-{VERSION}"
ADMIN = {"user": "admin", "password": "for-tests-only-admin"}

# What bin/kc.sh passes. That script stays the parent of Java and does not survive a kill -9 together with it;
# here the process that the caller started becomes Java itself.
JAVA_OPTIONS = [
    "-Xms64m", "-Xmx512m", "-XX:MetaspaceSize=96M", "-XX:MaxMetaspaceSize=256m", "-XX:+UseG1GC",
    "-XX:+ExitOnOutOfMemoryError", "-Dfile.encoding=UTF-8", "-Djava.security.egd=file:/dev/urandom",
    "--add-opens=java.base/java.util=ALL-UNNAMED", "--add-opens=java.base/java.util.concurrent=ALL-UNNAMED",
    "--add-opens=java.base/java.security=ALL-UNNAMED", "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--enable-native-access=ALL-UNNAMED", "-Duser.language=en", "-Duser.country=US",
    "-Djava.util.concurrent.ForkJoinPool.common.threadFactory="
    "io.quarkus.bootstrap.forkjoin.QuarkusForkJoinWorkerThreadFactory",
    "-Djava.util.logging.manager=org.jboss.logmanager.LogManager", "-Dpicocli.disable.closures=true",
]


def find_java():
    candidates = [os.environ["JAVA_HOME"] + "/bin/java"] if os.environ.get("JAVA_HOME") else []
    candidates += [path for path in [shutil.which("java")] if path]
    candidates += sorted(str(path) for path in Path("/usr/lib/jvm").glob("*/bin/java"))
    for java in candidates:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30).stderr
            version = re.search(r'version "(\d+)', said)
            if version and int(version.group(1)) >= 21:
                return java
    raise CannotRun(f"no JDK 21 or newer (looked at {', '.join(candidates) or 'JAVA_HOME, PATH and /usr/lib/jvm'})")


def note(text):
    print(f"keycloak: {text}", file=sys.stderr, flush=True)


def is_whole(archive):
    digest = hashlib.sha256()
    with contextlib.suppress(FileNotFoundError), archive.open("rb") as file:
        for chunk in iter(lambda: file.read(1 << 20), b""):
            digest.update(chunk)
    return digest.hexdigest() == SHA256


@contextlib.contextmanager
def made_whole(target):
    """A scratch folder that gets its real name only when everything in it is done."""
    scratch = Path(tempfile.mkdtemp(prefix="unfinished-", dir=LIVE))
    try:
        yield scratch
        scratch.rename(target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def java_command(java, home, *arguments):
    jar = f"{home}/lib/quarkus-run.jar"
    entry = "io.quarkus.bootstrap.runner.QuarkusEntryPoint"
    return [java, *JAVA_OPTIONS, f"-Dkc.home.dir={home}", "-cp", jar, entry, *arguments]


def environment():
    """Keycloak takes settings from KC_*: those of the caller's shell are none of ours."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KC_")}
    return {
        **kept,
        "KC_BOOTSTRAP_ADMIN_USERNAME": ADMIN["user"],
        "KC_BOOTSTRAP_ADMIN_PASSWORD": ADMIN["password"],
    }


def furnish(home):
    """A home shares the program with all the others and has its data to itself."""
    home.mkdir(parents=True, exist_ok=True)
    (home / "providers").mkdir(exist_ok=True)
    for shared in ("lib", "conf"):
        if not (home / shared).is_symlink():
            (home / shared).symlink_to(DISTRIBUTION / shared)


def seed_folder():
    """Named after what goes into it, so that a changed realm makes a new one."""
    ingredients = REALM_FILE.read_bytes() + json.dumps([ADMIN, SHA256]).encode()
    return LIVE / f"keycloak-seed-{hashlib.sha256(ingredients).hexdigest()[:12]}"


def fetch(java):
    """Each of the four steps is skipped where an earlier run has finished it. Returns the seed's folder."""
    LIVE.mkdir(parents=True, exist_ok=True)
    with (LIVE / "keycloak.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        archive = LIVE / ARCHIVE
        if not DISTRIBUTION.exists():
            if not is_whole(archive):
                download(archive)
            note("unpacking and building (half a minute)")
            with made_whole(DISTRIBUTION) as scratch:
                build(["tar", "-xzf", archive, "-C", scratch, "--strip-components=1"])
                # Built once, so that an instance starts in half the time and writes nothing to the program.
                command = java_command(java, scratch, "build", "--db=dev-file", "--health-enabled=true")
                build(command, env=environment(), cwd=scratch)
        seed = seed_folder()
        if not seed.exists():
            note("importing the realm (a quarter of a minute)")
            with made_whole(seed) as scratch:
                furnish(scratch)
                arguments = ("import", "--optimized", "--cache=local", f"--file={REALM_FILE}")
                build(java_command(java, scratch, *arguments), env=environment(), cwd=scratch)
    return seed


def download(archive):
    note(f"downloading Keycloak {VERSION} by Maven (175 MB)")
    artifact = f"org.keycloak:keycloak-quarkus-dist:{VERSION}:tar.gz"
    with tempfile.TemporaryDirectory(prefix="unfinished-", dir=LIVE) as folder:
        maven = ["mvn", "-B", "-q", "-ntp", COPY_GOAL, f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"]
        install(maven, cwd=folder)
        if not is_whole(Path(folder) / ARCHIVE):
            raise CannotRun("the download is not the Keycloak whose digest is pinned here")
        (Path(folder) / ARCHIVE).rename(archive)


def start(java, home, http_port, timeout, durable, any_host):
    """Becomes Keycloak: the caller's child is Java itself, so ending that child, even by kill -9, ends Keycloak.

    When the realm answers, one line of JSON is printed; where it never does, standard output ends without a line.
    Started again with the same `--home` and `--http-port`, it goes on with the same data at the same address. Its
    database writes what was committed half a second later, so a kill -9 may lose users and sessions of that time; a
    `durable` one writes at once, and is slower for it. With `any_host` it calls itself whatever name it is called by.
    """
    seed = fetch(java)
    if home is None:
        homes = Path(os.environ.get("KEYCLOAK_HOMES") or LIVE)
        homes.mkdir(parents=True, exist_ok=True)
        home = tempfile.mkdtemp(prefix="run-", dir=homes)
    home = Path(home).resolve()
    furnish(home)
    if not (home / "data").exists():
        shutil.copytree(seed / "data", home / "data")
    port, management = free_ports(2)
    port = http_port or port
    url = f"http://localhost:{port}"
    (home / "pid").write_text(str(os.getpid()))
    keycloak = os.getpid()
    if os.fork() == 0:
        os._exit(announce(keycloak, url, home, timeout))
    with (home / "keycloak.log").open("ab") as log, open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    command = java_command(
        java, home, "start", "--optimized", "--cache=local", "--http-enabled=true", "--http-host=127.0.0.1",
        f"--http-port={port}", f"--http-management-port={management}",
        "--hostname-strict=false" if any_host else f"--hostname={url}",
        # Not ::1 as well: it is taken for a host's name and looked up, and without a name server, every
        # request waits 5 s for that now and then.
        "--proxy-headers=xforwarded", "--proxy-trusted-addresses=127.0.0.1",
        *(["--db-url-properties=;WRITE_DELAY=0"] if durable else []),
    )
    os.chdir(home)
    os.execve(java, command, environment())


def announce(keycloak, url, home, timeout):
    """Waits, beside the starting server, until the realm answers under its own name; tells the caller once."""
    realm = json.loads(REALM_FILE.read_text())
    client = next(client for client in realm["clients"] if client["clientId"] == "auth-gateway")
    issuer = f"{url}/realms/{realm['realm']}"
    give_up = time.monotonic() + timeout
    # A parent that has ended hands its children on: then there is no server to wait for.
    while time.monotonic() < give_up and os.getppid() == keycloak:
        with contextlib.suppress(OSError, ValueError):
            with urllib.request.urlopen(f"{issuer}/.well-known/openid-configuration", timeout=5) as answer:
                if json.load(answer)["issuer"] == issuer:
                    facts = {
                        "url": url, "realm": realm["realm"], "pid": keycloak, "home": str(home),
                        "admin_user": ADMIN["user"], "admin_password": ADMIN["password"],
                        "client_id": client["clientId"], "client_secret": client["secret"],
                    }
                    print(json.dumps(facts), flush=True)
                    return 0
        time.sleep(0.1)
    note(f"Keycloak is not ready after {timeout} s or has ended; its log is {home}/keycloak.log")
    if os.getppid() == keycloak:
        os.kill(keycloak, signal.SIGKILL)
    return 1


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
    """A number alone may long belong to another process."""
    command = ["ps", "-o", "args=", "-p", str(pid)]
    return f"-Dkc.home.dir={home} " in subprocess.run(command, capture_output=True, text=True).stdout


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = arguments.add_subparsers(dest="command", required=True)
    commands.add_parser("java")
    commands.add_parser("fetch")
    begin = commands.add_parser("start")
    begin.add_argument("--home", help="an instance's own folder; default: a new one in $KEYCLOAK_HOMES")
    begin.add_argument("--http-port", type=int, help="default: a free one")
    begin.add_argument("--durable", action="store_true", help="a kill -9 loses nothing that was committed")
    begin.add_argument("--any-host", action="store_true", help="issuers follow the Host header")
    begin.add_argument("--timeout", type=float, default=180, help="seconds until it must be ready")
    commands.add_parser("stop").add_argument("folder")
    asked = arguments.parse_args()
    if asked.command == "stop":
        return stop(asked.folder)
    java = find_java()
    if asked.command == "java":
        print(java)
    elif asked.command == "fetch":
        fetch(java)
        print(DISTRIBUTION)
    else:
        start(java, asked.home, asked.http_port, asked.timeout, asked.durable, asked.any_host)


if __name__ == "__main__":
    with says_what_is_missing():
        main()
