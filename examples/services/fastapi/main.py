"""A service with FastAPI and PyJWT. ISSUER is the URL of the gateway, AUDIENCE this service in the claim `aud`."""

import json
import os
import urllib.request
from typing import Annotated

import jwt
from fastapi import Depends, FastAPI, HTTPException
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

ISSUER, AUDIENCE = os.environ["ISSUER"], os.environ["AUDIENCE"]
# In seconds. At most `keys.jwks_max_age` of the gateway.
KEYS_MAX_AGE = float(os.environ.get("KEYS_MAX_AGE", "300"))

with urllib.request.urlopen(f"{ISSUER}/.well-known/oauth-authorization-server", timeout=10) as response:
    metadata = json.load(response)
if metadata["issuer"] != ISSUER:
    raise SystemExit(f"the issuer of {ISSUER} is {metadata['issuer']}")
keys = jwt.PyJWKClient(metadata["jwks_uri"], lifespan=KEYS_MAX_AGE, timeout=10)


def verify(token: str) -> dict:
    key = keys.get_signing_key_from_jwt(token)
    verified = jwt.decode_complete(
        token,
        key,
        algorithms=[key.algorithm_name],
        issuer=ISSUER,
        audience=AUDIENCE,
        options={"require": ["iss", "aud", "exp", "iat", "sub"]},
    )
    # PyJWT does not check the type of the token.
    if verified["header"].get("typ") != "at+jwt":
        raise jwt.InvalidTokenError("not an access token")
    return verified["payload"]


def require(scope: str):
    def claims(credentials: Annotated[HTTPAuthorizationCredentials, Depends(HTTPBearer())]) -> dict:
        try:
            found = verify(credentials.credentials)
        except jwt.PyJWKClientConnectionError:
            raise HTTPException(503, "the keys of the gateway cannot be read") from None
        except jwt.PyJWTError:
            raise HTTPException(401, "invalid token", {"WWW-Authenticate": 'Bearer error="invalid_token"'}) from None
        if scope not in found.get("scope", "").split():
            challenge = f'Bearer error="insufficient_scope", scope="{scope}"'
            raise HTTPException(403, "insufficient scope", {"WWW-Authenticate": challenge})
        return found

    return Depends(claims)


app = FastAPI()


# Not `async`: FastAPI runs it, and the verification, in a thread, so that fetching keys blocks no other request.
@app.get("/orders")
def orders(claims: Annotated[dict, require("urn:shop:orders:order:read")]) -> dict:
    return claims
