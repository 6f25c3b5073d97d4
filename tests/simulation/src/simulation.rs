//! Runs one history.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use auth_gateway_core::Gateway;
use auth_gateway_core::request::RequestContext;
use auth_gateway_core::revoked_sessions::RevokedSessions;
use auth_gateway_core::session_id::SessionId;
use fastrand::Rng;
use iam_adapters::{Credentials, Scope};
use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};

use crate::clock::TrueTime;
use crate::iam::{self, Iam, PASSWORD, SCOPE};
use crate::network::Process;
use crate::oracle::{Cases, Request, Revocation, Session, Settled};
use crate::plan::{Action, Disturbance, HORIZON, IamFault, Plan, REPLICAS, Revoked, Setting};
use crate::redis::Server;
use crate::replica::{REVOCATIONS, Replica};
use crate::resp::Reply;
use crate::script::Scripts;
use crate::trace::Trace;

/// The time after the last fault in which everything is settled: the longest pause before a reconnect is 3 s,
/// a connection takes 1 s at most, and lost entries are added again within 2 s.
pub(crate) const SETTLING: Duration = Duration::from_millis(6_500);

/// How long a revocation by an operator takes at most.
const REVOCATION_DEADLINE: Duration = Duration::from_millis(900);

/// The result of a history.
#[derive(Debug)]
pub(crate) struct History {
    pub(crate) violation: Option<String>,
    pub(crate) hash: u64,
    pub(crate) lines: Vec<String>,
    pub(crate) cases: Cases,
}

/// What all parts of a history share.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) time: TrueTime,
    pub(crate) setting: Setting,
    state: Mutex<State>,
}

/// What changes.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) time: TrueTime,
    pub(crate) setting: Setting,
    pub(crate) trace: Trace,
    pub(crate) cases: Cases,
    pub(crate) violation: Option<String>,
    rng: Rng,
    scripts: Scripts,
    /// Every Redis server; the last one is the primary.
    pub(crate) servers: Vec<Server>,
    pub(crate) iam: Iam,
    pub(crate) replicas: Vec<Replica>,
    pub(crate) sessions: Vec<Session>,
    pub(crate) revocations: Vec<Revocation>,
    /// Until when the connection of each replica to Redis is disturbed.
    pub(crate) disturbed: [Option<(Disturbance, Duration)>; REPLICAS],
    pub(crate) iam_faults: [Option<(IamFault, Duration)>; REPLICAS],
    /// When the last fault ends or ended.
    pub(crate) redis_faulty_until: Option<Duration>,
    pub(crate) iam_faulty_until: [Option<Duration>; REPLICAS],
    /// The longest delay of a message to or from Redis.
    pub(crate) longest_delay: Duration,
    /// How far the clocks of all servers differ.
    pub(crate) servers_apart: Duration,
}

/// Runs a plan in a thread of its own time. The random numbers of the history come from the seed.
pub(crate) fn run(plan: &Plan, seed: u64, is_shown: bool) -> History {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    runtime.expect("a runtime").block_on(async {
        let world = Arc::new(World::new(plan.setting.clone(), seed, is_shown));
        for at in 0..REPLICAS {
            world.start(Process { at, start: 0 }, plan.setting.ahead[at]);
        }
        for step in &plan.steps {
            sleep(Duration::from_millis(step.at).saturating_sub(world.time.now())).await;
            if world.state().violation.is_some() {
                break;
            }
            world.perform(&step.action);
        }
        world.settle().await;
        // They have the world, so that all of it would stay in memory.
        let replicas = std::mem::take(&mut world.state().replicas);
        for replica in &replicas {
            replica.kill();
        }
        let mut state = world.state();
        let trace = std::mem::replace(&mut state.trace, Trace::new(false));
        History {
            violation: state.violation.clone(),
            hash: trace.hash(),
            cases: state.cases.clone(),
            lines: trace.lines(),
        }
    })
}

