#!/usr/bin/env python3
"""Fetches a real Keycloak and starts instances of it for the live tests.

    keycloak.py fetch           download, unpack, build and seed; print the folder
    keycloak.py start           run one instance until it is killed (see launcher.py)
    keycloak.py stop FOLDER     stop every instance whose home is in FOLDER, and remove the homes

$KEYCLOAK_VERSION names another version than the default, one of `VERSIONS`. Everything is kept in target/live.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import urllib.request
from pathlib import Path
from typing import NamedTuple

from launcher import Server, created_atomically, main, seed_folder
from machine import LIVE, CannotRun, build, free_ports, install


class Version(NamedTuple):
    number: str
    # A download with another digest is never used.
    sha256: str
    oldest_java: int
    # None: no upper limit.
    newest_java: int | None
    # Options of `start` that only some versions have, without that of the host name.
    options: tuple = ()
    hostname: str = "--hostname"


MANAGEMENT = "--http-management-port={management}"
# Not ::1 as well: Keycloak would resolve it as a host name, and without a name server some requests
# would wait 5 s.
TRUSTED = "--proxy-trusted-addresses=127.0.0.1"
# The first is the default. The build of the older ones does not support classes of Java 25.
VERSIONS = [
    Version("26.7.4", "04823c336b797a7e18889a44262a7a64e6bf624cbbcc518c85e2622176ff2eee", 21, None, (MANAGEMENT, TRUSTED)),
    Version("26.0.8", "8cf143b894afcf7d3be4549dc5af4790bda63bd471a5ac8e384094fb729e4b15", 17, 21, (MANAGEMENT, TRUSTED)),
    Version("25.0.6", "df21890b149be8e81b8bca802468dc52f70b8bbc8a06079906316a9ef1c373f0", 17, 21, (MANAGEMENT,)),
    Version("24.0.5", "5a0332a57d7bef07cf79dbde621589bd8e58a323c314649c2b7c495b60385c6c", 17, 21, (), "--hostname-url"),
]
COPY_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"

REALM_FILE = Path(__file__).resolve().parent / "realm.json"
# The last one concerns only instances with TLS.
BUILD_OPTIONS = ["--db=dev-file", "--health-enabled=true", "--https-client-auth=request"]
ALLOW_CONCURRENT_LOGINS = "--spi-brute-force-protector--default-brute-force-detector--allow-concurrent-requests=true"
ADMIN = {"user": "admin", "password": "for-tests-only-admin"}

# The options of bin/kc.sh. That script stays the parent of Java, so a kill -9 of it leaves Java running;
# here the process that the caller started becomes Java.
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


def find_java(oldest, newest):
    candidates = [os.environ["JAVA_HOME"] + "/bin/java"] if os.environ.get("JAVA_HOME") else []
    candidates += [path for path in [shutil.which("java")] if path]
    candidates += sorted(str(path) for path in Path("/usr/lib/jvm").glob("*/bin/java"))
    for java in candidates:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            output = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30).stderr
            version = re.search(r'version "(\d+)', output)
            number = int(version.group(1)) if version else 0
            if oldest <= number <= (newest or number):
                return java
    places = ", ".join(candidates) or "JAVA_HOME, PATH and /usr/lib/jvm"
    raise CannotRun(f"no JDK {oldest} to {newest or 'newer'} (searched {places})")


def environment():
    """Without the KC_* and KEYCLOAK_* variables of the caller, because Keycloak reads settings from them."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("KC_", "KEYCLOAK_"))}
    return {
        **inherited,
        "KC_BOOTSTRAP_ADMIN_USERNAME": ADMIN["user"],
        "KC_BOOTSTRAP_ADMIN_PASSWORD": ADMIN["password"],
        # The names before 26.0.
        "KEYCLOAK_ADMIN": ADMIN["user"],
        "KEYCLOAK_ADMIN_PASSWORD": ADMIN["password"],
        # Here and not as an option, because it is one of `build` before 26, and of `start` from then on.
        "KC_CACHE": "local",
    }


