//! The allowed results of an exchange, from the true state and from the reports of the IAM.
//! Independent of the gateway's implementation.

use std::fmt;
use std::time::Duration;

use iam_adapters::Moment;

use super::availability::Availability;
use super::case_counts::{Case, CaseCounts};
use super::fixture::ModelFixture;
use super::names::Names;
use super::recording_iam::Report;
use super::replica::{Answer, Failure, Granted};
use super::state::{KnownEnd, Window};

/// A violated rule, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Violation(pub(super) String);

pub(super) type Verdict = Result<(), Violation>;

/// Does not panic, so that the scenario can be reduced.
pub(super) fn ensure(condition: bool, violation: impl FnOnce() -> String) -> Verdict {
    if condition {
        Ok(())
    } else {
        Err(Violation(violation()))
    }
}

pub(super) fn violation<T>(how: impl fmt::Debug) -> Result<T, Violation> {
    Err(Violation(format!("{how:?}")))
}

/// An exchange, and the state of its replica before it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Exchange {
    pub(super) at: usize,
    pub(super) session: usize,
    pub(super) requested: Names,
    pub(super) began: Duration,
    pub(super) reports_before: usize,
    /// Whether the replica knew before that the session is over.
    pub(super) over_before: bool,
}

impl Exchange {
    /// Checks the result of the exchange, at the time of the result.
    pub(super) fn check(
        self,
        fixture: &mut ModelFixture,
        answer: Answer<Granted>,
        counts: &mut CaseCounts,
    ) -> Verdict {
        if fixture.is_starting(self.at) {
            return match answer {
                Err(Failure::Fault(_)) => Ok(()),
                other => violation(format!("a replica that is starting answers {other:?}")),
            };
        }
        let expected = ExpectedResult::new(fixture, self);
        match answer {
            Ok(granted) => {
                expected.may_grant(&granted)?;
                counts.count(expected.case_of(&granted));
            }
            Err(Failure::Refused) => {
                let reported_inactive = expected.reported_inactive();
                ensure(
                    expected.expired || expected.known || reported_inactive,
                    || format!("an active session is refused: {expected:?}"),
                )?;
                counts.count(if reported_inactive {
                    Case::EndedByIntrospection
                } else {
                    Case::Refused
                });
                if reported_inactive {
                    fixture.learned(self.at, self.session, KnownEnd::Inactive);
                }
            }
            Err(Failure::Fault(fault)) => {
                expected.may_fail(&fault)?;
                counts.count(Case::Fault);
            }
            Err(Failure::Unexpected(what)) => return violation(what),
        }
        Ok(())
    }
}

/// Everything that the result depends on.
struct ExpectedResult<'a> {
    fixture: &'a ModelFixture,
    exchange: Exchange,
    clock: Moment,
    /// By the replica's clock.
    expired: bool,
    /// The replica has learned that the session is over.
    known: bool,
    outage: Availability,
    /// How old reports of the IAM may be.
    liveness: Duration,
    permissions: Duration,
}

impl<'a> ExpectedResult<'a> {
    fn new(fixture: &'a ModelFixture, exchange: Exchange) -> Self {
        let (setting, at) = (&fixture.setting, exchange.at);
        let state = &fixture.session_states[exchange.session];
        let clock = fixture.clock_of(at);
        let outage = fixture.availability(at);
        let stretched = outage.may_be_silent();
        let extra = if stretched { setting.stale_if_error } else { 0 };
        Self {
            fixture,
            exchange,
            clock,
            expired: clock.unix_seconds() >= state.pair.expires_at,
            known: state.known[at].is_some(),
            outage,
            liveness: Duration::from_secs(setting.freshness + extra),
            permissions: Duration::from_secs(setting.permissions_ttl + extra),
        }
    }

    fn may_grant(&self, granted: &Granted) -> Verdict {
        let (fixture, requested) = (self.fixture, self.exchange.requested);
        let state = &fixture.session_states[self.exchange.session];
        let user = &fixture.users[state.user];
        ensure(!self.expired, || format!("an expired session: {self:?}"))?;
        ensure(!self.known, || format!("a session is revived: {self:?}"))?;
        let window = fixture.window(&self.exchange, self.liveness);
        ensure(state.was_alive(user, window), || {
            format!("a token too long after the end of its session: {self:?}")
        })?;
        let window = Window::before(fixture.now(), self.permissions);
        let names = granted.names;
        ensure(
            user.names
                .ever(window, |held, _| held.and(requested) == names),
            || format!("granted {names:?}, which the user did not have: {self:?}"),
        )?;
        self.rests_on_the_iams_word(names)?;
        let claims = &granted.claims;
        let scope = claims["scope"].as_str().unwrap_or_default();
        let times = [&claims["iat"], &claims["exp"]].map(|time| time.as_u64().unwrap_or(0));
        let right = Names::parse(scope) == Some(names)
            && claims["sub"] == user.subject.as_str()
            && claims["sid"] == state.pair.id.as_str()
            && times[0] == self.clock.unix_seconds()
            && (times[0]..=state.pair.expires_at).contains(&times[1]);
        ensure(right, || format!("unexpected claims {claims}: {self:?}"))
    }

