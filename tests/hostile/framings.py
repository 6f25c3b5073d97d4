"""Requests with ambiguous framing (RFC 9112 section 11.2), each with a second request hidden in the ambiguous part."""

from dataclasses import dataclass

LOGIN = "POST /api/v1/auth/login HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\n"
ALICE = '{"email":"alice@example.test","password":"alice-pass"}'


@dataclass(frozen=True)
class Framing:
    name: str
    content: bytes
    # Whether the gateway must respond with 400 and close the connection.
    refused: bool = True
    # Whether the hidden request is a valid request of the same client, as in pipelining.
    own: bool = False


def marker(name):
    """The request id of the hidden request."""
    return "smuggled-" + "".join(letter if letter.isalnum() else "-" for letter in name)[:50]


def hidden(name):
    return f"GET /hidden HTTP/1.1\r\nHost: gateway\r\nX-Request-Id: {marker(name)}\r\n\r\n"


def chunk(text, size=None):
    return f"{len(text):x}\r\n{text}\r\n" if size is None else f"{size}{text}\r\n"


def ends_by_chunks(name, te):
    """By the chunks the body ends before the hidden request, by the length after it."""
    body = chunk(ALICE) + "0\r\n\r\n" + hidden(name)
    return f"{LOGIN}Content-Length: {len(body)}\r\n{te}\r\n{body}"


def ends_by_length(name, te):
    """By the length the body ends before the hidden request, by the chunks after it."""
    body = chunk(hidden(name)) + "0\r\n\r\n"
    return f"{LOGIN}{te}Content-Length: {body.index('G')}\r\n\r\n{body}"


TRANSFER_ENCODINGS = {
    "plain": "Transfer-Encoding: chunked\r\n",
    "upper": "TRANSFER-ENCODING: CHUNKED\r\n",
    "x": "Transfer-Encoding: xchunked\r\n",
    "space before colon": "Transfer-Encoding : chunked\r\n",
    "tab before colon": "Transfer-Encoding\t: chunked\r\n",
    "tab after colon": "Transfer-Encoding:\tchunked\r\n",
    "vertical tab": "Transfer-Encoding:\x0bchunked\r\n",
    "form feed after": "Transfer-Encoding: chunked\x0c\r\n",
    "NUL": "Transfer-Encoding: chunked\0\r\n",
    "quoted": 'Transfer-Encoding: "chunked"\r\n',
    "comma": "Transfer-Encoding: chunked,\r\n",
    "comma before": "Transfer-Encoding: ,chunked\r\n",
    "identity then chunked": "Transfer-Encoding: identity, chunked\r\n",
    "chunked then identity": "Transfer-Encoding: chunked, identity\r\n",
    "twice": "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
    "two kinds": "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
    "folded": "Transfer-Encoding:\r\n chunked\r\n",
    "folded before": "X: a\r\n Transfer-Encoding: chunked\r\n",
    "behind a bare CR": "X: a\rTransfer-Encoding: chunked\r\n",
    "behind a bare LF": "X: a\nTransfer-Encoding: chunked\r\n",
    "in a parameter": "Transfer-Encoding: chunked; a=b\r\n",
    "empty": "Transfer-Encoding:\r\n",
    "gzip": "Transfer-Encoding: gzip, chunked\r\n",
    "not ASCII": "Transfer-Encoding: chunked\x85\r\n",
}


def lengths(name):
    """Invalid lengths: one parser ends the body before the hidden request, another after it."""
    short, long = len(ALICE), len(ALICE) + len(hidden(name))
    return {
        "twice": f"Content-Length: {short}\r\nContent-Length: {long}\r\n",
        "twice, the long first": f"Content-Length: {long}\r\nContent-Length: {short}\r\n",
        "twice the same": f"Content-Length: {long}\r\nContent-Length: {long}\r\n",
        "list": f"Content-Length: {short}, {long}\r\n",
        "list of the same": f"Content-Length: {long}, {long}\r\n",
        "plus": f"Content-Length: +{long}\r\n",
        "minus": f"Content-Length: -{long}\r\n",
        "hexadecimal": f"Content-Length: 0x{long:x}\r\n",
        "space within": f"Content-Length: {short} {long}\r\n",
        "underscore within": "Content-Length: 1_0\r\n",
        "fraction": f"Content-Length: {long}.0\r\n",
        "exponent": "Content-Length: 1e2\r\n",
        "empty": "Content-Length:\r\n",
        "NUL": f"Content-Length: {long}\0\r\n",
        "beyond 64 bits": f"Content-Length: {(1 << 64) + short}\r\n",
        "space before colon": f"Content-Length : {long}\r\n",
        "folded": f"Content-Length:\r\n {long}\r\n",
        "behind a bare CR": f"X: a\rContent-Length: {long}\r\nContent-Length: 0\r\n",
    }


