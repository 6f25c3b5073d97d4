//! The allowed results of every request, from what really happened. `docs/guarantees.md` states the rules.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use auth_gateway_core::error::GatewayError;
use auth_gateway_core::results::NewSession;
use auth_gateway_core::revocations::{RevocationIndex, RevocationKey, RevocationKind};
use auth_gateway_core::{Exchanged, session};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrecy::ExposeSecret as _;
use serde_json::Value;
use zeroize::Zeroizing;

use crate::iam::{self, ISSUER, NAME};
use crate::network::Process;
use crate::replica::{IAM_DEADLINE, REVOCATIONS, Replica, keys};
use crate::simulation::{SETTLING, State};

/// By how much the simulation may round times, for each of several steps.
const ROUNDING: Duration = Duration::from_millis(5);

/// How long a logout waits for Redis.
const DELIVERY_DEADLINE: Duration = Duration::from_millis(250);

/// The difference of the clocks of replicas that is added to the age of shared data, in milliseconds.
const CLOCK_DIFFERENCE: i64 = 1_000;

/// Within this time a revocation that was delivered takes effect at every connected replica.
const PROPAGATION: Duration = Duration::from_millis(100);

/// For this time after a fault of the IAM, calls may fail: a held fault, an open circuit.
const AFTER_IAM_FAULT: Duration = Duration::from_secs(5);

/// A session of a client.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) user: usize,
    pub(crate) id: String,
    pub(crate) token: String,
    /// The number of its session at the IAM.
    pub(crate) upstream: usize,
    /// In seconds since 1970.
    expires_at: u64,
    /// When its login was sent.
    pub(crate) sent: Duration,
    /// The same on the time line of the replicas, in milliseconds since 1970.
    began: u64,
    /// Whether its replica had the time of Redis.
    is_measured: bool,
    /// The revocations that may end it.
    pub(crate) indexes: [RevocationIndex; 4],
}

/// A revocation, by a client, an operator or the IAM.
#[derive(Debug)]
pub(crate) struct Revocation {
    pub(crate) index: RevocationIndex,
    by: Process,
    /// The sessions that began then or before.
    until: u64,
    /// How far that may be in the future: a wall clock that was set forward looks like a machine that slept.
    forward: Duration,
    sent: Duration,
    /// When the call returned.
    pub(crate) returned: Option<Duration>,
    is_measured: bool,
}

/// How often each case occurred.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cases(pub(crate) BTreeMap<&'static str, u64>);

impl Cases {
    pub(crate) const ALL: [&str; 9] = [
        "fault",
        "granted",
        "granted after the end",
        "granted with shared data",
        "login",
        "logout fails",
        "logout",
        "refused",
        "refused by propagation",
    ];

    pub(crate) fn count(&mut self, case: &'static str) {
        *self.0.entry(case).or_default() += 1;
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (case, count) in &other.0 {
            *self.0.entry(case).or_default() += count;
        }
    }
}

/// A request, at the time at which it was sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    pub(crate) process: Process,
    pub(crate) sent: Duration,
    /// Whether the replica did not serve yet.
    pub(crate) was_catching_up: bool,
}

/// What the whole history must still show at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settled {
    No,
    /// All faults have ended long ago. Whether a replica or Redis had a revocation of the session then.
    Yes {
        was_revoked: bool,
    },
}

impl State {
    /// Records the first violation.
    fn ensure(&mut self, condition: bool, violation: fmt::Arguments<'_>) {
        if !condition && self.violation.is_none() {
            let now = self.time.now();
            self.trace
                .event(now, format_args!("VIOLATION: {violation}"));
            self.violation = Some(violation.to_string());
        }
    }

    fn replica(&self, process: Process) -> &Replica {
        &self.replicas[process.at]
    }

    /// Whether the replica knows a revocation of the session: it recorded the revocation, or has it from another one.
    pub(crate) fn knows(&self, at: usize, number: usize) -> bool {
        let session = &self.sessions[number];
        let known = &self.replicas[at].gateway.replica.revocations;
        let mut known = session.indexes.iter().filter_map(|index| known.get(index));
        self.was_recorded_by(self.replicas[at].process, number)
            || known.any(|known| session.began <= known.begun_until)
    }

