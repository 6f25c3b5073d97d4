//! The IAM as one replica reaches it: it can fail or be slow, and it records its reports.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use iam_adapters::jwk::VerificationKeys;
use iam_adapters::{
    Authenticated, ClientContext, Clock as _, Credentials, IamAdapter, IamError, Introspection,
    Misconfiguration, Moment, UpstreamSession,
};
use mock_iam::Mock;
use serde::{Deserialize, Serialize};
use test_support::ManualClock;
use test_support::wrapper::Wrapper;
use tokio::sync::watch;

use super::names::Names;
use super::scenario::Delayed;

/// How the IAM fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Outage {
    Refused,
    TimedOut,
    Failed,
    Throttled,
    /// The call takes effect, and its response is lost.
    ResponseLost,
    Unreadable,
    Misconfigured,
}

impl Outage {
    pub(super) const ALL: [Self; 7] = [
        Self::Refused,
        Self::TimedOut,
        Self::Failed,
        Self::Throttled,
        Self::ResponseLost,
        Self::Unreadable,
        Self::Misconfigured,
    ];

    /// Whether the IAM does not respond, so that stale data may be used.
    pub(super) const fn is_silent(self) -> bool {
        !matches!(self, Self::Unreadable | Self::Misconfigured)
    }

    fn error(self) -> IamError {
        match self {
            Self::Refused => IamError::Unreachable("connection refused".into()),
            Self::TimedOut | Self::ResponseLost => IamError::TimedOut(Duration::from_secs(2)),
            Self::Failed => IamError::Failed("status 502".to_owned()),
            Self::Throttled => IamError::Throttled { retry_after: None },
            Self::Unreadable => IamError::Unreadable("HTML".into()),
            Self::Misconfigured => IamError::misconfigured(Misconfiguration::ClientSecret, "401"),
        }
    }
}

/// A report of the IAM about a session.
#[derive(Debug, Clone)]
pub(super) struct Report {
    /// The IAM's id of the session.
    pub(super) session: String,
    pub(super) subject: String,
    /// When the request was sent, by the clocks of the replica.
    pub(super) requested_at: Moment,
    /// The permissions of the user; `None`: the session is inactive.
    pub(super) names: Option<Names>,
    /// Whether the replica may still trust it: not after it has missed revocations.
    pub(super) counts: bool,
}

/// A session that the replica ended at the IAM.
#[derive(Debug)]
pub(super) struct End {
    /// The IAM's id of the session.
    pub(super) session: String,
    /// Whether the replica received the response.
    pub(super) confirmed: bool,
}

#[derive(Debug)]
pub(super) struct RecordingIam {
    mock: Mock,
    clock: Arc<ManualClock>,
    outage: Mutex<Option<Outage>>,
    reports: Mutex<Vec<Report>>,
    ends: Mutex<Vec<End>>,
    held: watch::Sender<Option<Delayed>>,
}

impl RecordingIam {
    pub(super) fn new(mock: Mock, clock: Arc<ManualClock>) -> Self {
        Self {
            mock,
            clock,
            outage: Mutex::default(),
            reports: Mutex::default(),
            ends: Mutex::default(),
            held: watch::Sender::new(None),
        }
    }

    pub(super) fn outage(&self) -> Option<Outage> {
        *self.outage.lock().expect("the outage")
    }

    pub(super) fn set_outage(&self, outage: Option<Outage>) {
        *self.outage.lock().expect("the outage") = outage;
    }

    /// From now on introspections wait, or the responses to logins; `None` releases those that
    /// wait.
    pub(super) fn ensure(&self, what: Option<Delayed>) {
        self.held.send_replace(what);
    }

    /// All reports to the replica since its start.
    pub(super) fn reports(&self) -> MutexGuard<'_, Vec<Report>> {
        self.reports.lock().expect("the reports")
    }

    /// The sessions that the replica ended at the IAM since the last call of this.
    pub(super) fn take_ends(&self) -> Vec<End> {
        std::mem::take(&mut *self.ends.lock().expect("the ends"))
    }

    fn note(&self, session: &UpstreamSession, requested_at: Moment, names: Option<Names>) {
        self.reports().push(Report {
            session: session.id.clone(),
            subject: session.subject.as_str().to_owned(),
            requested_at,
            names,
            counts: true,
        });
    }

    async fn pass(&self) {
        let mut held = self.held.subscribe();
        let let_go = held.wait_for(Option::is_none).await;
        let_go.expect("the iam is there");
    }

    fn serves(&self) -> Result<(), IamError> {
        match self.outage() {
            None => Ok(()),
            Some(outage) => Err(outage.error()),
        }
    }
}

#[async_trait]
impl Wrapper for RecordingIam {
    fn inner(&self) -> &dyn IamAdapter {
        &self.mock
    }

    async fn authenticate(
        &self,
        credentials: &Credentials,
        client: &ClientContext,
    ) -> Result<Authenticated, IamError> {
        let requested_at = self.clock.now();
        let held = *self.held.borrow();
        if self.outage() != Some(Outage::ResponseLost) {
            self.serves()?;
        }
        let notified = self.mock.authenticate(credentials, client).await;
        self.serves()?;
        let notified = notified?;
        let names = notified
            .permissions
            .as_ref()
            .expect("the mock publish them");
        self.note(
            &notified.session,
            requested_at,
            Some(Names::reported(names)),
        );
        if held == Some(Delayed::Responses) {
            self.pass().await;
        }
        Ok(notified)
    }

    async fn introspect(&self, session: &UpstreamSession) -> Result<Introspection, IamError> {
        let requested_at = self.clock.now();
        let held = *self.held.borrow();
        if held == Some(Delayed::Requests) {
            self.pass().await;
        }
        self.serves()?;
        let report = self.mock.introspect(session).await?;
        let names = match &report {
            Introspection::Inactive => None,
            Introspection::Active { permissions, .. } => Some(Names::reported(permissions)),
        };
        self.note(session, requested_at, names);
        if held == Some(Delayed::Responses) {
            self.pass().await;
        }
        Ok(report)
    }

    async fn end_session(&self, session: &UpstreamSession) -> Result<(), IamError> {
        if self.outage() != Some(Outage::ResponseLost) {
            self.serves()?;
        }
        self.mock.end_session(session).await?;
        let served = self.serves();
        self.ends.lock().expect("the ends").push(End {
            session: session.id.clone(),
            confirmed: served.is_ok(),
        });
        served
    }

    async fn verification_keys(&self) -> Result<VerificationKeys, IamError> {
        self.serves()?;
        self.mock.verification_keys().await
    }

    async fn probe(&self) -> Result<(), IamError> {
        self.serves()
    }

    async fn probe_logout(&self) -> Result<(), IamError> {
        self.serves()
    }
}