    /// The token must rest on reports of the IAM, to this replica or to one that shares its data.
    fn rests_on_the_iams_word(&self, granted: Names) -> Verdict {
        let requested = self.exchange.requested;
        let reported = |report: &Report| report.names.map(|held| held.and(requested));
        let state = &self.fixture.session_states[self.exchange.session];
        let subject = &self.fixture.users[state.user].subject;
        let is_active =
            |report: &Report| report.session == state.upstream && report.names.is_some();
        let is_held =
            |report: &Report| report.subject == *subject && reported(report) == Some(granted);
        let reports = self.fixture.replicas[self.exchange.at].iam.reports();
        let mut latest = reports.iter().enumerate().rev();
        let active = latest.any(|(number, report)| {
            is_active(report)
                && (report.counts || number >= self.exchange.reports_before)
                && self.is_younger(report, self.liveness)
        });
        let held = reports
            .iter()
            .rev()
            .any(|report| is_held(report) && self.is_younger(report, self.permissions));
        let active = active || self.is_shared(self.liveness, is_active);
        let held = held || self.is_shared(self.permissions, is_held);
        ensure(active && held, || {
            format!("granted {granted:?} without a report of the IAM: {self:?}")
        })
    }

    /// Whether another replica, or a replaced one, may have shared such a report, by the wall clock of
    /// this replica. The true age is checked by itself: the session was active within the time of the
    /// data.
    fn is_shared(&self, bound: Duration, wanted: impl Fn(&Report) -> bool) -> bool {
        let is_usable = |report: &Report| {
            wanted(report) && self.clock.unix.saturating_sub(report.requested_at.unix) < bound
        };
        let replicas = self.fixture.replicas.iter().enumerate();
        let mut others = replicas.filter(|(other, _)| *other != self.exchange.at);
        let mut reported = || others.any(|(_, other)| other.iam.reports().iter().any(is_usable));
        self.fixture.are_connected()
            && (self.fixture.earlier_reports.iter().any(is_usable) || reported())
    }

    /// A fault is allowed only if the IAM may be down and cached data does not suffice.
    fn may_fail(&self, fault: &str) -> Verdict {
        ensure(self.outage.may_be_down(), || {
            format!("the IAM is available, but {fault}: {self:?}")
        })?;
        ensure(!self.exchange.over_before, || {
            format!("what is known is not reported, but {fault}: {self:?}")
        })?;
        ensure(!self.is_sure(), || {
            format!("fresh data is not used, but {fault}: {self:?}")
        })
    }

    /// Whether cached data must suffice. The caches also drop entries by the machine's clock, so
    /// short lifetimes are not checked; and some entries are renewed a little early.
    fn is_sure(&self) -> bool {
        const LONG: Duration = Duration::from_secs(30);
        let setting = &self.fixture.setting;
        let extra = if self.outage.is_silent() {
            setting.stale_if_error
        } else {
            0
        };
        let state = &self.fixture.session_states[self.exchange.session];
        let subject = &self.fixture.users[state.user].subject;
        let reports = self.fixture.replicas[self.exchange.at].iam.reports();
        let sure = |bound: u64, wanted: &dyn Fn(&Report) -> bool| {
            let mut reports = reports.iter().rev();
            let last = reports.find(|report| report.names.is_some() && wanted(report));
            let bound = Duration::from_secs(bound + extra);
            bound >= LONG
                && last
                    .is_some_and(|report| report.counts && self.is_younger(report, bound / 10 * 8))
        };
        sure(setting.freshness, &|report| {
            report.session == state.upstream
        }) && sure(setting.permissions_ttl, &|report| {
            report.subject == *subject
        })
    }

    /// The age is the longer one by the replica's two clocks. If the wall clock was set back by
    /// more than a minute, everything is stale.
    fn is_younger(&self, report: &Report, bound: Duration) -> bool {
        let ran = self
            .clock
            .monotonic
            .saturating_sub(report.requested_at.monotonic);
        let set_back = (report.requested_at.unix + ran).saturating_sub(self.clock.unix);
        let age = ran.max(self.clock.unix.saturating_sub(report.requested_at.unix));
        set_back <= Duration::from_secs(60) && age < bound
    }

    /// Whether the IAM reported this session as inactive during the exchange.
    fn reported_inactive(&self) -> bool {
        let state = &self.fixture.session_states[self.exchange.session];
        let reports = self.fixture.replicas[self.exchange.at].iam.reports();
        let mut reports = reports.iter().skip(self.exchange.reports_before);
        reports.any(|report| report.session == state.upstream && report.names.is_none())
    }

    fn case_of(&self, granted: &Granted) -> Case {
        let state = &self.fixture.session_states[self.exchange.session];
        let user = &self.fixture.users[state.user];
        if !state.is_active(user, self.fixture.now()) {
            Case::GrantedAfterEnd
        } else if user.names.now().and(self.exchange.requested) != granted.names {
            Case::GrantedFromBefore
        } else if self.outage.is_down() {
            Case::GrantedInAnOutage
        } else {
            Case::Granted
        }
    }
}

impl fmt::Debug for ExpectedResult<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = &self.fixture.session_states[self.exchange.session];
        f.debug_struct("ExpectedResult")
            .field("now", &self.fixture.now())
            .field("exchange", &self.exchange)
            .field("expired", &self.expired)
            .field("known", &state.known)
            .field("outage", &self.outage)
            .field("ended", &state.ended)
            .field("expires_at", &state.expires_at)
            .field("user", &self.fixture.users[state.user])
            .finish_non_exhaustive()
    }
}
