"""A DNS server whose answers the test changes, and the resolver settings that lead to it."""

import socketserver
import struct
import threading
from pathlib import Path

import machine

ADDRESS = "127.0.0.1"
# RFC 1035, section 4.1.1
RESPONSE, SERVER_FAILURE, NAME_ERROR = 0x8180, 2, 3
TYPE_A = 1
# `None` in place of an address: the server responds SERVFAIL. This: it does not respond.
SILENT = "silent"


class NameServer(socketserver.ThreadingUDPServer):
    """`names` has the IPv4 address of each name. No answer may be cached."""

    daemon_threads = True

    def __init__(self):
        super().__init__((ADDRESS, 53), Query)
        self.names = {}
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Query(socketserver.BaseRequestHandler):
    def handle(self):
        query, socket = self.request
        labels, position = [], 12
        while (length := query[position]) != 0:
            labels.append(query[position + 1:position + 1 + length].decode())
            position += 1 + length
        question = query[12:position + 5]
        (kind,) = struct.unpack("!H", query[position + 1:position + 3])
        address = self.server.names.get(".".join(labels), NAME_ERROR)
        if address == SILENT:
            return
        code, answer = 0, b""
        if address is None:
            code = SERVER_FAILURE
        elif address == NAME_ERROR:
            code = NAME_ERROR
        elif kind == TYPE_A:
            data = bytes(map(int, address.split(".")))
            answer = struct.pack("!HHHIH", 0xC00C, TYPE_A, 1, 0, len(data)) + data
        head = query[:2] + struct.pack("!HHHHH", RESPONSE | code, 1, 1 if answer else 0, 0, 0)
        socket.sendto(head + question + answer, self.client_address)


def use_only_this_server(folder):
    """For all processes in the mount namespace of the script."""
    contents = {"/etc/resolv.conf": f"nameserver {ADDRESS}\n", "/etc/nsswitch.conf": "hosts: files dns\n"}
    for place, text in contents.items():
        file = Path(folder, Path(place).name)
        file.write_text(text)
        machine.build(["mount", "--bind", file, place])
