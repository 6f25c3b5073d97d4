//! Where the permissions of users come from, if not from the IAM itself: a table of groups, or a
//! decision of a policy server.
//!
//! A missing or unclear response is a fault, never "no permissions".

mod distinguished_name;
mod group_table;
mod pattern;
mod policy_server;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use scopeguard::ScopeGuard;
use tokio::sync::Semaphore;

use crate::abandoned;
use crate::adapter::{Capabilities, IamAdapter};
use crate::clock::Clock;
use crate::error::IamError;
use crate::jwk::VerificationKeys;
use crate::resilient::{CallLayers, CallLimit, Observer, Operation, Requester};
use crate::scope::Permissions;
use crate::types::{
    Authenticated, ClientContext, Credentials, Introspection, Subject, UpstreamSession,
};

pub use group_table::{GroupRule, GroupTable};
pub use policy_server::PolicyServer;

/// The limit of a look-up in the table, which takes no time.
const UNLIMITED: CallLimit = CallLimit {
    deadline: Duration::from_secs(1),
    concurrency: Semaphore::MAX_PERMITS,
};

/// Another source of permissions than the IAM.
#[derive(Debug)]
pub enum PermissionSource {
    /// A table of groups in the configuration.
    Groups(GroupTable),
    /// A policy server, and the limit of calls to it.
    Http(Box<PolicyServer>, CallLimit),
}

impl PermissionSource {
    /// The limit of its calls.
    #[must_use]
    pub const fn limit(&self) -> CallLimit {
        match self {
            Self::Groups(_) => UNLIMITED,
            Self::Http(_, limit) => *limit,
        }
    }

    /// The permissions of a user of the IAM with this name, who has these permissions and groups
    /// there.
    ///
    /// # Errors
    ///
    /// Faults only.
    pub async fn permissions(
        &self,
        iam: &str,
        subject: &Subject,
        at_iam: &Permissions,
        groups: Option<&[String]>,
    ) -> Result<Permissions, IamError> {
        match self {
            Self::Groups(table) => match groups {
                Some(groups) => Ok(table.permissions(iam, groups)),
                None => Err(IamError::Unreadable(
                    "the IAM does not state the groups of its users".into(),
                )),
            },
            Self::Http(server, _) => server.permissions(iam, subject, at_iam, groups).await,
        }
    }
}

/// An adapter whose permissions come from another source than the IAM, which is called after the IAM,
/// with layers of its own.
#[derive(Debug)]
pub struct WithPermissionSource {
    /// The IAM's name in the configuration.
    name: Arc<str>,
    iam: Arc<dyn IamAdapter>,
    source: Arc<ArcSwap<PermissionSource>>,
    layers: CallLayers,
}

impl WithPermissionSource {
    /// Wraps the adapter of the IAM with this name. The source may be replaced by one with the same
    /// settings.
    #[must_use]
    pub fn new(
        name: &Arc<str>,
        iam: Arc<dyn IamAdapter>,
        source: Arc<ArcSwap<PermissionSource>>,
        clock: &Arc<dyn Clock>,
        observer: &Observer,
    ) -> Self {
        let (operation, limit) = (Operation::Permissions, source.load().limit());
        Self {
            layers: CallLayers::new((name, iam.name()), operation, limit, clock, observer),
            name: Arc::clone(name),
            iam,
            source,
        }
    }

    /// The permissions of a user, who has these permissions and groups at the IAM.
    async fn permissions(
        &self,
        subject: &Subject,
        at_iam: &Permissions,
        groups: Option<&[String]>,
    ) -> Result<Permissions, IamError> {
        let source = self.source.load_full();
        let requesters = [Requester::Subject(subject.clone())];
        // Boxed like the calls of an adapter, because the future of a policy server is large.
        let attempt = || Box::pin(source.permissions(&self.name, subject, at_iam, groups));
        let called = self.layers.call(&requesters, attempt).await;
        called.map_err(IamError::of_permission_source)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl IamAdapter for WithPermissionSource {
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
        let mut login = self.iam.authenticate(credentials, client).await?;
        if let Some(at_iam) = login.permissions.take() {
            let (iam, session) = (Arc::clone(&self.iam), login.session.clone());
            // If the client does not wait for the decision.
            let abandoned = scopeguard::guard((), |()| abandoned::end_session(iam, session));
            let (subject, groups) = (&login.session.subject, login.groups.take());
            let permissions = self.permissions(subject, &at_iam, groups.as_deref()).await;
            // The session has begun. Without permissions, the first exchange reports the fault.
            login.permissions = permissions.ok();
            ScopeGuard::into_inner(abandoned);
        }
        Ok(login)
    }

    async fn introspect(&self, session: &UpstreamSession) -> Result<Introspection, IamError> {
        // Clients repeat an exchange that fails. Without a decision, the IAM must not get their calls.
        self.layers
            .refuse_open()
            .map_err(IamError::of_permission_source)?;
        Ok(match self.iam.introspect(session).await? {
            Introspection::Active {
                subject,
                permissions,
                groups,
                claims,
            } if subject == session.subject => Introspection::Active {
                permissions: self
                    .permissions(&subject, &permissions, groups.as_deref())
                    .await?,
                subject,
                groups: None,
                claims,
            },
            // One about another session is refused by the gateway.
            inactive_or_foreign => inactive_or_foreign,
        })
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
        // The source is not probed. Without a call its circuit would be reported as open for ever.
        let _ = self.layers.check_circuit();
        self.iam.probe().await
    }

    async fn probe_logout(&self) -> Result<(), IamError> {
        self.iam.probe_logout().await
    }
}
