"""HTTP/1.1 as bytes on a socket: what is timed is the server, and no client library."""

import re
import socket
import urllib.parse
from dataclasses import dataclass

END_OF_HEAD = b"\r\n\r\n"
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
LOOPBACK = "127.0.0.1"
PATIENCE_SECONDS = 10


class Failure(Exception):
    """What is being measured cannot be trusted: a server does other than it must."""


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes
    size: int  # of the whole answer on the wire, in bytes


def address(url):
    """Host and port. `localhost` may be two addresses, of which the servers here use one."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme != "http" or parts.hostname not in {LOOPBACK, "localhost"}:
        raise Failure(f"{url} is not http on loopback")
    return LOOPBACK, parts.port or 80


def request(method, url, headers=(), body=b""):
    parts = urllib.parse.urlsplit(url)
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    lines = [f"{method} {target} HTTP/1.1", f"Host: {parts.netloc}"]
    lines += [f"{name}: {value}" for name, value in dict(headers).items()]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def parse(received):
    """The answer at the beginning of the bytes, or None where it is not complete."""
    head_end = received.find(END_OF_HEAD)
    if head_end < 0:
        return None
    begin = head_end + len(END_OF_HEAD)
    length = LENGTH.search(received, 0, begin - 2)
    status = int(received[9:12])
    if length is None and status not in (204, 304):
        raise Failure(f"an answer without Content-Length: {bytes(received[:200])!r}")
    size = begin + (int(length.group(1)) if length else 0)
    if len(received) < size:
        return None
    return Answer(status, bytes(received[begin:size]), size)


def connect(url):
    connection = socket.create_connection(address(url), timeout=PATIENCE_SECONDS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def ask(method, url, headers=(), body=b""):
    """One request on a new connection. OSError if there is no response."""
    with connect(url) as connection:
        connection.sendall(request(method, url, headers, body))
        received = bytearray()
        while True:
            part = connection.recv(1 << 16)
            received += part
            answer = parse(received)
            if answer is not None:
                return answer
            if not part:
                raise ConnectionResetError(f"{url}: the connection ended before the answer did")
