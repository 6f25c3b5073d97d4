//! What the answer to a login or a logout must be.

use std::time::Duration;

use super::fixture::ModelFixture;
use super::judge::{Verdict, broken, hold};
use super::replica::{Answer, No, Pair};
use super::scenario::Password;
use super::truth::Known;

/// A login that was sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Login {
    pub(super) at: usize,
    pub(super) user: usize,
    pub(super) password: Password,
    /// When, by the true clock, and by the replica's in seconds since 1970.
    pub(super) sent: Duration,
    pub(super) sent_at: u64,
    /// How much the IAM had said to the replica before.
    pub(super) words_before: usize,
}

impl Login {
    pub(super) fn new(fixture: &ModelFixture, at: usize, user: usize, password: Password) -> Self {
        Self {
            at,
            user,
            password,
            sent: fixture.now(),
            sent_at: fixture.clock_of(at).unix_seconds(),
            words_before: fixture.replicas[at].line.words().len(),
        }
    }
}

/// Whether a login was answered rightly.
pub(super) fn log_in(fixture: &mut ModelFixture, login: Login, answer: Answer<Pair>) -> Verdict {
    let Login {
        at, user, password, ..
    } = login;
    let outage = fixture.trouble(at);
    let good = fixture.users[user].enabled.now() && password == Password::Right;
    match answer {
        Ok(pair) => {
            hold(!outage.is_certain() && good, || {
                "a login is let in".to_owned()
            })?;
            let setting = fixture.setting;
            let lifetime = setting.session_lifetime.min(setting.max_lifetime);
            let right = pair.expires_at == login.sent_at + lifetime
                && pair.verified_at == fixture.clock_of(at).unix_seconds();
            hold(right, || format!("{pair:?}"))?;
            fixture.began(login, pair);
            Ok(())
        }
        Err(No::Denied) => {
            let asked = !outage.is_certain() && !good;
            hold(asked || password == Password::Empty, || {
                format!("a good login is denied: {outage:?}")
            })
        }
        Err(No::Fault(fault)) => {
            let excused = outage.is_possible() && password != Password::Empty;
            hold(excused, || format!("a login fails: {fault}"))
        }
        Err(No::Strange(what)) => broken(what),
    }
}

/// Whether a logout was answered rightly. `ends_before` is how many the IAM had been told before.
pub(super) fn log_out(
    fixture: &mut ModelFixture,
    at: usize,
    session: usize,
    ends_before: usize,
    answer: Answer<()>,
) -> Verdict {
    let outage = fixture.trouble(at);
    let life = &fixture.lives[session];
    let expires_at = life.pair.expires_at;
    let expired = fixture.clock_of(at).unix_seconds() >= expires_at;
    let over = expired || life.known[at] == Some(Known::Ended);
    let told = fixture.replicas[at].line.ends() > ends_before;
    let gone = life.ended.is_some() || fixture.now() >= life.promised_until;
    let confirmed = answer.is_ok();
    match answer {
        Ok(()) => hold(told && !outage.is_certain() || over || gone, || {
            "a logout is confirmed that the IAM never heard of".to_owned()
        })?,
        Err(No::Fault(fault)) => hold(outage.is_possible() && !over, || {
            format!("a logout fails: {fault}")
        })?,
        Err(No::Denied) => return broken("a logout of a good pair is denied"),
        Err(No::Strange(what)) => return broken(what),
    }
    if told {
        fixture.ended(session);
    }
    if !expired {
        let known = if confirmed {
            Known::Ended
        } else {
            Known::LoggedOut
        };
        fixture.learned(at, session, known);
        // Where the IAM did not confirm it, or had said so before, the others hear of it all the same.
        fixture.tells_of_logout(at, session);
    }
    Ok(())
}
