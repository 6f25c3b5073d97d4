//! Three replicas, their IAM, and its true state.

use std::sync::Arc;
use std::time::Duration;

use auth_gateway_core::revoked_sessions::RevokedSessions;
use auth_gateway_core::session_id::SessionId;
use iam_adapters::{Clock as _, Moment, Subject};
use mock_iam::{AccountState, Directory, Identity, Mock, User as Account, Users};
use test_support::ManualClock;
use test_support::keys::TestKeys;

use super::names::{Names, USERS};
use super::recording_iam::Report;
use super::replica::{Extent, Pair, Replica};
use super::replication::ReplicationModel;
use super::replication_stream::ReplicationStream;
use super::scenario::{REPLICAS, Setting};
use super::sessions::Login;
use super::state::{History, KnownEnd, SessionState, User};

/// The time at which every scenario begins, since 1970.
const START: Duration = Duration::from_secs(1_800_000_000);

/// How many sessions a number can select: the newest ones.
const IN_REACH: usize = 4;

pub(super) struct ModelFixture {
    pub(super) setting: Setting,
    pub(super) extent: Extent,
    pub(super) directory: Arc<Directory>,
    pub(super) replicas: Vec<Replica>,
    pub(super) users: Vec<User>,
    pub(super) session_states: Vec<SessionState>,
    /// When the IAM last ended all sessions of a user during a login.
    pub(super) ended_all: [Option<Duration>; USERS],
    /// For each replica, until when (in seconds since 1970) the sessions of a user that began are
    /// known as ended.
    pub(super) user_ended_until: [[Option<u64>; USERS]; REPLICAS],
    /// The same for the sessions of all users.
    pub(super) all_ended_until: [Option<u64>; REPLICAS],
    pub(super) stream: Arc<ReplicationStream>,
    pub(super) replication: ReplicationModel,
    /// What the IAM reported to replicas that were replaced, and that they may have shared.
    pub(super) earlier_reports: Vec<Report>,
    /// When each replica last reconnected to the others and may have missed revocations.
    pub(super) reconnected_at: [Option<Duration>; REPLICAS],
    true_clock: Arc<ManualClock>,
    overrides: Vec<(String, String)>,
}

impl ModelFixture {
    pub(super) async fn new(setting: Setting, extent: Extent, keys: &TestKeys) -> Self {
        let true_clock = Arc::new(ManualClock::at(START));
        let directory = Directory::new(
            Identity::default(),
            Users::default(),
            Duration::from_secs(setting.session_lifetime),
            Arc::<ManualClock>::clone(&true_clock),
        );
        let seconds = |key: &str, seconds: u64| (key.to_owned(), format!("{seconds}s"));
        let folders = keys.settings();
        let folders = folders.map(|(key, folder)| (key.to_owned(), folder.to_owned()));
        let times = [
            seconds("session.freshness", setting.freshness),
            seconds("permissions.ttl", setting.permissions_ttl),
            seconds("stale_if_error", setting.stale_if_error),
            seconds("session.max_lifetime", setting.max_lifetime),
        ];
        // Login limits have their own tests.
        let unlimited = ["account_failures", "address_failures"]
            .map(|key| (format!("login_limits.{key}"), "0".to_owned()));
        let overrides = folders.into_iter().chain(times).chain(unlimited);
        let mut fixture = Self {
            setting,
            extent,
            directory: Arc::new(directory),
            replicas: Vec::new(),
            users: Vec::new(),
            session_states: Vec::new(),
            ended_all: [None; USERS],
            user_ended_until: [[None; USERS]; REPLICAS],
            all_ended_until: [None; REPLICAS],
            stream: Arc::new(ReplicationStream::new(Arc::clone(&true_clock))),
            replication: ReplicationModel::default(),
            earlier_reports: Vec::new(),
            reconnected_at: [None; REPLICAS],
            true_clock,
            overrides: overrides.collect(),
        };
        for user in 0..USERS {
            fixture.create_user(user);
        }
        for _ in 0..REPLICAS {
            let number = fixture.replicas.len();
            let replica = fixture.start(number, START).await;
            fixture.replicas.push(replica);
            fixture.join(number, true);
        }
        fixture
    }

    fn create_user(&mut self, user: usize) {
        let email = format!("user-{user}@example.test");
        let names = Names::ALL.held_by(user);
        let account = Account::new(email.as_str(), User::PASSWORD.into(), names.permissions());
        let account = account.expect("a valid user");
        self.users.push(User {
            email,
            subject: account.subject().as_str().to_owned(),
            enabled: History::new(true),
            names: History::new(names),
        });
        self.directory.create_user(account).expect("a new user");
    }

