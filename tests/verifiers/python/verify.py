"""Verifies an access token from discovery alone, with PyJWT: verify.py ISSUER AUDIENCE < token"""

import json
import sys
import urllib.request

import jwt

issuer, audience = sys.argv[1:]
token = sys.stdin.read().strip()

with urllib.request.urlopen(f"{issuer}/.well-known/oauth-authorization-server", timeout=10) as response:
    metadata = json.load(response)
if metadata["issuer"] != issuer:
    sys.exit(f"the metadata at {issuer} has the issuer {metadata['issuer']}")
try:
    key = jwt.PyJWKClient(metadata["jwks_uri"], timeout=10).get_signing_key_from_jwt(token)
    verified = jwt.decode_complete(
        token,
        key,
        algorithms=["ES256", "EdDSA", "RS256"],
        issuer=issuer,
        audience=audience,
        options={"require": ["iss", "aud", "exp", "iat", "sub"]},
    )
    # PyJWT does not check the type of the token (RFC 9068 section 4).
    if verified["header"].get("typ") != "at+jwt":
        raise jwt.InvalidTokenError("not an access token")
except jwt.PyJWKClientConnectionError:
    # A failed download of the keys is an error of the test, not a refusal of the token.
    raise
except jwt.PyJWTError as error:
    print(f"refused: {error!r}", file=sys.stderr)
    sys.exit(3)
print(json.dumps(verified["payload"]))
