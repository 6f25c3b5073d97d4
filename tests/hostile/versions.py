"""HTTP/2 is not supported, and requests for it get a clean response."""

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
    """HTTP/2 is not compiled in: a client that starts with it is refused, and an upgrade gets a response in HTTP/1.1."""
    code, output = tree("--package", "auth-gateway")
    if code != 0:
        raise machine.CannotRun("cargo cannot list the crates of the gateway")
    crates = {line.split(" ")[0] for line in output.splitlines() if line}
    expect("actix-http" in crates, "the list of crates is incomplete")
    expect("h2" not in crates, "h2 is compiled in")
    code, output = tree("--package", "auth-gateway", "--invert", "actix-http", "--format", "{f}", "--depth", "0")
    expect(code == 0 and output.strip(), "the features of actix-http are unknown")
    expect("http2" not in output, f"actix-http has the features {output!r}")
    with fixture.running() as gateway:
        received, closed = smuggling.send_raw(gateway.address, PREFACE, 8)
        expect(
            smuggling.STATUS.findall(received) == [b"400"] and closed,
            f"to HTTP/2 with prior knowledge: {received[:80]!r}, closed: {closed}")
        upgrade = (
            b"GET /nowhere HTTP/1.1\r\nHost: gateway\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
            b"HTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n")
        received, _ = smuggling.send_raw(gateway.address, upgrade, 0.5)
        expect(smuggling.STATUS.findall(received) == [b"404"], f"to an upgrade: {received[:80]!r}")
        # Frames of a rapid reset are garbage for HTTP/1.1.
        received, closed = smuggling.send_raw(gateway.address, PREFACE + b"\0\0\4\3\0\0\0\0\1\0\0\0\x08" * 10_000, 8)
        expect(closed and len(received) < 1024, "HTTP/2 frames were processed")
        gateway.check_serves("afterwards")
