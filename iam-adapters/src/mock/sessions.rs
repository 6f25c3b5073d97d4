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

struct Session {
    secret: Random,
    expires_at_millis: u64,
    user: UserNumber,
}

/// All sessions that have begun and not been ended; those that have expired go by and by.
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
        (proven && millis(now) < session.expires_at_millis).then_some(session.user)
    }

    /// Ends the session; whether it was there.
    pub(super) fn end(&mut self, id: &str) -> bool {
        decode(id).is_some_and(|id| self.held.remove(&id).is_some())
    }

    /// Ends every session of the account; how many there were.
    pub(super) fn end_all_of(&mut self, user: UserNumber) -> usize {
        let before = self.held.len();
        self.held.retain(|_, session| session.user != user);
        before - self.held.len()
    }

    /// How many are held, expired ones among them.
    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    /// Forgets what has expired. The next time is when the number has doubled, so that a login
    /// pays for looking at two sessions on average.
    fn sweep(&mut self, now: Duration) {
        let now = millis(now);
        self.held
            .retain(|_, session| now < session.expires_at_millis);
        self.sweep_at = SWEEP_FROM.max(self.held.len() * 2);
        self.held.shrink_to(self.sweep_at);
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
    fn a_session_takes_48_bytes() {
        assert_eq!(size_of::<(Random, Session)>(), 48);
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
