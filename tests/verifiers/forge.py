"""Forged access tokens, each with one defect: forge.py KEY_DIRECTORY < token > {"defect": "token", ...}

Those from "an unknown key" on are signed with the key of the gateway, so only a check of the changed value refuses them.
"""

import base64
import hashlib
import hmac
import json
import sys
from pathlib import Path

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat


def encoded(data):
    data = data if isinstance(data, bytes) else json.dumps(data).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


(key_file,) = Path(sys.argv[1]).iterdir()
key = jwt.PyJWK(json.loads(key_file.read_text()))
token = sys.stdin.read().strip()
head, body, signature = token.split(".")
header = jwt.get_unverified_header(token)
claims = jwt.decode(token, options={"verify_signature": False})


def signed(claims=claims, key=key.key, **headers):
    return jwt.encode(claims, key, algorithm=header["alg"], headers={**header, **headers})


def another_key():
    if header["alg"] == "ES256":
        return ec.generate_private_key(ec.SECP256R1())
    if header["alg"] == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def with_public_key_as_secret():
    public = key.key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    text = f"{encoded({**header, 'alg': 'HS256'})}.{body}"
    return f"{text}.{encoded(hmac.new(public, text.encode(), hashlib.sha256).digest())}"


def with_a_bit_flipped():
    raw = bytearray(base64.urlsafe_b64decode(signature + "=="))
    raw[len(raw) // 2] ^= 1
    return f"{head}.{body}.{encoded(bytes(raw))}"


without_expiry = {name: value for name, value in claims.items() if name != "exp"}
forged = {
    "a tampered signature": with_a_bit_flipped(),
    "a tampered payload": f"{head}.{encoded({**claims, 'scope': 'urn:shop:everything'})}.{signature}",
    "no algorithm": f"{encoded({**header, 'alg': 'none'})}.{body}.",
    "the public key as a shared secret": with_public_key_as_secret(),
    "another key with the same kid": signed(key=another_key()),
    "an unknown key": signed(kid="unknown"),
    "another audience": signed({**claims, "aud": "https://elsewhere.example"}),
    "another issuer": signed({**claims, "iss": "https://elsewhere.example"}),
    "an expired one": signed({**claims, "iat": claims["iat"] - 7200, "exp": claims["iat"] - 3600}),
    "one without an expiry": signed(without_expiry),
    "another kind of token": signed(typ="JWT"),
}
# Checks this script: signing the unchanged claims again gives a valid token.
forged[""] = signed()
print(json.dumps(forged))
