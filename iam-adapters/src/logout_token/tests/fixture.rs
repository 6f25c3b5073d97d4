//! An IAM that signs, a manual clock, and the verifier.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use test_support::LogoutSigner;

use super::super::InvalidLogoutToken;
use crate::clock::Clock as _;
use crate::clock::tests::ManualClock;
use crate::scripted_adapter::{CLIENT, ISSUER, ScriptedAdapter};
use crate::{LogoutNotice, LogoutTokenError, LogoutTokens};

pub(super) const SESSION: &str = "yZQm5hVTshVX4vPNeGifv91Q";
pub(super) const SUBJECT: &str = "6a8acbcc-faa9-4f71-b1ac-6537854f8366";
pub(super) const EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";

pub(super) struct Fixture {
    pub(super) iam: Arc<ScriptedAdapter>,
    pub(super) clock: Arc<ManualClock>,
    pub(super) signer: LogoutSigner,
    pub(super) tokens: Arc<LogoutTokens>,
}

impl Fixture {
    pub(super) fn new() -> Self {
        Self::with(Arc::default())
    }

    pub(super) fn with(iam: Arc<ScriptedAdapter>) -> Self {
        let clock = Arc::new(ManualClock::at(Duration::from_secs(1_800_000_000)));
        let adapter = Arc::<ScriptedAdapter>::clone(&iam);
        let tokens = LogoutTokens::of(adapter, Arc::<ManualClock>::clone(&clock));
        let signer = LogoutSigner::generate().expect("randomness");
        let fixture = Self {
            iam,
            clock,
            tokens: Arc::new(tokens.expect("an audience")),
            signer,
        };
        fixture.publish(&fixture.signer);
        fixture
    }

    /// Sets the keys that the IAM publishes.
    pub(super) fn publish(&self, signer: &LogoutSigner) {
        self.iam.publish(&signer.key_set().expect("keys"));
    }

    /// How often the keys were fetched.
    pub(super) fn fetches(&self) -> usize {
        self.iam.calls()
    }

    pub(super) fn now(&self) -> u64 {
        self.clock.now().unix_seconds()
    }

    pub(super) fn sign(&self, header: &Value, claims: &Value) -> String {
        let signed = self.signer.sign(&header.to_string(), &claims.to_string());
        signed.expect("a signature")
    }

    /// A valid token except for the id of its key.
    pub(super) fn with_key_id(&self, key_id: &str) -> String {
        let mut header = header(self);
        header["kid"] = json!(key_id);
        self.sign(&header, &claims(self))
    }

    pub(super) async fn verify(
        &self,
        header: &Value,
        claims: &Value,
    ) -> Result<LogoutNotice, LogoutTokenError> {
        self.tokens.verify(&self.sign(header, claims)).await
    }

    /// Why a token is invalid; `None` if it is accepted, or not verified because of a fault.
    pub(super) async fn refusal(&self, token: &str) -> Option<InvalidLogoutToken> {
        match self.tokens.verify(token).await {
            Err(LogoutTokenError::Invalid(why)) => Some(why),
            Ok(_) | Err(LogoutTokenError::NoKeys(_)) => None,
        }
    }
}

/// The header of a valid token.
pub(super) fn header(fixture: &Fixture) -> Value {
    json!({"alg": "ES256", "typ": "logout+jwt", "kid": fixture.signer.key_id()})
}

/// The claims of a valid token in Keycloak's format, with a new `jti`.
pub(super) fn claims(fixture: &Fixture) -> Value {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let now = fixture.now();
    json!({
        "iss": ISSUER,
        "aud": CLIENT,
        "iat": now,
        "exp": now + 120,
        "jti": format!("jti-{}", NUMBER.fetch_add(1, Ordering::Relaxed)),
        "sub": SUBJECT,
        "sid": SESSION,
        "events": {EVENT: {}},
    })
}
