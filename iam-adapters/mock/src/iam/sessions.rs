//! The sessions of the mock. Entries are small, because a load test begins 100,000 of them.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::time::Duration;

use aws_lc_rs::rand;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrecy::{ExposeSecret, SecretString};
use subtle::ConstantTimeEq;

use super::users::UserNumber;

/// No sweep of expired sessions below this number.
const SWEEP_FROM: usize = 1024;

/// The number of gateway session ids that are kept, as many as the journal has entries.
const GATEWAY_IDS_MAX: usize = 10_000;

/// 128 random bits, encoded in base64url without padding outside of this module.
type Random = [u8; 16];

#[derive(Clone, Copy)]
struct Session {
    secret: Random,
    began_at_millis: u64,
    expires_at_millis: u64,
    user: UserNumber,
}

/// An active session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ActiveSession {
    pub(super) id: String,
    pub(super) user: UserNumber,
    pub(super) began_at: Duration,
    pub(super) expires_at: Duration,
}

/// All sessions that have not been ended. Expired ones are removed by sweeps.
#[derive(Clone)]
pub(super) struct Sessions {
    stored: HashMap<Random, Session>,
    sweep_at: usize,
    /// The gateway's id of a session and its own, the newest last; also of ended sessions.
    gateway_ids: VecDeque<(Random, Random)>,
}

impl Sessions {
    pub(super) fn new() -> Self {
        Self {
            stored: HashMap::new(),
            sweep_at: SWEEP_FROM,
            gateway_ids: VecDeque::new(),
        }
    }

    /// Keeps the id that the gateway gave to the session. Does nothing if one is not an id.
    pub(super) fn set_gateway_id(&mut self, id: &str, gateway_id: &str) {
        if let Some(pair) = decode(gateway_id).zip(decode(id)) {
            if self.gateway_ids.len() >= GATEWAY_IDS_MAX {
                self.gateway_ids.pop_front();
            }
            self.gateway_ids.push_back(pair);
        }
    }

    /// The gateway's id of each session, by its own id.
    pub(super) fn gateway_ids(&self) -> HashMap<String, String> {
        let pairs = self.gateway_ids.iter();
        pairs
            .map(|(gateway_id, id)| {
                (
                    URL_SAFE_NO_PAD.encode(id),
                    URL_SAFE_NO_PAD.encode(gateway_id),
                )
            })
            .collect()
    }

    /// Keeps those that are known to `before`, and no others.
    pub(super) fn keep_gateway_ids_of(&mut self, before: &Self) {
        self.gateway_ids.clone_from(&before.gateway_ids);
    }

    /// The id of the session that the gateway calls so.
    pub(super) fn id_of(&self, gateway_id: &str) -> Option<String> {
        let wanted = decode(gateway_id)?;
        let mut newest_first = self.gateway_ids.iter().rev();
        let (_, id) = newest_first.find(|(gateway_id, _)| *gateway_id == wanted)?;
        Some(URL_SAFE_NO_PAD.encode(id))
    }

    /// Begins a session and returns its id and secret; none if there are no random numbers.
    pub(super) fn begin(
        &mut self,
        user: UserNumber,
        now: Duration,
        lifetime: Duration,
    ) -> Option<(String, SecretString)> {
        let (mut id, mut secret) = (Random::default(), Random::default());
        rand::fill(&mut id).and(rand::fill(&mut secret)).ok()?;
        if self.stored.len() >= self.sweep_at {
            self.sweep(now);
        }
        let session = Session {
            secret,
            began_at_millis: millis(now),
            expires_at_millis: millis(now.saturating_add(lifetime)),
            user,
        };
        self.stored.insert(id, session);
        Some((
            URL_SAFE_NO_PAD.encode(id),
            URL_SAFE_NO_PAD.encode(secret).into(),
        ))
    }

    /// The user of the session, if it is active and the secret is right.
    pub(super) fn user_of(
        &self,
        id: &str,
        secret: &SecretString,
        now: Duration,
    ) -> Option<UserNumber> {
        let session = self.stored.get(&decode(id)?)?;
        let secret = decode(secret.expose_secret())?;
        let is_right = bool::from(session.secret.ct_eq(&secret));
        (is_right && session.is_active(millis(now))).then_some(session.user)
    }

    /// Every active session, in no particular order.
    pub(super) fn active(&self, now: Duration) -> impl Iterator<Item = ActiveSession> {
        let now = millis(now);
        let active = self
            .stored
            .iter()
            .filter(move |(_, stored)| stored.is_active(now));
        active.map(|(id, session)| ActiveSession {
            id: URL_SAFE_NO_PAD.encode(id),
            user: session.user,
            began_at: Duration::from_millis(session.began_at_millis),
            expires_at: Duration::from_millis(session.expires_at_millis),
        })
    }

