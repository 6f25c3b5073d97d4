//! The way of one replica to the IAM: it can break, it can be slow, and it remembers every word.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use iam_adapters::clock::ManualClock;
use iam_adapters::jwk::VerificationKeys;
use iam_adapters::{
    Authenticated, Capabilities, ClientContext, Clock as _, Credentials, IamAdapter, IamError,
    Introspection, Misconfiguration, Moment, UpstreamSession,
};
use mock_iam::Mock;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::names::Names;
use super::scenario::Held;

/// How the IAM does not serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Outage {
    Refused,
    TimedOut,
    Failed,
    Throttled,
    /// What was asked for is done, and nobody hears of it.
    AnswerLost,
    Unreadable,
    Misconfigured,
}

impl Outage {
    pub(super) const ALL: [Self; 7] = [
        Self::Refused,
        Self::TimedOut,
        Self::Failed,
        Self::Throttled,
        Self::AnswerLost,
        Self::Unreadable,
        Self::Misconfigured,
    ];

    /// Whether the IAM says nothing, so that what it said before may be stretched.
    pub(super) const fn is_silent(self) -> bool {
        !matches!(self, Self::Unreadable | Self::Misconfigured)
    }

    fn error(self) -> IamError {
        match self {
            Self::Refused => IamError::Unreachable("connection refused".to_owned()),
            Self::TimedOut | Self::AnswerLost => IamError::TimedOut(Duration::from_secs(2)),
            Self::Failed => IamError::Failed("status 502".to_owned()),
            Self::Throttled => IamError::Throttled { retry_after: None },
            Self::Unreadable => IamError::Unreadable("HTML".to_owned()),
            Self::Misconfigured => IamError::misconfigured(Misconfiguration::ClientSecret, "401"),
        }
    }
}

/// What the IAM said about a session.
#[derive(Debug, Clone)]
pub(super) struct Word {
    /// The IAM's id of the session.
    pub(super) session: String,
    pub(super) subject: String,
    /// When it was asked, by the clocks of the replica.
    pub(super) asked: Moment,
    /// What its user may do; none: it is not alive.
    pub(super) names: Option<Names>,
    /// Whether the replica may still believe it: not once it has missed what others told.
    pub(super) counts: bool,
}

#[derive(Debug)]
pub(super) struct Line {
    mock: Mock,
    clock: Arc<ManualClock>,
    outage: Mutex<Option<Outage>>,
    words: Mutex<Vec<Word>>,
    ends: AtomicUsize,
    held: watch::Sender<Option<Held>>,
}

impl Line {
    pub(super) fn new(mock: Mock, clock: Arc<ManualClock>) -> Self {
        Self {
            mock,
            clock,
            outage: Mutex::default(),
            words: Mutex::default(),
            ends: AtomicUsize::default(),
            held: watch::Sender::new(None),
        }
    }

    pub(super) fn outage(&self) -> Option<Outage> {
        *self.outage.lock().expect("the outage")
    }

    pub(super) fn set_outage(&self, outage: Option<Outage>) {
        *self.outage.lock().expect("the outage") = outage;
    }

    /// From now on introspections wait, and the answers to logins; with none, those that wait go on.
    pub(super) fn hold(&self, what: Option<Held>) {
        self.held.send_replace(what);
    }

    /// Everything that the replica was told since its start.
    pub(super) fn words(&self) -> MutexGuard<'_, Vec<Word>> {
        self.words.lock().expect("the words")
    }

    /// How many sessions it ended at the IAM since its start.
    pub(super) fn ends(&self) -> usize {
        self.ends.load(Ordering::Relaxed)
    }

    fn note(&self, session: &UpstreamSession, asked: Moment, names: Option<Names>) {
        self.words().push(Word {
            session: session.id.clone(),
            subject: session.subject.as_str().to_owned(),
            asked,
            names,
            counts: true,
        });
    }

    async fn pass(&self) {
        let mut held = self.held.subscribe();
        let let_go = held.wait_for(Option::is_none).await;
        let_go.expect("the line is there");
    }

    fn serves(&self) -> Result<(), IamError> {
        match self.outage() {
            None => Ok(()),
            Some(outage) => Err(outage.error()),
        }
    }
}

#[async_trait]
impl IamAdapter for Line {
    fn name(&self) -> &'static str {
        self.mock.name()
    }

    fn issuer(&self) -> &str {
        self.mock.issuer()
    }

    fn capabilities(&self) -> Capabilities {
        self.mock.capabilities()
    }

    async fn authenticate(
        &self,
        credentials: &Credentials,
        client: &ClientContext,
    ) -> Result<Authenticated, IamError> {
        let asked = self.clock.now();
        let held = *self.held.borrow();
        if self.outage() != Some(Outage::AnswerLost) {
            self.serves()?;
        }
        let told = self.mock.authenticate(credentials, client).await;
        self.serves()?;
        let told = told?;
        let names = told.permissions.as_ref().expect("the mock tells them");
        self.note(&told.session, asked, Some(Names::said(names)));
        if held == Some(Held::Answers) {
            self.pass().await;
        }
        Ok(told)
    }

    async fn introspect(&self, session: &UpstreamSession) -> Result<Introspection, IamError> {
        let asked = self.clock.now();
        let held = *self.held.borrow();
        if held == Some(Held::Questions) {
            self.pass().await;
        }
        self.serves()?;
        let word = self.mock.introspect(session).await?;
        let names = match &word {
            Introspection::Inactive => None,
            Introspection::Active { permissions, .. } => Some(Names::said(permissions)),
        };
        self.note(session, asked, names);
        if held == Some(Held::Answers) {
            self.pass().await;
        }
        Ok(word)
    }

    async fn end_session(&self, session: &UpstreamSession) -> Result<(), IamError> {
        if self.outage() != Some(Outage::AnswerLost) {
            self.serves()?;
        }
        self.mock.end_session(session).await?;
        self.ends.fetch_add(1, Ordering::Relaxed);
        self.serves()
    }

    fn logout_audience(&self) -> Option<&str> {
        self.mock.logout_audience()
    }

    async fn verification_keys(&self) -> Result<VerificationKeys, IamError> {
        self.serves()?;
        self.mock.verification_keys().await
    }

    async fn probe(&self) -> Result<(), IamError> {
        self.serves()
    }
}