impl World {
    fn new(setting: Setting, seed: u64, is_shown: bool) -> Self {
        let time = TrueTime::begin();
        let state = State {
            time,
            setting: setting.clone(),
            trace: Trace::new(is_shown),
            cases: Cases::default(),
            violation: None,
            rng: Rng::with_seed(!seed),
            scripts: Scripts::new(),
            servers: vec![Server::new(time, 0)],
            iam: Iam::new(setting.lifetime),
            replicas: Vec::new(),
            sessions: Vec::new(),
            revocations: Vec::new(),
            disturbed: [None; REPLICAS],
            iam_faults: [None; REPLICAS],
            redis_faulty_until: None,
            iam_faulty_until: [None; REPLICAS],
            longest_delay: Duration::ZERO,
            servers_apart: Duration::ZERO,
        };
        Self {
            time,
            setting,
            state: Mutex::new(state),
        }
    }

    /// Everything that changes. It is locked only while nothing waits.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic")
    }

    pub(crate) fn is_running(&self, process: Process) -> bool {
        self.state().is_running(process)
    }

    pub(crate) fn coin(&self) -> bool {
        self.state().rng.bool()
    }

    fn start(self: &Arc<Self>, process: Process, ahead: i64) {
        let seed = self.state().rng.u64(..);
        let mut replica = Replica::start(self, process, ahead, seed);
        let mut state = self.state();
        let sessions = 0..state.sessions.len();
        replica.started_with = sessions
            .filter(|session| state.is_stored(*session))
            .collect();
        if process.start == 0 {
            state.replicas.push(replica);
        } else {
            state.replicas[process.at] = replica;
        }
    }

    fn perform(self: &Arc<Self>, action: &Action) {
        let now = self.time.now();
        self.state().trace.event(now, format_args!("{action:?}"));
        match *action {
            Action::LogIn { at, user, is_right } => self.log_in(at, user, is_right),
            Action::Exchange {
                at,
                session,
                patience,
            } => self.exchange(at, session, patience),
            Action::LogOut {
                at,
                session,
                patience,
            } => self.log_out(at, session, patience),
            Action::Revoke { at, what } => self.revoke(at, what),
            Action::EndAtIam { session, told } => self.end_at_iam(session, told),
            Action::Restart { at } => self.restart(at),
            Action::Disable { .. }
            | Action::DisturbRedis { .. }
            | Action::DisturbIam { .. }
            | Action::FailOver { .. }
            | Action::ForgetStream
            | Action::RefuseWrites { .. }
            | Action::SetClock { .. } => self.state().change(action, now),
        }
    }

    fn restart(self: &Arc<Self>, at: usize) {
        let (process, ahead) = {
            let mut state = self.state();
            state.redis_faulty_until = state.redis_faulty_until.max(Some(self.time.now()));
            let replica = &state.replicas[at];
            replica.kill();
            let Process { at, start } = replica.process;
            (
                Process {
                    at,
                    start: start + 1,
                },
                replica.clock.ahead(),
            )
        };
        self.start(process, ahead);
    }

    /// A request to a replica, and what it is about; `None` if there is no session yet.
    fn request(&self, at: usize) -> (Request, Arc<Gateway>) {
        let state = self.state();
        let replica = &state.replicas[at];
        let request = Request {
            process: replica.process,
            sent: self.time.now(),
            was_catching_up: replica.gateway.replica.revocations.is_catching_up(),
        };
        (request, Arc::clone(&replica.gateway))
    }

    fn spawn(&self, at: usize, request: impl Future<Output = ()> + Send + 'static) {
        self.state().replicas[at].spawn(request);
    }

    fn log_in(self: &Arc<Self>, at: usize, user: usize, is_right: bool) {
        let (world, (request, gateway)) = (Arc::clone(self), self.request(at));
        self.spawn(at, async move {
            let password = if is_right { PASSWORD } else { "wrong" };
            let credentials =
                Credentials::new(iam::email(user), password.into()).expect("an address");
            let request = Request {
                sent: world.time.now(),
                ..request
            };
            let result = gateway
                .log_in(&RequestContext::default(), &credentials)
                .await;
            let mut state = world.state();
            let shown = result.as_ref().map_or_else(ToString::to_string, |_| {
                format!("session {}", state.sessions.len())
            });
            state.trace.event(
                world.time.now(),
                format_args!("  login of user {user} at {at}: {shown}"),
            );
            state.check_login(request, user, is_right, &result);
        });
    }

    fn exchange(self: &Arc<Self>, at: usize, session: usize, patience: Option<u64>) {
        let Some(session) = self.state().session(session) else {
            return;
        };
        let (world, (request, gateway)) = (Arc::clone(self), self.request(at));
        self.spawn(at, async move {
            let exchanging = world.exchange_now(request, gateway, session, Settled::No);
            let patience = patience.map_or(Duration::MAX, Duration::from_millis);
            let _ = timeout(patience, exchanging).await;
        });
    }

    async fn exchange_now(
        &self,
        request: Request,
        gateway: Arc<Gateway>,
        session: usize,
        settled: Settled,
    ) {
        let (id, token) = self.state().sessions[session].pair();
        let scope = Scope::parse(SCOPE).expect("a scope");
        let result = gateway
            .exchange(&RequestContext::default(), &id, &token, scope)
            .await;
        let at = request.process.at;
        let mut state = self.state();
        let shown = result
            .as_ref()
            .map_or_else(ToString::to_string, |exchanged| {
                format!("token ({:?})", exchanged.source)
            });
        state.trace.event(
            self.time.now(),
            format_args!("  exchange of session {session} at {at}: {shown}"),
        );
        state.check_exchange(request, session, settled, &result);
    }

    fn log_out(self: &Arc<Self>, at: usize, session: usize, patience: Option<u64>) {
        let Some(session) = self.state().session(session) else {
            return;
        };
        let (world, (request, gateway)) = (Arc::clone(self), self.request(at));
        self.spawn(at, async move {
            let (id, token) = world.state().sessions[session].pair();
            let context = RequestContext::default();
            let logout = gateway.log_out(&context, &id, &token);
            let logout = async {
                // The first step of the logout records the revocation.
                tokio::pin!(logout);
                let mut revocation = None;
                std::future::poll_fn(|context| {
                    let polled = logout.as_mut().poll(context);
                    revocation.get_or_insert_with(|| {
                        let mut state = world.state();
                        let index = state.sessions[session].indexes[0];
                        state.revoked(request.process, index)
                    });
                    polled
                })
                .await
                .map_or_else(|error| (Err(error), revocation), |()| (Ok(()), revocation))
            };
            let patience = patience.map_or(Duration::MAX, Duration::from_millis);
            let Ok((result, revocation)) = timeout(patience, logout).await else {
                return;
            };
            let mut state = world.state();
            let shown = result
                .as_ref()
                .map_or_else(ToString::to_string, |()| "done".to_owned());
            state.trace.event(
                world.time.now(),
                format_args!("  logout of session {session} at {at}: {shown}"),
            );
            if let Some(revocation) = revocation {
                state.revocation_returned(revocation);
            }
            state.check_logout(request, session, &result);
        });
    }

    fn revoke(self: &Arc<Self>, at: usize, what: Revoked) {
        let begun_until = None;
        let (sessions, index) = {
            let state = self.state();
            match what {
                Revoked::Session(session) => {
                    let Some(session) = state.session(session) else {
                        return;
                    };
                    let session = &state.sessions[session];
                    let id = SessionId::parse(&session.id).expect("an id");
                    (RevokedSessions::One(id), session.indexes[0])
                }
                Revoked::User(user) => {
                    let mut sessions = state.sessions.iter();
                    let Some(session) = sessions.find(|session| session.user == user) else {
                        return;
                    };
                    let subject = iam::subject(user);
                    let sessions = RevokedSessions::OfSubject {
                        subject,
                        begun_until,
                    };
                    (sessions, session.indexes[2])
                }
                Revoked::All => {
                    let Some(session) = state.sessions.first() else {
                        return;
                    };
                    let sessions = RevokedSessions::OfIam {
                        iam: None,
                        begun_until,
                    };
                    (sessions, session.indexes[3])
                }
            }
        };
        let (world, (request, gateway)) = (Arc::clone(self), self.request(at));
        self.spawn(at, async move {
            let request = Request {
                sent: world.time.now(),
                ..request
            };
            let revoking = gateway
                .session_revoker
                .revoke(&sessions)
                .expect("known sessions");
            let revocation = world.state().revoked(request.process, index);
            let propagation = revoking.await;
            let mut state = world.state();
            state.trace.event(
                world.time.now(),
                format_args!("  revocation at {at}: {propagation:?}"),
            );
            state.revocation_returned(revocation);
            state.ensure_prompt(request, REVOCATION_DEADLINE, "a revocation");
        });
    }

    fn end_at_iam(self: &Arc<Self>, session: usize, told: Option<usize>) {
        let now = self.time.now();
        let Some(session) = self.state().session(session) else {
            return;
        };
        let mut state = self.state();
        let upstream = state.sessions[session].upstream;
        state.iam.end(upstream, now);
        if let Some(at) = told {
            let (process, gateway) = (
                state.replicas[at].process,
                Arc::clone(&state.replicas[at].gateway),
            );
            let index = state.sessions[session].indexes[1];
            drop(state);
            let iam = gateway.iams.iter().next().expect("an IAM");
            gateway
                .session_revoker
                .end_upstream_session(iam, &upstream.to_string());
            self.state().revoked(process, index);
        }
    }

    /// All faults end. When everything has settled, every replica must agree with what happened.
    async fn settle(self: &Arc<Self>) {
        sleep(HORIZON.saturating_sub(self.time.now())).await;
        if self.state().violation.is_some() {
            return;
        }
        let (revoked, now) = (self.state().heal(), self.time.now());
        self.state()
            .trace
            .event(now, format_args!("all faults end"));
        sleep(SETTLING).await;
        for (session, was_revoked) in revoked.into_iter().enumerate() {
            for at in 0..REPLICAS {
                if self.state().violation.is_some() {
                    return;
                }
                let (request, gateway) = self.request(at);
                let settled = Settled::Yes { was_revoked };
                self.exchange_now(request, gateway, session, settled).await;
            }
        }
    }
}

