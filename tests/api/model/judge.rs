//! What every answer must be, by what is true and by what the IAM said. Written without a look at
//! how the gateway comes to it.

use std::fmt;
use std::time::Duration;

use iam_adapters::Moment;

use super::fixture::ModelFixture;
use super::line::Word;
use super::names::Names;
use super::replica::{Answer, Granted, No};
use super::tally::{Case, Tally};
use super::trouble::Trouble;
use super::truth::{Known, Window};

/// Which promise was broken, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Breach(pub(super) String);

pub(super) type Verdict = Result<(), Breach>;

/// Panics nowhere, so that the scenario can be made smaller.
pub(super) fn hold(promise: bool, broken: impl FnOnce() -> String) -> Verdict {
    if promise {
        Ok(())
    } else {
        Err(Breach(broken()))
    }
}

pub(super) fn broken<T>(how: impl fmt::Debug) -> Result<T, Breach> {
    Err(Breach(format!("{how:?}")))
}

/// An exchange that was asked for, and what was said to the replica before.
#[derive(Debug, Clone, Copy)]
pub(super) struct Exchange {
    pub(super) at: usize,
    pub(super) session: usize,
    pub(super) asked: Names,
    pub(super) began: Duration,
    pub(super) words_before: usize,
    /// Whether the replica knew, when it was asked, that the session is over.
    pub(super) over_before: bool,
}

impl Exchange {
    /// Whether the answer, which is there now, is a right one.
    pub(super) fn judge(
        self,
        fixture: &mut ModelFixture,
        answer: Answer<Granted>,
        tally: &mut Tally,
    ) -> Verdict {
        if fixture.is_starting(self.at) {
            return match answer {
                Err(No::Fault(_)) => Ok(()),
                other => broken(format!("a replica that is starting answers {other:?}")),
            };
        }
        let view = View::new(fixture, self);
        match answer {
            Ok(granted) => {
                view.may_grant(&granted)?;
                tally.count(view.case_of(&granted));
            }
            Err(No::Denied) => {
                let told_now = view.told_now();
                hold(view.expired || view.known || told_now, || {
                    format!("a living session is denied: {view:?}")
                })?;
                tally.count(if told_now {
                    Case::ToldOver
                } else {
                    Case::Denied
                });
                if told_now {
                    fixture.learned(self.at, self.session, Known::Inactive);
                }
            }
            Err(No::Fault(fault)) => {
                view.may_fail(&fault)?;
                tally.count(Case::Fault);
            }
            Err(No::Strange(what)) => return broken(what),
        }
        Ok(())
    }
}

/// All that counts for one answer.
struct View<'a> {
    fixture: &'a ModelFixture,
    exchange: Exchange,
    clock: Moment,
    /// By the replica's own clock.
    expired: bool,
    /// The replica has heard that the session is over.
    known: bool,
    outage: Trouble,
    /// How old the IAM's words may be.
    liveness: Duration,
    permissions: Duration,
}

impl<'a> View<'a> {
    fn new(fixture: &'a ModelFixture, exchange: Exchange) -> Self {
        let (setting, at) = (&fixture.setting, exchange.at);
        let life = &fixture.lives[exchange.session];
        let clock = fixture.clock_of(at);
        let outage = fixture.trouble(at);
        let stretched = outage.may_be_silent();
        let extra = if stretched { setting.stale_if_error } else { 0 };
        Self {
            fixture,
            exchange,
            clock,
            expired: clock.unix_seconds() >= life.pair.expires_at,
            known: life.known[at].is_some(),
            outage,
            liveness: Duration::from_secs(setting.freshness + extra),
            permissions: Duration::from_secs(setting.permissions_ttl + extra),
        }
    }

    fn may_grant(&self, granted: &Granted) -> Verdict {
        let (fixture, asked) = (self.fixture, self.exchange.asked);
        let life = &fixture.lives[self.exchange.session];
        let user = &fixture.users[life.user];
        hold(!self.expired, || format!("an expired session: {self:?}"))?;
        hold(!self.known, || format!("a session is revived: {self:?}"))?;
        let window = fixture.window(&self.exchange, self.liveness);
        hold(life.was_alive(user, window), || {
            format!("a token too long after the end of its session: {self:?}")
        })?;
        let window = Window::before(fixture.now(), self.permissions);
        let names = granted.names;
        hold(
            user.names.ever(window, |held, _| held.and(asked) == names),
            || format!("granted {names:?}, which the user did not hold lately: {self:?}"),
        )?;
        self.rests_on_the_iams_word(names)?;
        let claims = &granted.claims;
        let scope = claims["scope"].as_str().unwrap_or_default();
        let times = [&claims["iat"], &claims["exp"]].map(|time| time.as_u64().unwrap_or(0));
        let right = Names::parse(scope) == Some(names)
            && claims["sub"] == user.subject.as_str()
            && claims["sid"] == life.pair.id.as_str()
            && times[0] == self.clock.unix_seconds()
            && (times[0]..=life.pair.expires_at).contains(&times[1]);
        hold(right, || format!("a token says {claims}: {self:?}"))
    }

