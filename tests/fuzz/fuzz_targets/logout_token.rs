//! A logout token: what the IAM did not sign is refused before it is read, and what it did sign is
//! accepted for nothing but what it says.

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

struct Scene {
    runtime: Runtime,
    tokens: LogoutTokens,
    signer: Arc<LogoutSigner>,
}

// `@KID@`, `@ISS@` and `@AUD@` in the input stand for the IAM's own, `@NOW@` for the time. The part
// before the first NUL is the token, or else a header with the claims behind the NUL.
fuzz_target!(|input: &str| {
    thread_local!(static SCENE: Scene = scene());
    SCENE.with(|scene| {
        let now = NOW.unix_seconds();
        let input = input
            .replace("@KID@", scene.signer.key_id())
            .replace("@ISS@", ISSUER)
            .replace("@AUD@", CLIENT)
            .replace("@NOW@", &now.to_string());
        let verify = |token: &str| scene.runtime.block_on(scene.tokens.verify(token));
        let (header, payload) = input.split_once('\0').unwrap_or((&input, ""));
        // Nobody but the IAM signs.
        assert!(verify(&input).is_err());
        assert!(
            verify(&format!(
                "{}.{}.AAAA",
                URL_SAFE_NO_PAD.encode(header),
                URL_SAFE_NO_PAD.encode(payload)
            ))
            .is_err()
        );

        let token = scene.signer.sign(header, payload).expect("a signature");
        match verify(&token) {
            Ok(notice) => means(scene, header, &token, &notice),
            Err(LogoutTokenError::Invalid(_)) => {}
            Err(LogoutTokenError::NoKeys(fault)) => panic!("{fault}"),
        }
    });
});

const ISSUER: &str = "https://iam.test/realms/shop";
const CLIENT: &str = "auth-gateway";

/// An IAM that is good for its keys alone.
#[derive(Debug)]
struct Iam(Arc<LogoutSigner>);

fn scene() -> Scene {
    let signer = Arc::new(LogoutSigner::generate().expect("randomness"));
    let clock = Arc::new(ManualClock::at(NOW.unix));
    let tokens = LogoutTokens::of(Arc::new(Iam(Arc::clone(&signer))), clock);
    let runtime = Builder::new_current_thread().enable_all().build();
    Scene {
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
}

/// Another reader of JSON has to find the same in the token, where it can read it.
fn means(scene: &Scene, header: &str, token: &str, notice: &LogoutNotice) {
    let Ok(header) = serde_json::from_str::<Value>(header) else {
        return;
    };
    assert_eq!(header["alg"], "ES256");
    assert_eq!(header["kid"], scene.signer.key_id());
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
