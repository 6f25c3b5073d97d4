//! A logout token without a signature of the IAM is refused before it is parsed, and a signed one is
//! accepted only with its actual content.

#![no_main]

use std::sync::Arc;

use auth_gateway_fuzz::{NOW, claims};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use iam_adapters::logout_token::{
    AGE_MAX, Ended, LogoutNotice, LogoutTokenError, LogoutTokens, SKEW_MAX,
};
use libfuzzer_sys::fuzz_target;
use mock_iam::LogoutSigner;
use serde_json::{Value, json};
use test_support::ManualClock;
use test_support::scripted_iam::{CLIENT, ScriptedIam};
use tokio::runtime::{Builder, Runtime};

struct Fixture {
    runtime: Runtime,
    tokens: LogoutTokens,
    iam: Arc<ScriptedIam>,
}

impl Fixture {
    fn signer(&self) -> &LogoutSigner {
        self.iam.signer.as_ref().expect("a signer")
    }
}

// `@KID@`, `@ISS@` and `@AUD@` in the input are replaced by those of the IAM, `@NOW@` by the time. The
// part before the first NUL is the token, or a header; then the claims follow the NUL.
fuzz_target!(|input: &str| {
    thread_local!(static FIXTURE: Fixture = fixture());
    FIXTURE.with(|fixture| {
        let now = NOW.unix_seconds();
        let input = input
            .replace("@KID@", fixture.signer().key_id())
            .replace("@ISS@", fixture.iam.issuer)
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

        let token = fixture.signer().sign(header, payload).expect("a signature");
        match verify(&token) {
            Ok(notice) => has_content(fixture, header, &token, &notice),
            Err(LogoutTokenError::Invalid(_)) => {}
            Err(LogoutTokenError::NoKeys(fault)) => panic!("{fault}"),
        }
    });
});

fn fixture() -> Fixture {
    let iam = Arc::new(ScriptedIam {
        signer: Some(LogoutSigner::generate().expect("randomness")),
        ..ScriptedIam::default()
    });
    let clock = Arc::new(ManualClock::at(NOW.unix));
    let tokens = LogoutTokens::of(Arc::<ScriptedIam>::clone(&iam), clock);
    let runtime = Builder::new_current_thread().enable_all().build();
    Fixture {
        runtime: runtime.expect("a runtime"),
        tokens: tokens.expect("an IAM that sends tokens"),
        iam,
    }
}

/// Another JSON parser must find the same values in the token, if it can parse it.
fn has_content(fixture: &Fixture, header: &str, token: &str, notice: &LogoutNotice) {
    let Ok(header) = serde_json::from_str::<Value>(header) else {
        return;
    };
    assert_eq!(header["alg"], "ES256");
    assert_eq!(header["kid"], fixture.signer().key_id());
    let typ = header["typ"].as_str().expect("a type").to_ascii_lowercase();
    assert!(typ.ends_with("logout+jwt"));
    assert!(header.get("crit").is_none());
    let Some(claims) = claims(token) else {
        return;
    };
    assert_eq!(claims["iss"], fixture.iam.issuer);
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
