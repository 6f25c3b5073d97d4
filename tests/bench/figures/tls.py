"""What TLS costs: an exchange on a connection that stays open, and a full handshake."""

import contextlib
import socket
import ssl
import subprocess
from pathlib import Path

import load
import machine
import servers
import wire
from figures.fresh import one_session
from report import AT_LEAST, Figure
from rounds import Rounds

KEEP_ALIVE_TARGET, HANDSHAKE_TARGET = 0.92, 0.85
EXCHANGES, HANDSHAKES = 40_000, 3_000


def processor_seconds(child):
    """The processor time of all threads that run now. Finer than the ticks of the process."""
    threads = Path(f"/proc/{child.pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9


def certificate(folder):
    """A new certificate on P-256 and its key."""
    files = folder / "tls.crt", folder / "tls.key"
    machine.build([
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
        "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-out", files[0], "-keyout", files[1],
    ])
    files[1].chmod(0o600)
    return files


def handshakes(address, count):
    """Full handshakes of TLS 1.3, one after another: no context keeps a session."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    for _ in range(count):
        with context.wrap_socket(socket.create_connection(address), server_hostname="localhost") as connection:
            if connection.session_reused:
                raise wire.Failure("the handshake was not a full one")


def microseconds(child, count, work):
    """The processor time of the server for each of these requests."""
    before = processor_seconds(child)
    work()
    return (processor_seconds(child) - before) / count * 1e6


@contextlib.contextmanager
def bare_server(bench, files):
    machine.build(["cargo", "build", "--release", "--locked", "--package", "tls-server"], cwd=Path(__file__).parents[3], timeout=1800)
    port = machine.free_ports(1)[0]
    log = bench.folder / "tls-server.log"
    with servers.process([machine.TARGET / "release" / "tls-server", port, *files], bench.first, log) as child:
        servers.wait_for_port(child, port)
        yield child, (wire.LOOPBACK, port)


def measure(bench):
    files = certificate(bench.folder)
    tls = {"http.workers": 1, "http.tls.certificate_file": files[0], "http.tls.key_file": files[1]}
    with contextlib.ExitStack() as stack:
        encrypted = stack.enter_context(servers.gateway(bench, bench.first, tls, scheme="https"))
        plain = stack.enter_context(servers.gateway(bench, bench.first, {"http.workers": 1}))
        yield keep_alive(bench, plain, encrypted)
        bare, address = stack.enter_context(bare_server(bench, files))
        yield full_handshakes(bench, bare, address, encrypted)


def keep_alive(bench, plain, encrypted):
    rounds, count = Rounds(bench, "tls, keep-alive"), bench.size(EXCHANGES, 2_000)
    loads = [one_session(bench, name, gateway.url) for name, gateway in (("plain", plain), ("TLS", encrypted))]

    def run(gateway, exchanges):
        used = microseconds(
            gateway.child, count, lambda: load.run(exchanges, bench.second, bench.connections, count=count))
        gateway.check_log()
        gateway.truncate_log()
        return used

    pairs = rounds.paired(bench.rounds, lambda: run(plain, loads[0]), lambda: run(encrypted, loads[1]))
    ratios = pairs.ratios(lambda used: used)
    without, with_tls = pairs.series(lambda used: used)
    return Figure(
        "tls-exchange", "processor time of an exchange without TLS relative to one with TLS, on open connections",
        ratios.median, ratios.low, ratios.high, "", AT_LEAST, KEEP_ALIVE_TARGET,
        f"{without.median:.1f} µs and {with_tls.median:.1f} µs", rounds.warnings(ratios),
        {"without_us": without.values, "with_us": with_tls.values},
    )


def full_handshakes(bench, bare, bare_address, encrypted):
    rounds, count = Rounds(bench, "tls, handshakes"), bench.size(HANDSHAKES, 100)

    def run(child, address):
        return microseconds(child, count, lambda: handshakes(address, count))

    address = wire.address(encrypted.url)
    pairs = rounds.paired(bench.rounds, lambda: run(bare, bare_address), lambda: run(encrypted.child, address))
    ratios = pairs.ratios(lambda used: used)
    of_bare, of_gateway = pairs.series(lambda used: used)
    return Figure(
        "tls-handshake", "processor time of a connection with a full handshake at a server that does nothing more, relative to the gateway",
        ratios.median, ratios.low, ratios.high, "", AT_LEAST, HANDSHAKE_TARGET,
        f"{of_bare.median:.0f} µs and {of_gateway.median:.0f} µs", rounds.warnings(ratios),
        {"bare_us": of_bare.values, "gateway_us": of_gateway.values},
    )