    /// A process takes at least a millisecond to start.
    async fn start(&self, number: usize, wall: Duration) -> Replica {
        const MOMENT: Duration = Duration::from_millis(1);
        let clock = ManualClock::at(wall.saturating_sub(MOMENT));
        clock.advance(MOMENT);
        let overrides = self.overrides.iter();
        let overrides: Vec<_> = overrides
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .collect();
        let mock = Mock::new(Arc::clone(&self.directory));
        let sharing = self.are_connected().then(|| self.stream.sharing(number));
        let sharing = sharing.unwrap_or_default();
        Replica::start(self.extent, mock, clock, &overrides, sharing).await
    }

    /// Whether the replicas exchange revocations. Those of the whole service cannot.
    pub(super) fn are_connected(&self) -> bool {
        self.setting.replication && self.extent == Extent::Operations
    }

    /// The time since the beginning.
    pub(super) fn now(&self) -> Duration {
        self.true_clock.now().monotonic
    }

    pub(super) fn clock_of(&self, replica: usize) -> Moment {
        self.replicas[replica].clock.now()
    }

    /// The second of a session that begins now, as [`Self::second_of`].
    pub(super) fn beginning_of(&self, replica: usize) -> u64 {
        let now = self.clock_of(replica);
        match self.replicas[replica].api.gateway() {
            Some(gateway) => gateway.replica.timeline.beginning_at(now) / 1_000,
            None => now.unix_seconds(),
        }
    }

    /// The second on the time line of the replicas, or by the clock of a replica without it.
    pub(super) fn second_of(&self, replica: usize) -> u64 {
        match self.replicas[replica].api.gateway() {
            Some(gateway) => gateway.replica.timeline.now() / 1_000,
            None => self.clock_of(replica).unix_seconds(),
        }
    }

    /// The session that the number selects; `None` if there is none.
    pub(super) fn session(&self, number: u8) -> Option<usize> {
        let reach = self.session_states.len().min(IN_REACH);
        (reach > 0).then(|| self.session_states.len() - 1 - usize::from(number) % reach)
    }

    pub(super) fn replica(number: u8) -> usize {
        usize::from(number) % REPLICAS
    }

    pub(super) fn user(number: u8) -> usize {
        usize::from(number) % USERS
    }

    pub(super) fn advance(&self, by: Duration) {
        self.true_clock.advance(by);
        for replica in &self.replicas {
            replica.clock.advance(by);
        }
    }

    /// Advances all clocks, except the monotonic clock of this replica.
    pub(super) fn suspend(&self, asleep: usize, by: Duration) {
        self.true_clock.advance(by);
        for (number, replica) in self.replicas.iter().enumerate() {
            if number == asleep {
                replica.clock.set_wall(replica.clock.now().unix + by);
            } else {
                replica.clock.advance(by);
            }
        }
    }

    /// Sets a wall clock to the true time plus this number of milliseconds.
    pub(super) fn set_wall(&self, replica: usize, ahead: i64) {
        let by = Duration::from_millis(ahead.unsigned_abs());
        let now = self.true_clock.now().unix;
        let wall = if ahead < 0 {
            now.saturating_sub(by)
        } else {
            now + by
        };
        self.replicas[replica].clock.set_wall(wall);
    }

    /// Replaces a process by a new one with empty caches. It is connected to the others if the old
    /// one was.
    pub(super) async fn restart(&mut self, replica: usize) {
        let started = self.start(replica, self.clock_of(replica).unix).await;
        let old = &self.replicas[replica];
        started.iam.set_outage(old.iam.outage());
        self.earlier_reports.append(&mut old.iam.reports());
        self.replicas[replica] = started;
        self.reconnected_at[replica] = None;
        self.user_ended_until[replica] = [None; USERS];
        self.all_ended_until[replica] = None;
        for state in &mut self.session_states {
            state.known[replica] = None;
            state.unfinished[replica] = false;
        }
        self.join(replica, self.stream.is_connected(replica));
    }

