"""Makes access tokens from a genuine one: forge.py KEY_FILE SCOPE < token > {"valid": {...}, "invalid": {...}, "insufficient": {...}}

KEY_FILE has a signing key of the gateway. Each invalid token has one defect, which its name tells. Those from "an unknown
key" on are signed with the key of the gateway, so only a check of the changed value refuses them. An insufficient token is valid
and does not have the scope SCOPE.
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

HOUR = 3600


def encoded(data):
    data = data if isinstance(data, bytes) else json.dumps(data).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


jwk = json.loads(Path(sys.argv[1]).read_text())
scope = sys.argv[2]
key, algorithm = jwt.PyJWK(jwk).key, jwk["alg"]
token = sys.stdin.read().strip()
claims = jwt.decode(token, options={"verify_signature": False})
header = {**jwt.get_unverified_header(token), "alg": algorithm, "kid": jwk["kid"]}


def signed(changed=None, key=key, algorithm=algorithm, without=None, **headers):
    payload = {**claims, **(changed or {})}
    payload.pop(without, None)
    return jwt.encode(payload, key, algorithm=algorithm, headers={**header, "alg": algorithm, **headers})


def another_key():
    if algorithm == "ES256":
        return ec.generate_private_key(ec.SECP256R1())
    if algorithm == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def with_public_key_as_secret(encoding, form):
    secret = key.public_key().public_bytes(encoding, form)
    text = f"{encoded({**header, 'alg': 'HS256'})}.{body}"
    return f"{text}.{encoded(hmac.new(secret, text.encode(), hashlib.sha256).digest())}"


def with_a_bit_flipped():
    raw = bytearray(base64.urlsafe_b64decode(signature + "=="))
    raw[len(raw) // 2] ^= 1
    return f"{head}.{body}.{encoded(bytes(raw))}"


def of_the_iam(typ, changed):
    """Signed by the IAM, whose key the gateway does not publish; as similar to an access token as it can be."""
    return signed({"iss": "https://iam.example/realms/shop", **changed}, another_key(), kid="key-of-the-iam", typ=typ)


valid = signed()
head, body, signature = valid.split(".")
attacker = another_key()
embedded = json.loads(jwt.get_algorithm_by_name(algorithm).to_jwk(attacker.public_key()))
logout = {"events": {"http://schemas.openid.net/event/backchannel-logout": {}}}
invalid = {
    "a tampered signature": with_a_bit_flipped(),
    "a tampered payload": f"{head}.{encoded({**claims, 'sub': 'somebody else'})}.{signature}",
    "no signature": f"{head}.{body}.",
    "the algorithm none": f"{encoded({**header, 'alg': 'none'})}.{body}.",
    "the algorithm none, and a signature": f"{encoded({**header, 'alg': 'none'})}.{body}.{signature}",
    "the public key in PEM as a shared secret": with_public_key_as_secret(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
    "the public key in DER as a shared secret": with_public_key_as_secret(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
    "another key with the same kid": signed(key=attacker),
    "another key in the header": signed(key=attacker, jwk=embedded),
    "another key in the header, and another kid": signed(key=attacker, jwk=embedded, kid="unknown"),
    "an ID token of the IAM": of_the_iam("JWT", {"azp": "auth-gateway", "typ": "ID", "nonce": "nonce"}),
    "a logout token of the IAM": of_the_iam("logout+jwt", logout),
    "an unknown kid": signed(kid="unknown"),
    "another audience": signed({"aud": "https://elsewhere.example"}),
    "no audience": signed(without="aud"),
    "another issuer": signed({"iss": "https://elsewhere.example"}),
    "an issuer that only begins like the gateway": signed({"iss": claims["iss"] + ".elsewhere.example"}),
    "an expiry in the past": signed({"iat": claims["iat"] - 2 * HOUR, "exp": claims["iat"] - HOUR}),
    "no expiry": signed(without="exp"),
    "a time in the future from which it is valid": signed({"nbf": claims["iat"] + HOUR}),
    "the type of an ID token": signed(typ="JWT"),
    "the type of a logout token": signed(logout, typ="logout+jwt"),
    "no type": signed(typ=None),
}
insufficient = {
    "no scope": signed(without="scope"),
    "an empty scope": signed({"scope": ""}),
    "a scope that only begins like the one needed": signed({"scope": f"{scope}-all"}),
    "a scope that only ends like the one needed": signed({"scope": f"x-{scope}"}),
}
# Checks this script: the unchanged claims, signed again, are a valid token.
print(json.dumps({"valid": {"the same claims, signed again": valid}, "invalid": invalid, "insufficient": insufficient}))