impl State {
    pub(crate) fn is_running(&self, process: Process) -> bool {
        let replica = self.replicas.get(process.at);
        // The first tasks of a process run before it is in the list.
        replica.is_none_or(|replica| replica.process.start <= process.start)
    }

    /// The session that a number selects.
    fn session(&self, number: usize) -> Option<usize> {
        const IN_REACH: usize = 4;
        let reach = self.sessions.len().min(IN_REACH);
        (reach > 0).then(|| self.sessions.len() - 1 - number % reach)
    }

    fn delay(&mut self, longest: u64) -> Duration {
        Duration::from_millis(self.rng.u64(..=longest))
    }

    pub(crate) fn redis_delay(&mut self, at: usize) -> Duration {
        let slow = self.disturbed[at]
            .filter(|(by, until)| *by == Disturbance::Slow && self.time.now() < *until);
        self.delay(slow.map_or(self.setting.redis_delay, |_| 500))
    }

    pub(crate) fn iam_delay(&mut self, at: usize) -> Duration {
        let slow = self.iam_faults[at]
            .filter(|(fault, until)| *fault == IamFault::Slow && self.time.now() < *until);
        self.delay(slow.map_or(self.setting.iam_delay, |_| 1_000))
    }

    pub(crate) fn execute(
        &mut self,
        server: usize,
        process: Process,
        command: &[Vec<u8>],
    ) -> Reply {
        let now = self.time.now();
        self.trace
            .detail((now, process.at, process.start, server, &command[0]));
        self.servers[server].command(&mut self.scripts, command)
    }

