//! Why Redis is of no use.

use redis::{ErrorKind, RedisError, ServerErrorKind};
use thiserror::Error;

/// Why Redis is of no use just now.
///
/// Nothing of it is in Redis' own words: an error of Redis may quote the command that it is about,
/// and with it the password that was sent, the user, or the name of a revocation.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RedisFault {
    /// No connection, or it broke.
    #[error("cannot be reached: {0}")]
    Unreachable(String),
    /// It took too long.
    #[error("does not answer in time")]
    TimedOut,
    /// It is a replica of another Redis, or was made one.
    #[error("may only be read")]
    ReadOnly,
    /// It refuses: it is full, or does not accept this gateway.
    #[error("refuses: {0}")]
    Refused(&'static str),
    /// It sent more than can be buffered.
    #[error("sent more than can be buffered")]
    Overrun,
}

impl From<RedisError> for RedisFault {
    fn from(error: RedisError) -> Self {
        match error.kind() {
            ErrorKind::Server(ServerErrorKind::ReadOnly) => Self::ReadOnly,
            ErrorKind::AuthenticationFailed => Self::Refused("user or password are wrong"),
            ErrorKind::Server(_) | ErrorKind::Extension => {
                Self::Refused(refusal(error.code().unwrap_or_default()))
            }
            _ if error.is_timeout() => Self::TimedOut,
            // The system's words, or those of TLS.
            ErrorKind::Io => Self::Unreachable(error.to_string()),
            _ => Self::Unreachable(error.category().to_owned()),
        }
    }
}

/// What an error of Redis means, by the code that it begins with.
fn refusal(code: &str) -> &'static str {
    match code {
        "WRONGPASS" => "WRONGPASS, user or password are wrong",
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
        "ERR" => "ERR, an unknown command or another error",
        _ => "with an unknown error code",
    }
}

#[cfg(test)]
mod tests {
    use redis::{ErrorKind, RedisError, Value, make_extension_error, parse_redis_value};

    use super::RedisFault;

    #[test]
    fn an_error_of_redis_is_told_by_its_code_and_never_in_its_words() {
        for (said, told) in [
            (
                "ERR unknown command 'HELLO', with args beginning with: 'canary'",
                "refuses: ERR, ",
            ),
            ("NOPERM User canary has no permissions", "refuses: NOPERM, "),
            ("WRONGPASS canary", "refuses: WRONGPASS, "),
            ("OOM command not allowed, canary", "refuses: OOM, "),
            ("READONLY canary", "may only be read"),
            ("CANARY canary", "refuses: with an unknown error code"),
            ("MOVED 1 canary:6379", "refuses: it is part of a cluster"),
        ] {
            let fault = RedisFault::from(error(said));
            assert!(fault.to_string().starts_with(told), "{fault}");
            let shown = format!("{fault} {fault:?}").to_lowercase();
            assert!(!shown.contains("canary"), "{shown}");
        }
    }

    #[test]
    fn a_value_that_was_not_expected_is_not_shown() {
        let detail = "Response type was canary".to_owned();
        let error = RedisError::from((ErrorKind::UnexpectedReturnType, "not a number", detail));
        let fault = RedisFault::from(error);
        assert_eq!(fault.to_string(), "cannot be reached: type error");
        let extension = make_extension_error("canary".to_owned(), Some("canary".to_owned()));
        assert!(!RedisFault::from(extension).to_string().contains("canary"));
    }

    /// An error as it comes over the wire.
    fn error(said: &str) -> RedisError {
        let value = parse_redis_value(format!("-{said}\r\n").as_bytes()).expect("an answer");
        match value {
            Value::ServerError(error) => error.into(),
            other => panic!("{other:?}"),
        }
    }
}