class Keycloak(Server):
    name = "keycloak"

    def __init__(self, version):
        self.version = version
        self.archive = LIVE / f"keycloak-quarkus-dist-{version.number}.tar.gz"
        options = hashlib.sha256(json.dumps(BUILD_OPTIONS).encode()).hexdigest()[:12]
        self.distribution = LIVE / f"keycloak-{version.number}-{options}"
        inputs = REALM_FILE.read_bytes() + json.dumps([ADMIN, version.sha256]).encode()
        self.seed = seed_folder(self.name, inputs)
        self.java = None
        self.tls_port = None

    def add_options(self, start):
        start.add_argument("--durable", action="store_true", help="a kill -9 loses no committed data")
        start.add_argument("--any-host", action="store_true", help="issuers follow the Host header")
        start.add_argument("--concurrent-logins", action="store_true", help="a login while the last one of the user is counted is not refused")
        start.add_argument("--shifted-time", action="store_true", help="the file shifted-time in the home shifts its time")
        start.add_argument("--tls", help="a folder with certificate.pem, key.pem and authorities.pem: serves TLS too")

    def command(self, home, *arguments):
        jar = f"{home}/lib/quarkus-run.jar"
        entry = "io.quarkus.bootstrap.runner.QuarkusEntryPoint"
        return [self.java, *JAVA_OPTIONS, f"-Dkc.home.dir={home}", "-cp", jar, entry, *arguments]

    def prepare_home(self, home):
        """Creates a home with links to the shared program; its data are separate."""
        (home / "providers").mkdir(exist_ok=True)
        for shared in ("lib", "conf"):
            if not (home / shared).is_symlink():
                (home / shared).symlink_to(self.distribution / shared)

    def fetch(self):
        """Downloads, unpacks, builds and seeds; skips steps that an earlier run has finished."""
        self.java = find_java(self.version.oldest_java, self.version.newest_java)
        if not self.distribution.exists():
            if not self.is_complete(self.archive):
                self.download()
            self.log("unpacking and building (half a minute)")
            with created_atomically(self.distribution) as scratch:
                build(["tar", "-xzf", self.archive, "-C", scratch, "--strip-components=1"])
                # Built once, so that an instance starts in half the time and writes nothing to the program.
                command = self.command(scratch, "build", *BUILD_OPTIONS)
                build(command, env=environment(), cwd=scratch)
        if not self.seed.exists():
            self.log("importing the realm (a quarter of a minute)")
            with created_atomically(self.seed) as scratch:
                self.prepare_home(scratch)
                arguments = ("import", "--optimized", f"--file={REALM_FILE}")
                build(self.command(scratch, *arguments), env=environment(), cwd=scratch)
        return self.distribution

    def is_complete(self, archive):
        digest = hashlib.sha256()
        with contextlib.suppress(FileNotFoundError), archive.open("rb") as file:
            for chunk in iter(lambda: file.read(1 << 20), b""):
                digest.update(chunk)
        return digest.hexdigest() == self.version.sha256

    def download(self):
        self.log(f"downloading Keycloak {self.version.number} by Maven (175 MB)")
        artifact = f"org.keycloak:keycloak-quarkus-dist:{self.version.number}:tar.gz"
        with tempfile.TemporaryDirectory(prefix="unfinished-", dir=LIVE) as folder:
            maven = ["mvn", "-B", "-q", "-ntp", COPY_GOAL, f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"]
            install(maven, cwd=folder)
            downloaded = Path(folder) / self.archive.name
            if not self.is_complete(downloaded):
                raise CannotRun("the downloaded Keycloak does not have the pinned digest")
            downloaded.rename(self.archive)

    def prepare(self, home, port, options):
        """The database writes commits with a delay of half a second, so a kill -9 may lose the last users and sessions;
        with `durable` it writes at once and is slower. With `any_host`, issuers follow the Host header of a request.
        """
        self.prepare_home(home)
        if not (home / "data").exists():
            shutil.copytree(self.seed / "data", home / "data")
        name = "--hostname-strict=false" if options.any_host else f"{self.version.hostname}={url(port)}"
        management, tls_port = free_ports(2)
        tls = []
        if options.tls:
            self.tls_port = tls_port
            tls = [
                f"--https-port={tls_port}", f"--https-certificate-file={options.tls}/certificate.pem",
                f"--https-certificate-key-file={options.tls}/key.pem",
                f"--truststore-paths={options.tls}/authorities.pem",
            ]
        command = self.command(
            home, "start", "--optimized", "--http-enabled=true", "--http-host=127.0.0.1",
            f"--http-port={port}", name, "--proxy-headers=xforwarded",
            *(option.format(management=management) for option in self.version.options),
            *([ALLOW_CONCURRENT_LOGINS] if options.concurrent_logins else []),
            *(["--db-url-properties=;WRITE_DELAY=0"] if options.durable else []), *tls,
        )
        return command, {**environment(), **(shifted_time(home) if options.shifted_time else {})}

    def facts(self, home, port):
        """Ready when the realm responds under its own name."""
        realm = json.loads(REALM_FILE.read_text())
        client = next(client for client in realm["clients"] if client["clientId"] == "auth-gateway")
        issuer = f"{url(port)}/realms/{realm['realm']}"
        with urllib.request.urlopen(f"{issuer}/.well-known/openid-configuration", timeout=5) as response:
            if json.load(response)["issuer"] != issuer:
                raise ValueError("another issuer")
        return {
            "url": url(port), "version": self.version.number, "realm": realm["realm"], "issuer": issuer,
            "admin_user": ADMIN["user"], "admin_password": ADMIN["password"],
            "client_id": client["clientId"], "client_secret": client["secret"],
            "tls_url": self.tls_port and f"https://localhost:{self.tls_port}",
        }


def shifted_time(home):
    """Variables by which the instance adds the seconds in the file to its time, see shifted_time.c.

    libfaketime 0.9.10 does the same if it reads its file at every call. An introspection then takes 1,000 ms instead of 17.
    """
    library, file = home / "shifted_time.so", home / "shifted-time"
    source = Path(__file__).resolve().parent / "shifted_time.c"
    build(["cc", "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", library, source])
    file.write_bytes(bytes(8))
    return {"LD_PRELOAD": str(library), "SHIFTED_TIME_FILE": str(file)}


def url(port):
    return f"http://localhost:{port}"


def chosen_version():
    """The default when $KEYCLOAK_VERSION is not set."""
    chosen = os.environ.get("KEYCLOAK_VERSION") or VERSIONS[0].number
    for version in VERSIONS:
        if version.number == chosen:
            return version
    raise SystemExit(f"KEYCLOAK_VERSION is none of {', '.join(version.number for version in VERSIONS)}")


if __name__ == "__main__":
    main(Keycloak(chosen_version()), __doc__)
