//! A session into its token, and the pair that a client sends back into the session.

use std::sync::Arc;

use iam_adapters::{Moment, UpstreamSession};
use zeroize::Zeroizing;

use super::error::{GatewayError, InvalidSession};
use super::revocations::{End, Revocation, RevocationKey, SessionNames};
use super::session::{FORMAT, SealedSession, SessionId};
use super::{Gateway, seal};

/// A session whose pair matched.
pub(super) struct Opened<'b> {
    pub(super) session: SealedSession<'b>,
    id: SessionId,
    key: Arc<RevocationKey>,
}

impl Opened<'_> {
    /// Under which names it may have ended.
    pub(super) fn names(&self) -> SessionNames<'_> {
        SessionNames::new(&self.key, self.id, &self.session)
    }

    /// Its own end, as it is recorded.
    pub(super) fn revocation(&self, end: End) -> Revocation {
        Revocation::of_session(self.key.session(self.id), end, self.session.exp)
    }
}

impl Gateway {
    pub(super) fn seal(
        &self,
        id: SessionId,
        upstream: &UpstreamSession,
        asked_at: Moment,
        expires_at: u64,
    ) -> Result<String, GatewayError> {
        use secrecy::ExposeSecret as _;
        let session = SealedSession {
            v: FORMAT,
            sid: id.to_string().into(),
            iam: self.iam.name().into(),
            iss: self.iam.issuer().into(),
            sub: upstream.subject.as_str().into(),
            usid: upstream.id.as_str().into(),
            secret: upstream.secret.expose_secret().into(),
            iat: asked_at.unix_seconds(),
            exp: expires_at,
        };
        seal::seal(
            &self.keys.sealing.key_set(),
            &session,
            asked_at,
            &*self.random,
        )
    }

    /// Opens the pair and looks at everything in it but the time.
    pub(super) fn open<'b>(
        &self,
        session_id: &str,
        session_token: &str,
        buffer: &'b mut Zeroizing<Vec<u8>>,
    ) -> Result<Opened<'b>, GatewayError> {
        let (session, key) = seal::open_from(&self.keys.sealing, session_token, buffer)
            .inspect_err(|error| self.go_on_in_vain(error, session_id, session_token))?;
        let id = self
            .matching(&session, session_id)
            .inspect_err(|_| self.look_in_vain(&key, &session))?;
        Ok(Opened { session, id, key })
    }

    /// The session's id, where it is the one sent and the session is of this IAM.
    pub(super) fn matching(
        &self,
        session: &SealedSession<'_>,
        session_id: &str,
    ) -> Result<SessionId, InvalidSession> {
        #[cfg(test)]
        super::tests::work::did(super::tests::work::Step::Compared);
        let id = SessionId::parse(&session.sid).ok_or(InvalidSession::Malformed)?;
        if !id.is(session_id) {
            return Err(InvalidSession::Mismatch);
        }
        if session.iam != self.iam.name() || session.iss != self.iam.issuer() {
            return Err(InvalidSession::Foreign);
        }
        Ok(id)
    }
}
