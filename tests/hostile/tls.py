"""The TLS listener: accepted versions and cipher suites, and clients that do not finish their handshake."""

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


def handshake(address, *options):
    """The output of openssl, and whether the handshake succeeded."""
    command = ["openssl", "s_client", "-connect", f"{address[0]}:{address[1]}", "-servername", "localhost", *options]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=20)
    return done.stdout, "Cipher is (NONE)" not in done.stdout and "Cipher is" in done.stdout


def run():
    """TLS 1.2 and 1.3 with forward secrecy only; handshakes have five seconds, and thousands of them affect no other client."""
    with tempfile.TemporaryDirectory() as folder:
        chain, key = certificate(folder)
        settings = {"http.tls.certificate_file": chain, "http.tls.key_file": key, "http.workers": 2}
        with fixture.running(settings) as gateway:
            versions(gateway.address)
            handshakes(gateway, chain)


def versions(address):
    for version in ("-tls1_2", "-tls1_3"):
        output, accepted = handshake(address, version)
        expect(accepted, f"{version} is refused: {output[-500:]}")
    for version in ("-tls1", "-tls1_1"):
        # The lowest security level of openssl, so that the gateway refuses and not openssl.
        output, accepted = handshake(address, version, "-cipher", "ALL:@SECLEVEL=0")
        expect(not accepted, f"{version} is accepted: {output[-500:]}")
    refused = 0
    for suite in WEAK:
        output, accepted = handshake(address, "-tls1_2", "-cipher", f"{suite}:@SECLEVEL=0")
        # A suite that this openssl does not support is not tested.
        if "no cipher match" not in output and "unknown" not in output.lower():
            refused += 1
        expect(not accepted, f"{suite} is accepted: {output[-500:]}")
    expect(refused > 5, f"openssl could try {refused} of the weak suites only")
    output, _ = handshake(address, "-alpn", "h2")
    expect("ALPN protocol: h2" not in output, "HTTP/2 is negotiated")
    output, accepted = handshake(address, "-alpn", "h2,http/1.1")
    expect(accepted and "ALPN protocol: http/1.1" in output, f"ALPN: {output[-500:]}")
    print(f"  {refused} weak suites, TLS 1.0 and 1.1, and h2 refused")


def handshakes(gateway, chain):
    """Connections with no data, garbage or half a ClientHello are closed in time, and a regular client is served."""
    fds = gateway.fds()
    context = ssl.create_default_context(cafile=chain)

    def served():
        with socket.create_connection(gateway.address, timeout=10) as plain:
            with context.wrap_socket(plain, server_hostname="localhost") as connection:
                body = b'{"email":"alice@example.test","password":"alice-pass"}'
                connection.sendall(
                    b"POST /api/v1/auth/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                    b"Connection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
                expect(connection.recv(1 << 16).startswith(b"HTTP/1.1 200 "), "a regular client is not served")

    beginnings = [b"", b"\x16", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"]
    lasted = slow.lifetimes(
        gateway.address, [beginnings[number % len(beginnings)] for number in range(HALF_HANDSHAKES)], meanwhile=served)
    expect(lasted[-1] <= slow.PHASE_SECONDS, f"a handshake lasted {lasted[-1]:.1f} s")
    fixture.eventually(lambda: gateway.fds() <= fds + 10, 10, "descriptors are still open")
    with contextlib.suppress(OSError), socket.create_connection(gateway.address, timeout=10) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        expect(not client.recv(100).startswith(b"HTTP/"), "it accepts plain HTTP")
    served()
    print(f"  {HALF_HANDSHAKES} half handshakes, closed after at most {lasted[-1]:.2f} s")
