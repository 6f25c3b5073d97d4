//! What the operations return and report.

use std::sync::Arc;

use iam_adapters::logout_token::Ended;
use secrecy::SecretString;
use strum::{EnumCount, IntoStaticStr, VariantArray};

use crate::session_id::SessionId;

/// The result of a login.
#[derive(Debug)]
pub struct NewSession {
    /// The user, as in `sub` of the access tokens.
    pub sub: String,
    /// The id of the session.
    pub session_id: SessionId,
    /// The session token.
    pub session_token: SecretString,
    /// When the credentials were verified, in seconds since 1970.
    pub verified_at: u64,
    /// When it expires, in seconds since 1970.
    pub expires_at: u64,
}

/// The source of the data that an exchange used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum DataSource {
    /// The caches.
    Hit,
    /// Another replica, through the shared cache.
    Shared,
    /// An introspection that this exchange started.
    Miss,
    /// An introspection that was already in flight.
    Coalesced,
    /// Cached data older than the freshness, because the IAM did not respond (`stale_if_error`).
    Stale,
}

/// A session that its client ends.
#[derive(Debug)]
pub struct LoggedOut {
    /// The id of the session.
    pub session_id: SessionId,
    /// The user, as in `sub` of the access tokens.
    pub sub: String,
    /// The name of the IAM.
    pub iam: Arc<str>,
}

/// What an accepted logout token ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedByIam {
    /// The user, as in `sub` of the access tokens, if all sessions of one user ended.
    pub sub: Option<String>,
    /// As in the token.
    pub ended: Ended,
}

/// What became of an unfinished logout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumCount, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum UpstreamLogoutOutcome {
    /// The session has ended at the IAM.
    Finished,
    /// The session has expired by every clock.
    Expired,
    /// The IAM gave an answer that repeating cannot change.
    Rejected,
    /// It was the oldest one in a full table.
    Dropped,
}

/// The result of a look-up in the shared cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum LookUp {
    /// Fresh data.
    Hit,
    /// No entry, or one of a key that this replica does not have.
    Miss,
    /// Data that is too old.
    Stale,
    /// An entry that does not open, or from the future.
    Invalid,
    /// No response in time.
    #[strum(serialize = "timeout")]
    TimedOut,
    /// No connection, an error, or a pause after failures.
    Unavailable,
}