    pub(super) fn began(&mut self, login: Login, pair: Pair) {
        let upstream = self.replicas[login.at].iam.reports()[login.reports_before].clone();
        // All sessions of the user may have ended during the login.
        let ended = self.ended_all[login.user].filter(|ended| *ended >= login.sent);
        self.session_states.push(SessionState {
            user: login.user,
            pair,
            upstream: upstream.session,
            sent_at: login.second,
            expires_at: login.sent + Duration::from_secs(self.setting.session_lifetime),
            ended,
            known: [None; REPLICAS],
            unfinished: [false; REPLICAS],
        });
        self.apply_user_ends(self.session_states.len() - 1);
    }

    /// Whether the replica knows the end of the session without the IAM.
    pub(super) fn is_known_to_be_over(&self, session: usize, replica: usize) -> bool {
        let state = &self.session_states[session];
        let expired = self.clock_of(replica).unix_seconds() >= state.pair.expires_at;
        expired || state.known[replica].is_some()
    }

    /// Records that the session ended at the IAM.
    pub(super) fn ended(&mut self, session: usize) {
        let now = self.now();
        self.session_states[session].ended.get_or_insert(now);
    }

    /// Records the sessions that replicas ended at the IAM since the last call of this: for a logout
    /// of a client, or to finish one that failed. Returns each with its replica.
    pub(super) fn learn_ends(&mut self) -> Vec<(usize, usize)> {
        let mut learned = Vec::new();
        for at in 0..REPLICAS {
            for end in self.replicas[at].iam.take_ends() {
                let mut states = self.session_states.iter();
                let Some(session) = states.position(|state| state.upstream == end.session) else {
                    continue;
                };
                self.ended(session);
                if end.confirmed {
                    self.learned(at, session, KnownEnd::Ended);
                }
                learned.push((at, session));
            }
        }
        learned
    }

    pub(super) fn learned(&mut self, replica: usize, session: usize, known: KnownEnd) {
        let before = &mut self.session_states[session].known[replica];
        *before = (*before).max(Some(known));
    }

    pub(super) fn set_permissions(&mut self, user: usize, names: Names) {
        let (now, names) = (self.now(), names.held_by(user));
        let user = &mut self.users[user];
        user.names.change(names, now);
        self.directory
            .set_permissions(&user.email, names.permissions())
            .expect("known");
    }

    pub(super) fn set_enabled(&mut self, user: usize, on: bool) {
        let now = self.now();
        let user = &mut self.users[user];
        user.enabled.change(on, now);
        let state = if on {
            AccountState::Active
        } else {
            AccountState::Disabled
        };
        self.directory.set_state(&user.email, state).expect("known");
    }

    pub(super) fn end_session(&mut self, session: usize, notified: Option<usize>) {
        let upstream = &self.session_states[session].upstream;
        self.directory.end_session_by_id(upstream);
        let reached = notified.filter(|at| self.replicas[*at].api.end_upstream_session(upstream));
        self.ended(session);
        if let Some(at) = reached {
            self.publish_session_end(at, session);
        }
    }

    pub(super) fn end_sessions_of(&mut self, user: usize, notified: Option<usize>) {
        let User { email, subject, .. } = &self.users[user];
        self.directory.end_sessions_of(email).expect("known");
        let until = self.true_clock.now().unix_seconds();
        let reached = notified.filter(|at| self.replicas[*at].api.end_sessions_of(subject, until));
        for session in 0..self.session_states.len() {
            if self.session_states[session].user == user {
                self.ended(session);
            }
        }
        if let Some(at) = reached {
            self.publish_user_end(at, user, until);
        }
    }

    /// An operator revokes it.
    pub(super) async fn revoke_session(&mut self, at: usize, session: usize) {
        let id = &self.session_states[session].pair.id;
        let id = SessionId::parse(id).expect("an id");
        if self.replicas[at].api.revoke(RevokedSessions::One(id)).await {
            self.publish_revocation(at, session);
        }
    }

    /// An operator revokes the sessions of the user, or all, that began until now.
    pub(super) async fn revoke_sessions_of(&mut self, at: usize, user: Option<usize>) {
        let begun_until = self.second_of(at);
        let sessions = match user {
            Some(user) => RevokedSessions::OfSubject {
                subject: Subject::new(&self.users[user].subject).expect("a subject"),
                begun_until: Some(begun_until),
            },
            None => RevokedSessions::OfIam {
                iam: None,
                begun_until: Some(begun_until),
            },
        };
        if self.replicas[at].api.revoke(sessions).await {
            match user {
                Some(user) => self.publish_user_end(at, user, begun_until),
                None => self.publish_end_of_all(at, begun_until),
            }
        }
    }
}
