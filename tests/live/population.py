"""The users, permissions and clients of realm.json for servers other than Keycloak."""

import json
from pathlib import Path

_REALM = json.loads((Path(__file__).resolve().parent / "realm.json").read_text())
_PERMISSIONS_CLIENT = "shop-api"


def _client(name):
    found = next(client for client in _REALM["clients"] if client["clientId"] == name)
    return {"id": name, "secret": found["secret"], "method": "client_secret_basic"}


SCOPES = [role["name"] for role in _REALM["roles"]["client"][_PERMISSIONS_CLIENT]]

# Without users that have a required action: other servers have no such state.
USERS = [
    {
        "username": user["email"],
        "email": user["email"],
        "password": user["credentials"][0]["value"],
        "enabled": user["enabled"],
        "scope": user["clientRoles"][_PERMISSIONS_CLIENT],
    }
    for user in _REALM["users"]
    if not user.get("requiredActions")
]

CLIENTS = {
    "basic": _client("auth-gateway"),
    "other": _client("other-gateway"),
    "post": {"id": "auth-gateway-post", "secret": "for-tests-only-2Kd7sH9wP4xV6cJ1", "method": "client_secret_post"},
    # RFC 6749 section 2.3.1 requires a form-encoded id and secret in HTTP Basic; not all servers decode them.
    "special": {"id": "auth-gateway-special", "secret": "for+tests only%2F:é&=", "method": "client_secret_basic"},
}