    /// Nothing but what the IAM said to this very replica counts.
    fn rests_on_the_iams_word(&self, granted: Names) -> Verdict {
        let asked = self.exchange.asked;
        let says = |word: &Word| word.names.map(|held| held.and(asked));
        let life = &self.fixture.lives[self.exchange.session];
        let subject = &self.fixture.users[life.user].subject;
        let words = self.fixture.replicas[self.exchange.at].line.words();
        let mut latest = words.iter().enumerate().rev();
        let alive = latest.any(|(number, word)| {
            word.session == life.upstream
                && word.names.is_some()
                && (word.counts || number >= self.exchange.words_before)
                && self.is_younger(word, self.liveness)
        });
        let held = words.iter().rev().any(|word| {
            word.subject == *subject
                && says(word) == Some(granted)
                && self.is_younger(word, self.permissions)
        });
        hold(alive && held, || {
            format!("granted {granted:?} without the word of the IAM: {self:?}")
        })
    }

    /// A fault is right only where the IAM does not serve, and where nothing could be said
    /// without it.
    fn may_fail(&self, fault: &str) -> Verdict {
        hold(self.outage.is_possible(), || {
            format!("the IAM serves, and yet {fault}: {self:?}")
        })?;
        hold(!self.exchange.over_before, || {
            format!("what is known is not said, but {fault}: {self:?}")
        })?;
        hold(!self.is_sure(), || {
            format!("what is fresh enough is not used, but {fault}: {self:?}")
        })
    }

    /// Whether the replica must know enough without asking. The caches forget by the machine's
    /// time too, so short times are not judged; and some knowledge is renewed a little early.
    fn is_sure(&self) -> bool {
        const LONG: Duration = Duration::from_secs(30);
        let setting = &self.fixture.setting;
        let extra = if self.outage.is_silent() {
            setting.stale_if_error
        } else {
            0
        };
        let life = &self.fixture.lives[self.exchange.session];
        let subject = &self.fixture.users[life.user].subject;
        let words = self.fixture.replicas[self.exchange.at].line.words();
        let sure = |bound: u64, wanted: &dyn Fn(&Word) -> bool| {
            let mut words = words.iter().rev();
            let last = words.find(|word| word.names.is_some() && wanted(word));
            let bound = Duration::from_secs(bound + extra);
            bound >= LONG
                && last.is_some_and(|word| word.counts && self.is_younger(word, bound / 10 * 8))
        };
        sure(setting.freshness, &|word| word.session == life.upstream)
            && sure(setting.permissions_ttl, &|word| word.subject == *subject)
    }

    /// By whichever of the replica's clocks says more. A wall clock set back by more than a minute
    /// makes everything old.
    fn is_younger(&self, word: &Word, bound: Duration) -> bool {
        let ran = self.clock.monotonic.saturating_sub(word.asked.monotonic);
        let set_back = (word.asked.unix + ran).saturating_sub(self.clock.unix);
        let age = ran.max(self.clock.unix.saturating_sub(word.asked.unix));
        set_back <= Duration::from_secs(60) && age < bound
    }

    /// Whether the IAM said meanwhile that this session is over.
    fn told_now(&self) -> bool {
        let life = &self.fixture.lives[self.exchange.session];
        let words = self.fixture.replicas[self.exchange.at].line.words();
        let mut words = words.iter().skip(self.exchange.words_before);
        words.any(|word| word.session == life.upstream && word.names.is_none())
    }

    fn case_of(&self, granted: &Granted) -> Case {
        let life = &self.fixture.lives[self.exchange.session];
        let user = &self.fixture.users[life.user];
        if !life.is_alive(user, self.fixture.now()) {
            Case::GrantedAfterTheEnd
        } else if user.names.now().and(self.exchange.asked) != granted.names {
            Case::GrantedFromBefore
        } else if self.outage.is_certain() {
            Case::GrantedInAnOutage
        } else {
            Case::Granted
        }
    }
}

impl fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let life = &self.fixture.lives[self.exchange.session];
        f.debug_struct("View")
            .field("now", &self.fixture.now())
            .field("exchange", &self.exchange)
            .field("expired", &self.expired)
            .field("known", &life.known)
            .field("outage", &self.outage)
            .field("ended", &life.ended)
            .field("promised_until", &life.promised_until)
            .field("user", &self.fixture.users[life.user])
            .finish_non_exhaustive()
    }
}