    /// Whether the stream in Redis has a revocation of the session.
    pub(crate) fn is_stored(&self, session: usize) -> bool {
        let session = &self.sessions[session];
        let server = self.servers.last().expect("a server");
        let stored = session.indexes.iter();
        let mut stored = stored.filter_map(|index| server.begun_until(REVOCATIONS, *index));
        stored.any(|until| session.began <= until)
    }

    fn is_measured(&self, process: Process) -> bool {
        let measured_at = self.replica(process).measured_at;
        measured_at.is_some_and(|at| at < self.time.now())
    }

    /// How far the measurements of the time line at two replicas can differ.
    fn timeline_error(&self) -> Duration {
        self.longest_delay * 2 + self.servers_apart + ROUNDING
    }

    /// The longest time from the end of a session at the IAM to its last token.
    fn bound(&self, at: usize) -> Duration {
        let setting = &self.setting;
        // The monotonic clock of the replica may be slow.
        let mut bound = setting.freshness.mul_f64(1.000_5) + ROUNDING;
        if setting.shares && setting.apart > CLOCK_DIFFERENCE {
            let apart = u64::try_from(setting.apart - CLOCK_DIFFERENCE).expect("positive");
            let late = self.longest_delay + self.servers_apart;
            bound += Duration::from_millis(apart).min(late + ROUNDING);
        }
        if self.iam_may_fail(at, Duration::MAX) {
            bound += setting.stale_if_error;
        }
        bound
    }

    /// Whether calls of the replica to the IAM may fail now, or may have failed since then.
    fn iam_may_fail(&self, at: usize, since: Duration) -> bool {
        let faulty_until = self.iam_faulty_until[at];
        faulty_until.is_some_and(|until| until + AFTER_IAM_FAULT > self.time.now().min(since))
    }

    pub(crate) fn check_login(
        &mut self,
        request: Request,
        user: usize,
        is_right: bool,
        result: &Result<NewSession, GatewayError>,
    ) {
        let (now, at) = (self.time.now(), request.process.at);
        let disabled_at = self.iam.disabled_at[user];
        match result {
            Ok(new) => {
                let was_enabled = disabled_at.is_none_or(|at| at >= request.sent);
                self.ensure(is_right && was_enabled, format_args!("a login succeeds"));
                self.cases.count("login");
                self.begin(request, user, new);
            }
            Err(GatewayError::Refused(_)) => {
                let is_disabled = disabled_at.is_some_and(|at| at <= now);
                let may_refuse = !is_right || is_disabled;
                self.ensure(may_refuse, format_args!("a valid login is refused"));
            }
            Err(fault) => {
                let is_excused = self.iam_may_fail(at, request.sent);
                self.ensure(is_excused, format_args!("a login fails: {fault}"));
            }
        }
        self.ensure_prompt(request, IAM_DEADLINE, "a login");
    }

    fn begin(&mut self, request: Request, user: usize, new: &NewSession) {
        let token = new.session_token.expose_secret().to_owned();
        let key_set = keys().sealing.key_set();
        let mut buffer = Zeroizing::default();
        let sealed = session::open(&key_set, &token, &mut buffer).expect("a session token");
        let key = RevocationKey::of(key_set.iter().next().expect("a key"));
        let session = Session {
            user,
            id: new.session_id.to_string(),
            upstream: iam::number(&sealed.usid),
            expires_at: new.expires_at,
            sent: request.sent,
            began: sealed.iat,
            is_measured: self.is_measured(request.process),
            indexes: [
                (RevocationKind::Session, key.session(new.session_id)),
                key.upstream_session(NAME, ISSUER, &sealed.usid),
                key.subject(NAME, ISSUER, &sealed.sub),
                key.iam(NAME, ISSUER),
            ],
            token: token.clone(),
        };
        self.sessions.push(session);
        for revocation in 0..self.revocations.len() {
            self.check_times(self.sessions.len() - 1, revocation);
        }
    }

    /// A replica must have recorded a revocation now.
    pub(crate) fn revoked(&mut self, by: Process, index: RevocationIndex) -> usize {
        let mut revocation = Revocation {
            index,
            by,
            until: 0,
            forward: Duration::ZERO,
            sent: self.time.now(),
            returned: None,
            is_measured: self.is_measured(by),
        };
        if !revocation.is_of_several() {
            revocation.until = u64::MAX;
        }
        self.revocations.push(revocation);
        let number = self.revocations.len() - 1;
        self.read_time(number);
        number
    }

