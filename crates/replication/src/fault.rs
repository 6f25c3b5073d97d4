//! Errors of Redis.

use redis::{ErrorKind, RedisError, ServerErrorKind};
use thiserror::Error;

/// Why Redis cannot be used now.
///
/// No text contains an error message of Redis: that may quote the command, and with it the password, the user or the
/// id of a revocation.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RedisFault {
    /// No connection was tried yet.
    #[error("is not read yet")]
    NotRead,
    /// No connection, or it failed.
    #[error("cannot be reached: {0}")]
    Unreachable(String),
    /// No response within the deadline.
    #[error("does not answer in time")]
    TimedOut,
    /// It is a replica of another Redis.
    #[error("is read-only")]
    ReadOnly,
    /// It refuses a command or this gateway, for example because its memory is full.
    #[error("refuses: {0}")]
    Refused(&'static str),
    /// It may delete any key when its memory is full.
    #[error(
        "has a maxmemory-policy allkeys-…, which may delete revocations: use noeviction or volatile-…"
    )]
    Evicts,
    /// No Sentinel that responds knows a primary of this name.
    #[error("has no primary: no Sentinel that responds knows one of this name")]
    UnknownPrimary,
    /// No Sentinel can be used: this one is the last.
    #[error("has no known primary: the Sentinel {sentinel} {fault}")]
    Sentinel {
        /// Its host and port.
        sentinel: String,
        /// Why it cannot be used.
        fault: Box<RedisFault>,
    },
    /// Sentinel made another server the primary.
    #[error("is no longer the primary")]
    Replaced,
}

impl From<RedisError> for RedisFault {
    fn from(error: RedisError) -> Self {
        match error.kind() {
            ErrorKind::Server(ServerErrorKind::ReadOnly) => Self::ReadOnly,
            ErrorKind::AuthenticationFailed => Self::Refused("the user or the password is wrong"),
            ErrorKind::Server(_) | ErrorKind::Extension => {
                Self::Refused(refusal(error.code().unwrap_or_default()))
            }
            _ if error.is_timeout() => Self::TimedOut,
            // An error of the operating system or of TLS.
            ErrorKind::Io => Self::Unreachable(error.to_string()),
            _ => Self::Unreachable(error.category().to_owned()),
        }
    }
}

/// The meaning of an error code of Redis.
fn refusal(code: &str) -> &'static str {
    match code {
        "WRONGPASS" => "WRONGPASS, the user or the password is wrong",
        "NOAUTH" => "NOAUTH, it requires a password",
        "NOPERM" => "NOPERM, the user lacks a right to a command, a key or a channel",
        "OOM" => "OOM, its memory is full",
        "MISCONF" => "MISCONF, it cannot save to its disk",
        "LOADING" => "LOADING, it still reads its data",
        "MASTERDOWN" => "MASTERDOWN, it has lost its primary",
        "NOREPLICAS" => "NOREPLICAS, too few of its replicas are connected",
        "MOVED" | "ASK" | "CLUSTERDOWN" => "it is part of a cluster",
        "BUSY" => "BUSY, a script runs",
        "DENIED" => "DENIED, it is in protected mode",
        "WRONGTYPE" => "WRONGTYPE, its key is not a stream",
        "UNBLOCKED" => "UNBLOCKED, it became a replica",
        "ERR" => "ERR, an unknown command or another error",
        _ => "with an unknown error code",
    }
}

#[cfg(test)]
mod tests {
    use redis::{ErrorKind, RedisError, Value, make_extension_error, parse_redis_value};

    use super::RedisFault;

    #[test]
    fn redis_error_is_reported_by_its_code_without_its_text() {
        for (received, expected) in [
            (
                "ERR unknown command 'HELLO', with args beginning with: 'canary'",
                "refuses: ERR, ",
            ),
            ("NOPERM User canary has no permissions", "refuses: NOPERM, "),
            ("WRONGPASS canary", "refuses: WRONGPASS, "),
            ("OOM command not allowed, canary", "refuses: OOM, "),
            ("READONLY canary", "is read-only"),
            ("CANARY canary", "refuses: with an unknown error code"),
            ("MOVED 1 canary:6379", "refuses: it is part of a cluster"),
        ] {
            let fault = RedisFault::from(error(received));
            assert!(fault.to_string().starts_with(expected), "{fault}");
            let shown = format!("{fault} {fault:?}").to_lowercase();
            assert!(!shown.contains("canary"), "{shown}");
        }
    }

    #[test]
    fn unexpected_value_is_not_repeated() {
        let detail = "Response type was canary".to_owned();
        let error = RedisError::from((ErrorKind::UnexpectedReturnType, "not a number", detail));
        let fault = RedisFault::from(error);
        assert_eq!(fault.to_string(), "cannot be reached: type error");
        let extension = make_extension_error("canary".to_owned(), Some("canary".to_owned()));
        assert!(!RedisFault::from(extension).to_string().contains("canary"));
    }

    /// An error as Redis sends it.
    fn error(received: &str) -> RedisError {
        let value = parse_redis_value(format!("-{received}\r\n").as_bytes()).expect("a response");
        match value {
            Value::ServerError(error) => error.into(),
            other => panic!("{other:?}"),
        }
    }
}
