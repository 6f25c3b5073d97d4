//! The IAM, and how one process reaches it.

use std::fmt;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use iam_adapters::{
    Authenticated, Capabilities, Claims, ClientContext, Credentials, IamAdapter, IamError,
    Introspection, Permission, Permissions, Refusal, Subject, UpstreamSession,
};
use secrecy::ExposeSecret as _;
use tokio::time::sleep;

use crate::network::Process;
use crate::plan::{IamFault, USERS};
use crate::simulation::{State, World};

pub(crate) const NAME: &str = "simulated";
pub(crate) const ISSUER: &str = "https://iam.test";
pub(crate) const SCOPE: &str = "urn:shop:orders:order:read";
pub(crate) const PASSWORD: &str = "right";

pub(crate) fn email(user: usize) -> String {
    format!("{user}@example.test")
}

pub(crate) fn subject(user: usize) -> Subject {
    Subject::new(format!("user-{user}")).expect("a subject")
}

/// The true state of the sessions and the accounts.
#[derive(Debug)]
pub(crate) struct Iam {
    pub(crate) lifetime: Duration,
    pub(crate) disabled_at: [Option<Duration>; USERS],
    sessions: Vec<IamSession>,
}

#[derive(Debug)]
struct IamSession {
    user: usize,
    expires_at: Duration,
    ended_at: Option<Duration>,
}

impl Iam {
    pub(crate) fn new(lifetime: Duration) -> Self {
        Self {
            lifetime,
            disabled_at: [None; USERS],
            sessions: Vec::new(),
        }
    }

    /// When the session ended; a time in the future if it is active.
    pub(crate) fn ended_at(&self, session: usize) -> Duration {
        let session = &self.sessions[session];
        let ends = [session.ended_at, self.disabled_at[session.user]];
        let ends = ends.into_iter().flatten();
        ends.fold(session.expires_at, Duration::min)
    }

    pub(crate) fn end(&mut self, session: usize, now: Duration) {
        self.sessions[session].ended_at.get_or_insert(now);
    }
}

fn permissions() -> Permissions {
    [Permission::parse(SCOPE).expect("a name")]
        .into_iter()
        .collect()
}

/// The number of a session.
pub(crate) fn number(id: &str) -> usize {
    id.parse().expect("a number")
}

/// The IAM as one process reaches it.
pub(crate) struct SimulatedIam {
    world: Arc<World>,
    process: Process,
}

impl fmt::Debug for SimulatedIam {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimulatedIam({:?})", self.process)
    }
}

impl SimulatedIam {
    pub(crate) fn new(world: &Arc<World>, process: Process) -> Self {
        let world = Arc::clone(world);
        Self { world, process }
    }

    async fn call<T>(
        &self,
        what: &str,
        act: impl FnOnce(&mut State, Duration) -> Result<T, IamError> + Send,
    ) -> Result<T, IamError> {
        self.cross().await;
        match self.fault() {
            Some(IamFault::Unreachable) => {
                return Err(IamError::Unreachable("connection refused".into()));
            }
            Some(IamFault::Failing) => return Err(IamError::Failed("status 502".to_owned())),
            Some(IamFault::RequestsLost) => pending().await,
            Some(IamFault::ResponsesLost | IamFault::Slow) | None => {}
        }
        if !self.world.is_running(self.process) && self.world.coin() {
            pending::<()>().await;
        }
        let now = self.world.time.now();
        let result = {
            let mut state = self.world.state();
            let result = act(&mut state, now);
            let (at, is_ok) = (self.process.at, result.is_ok());
            state.trace.event(
                now,
                format_args!(
                    "IAM: {what} of replica {at}: {}",
                    if is_ok { "done" } else { "refused" }
                ),
            );
            result
        };
        self.cross().await;
        let is_lost = self.fault() == Some(IamFault::ResponsesLost);
        if is_lost || !self.world.is_running(self.process) {
            pending::<()>().await;
        }
        result
    }

    async fn cross(&self) {
        let delay = self.world.state().iam_delay(self.process.at);
        if !delay.is_zero() {
            sleep(delay).await;
        }
    }

    fn fault(&self) -> Option<IamFault> {
        let now = self.world.time.now();
        let faults = self.world.state().iam_faults[self.process.at];
        faults
            .filter(|(_, until)| now < *until)
            .map(|(fault, _)| fault)
    }
}

#[async_trait]
impl IamAdapter for SimulatedIam {
    fn name(&self) -> &'static str {
        NAME
    }

    fn issuer(&self) -> &str {
        ISSUER
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::FULL
    }

    async fn authenticate(
        &self,
        credentials: &Credentials,
        _client: &ClientContext,
    ) -> Result<Authenticated, IamError> {
        let (user, _) = credentials.email().split_once('@').expect("an address");
        let user = number(user);
        let is_right = credentials.password().expose_secret() == PASSWORD;
        self.call("login", |state, now| {
            let iam = &mut state.iam;
            if !is_right || iam.disabled_at[user].is_some() {
                return Err(IamError::Refused(Refusal::InvalidCredentials));
            }
            let id = iam.sessions.len().to_string();
            iam.sessions.push(IamSession {
                user,
                expires_at: now + iam.lifetime,
                ended_at: None,
            });
            Ok(Authenticated {
                session: UpstreamSession {
                    subject: subject(user),
                    secret: id.clone().into(),
                    id,
                },
                expires_in: Some(iam.lifetime),
                permissions: Some(permissions()),
                groups: None,
                claims: Claims::default(),
            })
        })
        .await
    }

    async fn introspect(&self, session: &UpstreamSession) -> Result<Introspection, IamError> {
        let id = number(&session.id);
        let introspected = |state: &mut State, now| {
            if state.iam.ended_at(id) <= now {
                return Ok(Introspection::Inactive);
            }
            Ok(Introspection::Active {
                subject: subject(state.iam.sessions[id].user),
                permissions: permissions(),
                groups: None,
                claims: Claims::default(),
            })
        };
        self.call("introspection", introspected).await
    }

    async fn end_session(&self, session: &UpstreamSession) -> Result<(), IamError> {
        let id = number(&session.id);
        self.call("logout", |state, now| {
            state.iam.end(id, now);
            Ok(())
        })
        .await
    }

    async fn probe(&self) -> Result<(), IamError> {
        Ok(())
    }
}