    /// The call of a revocation has returned.
    pub(crate) fn revocation_returned(&mut self, number: usize) {
        self.revocations[number].returned = Some(self.time.now());
        self.read_time(number);
        for session in 0..self.sessions.len() {
            self.check_times(session, number);
        }
    }

    /// Reads the time of a revocation of several sessions from the table of its replica. `check_times` compares it.
    fn read_time(&mut self, number: usize) {
        let revocation = &self.revocations[number];
        if !revocation.is_of_several() {
            return;
        }
        let replica = &self.replicas[revocation.by.at];
        let known = replica.gateway.replica.revocations.get(&revocation.index);
        let until = known.map_or(revocation.until, |known| known.begun_until);
        let forward = replica.clock.forward();
        let revocation = &mut self.revocations[number];
        (revocation.until, revocation.forward) = (until, forward);
    }

    /// A revocation of several sessions ends each that began before its call returned, and none that began
    /// later.
    fn check_times(&mut self, session: usize, revocation: usize) {
        let (session, revocation) = (&self.sessions[session], &self.revocations[revocation]);
        let matches = session.indexes.contains(&revocation.index);
        let is_measured = session.is_measured && revocation.is_measured;
        if !(revocation.is_of_several() && matches && is_measured) {
            return;
        }
        let Some(returned) = revocation.returned else {
            return;
        };
        let (is_ended, error) = (session.began <= revocation.until, self.timeline_error());
        let began_before = session.sent + error < returned;
        // So that no session is missed, both times are also moved by the error of their measurement.
        let began_later =
            session.sent > returned + error + self.longest_delay * 2 + revocation.forward;
        self.ensure(
            is_ended || !began_before,
            format_args!("a revocation misses a session that began before its call returned"),
        );
        self.ensure(
            !is_ended || !began_later,
            format_args!("a revocation ends a session that began after its call had returned"),
        );
    }

    pub(crate) fn check_logout(
        &mut self,
        request: Request,
        session: usize,
        result: &Result<(), GatewayError>,
    ) {
        let now = self.time.now();
        match result {
            Ok(()) => {
                // Also one that has expired by the clock of the replica: clocks differ by less than 20 minutes.
                let has_ended = self.iam.ended_at(self.sessions[session].upstream) <= now;
                self.ensure(
                    has_ended,
                    format_args!("a logout is confirmed that the IAM does not know"),
                );
                self.cases.count("logout");
            }
            Err(GatewayError::Refused(_) | GatewayError::InvalidSession(_)) => {
                self.ensure(false, format_args!("a logout of a valid pair is refused"));
            }
            Err(fault) => {
                let is_excused = self.iam_may_fail(request.process.at, request.sent);
                self.ensure(is_excused, format_args!("a logout fails: {fault}"));
                self.cases.count("logout fails");
            }
        }
        self.ensure_prompt(request, IAM_DEADLINE + DELIVERY_DEADLINE, "a logout");
    }

    /// No request waits for Redis for long.
    pub(crate) fn ensure_prompt(&mut self, request: Request, deadline: Duration, what: &str) {
        let took = self.time.now().saturating_sub(request.sent);
        let is_prompt = took <= deadline + ROUNDING * 4;
        self.ensure(is_prompt, format_args!("{what} takes {took:?}"));
    }

    pub(crate) fn check_exchange(
        &mut self,
        request: Request,
        session: usize,
        settled: Settled,
        result: &Result<Exchanged, GatewayError>,
    ) {
        match result {
            Ok(exchanged) => self.may_grant(request, session, settled, exchanged),
            Err(GatewayError::Refused(_) | GatewayError::InvalidSession(_)) => {
                self.may_refuse(request, session);
            }
            Err(GatewayError::NothingGranted | GatewayError::Internal(_)) => {
                self.ensure(false, format_args!("an exchange fails: {result:?}"));
            }
            Err(fault) => {
                let is_excused =
                    request.was_catching_up || self.iam_may_fail(request.process.at, request.sent);
                let is_excused = is_excused && settled == Settled::No;
                self.ensure(is_excused, format_args!("an exchange fails: {fault}"));
                self.cases.count("fault");
            }
        }
        // A look-up of shared data and a call to the IAM, both twice after a reconnect.
        let deadline = (IAM_DEADLINE + Duration::from_millis(20)) * 2;
        self.ensure_prompt(request, deadline, "an exchange");
    }

