//! An IAM with slow introspections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use iam_adapters::jwk::VerificationKeys;
use iam_adapters::{
    Authenticated, Capabilities, ClientContext, Credentials, IamAdapter, IamError, Introspection,
    UpstreamSession,
};
use tokio::time::sleep;

use super::scripted_iam::ScriptedIam;

/// Delays introspections, and records how many are in flight.
#[derive(Debug)]
pub(super) struct SlowIam {
    pub(super) iam: Arc<ScriptedIam>,
    pub(super) delay: fn(call: usize) -> Duration,
    pub(super) calls: AtomicUsize,
    pub(super) in_flight: AtomicUsize,
    pub(super) max_in_flight: AtomicUsize,
}

/// Counts a call out when it ends, also if it is cancelled.
struct InFlight<'a>(&'a AtomicUsize);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl IamAdapter for SlowIam {
    fn name(&self) -> &'static str {
        self.iam.name()
    }

    fn issuer(&self) -> &str {
        self.iam.issuer()
    }

    fn capabilities(&self) -> Capabilities {
        self.iam.capabilities()
    }

    async fn authenticate(
        &self,
        credentials: &Credentials,
        client: &ClientContext,
    ) -> Result<Authenticated, IamError> {
        self.iam.authenticate(credentials, client).await
    }

    async fn introspect(&self, session: &UpstreamSession) -> Result<Introspection, IamError> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        let in_flight = 1 + self.in_flight.fetch_add(1, Ordering::SeqCst);
        let _in_flight = InFlight(&self.in_flight);
        self.max_in_flight.fetch_max(in_flight, Ordering::SeqCst);
        sleep((self.delay)(call)).await;
        self.iam.introspect(session).await
    }

    async fn end_session(&self, session: &UpstreamSession) -> Result<(), IamError> {
        self.iam.end_session(session).await
    }

    fn logout_audience(&self) -> Option<&str> {
        self.iam.logout_audience()
    }

    async fn verification_keys(&self) -> Result<VerificationKeys, IamError> {
        self.iam.verification_keys().await
    }

    async fn probe(&self) -> Result<(), IamError> {
        self.iam.probe().await
    }
}
