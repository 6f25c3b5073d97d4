//! Why Redis is of no use.

use redis::{ErrorKind, RedisError, ServerErrorKind};
use thiserror::Error;

/// Why Redis is of no use just now.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RedisFault {
    /// No connection, or it broke.
    #[error("cannot be reached: {0}")]
    Unreachable(String),
    /// It took too long.
    #[error("does not answer in time")]
    TimedOut,
    /// It is a replica of another Redis, or was made one.
    #[error("may only be read: {0}")]
    ReadOnly(String),
    /// It refuses: it is full, or does not know this gateway.
    #[error("refuses: {0}")]
    Refused(String),
    /// It told more than could be taken in.
    #[error("told more than could be taken in")]
    Overrun,
}

impl From<RedisError> for RedisFault {
    fn from(error: RedisError) -> Self {
        match error.kind() {
            ErrorKind::Server(ServerErrorKind::ReadOnly) => Self::ReadOnly(error.to_string()),
            ErrorKind::Server(_) | ErrorKind::Extension | ErrorKind::AuthenticationFailed => {
                Self::Refused(error.to_string())
            }
            _ if error.is_timeout() => Self::TimedOut,
            _ => Self::Unreachable(error.to_string()),
        }
    }
}
