//! What a refused session is spared is done all the same, on a session that nobody has: the time of
//! a refusal shall not tell how far the session came.
//!
//! Nothing here runs for a good session, and a bad one costs far less than a good one, which gets a
//! signature besides.

use std::hint::black_box;

use iam_adapters::IamAdapter;
use serde_json::json;

use super::error::{GatewayError, InvalidSession};
use super::revocations::{RevocationKey, SessionNames};
use super::session::{FORMAT, SealedSession, SessionId};
use super::{Gateway, seal};

/// As long as the ids of most IAMs are.
const ID: &str = "00000000-0000-0000-0000-000000000000";

/// A session that nobody has, as it would come out from under its seal.
pub(super) struct ConstantTimeFallback(Vec<u8>);

impl ConstantTimeFallback {
    /// A session of this IAM.
    pub(super) fn of(iam: &dyn IamAdapter) -> Self {
        let session = json!({
            "v": FORMAT, "sid": SessionId::NOBODYS.to_string(),
            "iam": iam.name(), "iss": iam.issuer(),
            "sub": ID, "usid": ID, "secret": ID, "iat": 1_800_000_000, "exp": 1_800_086_400,
        });
        Self(session.to_string().into_bytes())
    }
}

impl Gateway {
    /// Goes on where a token was refused. A fault is no refusal, and takes whatever it takes.
    ///
    /// What is opened and yet malformed is taken for what was never opened: only whoever has the
    /// key can make such a token.
    #[cold]
    pub(super) fn go_on_in_vain(
        &self,
        error: &GatewayError,
        session_id: &str,
        session_token: &str,
    ) {
        let GatewayError::InvalidSession(refused) = *error else {
            return;
        };
        let key_set = self.keys.sealing.key_set();
        let key = key_set.current(self.clock.now());
        if refused != InvalidSession::Tampered {
            key.unseal_in_vain(session_token.len());
        }
        if let Ok(session) = seal::read(black_box(&self.constant_time_fallback.0)) {
            let _ = black_box(self.matching(&session, session_id));
            self.look_in_vain(key.revocations(), &session);
        }
    }

    /// Looks for the end of a session that is refused whatever becomes of it.
    #[cold]
    pub(super) fn look_in_vain(&self, key: &RevocationKey, session: &SealedSession<'_>) {
        let mut names = SessionNames::new(key, SessionId::NOBODYS, session);
        let _ = black_box(self.revocations.end_of(&mut names));
    }
}