def chunks(name):
    """Chunks that violate the grammar (RFC 9112 section 7.1), followed by an end and the hidden request."""
    end = "0\r\n\r\n"
    inside = hidden(name)
    return {
        "minus": chunk(ALICE, "-1\r\n") + end + inside,
        "plus": chunk(ALICE, f"+{len(ALICE):x}\r\n") + end + inside,
        "prefix": chunk(ALICE, f"0x{len(ALICE):x}\r\n") + end + inside,
        "beyond 64 bits": chunk(ALICE, f"1{len(ALICE):016x}\r\n") + end + inside,
        "no size": chunk(ALICE, "\r\n") + end + inside,
        "bare LF after the size": chunk(ALICE, f"{len(ALICE):x}\n") + end + inside,
        "bare CR after the size": chunk(ALICE, f"{len(ALICE):x}\r") + end + inside,
        "longer than its size": chunk(ALICE + "xx", f"{len(ALICE):x}\r\n") + end + inside,
        "shorter than its size": chunk(ALICE[:-4], f"{len(ALICE):x}\r\n") + end + inside,
        "bare LF in an extension": chunk(ALICE, f"{len(ALICE):x};a\nb\r\n") + end + inside,
    }


def lines(name):
    """Invalid request lines and header lines."""
    inside, body = hidden(name), f"Content-Length: {len(ALICE)}\r\n\r\n{ALICE}"
    return {
        "a line without a colon": f"{LOGIN}nothing\r\n{body}{inside}",
        "a name with a space": f"{LOGIN}X Y: a\r\n{body}{inside}",
        "a first header that is folded": LOGIN.replace("\r\nHost", "\r\n Host") + body + inside,
        "a value with NUL": f"{LOGIN}X: a\0b\r\n{body}{inside}",
        "a value with a bare CR": f"{LOGIN}X: a\rb\r\n{body}{inside}",
        "two hosts": f"{LOGIN}Host: other\r\n{body}{inside}",
        "no host": LOGIN.replace("Host: gateway\r\n", "") + body + inside,
        "a tab in the request line": LOGIN.replace(" HTTP", "\tHTTP") + body + inside,
        "unknown version": LOGIN.replace("1.1", "1.2") + body + inside,
        "no version": "GET /nowhere\r\n" + inside,
        "HTTP/1.0 with chunks": LOGIN.replace("1.1", "1.0") + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + inside,
        "HTTP/2 preface": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + inside,
    }


def served(name):
    """Well-formed requests; the hidden request is a body, or a pipelined request."""
    inside = hidden(name)
    long = f"Content-Length: {len(inside)}\r\n\r\n{inside}"
    yield "body of a GET", "GET /nowhere HTTP/1.1\r\nHost: gateway\r\n" + long, False
    yield "body of a GET that is served", "GET /openapi.yaml HTTP/1.1\r\nHost: gateway\r\n" + long, False
    yield "body of an unsupported method", LOGIN.replace("POST", "PUT") + long, False
    yield "body of another type", LOGIN.replace("/json", "/xml") + long, False
    yield "chunks of an unsupported method", (
        LOGIN.replace("POST", "PUT") + "Transfer-Encoding: chunked\r\n\r\n" + chunk(inside) + "0\r\n\r\n"), False
    yield "body after 100-continue", LOGIN + "Expect: 100-continue\r\n" + long, False
    yield "body with an upgrade", (
        LOGIN + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n" + long
    ), False
    yield "underscores for hyphens", (
        LOGIN + f"Transfer_Encoding: chunked\r\nContent-Length: {len(inside) + 5}\r\n\r\n0\r\n\r\n{inside}"), False
    yield "extension of a chunk", (
        LOGIN + f"Transfer-Encoding: chunked\r\n\r\n{len(ALICE):x};a=b\r\n{ALICE}\r\n0\r\n\r\n" + inside), True
    yield "trailer", (
        LOGIN + "Transfer-Encoding: chunked\r\n\r\n" + chunk(ALICE) + "0\r\nContent-Length: 99\r\n\r\n" + inside), True
    # Parsed as a trailer, which is ignored, up to its empty line: the end of the hidden request.
    yield "garbage in the trailer", (
        LOGIN + "Transfer-Encoding: chunked\r\n\r\n" + chunk(ALICE) + "0\r\nxx\r\n" + inside), False
    yield "absolute form, another host", (
        LOGIN.replace("/api", "http://other/api", 1) + f"Content-Length: {len(ALICE)}\r\n\r\n{ALICE}{inside}"), True
    yield "bare LF at every end of a line", (
        LOGIN.replace("\r\n", "\n") + f"Content-Length: {len(ALICE)}\n\n{ALICE}{inside}"), True
    yield "pipelined requests", LOGIN + f"Content-Length: {len(ALICE)}\r\n\r\n{ALICE}{inside}", True


def all_framings():
    found = []

    def add(kind, name, make, **options):
        name = f"{kind}: {name}"
        found.append(Framing(name, make(name).encode("latin-1"), **options))

    for variant, te in TRANSFER_ENCODINGS.items():
        add("chunks end first", variant, lambda name, te=te: ends_by_chunks(name, te))
        add("length ends first", variant, lambda name, te=te: ends_by_length(name, te))
    for variant in lengths(""):
        add("length", variant, lambda name, variant=variant: f"{LOGIN}{lengths(name)[variant]}\r\n{ALICE}{hidden(name)}")
    for variant in chunks(""):
        add("chunk", variant, lambda name, variant=variant: f"{LOGIN}Transfer-Encoding: chunked\r\n\r\n{chunks(name)[variant]}")
    for variant in lines(""):
        add("line", variant, lambda name, variant=variant: lines(name)[variant])
    for index, (variant, _, own) in enumerate(served("")):
        add("served", variant, lambda name, index=index: list(served(name))[index][1], refused=False, own=own)
    return found
