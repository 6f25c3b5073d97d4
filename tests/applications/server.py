"""A server in the place of the gateway that responds as a test prescribes, for faults that no gateway can be made to show."""

import contextlib
import json
import socket
import struct
import threading
from collections import defaultdict, deque
from dataclasses import dataclass

PREFIX = "/api/v1/auth/"
# A fault that ends sooner, because the client closed the connection, does not wait for this.
FAULT_SECONDS = 20


@dataclass
class Request:
    target: str
    headers: dict
    body: dict


class Server:
    """Each request takes the next response that was prescribed for its operation."""

    def __init__(self):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._arrival = threading.Condition()
        self.requests, self.unexpected, self.responses = [], [], defaultdict(deque)
        threading.Thread(target=self._accept, daemon=True).start()

    def reset(self):
        with self._arrival:
            self.requests, self.unexpected, self.responses = [], [], defaultdict(deque)

    def prescribe(self, operation, *responses):
        self.responses[operation].extend(responses)

    def count(self, operation):
        return sum(request.target == PREFIX + operation for request in self.requests)

    def wait_for(self, operation, count):
        with self._arrival:
            assert self._arrival.wait_for(lambda: self.count(operation) >= count, 10), f"no request {count} to {operation}"

    def close(self):
        self._listener.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    def _serve(self, connection):
        with connection, contextlib.suppress(OSError), connection.makefile("rb") as stream:
            line = stream.readline()
            if not line:
                return
            headers = {}
            while field := stream.readline().decode().strip():
                name, _, value = field.partition(":")
                headers[name.lower()] = value.strip()
            body = stream.read(int(headers.get("content-length", 0)))
            target = line.decode().split()[1]
            with self._arrival:
                prescribed = self.responses[target.removeprefix(PREFIX)]
                response = prescribed.popleft() if prescribed else None
                self.requests.append(Request(target, headers, json.loads(body)))
                if response is None:
                    self.unexpected.append(target)
                self._arrival.notify_all()
            (response or reply(500, {"error": "server_error"}))(connection)


def reply(status, body=None, **headers):
    """A response with a JSON object, or with a text that is not JSON."""
    content = body if isinstance(body, str) else json.dumps(body or {})
    fields = {"Content-Type": "application/json", "Content-Length": len(content), "Connection": "close", **headers}
    lines = [f"HTTP/1.1 {status} Scripted", *(f"{name.replace('_', '-')}: {value}" for name, value in fields.items())]
    message = ("\r\n".join(lines) + "\r\n\r\n" + content).encode()

    def send(connection):
        connection.sendall(message)

    send.message = message
    return send


def reset(connection):
    """The connection is closed with RST."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def closed(connection):
    """The connection is closed without a response."""


def silent(connection):
    """No response."""
    wait_until_closed(connection, FAULT_SECONDS)


def truncated(response):
    """The last bytes of the body are missing."""
    return lambda connection: connection.sendall(response.message[:-5])


def dribbled(response):
    """All but the last byte, then nothing but a byte of a longer body from time to time."""

    def send(connection):
        head, _, body = response.message.partition(b"\r\n\r\n")
        head = head.replace(b"Content-Length: %d" % len(body), b"Content-Length: 1000")
        connection.sendall(head + b"\r\n\r\n" + body)
        for _ in range(int(FAULT_SECONDS / 0.05)):
            connection.sendall(b" ")
            wait_until_closed(connection, 0.05)

    return send


def held(released, response):
    """The response after an event."""

    def send(connection):
        released.wait(FAULT_SECONDS)
        response(connection)

    return send


def wait_until_closed(connection, seconds):
    connection.settimeout(seconds)
    try:
        if connection.recv(1) == b"":
            raise OSError("closed by the client")
    except TimeoutError:
        connection.settimeout(None)
