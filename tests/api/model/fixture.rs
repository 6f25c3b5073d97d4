//! Three replicas, the IAM behind them, and what is true about it.

use std::sync::Arc;
use std::time::Duration;

use iam_adapters::clock::ManualClock;
use iam_adapters::{Clock as _, Moment};
use mock_iam::{AccountState, Directory, Identity, Mock, User as Account, Users};
use test_support::keys::TestKeys;

use super::bus::Bus;
use super::hearing::Hearsay;
use super::names::{Names, USERS};
use super::replica::{Extent, Pair, Replica};
use super::scenario::{REPLICAS, Setting};
use super::sessions::Login;
use super::truth::{History, Known, Life, User};

/// When every scenario begins, since 1970.
const START: Duration = Duration::from_secs(1_800_000_000);

/// How many sessions a number can stand for: the newest.
const IN_REACH: usize = 4;

pub(super) struct ModelFixture {
    pub(super) setting: Setting,
    pub(super) extent: Extent,
    pub(super) directory: Arc<Directory>,
    pub(super) replicas: Vec<Replica>,
    pub(super) users: Vec<User>,
    pub(super) lives: Vec<Life>,
    /// When the IAM last ended all sessions of a user in the midst of a login.
    pub(super) ended_all: [Option<Duration>; USERS],
    /// Up to when, in seconds since 1970, each replica heard that a user's sessions are over.
    pub(super) heard_until: [[Option<u64>; USERS]; REPLICAS],
    pub(super) bus: Arc<Bus>,
    pub(super) hearsay: Hearsay,
    /// When each replica last came back to the others, whom it may have missed.
    pub(super) rejoined: [Option<Duration>; REPLICAS],
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
        // How many logins may be tried is promised, and tried, elsewhere.
        let unlimited = ["account_failures", "address_failures"]
            .map(|key| (format!("login_limits.{key}"), "0".to_owned()));
        let overrides = folders.into_iter().chain(times).chain(unlimited);
        let mut fixture = Self {
            setting,
            extent,
            directory: Arc::new(directory),
            replicas: Vec::new(),
            users: Vec::new(),
            lives: Vec::new(),
            ended_all: [None; USERS],
            heard_until: [[None; USERS]; REPLICAS],
            bus: Arc::default(),
            hearsay: Hearsay::default(),
            rejoined: [None; REPLICAS],
            true_clock,
            overrides: overrides.collect(),
        };
        for user in 0..USERS {
            fixture.create_user(user);
        }
        for _ in 0..REPLICAS {
            let replica = fixture.start(START).await;
            fixture.replicas.push(replica);
            fixture.join(fixture.replicas.len() - 1, true);
        }
        fixture
    }

    fn create_user(&mut self, user: usize) {
        let email = format!("user-{user}@example.test");
        let names = Names::ALL.held_by(user);
        let account = Account::new(email.as_str(), User::PASSWORD.into(), names.permissions());
        let account = account.expect("a fair user");
        self.users.push(User {
            email,
            subject: account.subject().as_str().to_owned(),
            enabled: History::new(true),
            names: History::new(names),
        });
        self.directory.create_user(account).expect("a new user");
    }

    /// No process does anything in the very moment in which it begins.
    async fn start(&self, wall: Duration) -> Replica {
        const MOMENT: Duration = Duration::from_millis(1);
        let clock = ManualClock::at(wall.saturating_sub(MOMENT));
        clock.advance(MOMENT);
        let overrides = self.overrides.iter();
        let overrides: Vec<_> = overrides
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .collect();
        let mock = Mock::new(Arc::clone(&self.directory));
        Replica::start(self.extent, mock, clock, &overrides).await
    }

    /// The time, since the beginning.
    pub(super) fn now(&self) -> Duration {
        self.true_clock.now().monotonic
    }

    pub(super) fn clock_of(&self, replica: usize) -> Moment {
        self.replicas[replica].clock.now()
    }

    /// Which session the number stands for; none where there is none.
    pub(super) fn session(&self, number: u8) -> Option<usize> {
        let reach = self.lives.len().min(IN_REACH);
        (reach > 0).then(|| self.lives.len() - 1 - usize::from(number) % reach)
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

    /// Time goes on for all but this one, whose wall clock is right when it wakes up.
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

    /// Sets a wall clock to the true time and so much more, in milliseconds.
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

    /// A new process in the place of an old one: what it knew is gone. Where the old one could not
    /// speak with the others, the new one cannot either.
    pub(super) async fn restart(&mut self, replica: usize) {
        let started = self.start(self.clock_of(replica).unix).await;
        let old = &self.replicas[replica];
        started.line.set_outage(old.line.outage());
        self.replicas[replica] = started;
        self.rejoined[replica] = None;
        self.heard_until[replica] = [None; USERS];
        for life in &mut self.lives {
            life.known[replica] = None;
        }
        self.join(replica, self.bus.has(replica));
    }

    pub(super) fn began(&mut self, login: Login, pair: Pair) {
        let upstream = self.replicas[login.at].line.words()[login.words_before].clone();
        // All sessions of the user may have ended while the answer was on its way.
        let ended = self.ended_all[login.user].filter(|ended| *ended >= login.sent);
        self.lives.push(Life {
            user: login.user,
            pair,
            upstream: upstream.session,
            sent_at: login.sent_at,
            promised_until: login.sent + Duration::from_secs(self.setting.session_lifetime),
            ended,
            known: [None; REPLICAS],
        });
        self.spread_what_was_heard(self.lives.len() - 1);
    }

    /// Whether the replica needs nobody to say that the session is over.
    pub(super) fn is_known_to_be_over(&self, session: usize, replica: usize) -> bool {
        let life = &self.lives[session];
        let expired = self.clock_of(replica).unix_seconds() >= life.pair.expires_at;
        expired || life.known[replica].is_some()
    }

    /// Takes note that the session is over at the IAM.
    pub(super) fn ended(&mut self, session: usize) {
        let now = self.now();
        self.lives[session].ended.get_or_insert(now);
    }

    pub(super) fn learned(&mut self, replica: usize, session: usize, known: Known) {
        let before = &mut self.lives[session].known[replica];
        *before = (*before).max(Some(known));
    }

    pub(super) fn permit(&mut self, user: usize, names: Names) {
        let (now, names) = (self.now(), names.held_by(user));
        let user = &mut self.users[user];
        user.names.change(names, now);
        self.directory
            .set_permissions(&user.email, names.permissions())
            .expect("known");
    }

    pub(super) fn switch(&mut self, user: usize, on: bool) {
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

    pub(super) fn end_session(&mut self, session: usize, told: Option<usize>) {
        let upstream = &self.lives[session].upstream;
        self.directory.end_session_by_id(upstream);
        let heard = told.filter(|at| self.replicas[*at].door.hear_of_session(upstream));
        self.ended(session);
        if let Some(at) = heard {
            self.tells_of_session(at, session);
        }
    }

    pub(super) fn end_sessions_of(&mut self, user: usize, told: Option<usize>) {
        let User { email, subject, .. } = &self.users[user];
        self.directory.end_sessions_of(email).expect("known");
        let until = self.true_clock.now().unix_seconds();
        let heard = told.filter(|at| self.replicas[*at].door.hear_of_user(subject, until));
        for session in 0..self.lives.len() {
            if self.lives[session].user == user {
                self.ended(session);
            }
        }
        if let Some(at) = heard {
            self.tells_of_user(at, user, until);
        }
    }
}
