"""A minimal HTTP/1.1 client on a socket, so that no client library affects the measured times."""

import re
import socket
import ssl
import urllib.parse
from dataclasses import dataclass

END_OF_HEAD = b"\r\n\r\n"
CHUNKED = re.compile(rb"\r\ntransfer-encoding: *chunked\r\n", re.IGNORECASE)
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
LOOPBACK = "127.0.0.1"
TIMEOUT_SECONDS = 10


class Failure(Exception):
    """A server did something wrong, so its figures cannot be trusted."""


@dataclass(frozen=True)
class Response:
    status: int
    body: bytes
    size: int  # of the whole response, in bytes


def address(url):
    """Host and port. `localhost` may resolve to two addresses; the servers here listen on one."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in {"http", "https"} or parts.hostname not in {LOOPBACK, "localhost"}:
        raise Failure(f"{url} is not http on loopback")
    return LOOPBACK, parts.port or (443 if parts.scheme == "https" else 80)


def request(method, url, headers=(), body=b""):
    parts = urllib.parse.urlsplit(url)
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    lines = [f"{method} {target} HTTP/1.1", f"Host: {parts.netloc}"]
    lines += [f"{name}: {value}" for name, value in dict(headers).items()]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def parse(received):
    """The response at the beginning of the bytes, or None if it is incomplete."""
    head_end = received.find(END_OF_HEAD)
    if head_end < 0:
        return None
    begin = head_end + len(END_OF_HEAD)
    length = LENGTH.search(received, 0, begin - 2)
    status = int(received[9:12])
    if CHUNKED.search(received, 0, begin - 2):
        return parse_chunks(received, status, begin)
    if length is None and status not in (204, 304):
        raise Failure(f"a response without Content-Length: {bytes(received[:200])!r}")
    size = begin + (int(length.group(1)) if length else 0)
    if len(received) < size:
        return None
    return Response(status, bytes(received[begin:size]), size)


def parse_chunks(received, status, begin):
    """The response with the chunks that begin there, or None if it is incomplete."""
    body = bytearray()
    while True:
        line_end = received.find(b"\r\n", begin)
        if line_end < 0:
            return None
        size = int(received[begin:line_end], 16)
        end = line_end + 2 + size + 2
        if len(received) < end:
            return None
        body += received[line_end + 2:end - 2]
        begin = end
        if size == 0:
            return Response(status, bytes(body), end)


def connect(url):
    connection = socket.create_connection(address(url), timeout=TIMEOUT_SECONDS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if url.startswith("https:"):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        # The certificates are made for the run.
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context.wrap_socket(connection)
    return connection


def send(method, url, headers=(), body=b""):
    """One request on a new connection. OSError if there is no response."""
    with connect(url) as connection:
        connection.sendall(request(method, url, headers, body))
        return receive(connection)


def receive(connection):
    """The response to the one request on the connection that has none."""
    received = bytearray()
    while True:
        part = connection.recv(1 << 16)
        received += part
        response = parse(received)
        if response is not None:
            return response
        if not part:
            raise ConnectionResetError("the connection was closed before the end of the response")
