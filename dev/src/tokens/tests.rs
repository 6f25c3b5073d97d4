use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use auth_gateway::startup::{self, ServiceDependencies};
use josekit::jwk::Jwk;
use josekit::jws::{ES256, JwsHeader, serialize_compact};
use mock_iam::LogoutSigner;
use secrecy::ExposeSecret as _;
use serde_json::json;
use test_support::ManualClock;

use super::*;
use crate::fixed_key::FIXED_SIGNING_KEY;
use crate::gateways::with_signing_key;
use crate::test_tokens::{self, TestToken};

const NOW: u64 = 1_800_000_000;

struct Fixture {
    gateway: Arc<Gateway>,
    clock: Arc<ManualClock>,
}

impl Fixture {
    /// A gateway with the mock and the published signing key.
    fn new(over: &[(&str, &str)]) -> Self {
        let fixed = ("IAM__MOCK__FIXED_SIGNING_KEY", "true");
        let environment: BTreeMap<_, _> = [&fixed]
            .into_iter()
            .chain(over)
            .map(|(key, value)| (format!("AUTH_GATEWAY__{key}"), (*value).to_owned()))
            .collect();
        let clock = Arc::new(ManualClock::at(Duration::from_secs(NOW)));
        let registry = crate::registry();
        let loaded = ServiceDependencies::load(None, &environment, &registry, clock.clone());
        let (settings, parts) = loaded.expect("parts");
        let mock = crate::only_mock(&settings).expect("the mock");
        let parts = with_signing_key(mock, parts).expect("a key");
        let gateway = startup::connect(&settings, &parts).gateway;
        Self { gateway, clock }
    }

    fn token(&self, claims: Value, header: Value) -> String {
        let object = |value| serde_json::from_value(value).expect("an object");
        let (claims, header) = (object(claims), object(header));
        let token = test_tokens::sign(&self.gateway, TestToken { claims, header });
        token.expect("signed").expose_secret().to_owned()
    }

    fn inspect(&self, token: &str) -> Inspection {
        inspect(&self.gateway, token).expect("a token")
    }

    /// Signs a token and returns its problems.
    fn problems(&self, claims: Value, header: Value) -> Vec<String> {
        let inspected = self.inspect(&self.token(claims, header));
        assert_eq!(inspected.valid, inspected.problems.is_empty());
        inspected.problems
    }
}

#[test]
fn test_token_without_overrides_is_a_valid_access_token() {
    let fixture = Fixture::new(&[]);
    let inspected = fixture.inspect(&fixture.token(json!({}), json!({})));
    assert!(inspected.valid, "{inspected:?}");
    assert_eq!(inspected.expires_in, Some(3_600));
    assert_eq!(
        Value::Object(inspected.header),
        json!({"typ": "at+jwt", "alg": "ES256", "kid": "test-only-not-secret"})
    );
    let mut claims = inspected.claims;
    for made_up in ["jti", "sub", "sid"] {
        let name = claims.remove(made_up).expect(made_up);
        assert_eq!(name.as_str().expect("a string").len(), 22, "{made_up}");
    }
    assert_eq!(
        Value::Object(claims),
        json!({
            "iss": "http://localhost:8080", "aud": "http://localhost:8080",
            "client_id": "auth-gateway", "iat": NOW, "exp": NOW + 3_600,
        })
    );
    let scoped = Fixture::new(&[("TOKEN__DEFAULT_SCOPE", "a b")]);
    let token = scoped.token(json!({}), json!({}));
    assert_eq!(scoped.inspect(&token).claims["scope"], "a b");
}

#[test]
fn overrides_replace_members_and_null_removes_them() {
    let fixture = Fixture::new(&[]);
    let claimed = json!({"sub": "me", "scope": "a", "aud": ["x", "http://localhost:8080"], "own": [1, {"a": null}]});
    let inspected = fixture.inspect(&fixture.token(
        claimed.clone(),
        json!({"typ": "application/AT+JWT", "x": 1}),
    ));
    for (name, value) in claimed.as_object().expect("an object") {
        assert_eq!(inspected.claims[name], *value);
    }
    assert_eq!(inspected.header["x"], 1);
    assert!(inspected.valid, "{:?}", inspected.problems);
    let none = json!({"iss": null, "aud": null, "client_id": null, "iat": null, "exp": null,
                      "jti": null, "sub": null, "sid": null});
    let bare =
        fixture.inspect(&fixture.token(none, json!({"typ": null, "kid": null, "alg": null})));
    assert!(bare.claims.is_empty() && bare.header.is_empty(), "{bare:?}");
}

