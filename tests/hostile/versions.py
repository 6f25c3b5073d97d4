"""HTTP/2: the server does not have it, and says so cleanly."""

import os
import subprocess
from pathlib import Path

import machine
import fixture
import smuggling
from fixture import expect

ROOT = Path(__file__).resolve().parents[2]
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"


def tree(*arguments):
    command = ["cargo", "tree", "--locked", "--offline", "--edges", "normal", "--prefix", "none", *arguments]
    done = subprocess.run(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
        env={**os.environ, "CARGO_TERM_COLOR": "never"})
    return done.returncode, done.stdout


def http2():
    """No HTTP/2 is compiled in: a client that begins with it, or asks for it, is refused or answered by HTTP/1.1."""
    code, said = tree("--package", "auth-gateway")
    if code != 0:
        raise machine.CannotRun("cargo cannot tell what the gateway is made of")
    crates = {line.split(" ")[0] for line in said.splitlines() if line}
    expect("actix-http" in crates, "the list of crates is not what it seems")
    expect("h2" not in crates, "h2 is compiled in")
    _, said = tree("--package", "auth-gateway", "--invert", "actix-http", "--format", "{f}", "--depth", "0")
    expect("http2" not in said, f"actix-http has the features {said!r}")
    with fixture.running() as gateway:
        received, closed = smuggling.sent(gateway.address, PREFACE, 8)
        expect(
            smuggling.STATUS.findall(received) == [b"400"] and closed,
            f"to HTTP/2 with prior knowledge: {received[:80]!r}, closed: {closed}")
        upgrade = (
            b"GET /nowhere HTTP/1.1\r\nHost: gateway\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
            b"HTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n")
        received, _ = smuggling.sent(gateway.address, upgrade, 0.5)
        expect(smuggling.STATUS.findall(received) == [b"404"], f"to an upgrade: {received[:80]!r}")
        # A rapid reset is nothing but garbage here.
        received, closed = smuggling.sent(gateway.address, PREFACE + b"\0\0\4\3\0\0\0\0\1\0\0\0\x08" * 10_000, 8)
        expect(closed and len(received) < 1024, "frames were taken for something")
        gateway.serves("afterwards")