    fn may_grant(
        &mut self,
        request: Request,
        number: usize,
        settled: Settled,
        exchanged: &Exchanged,
    ) {
        let (now, at) = (self.time.now(), request.process.at);
        let session = &self.sessions[number];
        let claims = unverified(exchanged.token.expose());
        let user = iam::subject(session.user);
        let is_own = claims["sub"] == user.as_str() && claims["sid"] == session.id.as_str();
        let is_active = self.replica(request.process).unix_seconds() < session.expires_at;
        let (ended_at, bound) = (self.iam.ended_at(session.upstream), self.bound(at));
        let late = now.saturating_sub(ended_at);
        self.ensure(
            is_own,
            format_args!("the token is that of another session: {claims}"),
        );
        self.ensure(is_active, format_args!("a token for an expired session"));
        self.ensure(
            late < bound,
            format_args!(
                "a token {late:?} after the end of its session at the IAM, later than {bound:?}"
            ),
        );
        self.ensure(
            !self.knows(at, number),
            format_args!("a token although replica {at} knows the revocation"),
        );
        let is_promised = self.has_propagated(number);
        self.ensure(
            !is_promised,
            format_args!("a token although the revocation was delivered"),
        );
        let replica = self.replica(request.process);
        let deadline = self.setting.catch_up_deadline.unwrap_or(Duration::MAX);
        let has_read = now < replica.started.saturating_add(deadline);
        let started_with = has_read && replica.started_with.contains(&number);
        self.ensure(
            !started_with,
            format_args!("a token of a replica that started after the revocation was stored"),
        );
        if let Settled::Yes { was_revoked } = settled {
            self.ensure(
                !was_revoked,
                format_args!("a revocation is lost at replica {at}"),
            );
        }
        self.cases.count(if ended_at <= now {
            "granted after the end"
        } else {
            "granted"
        });
        if format!("{:?}", exchanged.source) == "Shared" {
            self.cases.count("granted with shared data");
        }
    }

    /// Whether a client or an operator revoked the session at this process.
    fn was_recorded_by(&self, process: Process, session: usize) -> bool {
        let mut revocations = self.revocations.iter();
        revocations.any(|revocation| {
            revocation.by == process && self.sessions[session].is_ended_by(revocation)
        })
    }

    /// Whether a revocation must have taken effect at every replica: it was delivered long enough ago, in a
    /// time without faults.
    fn has_propagated(&self, session: usize) -> bool {
        let now = self.time.now();
        let calm_from = self
            .redis_faulty_until
            .map_or(Duration::from_millis(300), |until| until + SETTLING);
        let mut revocations = self.revocations.iter();
        revocations.any(|revocation| {
            let is_effective = revocation.returned.is_some_and(|at| at + PROPAGATION < now);
            is_effective
                && revocation.sent > calm_from
                && self.sessions[session].is_ended_by(revocation)
        })
    }

    fn may_refuse(&mut self, request: Request, number: usize) {
        let now = self.time.now();
        let session = &self.sessions[number];
        let has_expired = self.replica(request.process).unix_seconds() >= session.expires_at;
        let has_ended = self.iam.ended_at(session.upstream) <= now;
        let is_revoked = |revocation: &Revocation| {
            let is_pending =
                revocation.returned.is_none() && session.indexes.contains(&revocation.index);
            is_pending || session.is_ended_by(revocation)
        };
        let is_revoked = self.revocations.iter().any(is_revoked);
        self.cases.count("refused");
        if is_revoked && !has_ended && !self.was_recorded_by(request.process, number) {
            self.cases.count("refused by propagation");
        }
        self.ensure(
            has_expired || has_ended || is_revoked,
            format_args!("a living session is refused"),
        );
    }
}

impl Revocation {
    /// Whether its time decides which sessions it ends. One of a single session ends it whenever that began.
    const fn is_of_several(&self) -> bool {
        matches!(self.index.0, RevocationKind::Subject | RevocationKind::Iam)
    }
}

impl Session {
    fn is_ended_by(&self, revocation: &Revocation) -> bool {
        self.indexes.contains(&revocation.index) && self.began <= revocation.until
    }
}

/// The claims of a token, without verification.
fn unverified(token: &str) -> Value {
    let claims = token.split('.').nth(1).expect("three parts");
    let claims = URL_SAFE_NO_PAD.decode(claims).expect("base64url");
    serde_json::from_slice(&claims).expect("a JSON object")
}
