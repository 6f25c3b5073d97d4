//! A subscriber that keeps what it receives.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::event::{Event, LoginEnd, Subscriber, Subscribers};
use crate::results::{LookUp, UpstreamLogoutOutcome};
use iam_adapters::name::Name as _;
use strum::EnumCount as _;

/// Events that no result of an operation shows, in text.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    texts: Mutex<Vec<String>>,
    untracked_logins: AtomicU64,
    look_ups: Mutex<Vec<LookUp>>,
    logins: Mutex<Vec<bool>>,
}

impl Recorded {
    /// What was received since the last call.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.texts.lock().unwrap())
    }

    /// How many unfinished logouts had each outcome, of what was not [taken](Self::take).
    pub(crate) fn logout_outcomes(&self) -> [usize; UpstreamLogoutOutcome::COUNT] {
        let texts = self.texts.lock().unwrap();
        let texts = texts.iter().filter(|text| text.starts_with("logout of "));
        ["finished", "expired", "rejected", "dropped"]
            .map(|outcome| texts.clone().filter(|text| text.ends_with(outcome)).count())
    }

    pub(crate) fn untracked_logins(&self) -> u64 {
        self.untracked_logins.load(Ordering::Relaxed)
    }

    /// The results of look-ups in the store that replicas share since the last call.
    pub(crate) fn look_ups(&self) -> Vec<LookUp> {
        std::mem::take(&mut self.look_ups.lock().unwrap())
    }

    /// Whether an IAM could receive the credentials of each login since the last call, except of those without an end.
    pub(crate) fn logins(&self) -> Vec<bool> {
        std::mem::take(&mut self.logins.lock().unwrap())
    }

    /// As the only subscriber.
    pub(crate) fn subscribed(self: &Arc<Self>) -> Subscribers {
        let this: Arc<dyn Subscriber> = Arc::<Self>::clone(self);
        Subscribers::new([this])
    }
}

impl Subscriber for Recorded {
    fn on_event(&self, event: &Event<'_>) {
        let text = match *event {
            Event::SlowRate {
                email,
                is_known_network,
            } => format!("slow rate of {email}, known network: {is_known_network}"),
            Event::UpstreamLogout {
                iam,
                session_id,
                outcome,
            } => format!("logout of {session_id} at {iam}: {}", outcome.name()),
            Event::Login {
                end: LoginEnd::Unknown,
                ..
            } => "login without an end".to_owned(),
            Event::Login { reaches_iam, .. } => {
                self.logins.lock().unwrap().push(reaches_iam);
                return;
            }
            Event::Logout {
                session,
                result: None,
                ..
            } => format!("logout without an end of {}", session.unwrap().sub),
            Event::LogoutToken { iam, .. } => format!("logout token of {iam:?}"),
            Event::Exchange {
                iam: Some(iam),
                result: Ok(source),
                ..
            } => format!("exchange at {iam}: {}", source.name()),
            Event::SharedLookUp { result } => {
                self.look_ups.lock().unwrap().push(result);
                return;
            }
            Event::UntrackedLogin => {
                self.untracked_logins.fetch_add(1, Ordering::Relaxed);
                return;
            }
            _ => return,
        };
        self.texts.lock().unwrap().push(text);
    }
}
