"""Makes the calls that `tests/applications/run` requests, each in a thread: one JSON object a line in both directions."""

import json
import socket
import sys
import threading
import time
import traceback

from auth_gateway import AuthGateway, AuthGatewayError, Timing

state = {"advanced": 0.0, "random": 0.5, "pauses": []}
writing = threading.Lock()


def sleep(seconds):
    state["pauses"].append(seconds)
    state["advanced"] += seconds


def resolve(host, *arguments, of_system=socket.getaddrinfo, **options):
    """`unresolved.test` is never resolved. `many.test` has this machine's address a thousand times."""
    if host == "unresolved.test":
        threading.Event().wait()
    if host == "many.test":
        return of_system("127.0.0.1", *arguments, **options) * 1000
    return of_system(host, *arguments, **options)


socket.getaddrinfo = resolve
TIMING = Timing(lambda: time.monotonic() + state["advanced"], sleep, lambda: state["random"])


def new(url, attempt, deadline):
    state.update(advanced=0.0, random=0.5, pauses=[])
    state["gateway"] = AuthGateway(url, attempt, deadline, TIMING)


def login(email, password, otp=None, address=None):
    state["session"] = session = state["gateway"].log_in(email, password, otp, address)
    return {"session_id": session.session_id, "session_token": session.session_token, "expires_at": session.expires_at}


def resume(session_id, session_token):
    state["session"] = state["gateway"].resume(session_id, session_token)


def token(scope):
    state["token"] = issued = state["session"].access_token(scope)
    return {"value": issued.value, "scope": issued.scope}


def discard():
    state["session"].discard(state["token"])


def logout():
    state["session"].log_out()


def advance(seconds):
    state["advanced"] += seconds


def random(value):
    state["random"] = value


def pauses():
    made, state["pauses"] = state["pauses"], []
    return made


def shown():
    return " ".join(f"{state[name]!r} {state[name]}" for name in ("gateway", "session", "token"))


def handle(number, do, arguments):
    try:
        answer = {"result": globals()[do](**arguments)}
    except AuthGatewayError as error:
        answer = {
            "error": type(error).__name__,
            "retry_after": getattr(error, "retry_after", None),
            "code": getattr(error, "error", None),
            "request_id": error.request_id,
            "shown": f"{error!r} {''.join(traceback.format_exception(error))}",
        }
    except Exception as error:
        answer = {"error": "other", "shown": "".join(traceback.format_exception(error))}
    with writing:
        print(json.dumps({"id": number, **answer}), flush=True)


for line in sys.stdin:
    command = json.loads(line)
    threading.Thread(target=handle, args=(command.pop("id"), command.pop("do"), command)).start()
