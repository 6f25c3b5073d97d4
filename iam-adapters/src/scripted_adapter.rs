//! An adapter with scripted results, for unit tests of what wraps or uses an adapter.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tokio::sync::Semaphore;

use crate::adapter::{Capabilities, IamAdapter, SessionLocation};
use crate::error::IamError;
use crate::jwk::VerificationKeys;
use crate::types::{
    Authenticated, ClientContext, Credentials, Introspection, Subject, UpstreamSession,
};

pub(crate) const ISSUER: &str = "https://iam.test/realms/shop";
/// The audience of logout tokens.
pub(crate) const CLIENT: &str = "auth-gateway";

/// Returns scripted results, and counts the calls.
#[derive(Debug, Default)]
pub(crate) struct ScriptedAdapter {
    calls: AtomicUsize,
    faults: Mutex<Vec<IamError>>,
    /// The fault of every call without an entry in `faults`.
    default_fault: Mutex<Option<IamError>>,
    panics: AtomicBool,
    /// If set, every call waits for a permit.
    gate: Option<Semaphore>,
    /// The published key set.
    keys: Mutex<Option<String>>,
    without_logout_tokens: bool,
    without_sessions: bool,
}

impl ScriptedAdapter {
    pub(crate) fn failing(faults: &[IamError]) -> Arc<Self> {
        Arc::new(Self {
            faults: Mutex::new(faults.to_vec()),
            ..Self::default()
        })
    }

    /// Holds all calls beyond this number until they are released.
    pub(crate) fn gated(calls: usize) -> Arc<Self> {
        Arc::new(Self {
            gate: Some(Semaphore::new(calls)),
            ..Self::default()
        })
    }

    pub(crate) fn without_logout_tokens() -> Arc<Self> {
        Arc::new(Self {
            without_logout_tokens: true,
            ..Self::default()
        })
    }

    /// Its sessions are in the session token alone.
    pub(crate) fn without_sessions() -> Arc<Self> {
        Arc::new(Self {
            without_sessions: true,
            ..Self::default()
        })
    }

    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    async fn next_result(&self) -> Result<(), IamError> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        if let Some(gate) = &self.gate {
            gate.acquire().await.unwrap().forget();
        }
        if self.panics.load(Ordering::SeqCst) {
            // In every second call not at the first poll.
            if call.is_multiple_of(2) {
                tokio::task::yield_now().await;
            }
            panic!("as scripted");
        }
        let fault = self.faults.lock().unwrap().pop();
        fault
            .or_else(|| self.default_fault.lock().unwrap().clone())
            .map_or(Ok(()), Err)
    }

    /// Adds the fault of one call.
    pub(crate) fn fail_next(&self, fault: IamError) {
        self.faults.lock().unwrap().push(fault);
    }

    /// Sets the result of every further call.
    pub(crate) fn set_fault(&self, fault: Option<IamError>) {
        *self.default_fault.lock().unwrap() = fault;
    }

    /// Sets whether further calls panic.
    pub(crate) fn set_panics(&self, panics: bool) {
        self.panics.store(panics, Ordering::SeqCst);
    }

    /// Sets the published key set.
    pub(crate) fn publish(&self, key_set: &impl ToString) {
        *self.keys.lock().unwrap() = Some(key_set.to_string());
    }

    /// Lets this number of calls continue.
    pub(crate) fn release(&self, calls: usize) {
        self.gate.as_ref().unwrap().add_permits(calls);
    }
}

#[async_trait]
impl IamAdapter for ScriptedAdapter {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn issuer(&self) -> &'static str {
        ISSUER
    }

    fn capabilities(&self) -> Capabilities {
        let sessions = if self.without_sessions {
            SessionLocation::SessionToken
        } else {
            SessionLocation::Iam
        };
        Capabilities {
            sessions,
            back_channel_logout: !self.without_logout_tokens,
            ..Capabilities::FULL
        }
    }

    async fn authenticate(
        &self,
        _: &Credentials,
        _: &ClientContext,
    ) -> Result<Authenticated, IamError> {
        self.next_result().await.map(|()| Authenticated {
            session: UpstreamSession {
                subject: Subject::new("s").unwrap(),
                id: "i".to_owned(),
                secret: "x".into(),
            },
            expires_in: None,
            permissions: None,
            groups: None,
            claims: crate::claims::Claims::default(),
        })
    }

    async fn introspect(&self, _: &UpstreamSession) -> Result<Introspection, IamError> {
        self.next_result().await.map(|()| Introspection::Inactive)
    }

    async fn end_session(&self, _: &UpstreamSession) -> Result<(), IamError> {
        self.next_result().await
    }

    fn logout_audience(&self) -> Option<&str> {
        (!self.without_logout_tokens).then_some(CLIENT)
    }

    async fn verification_keys(&self) -> Result<VerificationKeys, IamError> {
        self.next_result().await?;
        let keys = self.keys.lock().unwrap().clone().unwrap_or_default();
        VerificationKeys::parse(keys.as_bytes())
            .map_err(|none| IamError::Unreadable(none.to_string().into()))
    }

    async fn probe(&self) -> Result<(), IamError> {
        self.next_result().await
    }

    async fn probe_logout(&self) -> Result<(), IamError> {
        self.next_result().await
    }
}
