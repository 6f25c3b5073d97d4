"""Logs in, exchanges the session, reads discovery and logs out, with the generated client: example.py GATEWAY_URL"""

import sys

from auth_gateway import (
    ApiClient,
    AuthenticationApi,
    Configuration,
    Credentials,
    DiscoveryApi,
    Exchange,
    SessionPair,
)
from auth_gateway.exceptions import UnauthorizedException


def main(url):
    client = ApiClient(Configuration(host=url))
    authentication, discovery = AuthenticationApi(client), DiscoveryApi(client)

    # A 401 has its own exception type, and `data` is the body: an InvalidGrant.
    try:
        authentication.login(Credentials(email="alice@example.test", password="not her password"))
    except UnauthorizedException as error:
        print("wrong password:", error.data.error)

    session = authentication.login(Credentials(email="alice@example.test", password="alice-pass"))
    pair = {"session_id": session.session_id, "session_token": session.session_token}
    exchange = Exchange(**pair, grant_type="session", scope="urn:shop:orders:order:read urn:shop:vault:key:read")
    token = authentication.exchange(exchange)
    print("granted:", token.scope)
    print("lifetime:", token.expires_in)

    print("issuer:", discovery.metadata().issuer)
    # Each key is an EcKey, EdKey or RsaKey.
    keys = [key.actual_instance for key in discovery.jwks().keys]
    print("keys:", *sorted(f"{key.alg}={key.kid}" for key in keys))

    print("logout:", authentication.logout(SessionPair(**pair)).status)
    try:
        authentication.exchange(exchange)
    except UnauthorizedException as error:
        print("ended session:", error.data.error)


if __name__ == "__main__":
    main(sys.argv[1])
