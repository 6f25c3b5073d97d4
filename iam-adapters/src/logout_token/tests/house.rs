//! An IAM that signs, a clock that stands still, and the verifier before them.

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

use super::super::{InvalidLogoutToken, VerificationKeys};

pub(super) const ISSUER: &str = "https://iam.test/realms/shop";
pub(super) const CLIENT: &str = "auth-gateway";
pub(super) const SESSION: &str = "yZQm5hVTshVX4vPNeGifv91Q";
pub(super) const SUBJECT: &str = "6a8acbcc-faa9-4f71-b1ac-6537854f8366";
pub(super) const EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";

/// What the IAM says when it is asked for its keys.
pub(super) type Word = Arc<dyn Fn() -> Result<VerificationKeys, IamError> + Send + Sync>;

/// An IAM that can do nothing but give keys.
pub(super) struct Iam {
    pub(super) audience: Option<&'static str>,
    pub(super) word: Mutex<Word>,
    pub(super) asked: AtomicUsize,
    /// Where there is one, an answer takes a place of it.
    pub(super) gate: Option<Semaphore>,
}

impl Default for Iam {
    fn default() -> Self {
        Self {
            audience: Some(CLIENT),
            word: Mutex::new(Arc::new(|| Err(IamError::Failed("503".to_owned())))),
            asked: AtomicUsize::new(0),
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
        unimplemented!("nobody logs in")
    }

    async fn introspect(&self, _: &UpstreamSession) -> Result<Introspection, IamError> {
        unimplemented!("nobody has a session")
    }

    async fn end_session(&self, _: &UpstreamSession) -> Result<(), IamError> {
        unimplemented!("nobody has a session")
    }

    fn logout_audience(&self) -> Option<&str> {
        self.audience
    }

    async fn verification_keys(&self) -> Result<VerificationKeys, IamError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        if let Some(gate) = &self.gate {
            gate.acquire().await.expect("open").forget();
        }
        let word = Arc::clone(&*self.word.lock().expect("a word"));
        word()
    }

    async fn probe(&self) -> Result<(), IamError> {
        Ok(())
    }
}

pub(super) struct House {
    pub(super) iam: Arc<Iam>,
    pub(super) clock: Arc<ManualClock>,
    pub(super) signer: Arc<LogoutSigner>,
    pub(super) tokens: Arc<LogoutTokens>,
}

impl House {
    pub(super) fn new() -> Self {
        Self::with(Iam::default())
    }

    pub(super) fn with(iam: Iam) -> Self {
        let clock = Arc::new(ManualClock::at(Duration::from_secs(1_800_000_000)));
        let iam = Arc::new(iam);
        let adapter = Arc::<Iam>::clone(&iam);
        let tokens = LogoutTokens::of(adapter, Arc::<ManualClock>::clone(&clock));
        let signer = Arc::new(LogoutSigner::generate().expect("randomness"));
        let house = Self {
            iam,
            clock,
            tokens: Arc::new(tokens.expect("an audience")),
            signer,
        };
        house.publishes(&house.signer);
        house
    }

    /// From now on these are the keys of the IAM.
    pub(super) fn publishes(&self, signer: &Arc<LogoutSigner>) {
        let keys = signer.key_set().expect("keys").to_string();
        self.says(move || Ok(VerificationKeys::parse(keys.as_bytes()).expect("keys")));
    }

    /// From now on this is the answer to the question for keys.
    pub(super) fn says(
        &self,
        word: impl Fn() -> Result<VerificationKeys, IamError> + Send + Sync + 'static,
    ) {
        *self.iam.word.lock().expect("a word") = Arc::new(word);
    }

    /// How often the IAM was asked for its keys.
    pub(super) fn asked(&self) -> usize {
        self.iam.asked.load(Ordering::SeqCst)
    }

    pub(super) fn now(&self) -> u64 {
        self.clock.now().unix_seconds()
    }

    pub(super) fn sign(&self, header: &Value, claims: &Value) -> String {
        let signed = self.signer.sign(&header.to_string(), &claims.to_string());
        signed.expect("a signature")
    }

    /// A token that is good, but for the name of its key.
    pub(super) fn naming(&self, key_id: &str) -> String {
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

    /// Why a token is invalid; none where it is accepted, or met a fault.
    pub(super) async fn why(&self, token: &str) -> Option<InvalidLogoutToken> {
        match self.tokens.verify(token).await {
            Err(LogoutTokenError::Invalid(why)) => Some(why),
            Ok(_) | Err(LogoutTokenError::NoKeys(_)) => None,
        }
    }
}

/// The header of a genuine token.
pub(super) fn header(house: &House) -> Value {
    json!({"alg": "ES256", "typ": "logout+jwt", "kid": house.signer.key_id()})
}

/// The claims of a genuine token, as Keycloak has them; another one each time.
pub(super) fn claims(house: &House) -> Value {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let now = house.now();
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