    /// The process has the time of Redis.
    pub(crate) fn measured(&mut self, process: Process) {
        let replica = &mut self.replicas[process.at];
        if replica.process == process {
            replica.measured_at.get_or_insert(self.time.now());
        }
    }

    fn redis_faulty_until(&mut self, until: Duration) {
        self.redis_faulty_until = self.redis_faulty_until.max(Some(until));
    }

    fn change(&mut self, action: &Action, now: Duration) {
        let after = |millis: u64| now + Duration::from_millis(millis);
        match *action {
            Action::Disable { user } => {
                self.iam.disabled_at[user].get_or_insert(now);
            }
            Action::DisturbRedis { at, by, millis } => {
                self.disturbed[at] = Some((by, after(millis)));
                self.redis_faulty_until(after(millis));
            }
            Action::DisturbIam { at, by, millis } => {
                self.iam_faults[at] = Some((by, after(millis)));
                let until = &mut self.iam_faulty_until[at];
                *until = (*until).max(Some(after(millis)));
            }
            Action::FailOver {
                lost,
                clock_ahead,
                lasting,
            } => {
                let former = self.servers.last_mut().expect("a server");
                former.ends_at = after(lasting);
                let apart = clock_ahead.abs_diff(former.clock_ahead);
                let successor = former.successor(Duration::from_millis(lost), clock_ahead);
                self.servers.push(successor);
                self.servers_apart += Duration::from_millis(apart);
                self.redis_faulty_until(after(lasting));
                self.forget_what_started();
            }
            Action::ForgetStream => {
                self.servers
                    .last_mut()
                    .expect("a server")
                    .delete(REVOCATIONS);
                self.redis_faulty_until(now);
                self.forget_what_started();
            }
            Action::RefuseWrites { millis } => {
                self.servers.last_mut().expect("a server").refuses_until = after(millis);
                self.redis_faulty_until(after(millis));
            }
            Action::SetClock { at, ahead } => self.replicas[at].clock.set(ahead),
            Action::LogIn { .. }
            | Action::Exchange { .. }
            | Action::LogOut { .. }
            | Action::Revoke { .. }
            | Action::EndAtIam { .. }
            | Action::Restart { .. } => unreachable!("not of the state alone"),
        }
    }

    /// Redis may have lost revocations that replicas would have read when they started.
    fn forget_what_started(&mut self) {
        for at in 0..REPLICAS {
            let kept = self.replicas[at].started_with.iter().copied();
            let kept = kept.filter(|session| self.is_stored(*session)).collect();
            self.replicas[at].started_with = kept;
        }
    }

    /// All faults end now. Returns for each session whether a replica or Redis has a revocation of it.
    fn heal(&mut self) -> Vec<bool> {
        let now = self.time.now();
        self.disturbed = [None; REPLICAS];
        self.iam_faults = [None; REPLICAS];
        for server in &mut self.servers {
            server.refuses_until = Duration::ZERO;
        }
        if self.redis_faulty_until > Some(now) {
            self.redis_faulty_until = Some(now);
        }
        for until in &mut self.iam_faulty_until {
            *until = (*until).map(|until| until.min(now));
        }
        let sessions = 0..self.sessions.len();
        let revoked = sessions.map(|session| {
            let is_known = (0..REPLICAS).any(|at| self.knows(at, session));
            is_known || self.is_stored(session)
        });
        revoked.collect()
    }
}

impl Session {
    fn pair(&self) -> (String, String) {
        (self.id.clone(), self.token.clone())
    }
}
