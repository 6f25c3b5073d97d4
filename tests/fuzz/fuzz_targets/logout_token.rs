//! A logout token without a signature of the IAM is refused before it is parsed, and a signed one is
//! accepted only with its actual content.

#![no_main]

use std::sync::Arc;

use async_trait::async_trait;
use auth_gateway_fuzz::{NOW, claims};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use iam_adapters::clock::ManualClock;
use iam_adapters::jwk::VerificationKeys;
use iam_adapters::logout_token::{
    AGE_MAX, Ended, LogoutNotice, LogoutTokenError, LogoutTokens, SKEW_MAX,
};
use iam_adapters::{
    Authenticated, Capabilities, ClientContext, Credentials, IamAdapter, IamError, Introspection,
    UpstreamSession,
};
use libfuzzer_sys::fuzz_target;
use mock_iam::LogoutSigner;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

struct Fixture {
    runtime: Runtime,
    tokens: LogoutTokens,
    signer: Arc<LogoutSigner>,
}

// `@KID@`, `@ISS@` and `@AUD@` in the input are replaced by those of the IAM, `@NOW@` by the time. The
// part before the first NUL is the token, or a header; then the claims follow the NUL.
fuzz_target!(|input: &str| {
    thread_local!(static FIXTURE: Fixture = fixture());
    FIXTURE.with(|fixture| {
        let now = NOW.unix_seconds();
        let input = input
            .replace("@KID@", fixture.signer.key_id())
            .replace("@ISS@", ISSUER)
            .replace("@AUD@", CLIENT)
            .replace("@NOW@", &now.to_string());
        let verify = |token: &str| fixture.runtime.block_on(fixture.tokens.verify(token));
        let (header, payload) = input.split_once('\0').unwrap_or((&input, ""));
        // Only the IAM can sign.
        assert!(verify(&input).is_err());
        assert!(
            verify(&format!(
                "{}.{}.AAAA",
                URL_SAFE_NO_PAD.encode(header),
                URL_SAFE_NO_PAD.encode(payload)
            ))
            .is_err()
        );

        let token = fixture.signer.sign(header, payload).expect("a signature");
        match verify(&token) {
            Ok(notice) => has_content(fixture, header, &token, &notice),
            Err(LogoutTokenError::Invalid(_)) => {}
            Err(LogoutTokenError::NoKeys(fault)) => panic!("{fault}"),
        }
    });
});

const ISSUER: &str = "https://iam.test/realms/shop";
const CLIENT: &str = "auth-gateway";

/// An IAM that has only keys.
#[derive(Debug)]
struct Iam(Arc<LogoutSigner>);

fn fixture() -> Fixture {
    let signer = Arc::new(LogoutSigner::generate().expect("randomness"));
    let clock = Arc::new(ManualClock::at(NOW.unix));
    let tokens = LogoutTokens::of(Arc::new(Iam(Arc::clone(&signer))), clock);
    let runtime = Builder::new_current_thread().enable_all().build();
    Fixture {
        runtime: runtime.expect("a runtime"),
        tokens: tokens.expect("an IAM that sends tokens"),
        signer,
    }
}

#[async_trait]
impl IamAdapter for Iam {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn issuer(&self) -> &str {
        ISSUER
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::FULL
    }

    async fn authenticate(
        &self,
        _: &Credentials,
        _: &ClientContext,
    ) -> Result<Authenticated, IamError> {
        Err(IamError::Saturated)
    }

    async fn introspect(&self, _: &UpstreamSession) -> Result<Introspection, IamError> {
        Err(IamError::Saturated)
    }

    async fn end_session(&self, _: &UpstreamSession) -> Result<(), IamError> {
        Err(IamError::Saturated)
    }

    fn logout_audience(&self) -> Option<&str> {
        Some(CLIENT)
    }

    async fn verification_keys(&self) -> Result<VerificationKeys, IamError> {
        let keys = self.0.key_set().expect("keys").to_string();
        Ok(VerificationKeys::parse(keys.as_bytes()).expect("keys"))
    }

    async fn probe(&self) -> Result<(), IamError> {
        Err(IamError::Saturated)
    }

    async fn probe_logout(&self) -> Result<(), IamError> {
        Err(IamError::Saturated)
    }
}

/// Another JSON parser must find the same values in the token, if it can parse it.
fn has_content(fixture: &Fixture, header: &str, token: &str, notice: &LogoutNotice) {
    let Ok(header) = serde_json::from_str::<Value>(header) else {
        return;
    };
    assert_eq!(header["alg"], "ES256");
    assert_eq!(header["kid"], fixture.signer.key_id());
    let typ = header["typ"].as_str().expect("a type").to_ascii_lowercase();
    assert!(typ.ends_with("logout+jwt"));
    assert!(header.get("crit").is_none());
    let Some(claims) = claims(token) else {
        return;
    };
    assert_eq!(claims["iss"], ISSUER);
    let audience = json!(CLIENT);
    let named = claims["aud"] == audience
        || claims["aud"]
            .as_array()
            .is_some_and(|all| all.contains(&audience));
    assert!(named);
    let now = NOW.unix_seconds();
    let issued = claims["iat"].as_u64().expect("a time");
    assert_eq!(issued, notice.issued_at);
    assert!(issued <= now + SKEW_MAX.as_secs() && issued + AGE_MAX.as_secs() >= now);
    assert!(
        claims
            .get("exp")
            .is_none_or(|exp| exp.as_u64().expect("a time") > now)
    );
    assert!(claims.get("nonce").is_none() && claims["jti"].is_string());
    assert!(claims["events"]["http://schemas.openid.net/event/backchannel-logout"].is_object());
    match &notice.ended {
        Ended::Session(id) => assert_eq!(claims["sid"], id.as_str()),
        Ended::AllOf(subject) => {
            assert!(claims.get("sid").is_none());
            assert_eq!(claims["sub"], subject.as_str());
        }
    }
}
