//! An IAM that signs, a manual clock, and the verifier.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::clock::{Clock as _, ManualClock};
use crate::types::{Authenticated, ClientContext, Credentials, Introspection, UpstreamSession};
use crate::{Capabilities, IamAdapter, IamError, LogoutNotice, LogoutTokenError, LogoutTokens};
use test_support::LogoutSigner;

use super::super::InvalidLogoutToken;
use crate::jwk::VerificationKeys;

pub(super) const ISSUER: &str = "https://iam.test/realms/shop";
pub(super) const CLIENT: &str = "auth-gateway";
pub(super) const SESSION: &str = "yZQm5hVTshVX4vPNeGifv91Q";
pub(super) const SUBJECT: &str = "6a8acbcc-faa9-4f71-b1ac-6537854f8366";
pub(super) const EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";

/// The result of a fetch of the keys.
pub(super) type FetchKeys = Arc<dyn Fn() -> Result<VerificationKeys, IamError> + Send + Sync>;

/// An IAM that only returns keys.
pub(super) struct Iam {
    pub(super) audience: Option<&'static str>,
    pub(super) fetch_keys: Mutex<FetchKeys>,
    pub(super) fetches: AtomicUsize,
    /// If set, every fetch waits for a permit.
    pub(super) gate: Option<Semaphore>,
}

impl Default for Iam {
    fn default() -> Self {
        Self {
            audience: Some(CLIENT),
            fetch_keys: Mutex::new(Arc::new(|| Err(IamError::Failed("503".to_owned())))),
            fetches: AtomicUsize::new(0),
            gate: None,
        }
    }
}

impl std::fmt::Debug for Iam {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Iam")
    }
}

#[async_trait]
impl IamAdapter for Iam {
    fn name(&self) -> &'static str {
        "signing"
    }

    fn issuer(&self) -> &'static str {
        ISSUER
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            back_channel_logout: self.logout_audience().is_some(),
            ..Capabilities::FULL
        }
    }

    async fn authenticate(
        &self,
        _: &Credentials,
        _: &ClientContext,
    ) -> Result<Authenticated, IamError> {
        unimplemented!("not used")
    }

    async fn introspect(&self, _: &UpstreamSession) -> Result<Introspection, IamError> {
        unimplemented!("not used")
    }

    async fn end_session(&self, _: &UpstreamSession) -> Result<(), IamError> {
        unimplemented!("not used")
    }

    fn logout_audience(&self) -> Option<&str> {
        self.audience
    }

    async fn verification_keys(&self) -> Result<VerificationKeys, IamError> {
        self.fetches.fetch_add(1, Ordering::SeqCst);
        if let Some(gate) = &self.gate {
            gate.acquire().await.expect("open").forget();
        }
        let fetch_keys = Arc::clone(&*self.fetch_keys.lock().expect("no panic"));
        fetch_keys()
    }

    async fn probe(&self) -> Result<(), IamError> {
        Ok(())
    }
}

pub(super) struct Fixture {
    pub(super) iam: Arc<Iam>,
    pub(super) clock: Arc<ManualClock>,
    pub(super) signer: Arc<LogoutSigner>,
    pub(super) tokens: Arc<LogoutTokens>,
}

impl Fixture {
    pub(super) fn new() -> Self {
        Self::with(Iam::default())
    }

    pub(super) fn with(iam: Iam) -> Self {
        let clock = Arc::new(ManualClock::at(Duration::from_secs(1_800_000_000)));
        let iam = Arc::new(iam);
        let adapter = Arc::<Iam>::clone(&iam);
        let tokens = LogoutTokens::of(adapter, Arc::<ManualClock>::clone(&clock));
        let signer = Arc::new(LogoutSigner::generate().expect("randomness"));
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
    pub(super) fn publish(&self, signer: &Arc<LogoutSigner>) {
        let keys = signer.key_set().expect("keys").to_string();
        self.on_fetch(move || Ok(VerificationKeys::parse(keys.as_bytes()).expect("keys")));
    }

    /// Sets the result of further fetches of the keys.
    pub(super) fn on_fetch(
        &self,
        fetch_keys: impl Fn() -> Result<VerificationKeys, IamError> + Send + Sync + 'static,
    ) {
        *self.iam.fetch_keys.lock().expect("no panic") = Arc::new(fetch_keys);
    }

    /// How often the keys were fetched.
    pub(super) fn fetches(&self) -> usize {
        self.iam.fetches.load(Ordering::SeqCst)
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