    /// The number of active sessions of each account that has any.
    pub(super) fn active_by_user(&self, now: Duration) -> HashMap<UserNumber, usize> {
        let now = millis(now);
        let mut counts = HashMap::new();
        for session in self.stored.values().filter(|stored| stored.is_active(now)) {
            *counts.entry(session.user).or_default() += 1;
        }
        counts
    }

    /// The number of active sessions.
    pub(super) fn active_count(&self, now: Duration) -> usize {
        let now = millis(now);
        self.stored
            .values()
            .filter(|stored| stored.is_active(now))
            .count()
    }

    /// Ends the session. Returns whether it was active.
    pub(super) fn end(&mut self, id: &str, now: Duration) -> bool {
        let ended = decode(id).and_then(|id| self.stored.remove(&id));
        ended.is_some_and(|session| session.is_active(millis(now)))
    }

    /// Ends every session of the selected accounts. Returns how many were active.
    pub(super) fn end_where(&mut self, now: Duration, ends: impl Fn(UserNumber) -> bool) -> usize {
        let now = millis(now);
        let mut ended = 0;
        self.stored.retain(|_, session| {
            let ends = ends(session.user);
            ended += usize::from(ends && session.is_active(now));
            !ends
        });
        ended
    }

    /// The number of stored sessions, including expired ones.
    pub(super) fn len(&self) -> usize {
        self.stored.len()
    }

    /// Removes expired sessions. The next sweep is when the number has doubled, so that a login scans
    /// two sessions on average.
    fn sweep(&mut self, now: Duration) {
        let now = millis(now);
        self.stored.retain(|_, session| session.is_active(now));
        self.sweep_at = SWEEP_FROM.max(self.stored.len() * 2);
        self.stored.shrink_to(self.sweep_at);
    }
}

impl Session {
    const fn is_active(&self, now_millis: u64) -> bool {
        now_millis < self.expires_at_millis
    }
}

/// Shows the number only, no secrets.
impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sessions({})", self.stored.len())
    }
}

fn decode(text: &str) -> Option<Random> {
    let mut bits = Random::default();
    let length = URL_SAFE_NO_PAD.decode_slice(text, &mut bits).ok()?;
    (length == bits.len()).then_some(bits)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFETIME: Duration = Duration::from_secs(10);
    const USER: UserNumber = UserNumber(1);

    #[test]
    fn a_session_takes_56_bytes() {
        assert_eq!(size_of::<(Random, Session)>(), 56);
    }

    #[test]
    fn expired_sessions_are_removed() {
        let mut sessions = Sessions::new();
        for round in 0..100 {
            let now = LIFETIME * round;
            for _ in 0..SWEEP_FROM {
                sessions.begin(USER, now, LIFETIME).expect("randomness");
            }
            assert!(sessions.len() <= 3 * SWEEP_FROM, "{sessions:?}");
        }
    }

    #[test]
    fn sweep_keeps_active_sessions() {
        let mut sessions = Sessions::new();
        let begun: Vec<_> = (0..4 * SWEEP_FROM)
            .filter_map(|_| sessions.begin(USER, Duration::ZERO, LIFETIME))
            .collect();
        sessions.sweep(LIFETIME / 2);
        for (id, secret) in &begun {
            assert_eq!(
                sessions.user_of(id, secret, Duration::ZERO),
                Some(USER),
                "{id}"
            );
        }
        assert_eq!(begun.len(), 4 * SWEEP_FROM);
    }

    #[test]
    fn id_and_secret_have_one_encoding() {
        let mut sessions = Sessions::new();
        let (id, secret) = sessions
            .begin(USER, Duration::ZERO, LIFETIME)
            .expect("session");
        let is_active = |id: &str, secret: &str| {
            sessions
                .user_of(id, &secret.to_owned().into(), Duration::ZERO)
                .is_some()
        };
        let secret = secret.expose_secret();
        assert!(is_active(&id, secret));
        for invalid in [
            "",
            "AA",
            &format!("{id}="),
            &format!(" {id}"),
            &format!("{id}AA"),
        ] {
            assert!(!is_active(invalid, secret), "{invalid:?}");
        }
        for invalid in ["", "AA", &format!("{secret}="), &format!("{secret}AA")] {
            assert!(!is_active(&id, invalid));
        }
    }

    #[test]
    fn only_the_newest_ids_of_the_gateway_are_kept() {
        let mut sessions = Sessions::new();
        let id = |number: usize| URL_SAFE_NO_PAD.encode((number as u128).to_be_bytes());
        for number in 0..=GATEWAY_IDS_MAX {
            sessions.set_gateway_id(&id(number), &id(number + GATEWAY_IDS_MAX));
        }
        sessions.set_gateway_id("no id", &id(1));
        assert_eq!(sessions.gateway_ids().len(), GATEWAY_IDS_MAX);
        assert_eq!(sessions.id_of(&id(GATEWAY_IDS_MAX)), None, "the oldest");
        assert_eq!(sessions.id_of(&id(GATEWAY_IDS_MAX + 1)), Some(id(1)));
    }
}
