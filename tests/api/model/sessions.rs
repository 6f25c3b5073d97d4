//! The allowed results of a login and a logout.

use std::time::Duration;

use auth_gateway_core::timeline::DIFFERENCE_MAX;

use super::case_counts::{Case, CaseCounts};
use super::fixture::ModelFixture;
use super::oracle::{Verdict, ensure, violation};
use super::replica::{Answer, Failure, Pair};
use super::scenario::Password;
use super::state::KnownEnd;

/// A login that was sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Login {
    pub(super) at: usize,
    pub(super) user: usize,
    pub(super) password: Password,
    /// By the true clock, and by the replica's clock in seconds since 1970.
    pub(super) sent: Duration,
    pub(super) sent_at: u64,
    /// The second on the time line of the replicas.
    pub(super) second: u64,
    /// The number of reports of the IAM before.
    pub(super) reports_before: usize,
}

impl Login {
    pub(super) fn new(fixture: &ModelFixture, at: usize, user: usize, password: Password) -> Self {
        Self {
            at,
            user,
            password,
            sent: fixture.now(),
            sent_at: fixture.clock_of(at).unix_seconds(),
            second: fixture.beginning_of(at),
            reports_before: fixture.replicas[at].iam.reports().len(),
        }
    }
}

/// Checks the result of a login.
pub(super) fn log_in(fixture: &mut ModelFixture, login: Login, answer: Answer<Pair>) -> Verdict {
    let Login {
        at, user, password, ..
    } = login;
    let outage = fixture.availability(at);
    let good = fixture.users[user].enabled.now() && password == Password::Right;
    match answer {
        Ok(pair) => {
            ensure(!outage.is_down() && good, || "a login succeeds".to_owned())?;
            let setting = fixture.setting;
            let lifetime = setting.session_lifetime.min(setting.max_lifetime);
            let right = pair.expires_at == login.sent_at + lifetime
                && pair.verified_at == fixture.clock_of(at).unix_seconds();
            ensure(right, || format!("{pair:?}"))?;
            fixture.began(login, pair);
            Ok(())
        }
        Err(Failure::Refused) => {
            let refused_by_iam = !outage.is_down() && !good;
            ensure(refused_by_iam || password == Password::Empty, || {
                format!("a valid login is refused: {outage:?}")
            })
        }
        Err(Failure::Fault(fault)) => {
            let excused = outage.may_be_down() && password != Password::Empty;
            ensure(excused, || format!("a login fails: {fault}"))
        }
        Err(Failure::Unexpected(what)) => violation(what),
    }
}

/// Checks the result of a logout.
pub(super) fn log_out(
    fixture: &mut ModelFixture,
    at: usize,
    session: usize,
    answer: Answer<()>,
) -> Verdict {
    let outage = fixture.availability(at);
    let state = &fixture.session_states[session];
    let wall = fixture.clock_of(at).unix_seconds();
    // Before that, it may be active by the clock of another replica.
    let expired = wall >= state.expired_by_every_clock_at();
    // A logout token's end is kept for the longest lifetime from its arrival, by a clock that may since have been set.
    let kept = wall < state.pair.expires_at + DIFFERENCE_MAX.as_secs();
    let over = expired || kept && state.known[at] == Some(KnownEnd::Ended);
    let has_ended = state.ended.is_some() || fixture.now() >= state.expires_at;
    let notified = fixture.learn_ends().contains(&(at, session));
    let confirmed = answer.is_ok();
    match answer {
        Ok(()) => ensure(notified && !outage.is_down() || over || has_ended, || {
            "a logout is confirmed without a call to the IAM".to_owned()
        })?,
        Err(Failure::Fault(fault)) => ensure(outage.may_be_down() && !over, || {
            format!("a logout fails: {fault}")
        })?,
        Err(Failure::Refused) => return violation("a logout of a valid pair is refused"),
        Err(Failure::Unexpected(what)) => return violation(what),
    }
    if !expired {
        fixture.session_states[session].unfinished[at] = !confirmed;
        let known = if confirmed {
            KnownEnd::Ended
        } else {
            KnownEnd::LoggedOut
        };
        fixture.learned(at, session, known);
        // The other replicas receive it, also if the IAM did not confirm it.
        fixture.publish_logout(at, session);
    }
    Ok(())
}

/// Checks that the replica has finished its failed logouts, as it must if the IAM is available.
pub(super) fn finished(fixture: &mut ModelFixture, at: usize, counts: &mut CaseCounts) -> Verdict {
    let available = !fixture.availability(at).may_be_down();
    let (now, wall) = (fixture.now(), fixture.clock_of(at).unix_seconds());
    for state in &mut fixture.session_states {
        if !state.unfinished[at] {
            continue;
        }
        let expired = wall >= state.expired_by_every_clock_at();
        if available && !expired {
            let has_ended = state.ended.is_some() || now >= state.expires_at;
            ensure(has_ended, || format!("a logout is not finished: {state:?}"))?;
            counts.count(Case::LogoutFinished);
        }
        state.unfinished[at] = !available && !expired;
    }
    Ok(())
}
