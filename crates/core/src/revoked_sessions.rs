//! The sessions that an operator revokes.

use iam_adapters::Subject;
use strum::IntoStaticStr;
use thiserror::Error;

use crate::session_id::SessionId;

/// The sessions that an operator revokes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RevokedSessions {
    /// One session, which this replica need not have seen.
    One(SessionId),
    /// Sessions of a subject.
    OfSubject {
        /// The subject, as in `sub` of the access tokens.
        subject: Subject,
        /// Only sessions whose login began in this second or before, since 1970; `None`: before the
        /// call has returned.
        begun_until: Option<u64>,
    },
    /// Sessions of an IAM.
    OfIam {
        /// The name of the IAM in the settings; `None`: every IAM.
        iam: Option<String>,
        /// As of a subject.
        begun_until: Option<u64>,
    },
}

impl RevokedSessions {
    /// The member of an operator's request that selects them.
    #[must_use]
    pub const fn selector(&self) -> &'static str {
        match self {
            Self::One(_) => "session_id",
            Self::OfSubject { .. } => "subject",
            Self::OfIam { iam: Some(_), .. } => "iam",
            Self::OfIam { iam: None, .. } => "all",
        }
    }

    /// Whether the time until which sessions are revoked is that of the end of the call.
    pub(crate) const fn is_until_return(&self) -> bool {
        match self {
            Self::One(_) => false,
            Self::OfSubject { begun_until, .. } | Self::OfIam { begun_until, .. } => {
                begun_until.is_none()
            }
        }
    }
}

/// Why no session can be revoked. Each message begins with the name of the member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum NotRevocable {
    /// The gateway has no IAM of this name.
    #[error("`iam` is not the name of a configured IAM")]
    UnknownIam,
    /// No IAM of the gateway can have this subject.
    #[error("`subject` begins with no `subject_prefix` of a configured IAM")]
    UnknownPrefix,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selector_is_that_of_the_request_and_only_a_request_without_a_time_is_until_the_return() {
        let of_subject = |begun_until| RevokedSessions::OfSubject {
            subject: Subject::new("alice").unwrap(),
            begun_until,
        };
        let of_iam = |iam: Option<&str>, begun_until| RevokedSessions::OfIam {
            iam: iam.map(str::to_owned),
            begun_until,
        };
        for (sessions, selector, is_until_return) in [
            (RevokedSessions::One(SessionId::DUMMY), "session_id", false),
            (of_subject(None), "subject", true),
            (of_subject(Some(1)), "subject", false),
            (of_iam(Some("a"), None), "iam", true),
            (of_iam(Some("a"), Some(1)), "iam", false),
            (of_iam(None, None), "all", true),
        ] {
            assert_eq!(sessions.selector(), selector, "{sessions:?}");
            assert_eq!(sessions.is_until_return(), is_until_return, "{sessions:?}");
        }
    }
}
