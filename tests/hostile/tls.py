"""The TLS listener: which versions and suites it speaks, and clients that do not finish their handshake."""

import contextlib
import socket
import ssl
import subprocess
import tempfile
from pathlib import Path

import machine
import fixture
import slow
from fixture import expect

HALF_HANDSHAKES = 2000
# Old, without forward secrecy, without authentication, or not authenticated encryption.
WEAK = (
    "NULL", "aNULL", "EXPORT", "RC4", "3DES", "AES128-SHA", "AES256-SHA", "AES128-GCM-SHA256", "AES256-GCM-SHA384",
    "ECDHE-ECDSA-AES128-SHA", "ECDHE-ECDSA-AES256-SHA384", "DHE-RSA-AES128-GCM-SHA256", "PSK",
)


def certificate(folder):
    chain, key = Path(folder) / "chain.pem", Path(folder) / "key.pem"
    machine.build([
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
        "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", chain,
    ])
    return chain, key


def shaken(address, *options):
    """What openssl says of a handshake, and whether there was one."""
    # The lowest level, so that it is the gateway that refuses.
    command = ["openssl", "s_client", "-connect", f"{address[0]}:{address[1]}", "-servername", "localhost", *options]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=20)
    return done.stdout, "Cipher is (NONE)" not in done.stdout and "Cipher is" in done.stdout


def run():
    """TLS 1.2 and 1.3 with forward secrecy and nothing older; handshakes have five seconds, and thousands of them affect no other client."""
    with tempfile.TemporaryDirectory() as folder:
        chain, key = certificate(folder)
        settings = {"http.tls.certificate_file": chain, "http.tls.key_file": key, "http.workers": 2}
        with fixture.running(settings) as gateway:
            versions(gateway.address)
            handshakes(gateway, chain)


def versions(address):
    for version in ("-tls1_2", "-tls1_3"):
        said, spoke = shaken(address, version)
        expect(spoke, f"{version} is not spoken: {said[-500:]}")
    for version in ("-tls1", "-tls1_1"):
        said, spoke = shaken(address, version, "-cipher", "ALL:@SECLEVEL=0")
        expect(not spoke, f"{version} is spoken: {said[-500:]}")
    refused = 0
    for suite in WEAK:
        said, spoke = shaken(address, "-tls1_2", "-cipher", f"{suite}:@SECLEVEL=0")
        # What this openssl does not know itself says nothing about the gateway.
        if "no cipher match" not in said and "unknown" not in said.lower():
            refused += 1
        expect(not spoke, f"{suite} is spoken: {said[-500:]}")
    expect(refused > 5, f"openssl could try {refused} of the weak suites only")
    said, _ = shaken(address, "-alpn", "h2")
    expect("ALPN protocol: h2" not in said, "HTTP/2 is agreed on")
    said, spoke = shaken(address, "-alpn", "h2,http/1.1")
    expect(spoke and "ALPN protocol: http/1.1" in said, f"ALPN: {said[-500:]}")
    print(f"  {refused} weak suites, TLS 1.0 and 1.1, and h2 refused")


def handshakes(gateway, chain):
    """Nothing, garbage, and the beginning of a hello: every one is gone in time, and a good client is served."""
    fds = gateway.fds()
    context = ssl.create_default_context(cafile=chain)

    def served():
        with socket.create_connection(gateway.address, timeout=10) as plain:
            with context.wrap_socket(plain, server_hostname="localhost") as connection:
                body = b'{"email":"alice@example.test","password":"alice-pass"}'
                connection.sendall(
                    b"POST /api/v1/auth/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                    b"Connection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
                expect(connection.recv(1 << 16).startswith(b"HTTP/1.1 200 "), "a good client is not served")

    begins = [b"", b"\x16", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"]
    lasted = slow.lifetimes(
        gateway.address, [begins[number % len(begins)] for number in range(HALF_HANDSHAKES)], meanwhile=served)
    expect(lasted[-1] <= slow.PATIENCE_SECONDS, f"a handshake had {lasted[-1]:.1f} s")
    fixture.eventually(lambda: gateway.fds() <= fds + 10, 10, "descriptors are left over")
    with contextlib.suppress(OSError), socket.create_connection(gateway.address, timeout=10) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        expect(not client.recv(100).startswith(b"HTTP/1.1 2"), "it speaks plain HTTP")
    served()
    print(f"  {HALF_HANDSHAKES} half handshakes, the longest {lasted[-1]:.2f} s")
