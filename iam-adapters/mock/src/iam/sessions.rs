//! The sessions of the mock: small, because a load test begins a hundred thousand of them.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use aws_lc_rs::rand;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrecy::{ExposeSecret, SecretString};
use subtle::ConstantTimeEq;

use super::users::UserNumber;

/// Below this many sessions none are looked for that have expired.
const SWEEP_FROM: usize = 1024;

/// 128 random bits; base64url without padding outside.
type Random = [u8; 16];

#[derive(Clone, Copy)]
struct Session {
    secret: Random,
    began_at_millis: u64,
    expires_at_millis: u64,
    user: UserNumber,
}

/// What is told of a session that lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Living {
    pub(super) id: String,
    pub(super) user: UserNumber,
    pub(super) began_at: Duration,
    pub(super) expires_at: Duration,
}

/// All sessions that have begun and not been ended; those that have expired go by and by.
#[derive(Clone)]
pub(super) struct Sessions {
    held: HashMap<Random, Session>,
    sweep_at: usize,
}

impl Sessions {
    pub(super) fn new() -> Self {
        Self {
            held: HashMap::new(),
            sweep_at: SWEEP_FROM,
        }
    }

    /// Begins a session and gives its id and secret; none where there is no randomness.
    pub(super) fn begin(
        &mut self,
        user: UserNumber,
        now: Duration,
        lifetime: Duration,
    ) -> Option<(String, SecretString)> {
        let (mut id, mut secret) = (Random::default(), Random::default());
        rand::fill(&mut id).and(rand::fill(&mut secret)).ok()?;
        if self.held.len() >= self.sweep_at {
            self.sweep(now);
        }
        let session = Session {
            secret,
            began_at_millis: millis(now),
            expires_at_millis: millis(now.saturating_add(lifetime)),
            user,
        };
        self.held.insert(id, session);
        Some((
            URL_SAFE_NO_PAD.encode(id),
            URL_SAFE_NO_PAD.encode(secret).into(),
        ))
    }

    /// Whose the session is, where it is alive and the secret is its own.
    pub(super) fn alive(
        &self,
        id: &str,
        secret: &SecretString,
        now: Duration,
    ) -> Option<UserNumber> {
        let session = self.held.get(&decode(id)?)?;
        let secret = decode(secret.expose_secret())?;
        let proven = bool::from(session.secret.ct_eq(&secret));
        (proven && session.is_alive(millis(now))).then_some(session.user)
    }

    /// Every session that lives, in no particular order.
    pub(super) fn living(&self, now: Duration) -> impl Iterator<Item = Living> {
        let now = millis(now);
        let alive = self.held.iter().filter(move |(_, held)| held.is_alive(now));
        alive.map(|(id, session)| Living {
            id: URL_SAFE_NO_PAD.encode(id),
            user: session.user,
            began_at: Duration::from_millis(session.began_at_millis),
            expires_at: Duration::from_millis(session.expires_at_millis),
        })
    }

    /// How many sessions of each account live; whoever has none is not there.
    pub(super) fn living_by_user(&self, now: Duration) -> HashMap<UserNumber, usize> {
        let now = millis(now);
        let mut counts = HashMap::new();
        for session in self.held.values().filter(|held| held.is_alive(now)) {
            *counts.entry(session.user).or_default() += 1;
        }
        counts
    }

    /// How many sessions live.
    pub(super) fn living_count(&self, now: Duration) -> usize {
        let now = millis(now);
        self.held.values().filter(|held| held.is_alive(now)).count()
    }

    /// Ends the session; whether it lived.
    pub(super) fn end(&mut self, id: &str, now: Duration) -> bool {
        let ended = decode(id).and_then(|id| self.held.remove(&id));
        ended.is_some_and(|session| session.is_alive(millis(now)))
    }

    /// Ends every session of the accounts that are told; how many of them lived.
    pub(super) fn end_where(&mut self, now: Duration, ends: impl Fn(UserNumber) -> bool) -> usize {
        let now = millis(now);
        let mut lived = 0;
        self.held.retain(|_, session| {
            let ends = ends(session.user);
            lived += usize::from(ends && session.is_alive(now));
            !ends
        });
        lived
    }

    /// How many are held, expired ones among them.
    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    /// Forgets what has expired. The next time is when the number has doubled, so that a login
    /// pays for looking at two sessions on average.
    fn sweep(&mut self, now: Duration) {
        let now = millis(now);
        self.held.retain(|_, session| session.is_alive(now));
        self.sweep_at = SWEEP_FROM.max(self.held.len() * 2);
        self.held.shrink_to(self.sweep_at);
    }
}

impl Session {
    const fn is_alive(&self, now_millis: u64) -> bool {
        now_millis < self.expires_at_millis
    }
}

/// Shows how many there are and no secret.
impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sessions({})", self.held.len())
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
    fn expired_sessions_do_not_pile_up() {
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
    fn a_sweep_takes_no_living_session() {
        let mut sessions = Sessions::new();
        let begun: Vec<_> = (0..4 * SWEEP_FROM)
            .filter_map(|_| sessions.begin(USER, Duration::ZERO, LIFETIME))
            .collect();
        sessions.sweep(LIFETIME / 2);
        for (id, secret) in &begun {
            assert_eq!(
                sessions.alive(id, secret, Duration::ZERO),
                Some(USER),
                "{id}"
            );
        }
        assert_eq!(begun.len(), 4 * SWEEP_FROM);
    }

    #[test]
    fn an_id_or_secret_has_one_spelling() {
        let mut sessions = Sessions::new();
        let (id, secret) = sessions
            .begin(USER, Duration::ZERO, LIFETIME)
            .expect("session");
        let alive = |id: &str, secret: &str| {
            sessions
                .alive(id, &secret.to_owned().into(), Duration::ZERO)
                .is_some()
        };
        let secret = secret.expose_secret();
        assert!(alive(&id, secret));
        for odd in [
            "",
            "AA",
            &format!("{id}="),
            &format!(" {id}"),
            &format!("{id}AA"),
        ] {
            assert!(!alive(odd, secret), "{odd:?}");
        }
        for odd in ["", "AA", &format!("{secret}="), &format!("{secret}AA")] {
            assert!(!alive(&id, odd));
        }
    }
}