#[test]
fn inspection_reports_every_problem_of_a_token() {
    let fixture = Fixture::new(&[]);
    let issuer = "iss: is not http://localhost:8080";
    let audience = "aud: contains none of http://localhost:8080";
    let algorithm = "signature: not the algorithm of the key";
    let of_claims = [
        (json!({"exp": NOW}), "exp: expired 0 s ago"),
        (json!({"exp": NOW - 5}), "exp: expired 5 s ago"),
        (json!({"exp": null}), "exp: is missing, or not a whole"),
        (json!({"exp": "soon"}), "exp: is missing, or not a whole"),
        (json!({"nbf": NOW + 7}), "nbf: not valid for another 7 s"),
        (json!({"nbf": "now"}), "nbf: is missing, or not a whole"),
        (json!({"iat": NOW + 9}), "iat: issued 9 s from now"),
        (json!({"iss": "http://localhost:8080/"}), issuer),
        (json!({"aud": "other"}), audience),
        (json!({"aud": []}), audience),
        (json!({"sub": null}), "sub: is missing"),
        (json!({"client_id": 1}), "client_id: is missing"),
        (json!({"jti": null}), "jti: is missing"),
    ];
    let of_header = [
        (json!({"typ": "JWT"}), "typ: is not at+jwt"),
        (json!({"kid": "x"}), "signature: an unknown key"),
        (json!({"alg": "HS256"}), algorithm),
        (json!({"alg": "none"}), algorithm),
        (json!({"crit": ["exp"]}), "signature: a critical extension"),
    ];
    let of_claims = of_claims.map(|(claims, expected)| (claims, json!({}), expected));
    let of_header = of_header.map(|(header, expected)| (json!({}), header, expected));
    for (claims, header, expected) in of_claims.into_iter().chain(of_header) {
        let inspected = fixture.problems(claims.clone(), header.clone());
        assert_eq!(inspected.len(), 1, "{claims} {header} gives {inspected:?}");
        assert!(
            inspected[0].starts_with(expected),
            "{claims} {header} gives {inspected:?}"
        );
    }
    let inspected = fixture.problems(
        json!({"exp": NOW - 1, "iss": 1, "nbf": NOW + 1}),
        json!({"typ": "x"}),
    );
    assert_eq!(inspected.len(), 4, "{inspected:?}");
    for fine in [json!({"nbf": NOW}), json!({"exp": NOW + 1})] {
        assert_eq!(fixture.problems(fine, json!({})), [""; 0]);
    }
}

#[test]
fn token_expires_by_the_clock_of_the_gateway() {
    let fixture = Fixture::new(&[]);
    let token = fixture.token(json!({}), json!({}));
    fixture.clock.advance(Duration::from_secs(3_599));
    assert_eq!(fixture.inspect(&token).expires_in, Some(1));
    fixture.clock.advance(Duration::from_secs(2));
    let inspected = fixture.inspect(&token);
    assert_eq!(inspected.expires_in, Some(-1));
    assert_eq!(inspected.problems, ["exp: expired 1 s ago"]);
}

#[test]
fn signature_by_another_key_or_over_other_claims_is_a_problem() {
    let fixture = Fixture::new(&[]);
    let token = fixture.token(json!({"sub": "alice"}), json!({}));
    let (header, rest) = token.split_once('.').expect("a header");
    let (claims, signature) = rest.split_once('.').expect("claims");
    let claimed = URL_SAFE_NO_PAD.decode(claims).expect("base64url");
    let claimed = String::from_utf8(claimed)
        .expect("text")
        .replace("alice", "admin");
    let altered = format!("{header}.{}.{signature}", URL_SAFE_NO_PAD.encode(claimed));
    let inspected = fixture.inspect(&altered);
    assert_eq!(inspected.claims["sub"], "admin", "it is shown all the same");
    assert_eq!(inspected.problems, ["signature: a wrong signature"]);

    let header = json!({"typ": "at+jwt", "alg": "ES256", "kid": "test-only-not-secret"});
    let forged = LogoutSigner::generate().and_then(|other_signer| {
        other_signer.sign(
            &header.to_string(),
            &Value::from(inspected.claims).to_string(),
        )
    });
    let inspected = fixture.inspect(&forged.expect("signed")).problems;
    assert_eq!(inspected, ["signature: a wrong signature"]);
}

#[test]
fn text_that_is_not_a_jwt_is_a_specific_error() {
    let fixture = Fixture::new(&[]);
    for (token, expected) in [
        ("", NotAJwt::Parts(1)),
        ("a.b", NotAJwt::Parts(2)),
        ("a.b.c.d", NotAJwt::Parts(4)),
        ("a.b.c.d.e", NotAJwt::Encrypted),
        ("?.e30.", NotAJwt::Unreadable("header")),
        ("e30=.e30.", NotAJwt::Unreadable("header")),
        ("e30.W10.", NotAJwt::Unreadable("payload")),
        ("e30.e3.", NotAJwt::Unreadable("payload")),
    ] {
        let inspected = inspect(&fixture.gateway, token).expect_err(token);
        assert_eq!(inspected, expected, "{token:?}");
    }
    assert!(!fixture.inspect("e30.e30.").valid);
}

#[test]
fn token_signed_with_the_fixed_key_is_valid() {
    let fixture = Fixture::new(&[]);
    let jwk = Jwk::from_bytes(FIXED_SIGNING_KEY).expect("a JWK");
    let signer = ES256.signer_from_jwk(&jwk).expect("a private key");
    let mut header = JwsHeader::new();
    header.set_token_type("at+jwt");
    header.set_key_id("test-only-not-secret");
    let claims = json!({"iss": "http://localhost:8080", "aud": "http://localhost:8080", "sub": "s",
                        "client_id": "c", "jti": "j", "iat": NOW, "exp": NOW + 1});
    let token = serialize_compact(claims.to_string().as_bytes(), &header, &signer);
    let inspected = fixture.inspect(&token.expect("signed"));
    assert!(inspected.valid, "{inspected:?}");
    assert!(jwk.key_id().is_some_and(|kid| kid.contains("not-secret")));
}

#[test]
fn token_signed_with_the_fixed_key_is_invalid_at_another_gateway() {
    let fixture = Fixture::new(&[]);
    let other = Fixture::new(&[("IAM__MOCK__FIXED_SIGNING_KEY", "false")]);
    let token = fixture.token(json!({}), json!({}));
    assert_eq!(
        other.inspect(&token).problems,
        ["signature: an unknown key"]
    );
    assert!(fixture.inspect(&token).valid);
    let own = other.token(json!({}), json!({}));
    assert!(other.inspect(&own).valid);
}
