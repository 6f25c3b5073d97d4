//! Adapters that wrap another adapter and change some of its calls.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use iam_adapters::jwk::VerificationKeys;
use iam_adapters::{
    Authenticated, Capabilities, ClientContext, Credentials, IamAdapter, IamError, Introspection,
    UpstreamSession,
};

/// Changes some calls of another adapter: the methods of [`IamAdapter`] that a type does not define go to
/// the wrapped adapter.
#[async_trait]
#[expect(missing_docs, reason = "the methods are those of `IamAdapter`")]
pub trait Wrapper: fmt::Debug + Send + Sync + 'static {
    /// The wrapped adapter.
    fn inner(&self) -> &dyn IamAdapter;

    fn name(&self) -> &'static str {
        self.inner().name()
    }

    fn capabilities(&self) -> Capabilities {
        self.inner().capabilities()
    }

    async fn authenticate(
        &self,
        credentials: &Credentials,
        client: &ClientContext,
    ) -> Result<Authenticated, IamError> {
        self.inner().authenticate(credentials, client).await
    }

    async fn introspect(&self, session: &UpstreamSession) -> Result<Introspection, IamError> {
        self.inner().introspect(session).await
    }

    async fn end_session(&self, session: &UpstreamSession) -> Result<(), IamError> {
        self.inner().end_session(session).await
    }

    fn logout_audience(&self) -> Option<&str> {
        self.inner().logout_audience()
    }

    async fn verification_keys(&self) -> Result<VerificationKeys, IamError> {
        self.inner().verification_keys().await
    }

    async fn probe(&self) -> Result<(), IamError> {
        self.inner().probe().await
    }

    async fn probe_logout(&self) -> Result<(), IamError> {
        self.inner().probe_logout().await
    }
}

/// The wrapper as an adapter.
pub fn wrapped<W: Wrapper>(wrapper: &Arc<W>) -> Arc<dyn IamAdapter> {
    Arc::new(Wrapped(Arc::clone(wrapper)))
}

#[derive(Debug)]
struct Wrapped<W>(Arc<W>);

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<W: Wrapper> IamAdapter for Wrapped<W> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn issuer(&self) -> &str {
        self.0.inner().issuer()
    }

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    async fn authenticate(
        &self,
        credentials: &Credentials,
        client: &ClientContext,
    ) -> Result<Authenticated, IamError> {
        self.0.authenticate(credentials, client).await
    }

    async fn introspect(&self, session: &UpstreamSession) -> Result<Introspection, IamError> {
        self.0.introspect(session).await
    }

    async fn end_session(&self, session: &UpstreamSession) -> Result<(), IamError> {
        self.0.end_session(session).await
    }

    fn logout_audience(&self) -> Option<&str> {
        self.0.logout_audience()
    }

    async fn verification_keys(&self) -> Result<VerificationKeys, IamError> {
        self.0.verification_keys().await
    }

    async fn probe(&self) -> Result<(), IamError> {
        self.0.probe().await
    }

    async fn probe_logout(&self) -> Result<(), IamError> {
        self.0.probe_logout().await
    }
}
