//! An IAM that has much to do.

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

use super::scripted::Scripted;

/// An IAM that takes its time to introspect, and notes how much it has to do at once.
#[derive(Debug)]
pub(super) struct Busy {
    pub(super) iam: Arc<Scripted>,
    pub(super) takes: fn(call: usize) -> Duration,
    pub(super) calls: AtomicUsize,
    pub(super) under_way: AtomicUsize,
    pub(super) most: AtomicUsize,
}

/// Counts itself out, also where the caller gives up.
struct UnderWay<'a>(&'a AtomicUsize);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl IamAdapter for Busy {
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
        let now = 1 + self.under_way.fetch_add(1, Ordering::SeqCst);
        let _counted = UnderWay(&self.under_way);
        self.most.fetch_max(now, Ordering::SeqCst);
        sleep((self.takes)(call)).await;
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
