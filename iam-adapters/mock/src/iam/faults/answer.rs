//! What the mock answers in place of the truth.

use std::fmt;
use std::time::Duration;

use iam_adapters::error::Refusal;
use iam_adapters::resilient::Operation;
use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

/// What the mock answers in place of the truth. Written as its name; where there is more to say,
/// as an object with the name as its only member: `{"throttled": {"retry_after": "3s"}}`,
/// `{"refused": "locked"}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The connection is refused.
    Unreachable,
    /// None comes: to the gateway as if its deadline had passed at once, over the wire in truth.
    Timeout,
    /// A call for fewer calls (429).
    Throttled {
        /// Its `Retry-After`.
        #[serde(with = "humantime_serde", skip_serializing_if = "Option::is_none")]
        retry_after: Option<Duration>,
    },
    /// The IAM says that it failed (500).
    ServerError,
    /// Nothing that can be understood.
    Unreadable,
    /// The gateway's own secret is not accepted.
    Misconfigured,
    /// A login is refused, the password being right or wrong.
    Refused(Refusal),
    /// The session is over.
    Inactive,
    /// The answer is about another session.
    AnotherSession,
    /// The connection is broken off. This and all that follows: over the wire alone.
    Reset,
    /// The answer ends before its end.
    Truncated,
    /// A page of HTML, as proxies make them.
    Html,
    /// A redirect to another host.
    Redirect,
    /// 10 MiB.
    HugeBody,
    /// A byte now and then.
    SlowBody,
}

impl Answer {
    /// The name by which it is asked for.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Timeout => "timeout",
            Self::Throttled { .. } => "throttled",
            Self::ServerError => "server_error",
            Self::Unreadable => "unreadable",
            Self::Misconfigured => "misconfigured",
            Self::Refused(_) => "refused",
            Self::Inactive => "inactive",
            Self::AnotherSession => "another_session",
            Self::Reset => "reset",
            Self::Truncated => "truncated",
            Self::Html => "html",
            Self::Redirect => "redirect",
            Self::HugeBody => "huge_body",
            Self::SlowBody => "slow_body",
        }
    }

    pub(super) const fn goes_with(self, operation: Operation) -> bool {
        match self {
            Self::Refused(_) => matches!(operation, Operation::Login),
            Self::Inactive | Self::AnotherSession => matches!(operation, Operation::Introspection),
            Self::Unreachable
            | Self::Timeout
            | Self::Throttled { .. }
            | Self::ServerError
            | Self::Unreadable
            | Self::Misconfigured
            | Self::Reset
            | Self::Truncated
            | Self::Html
            | Self::Redirect
            | Self::HugeBody
            | Self::SlowBody => true,
        }
    }

    pub(super) const fn needs_a_wire(self) -> bool {
        match self {
            Self::Reset
            | Self::Truncated
            | Self::Html
            | Self::Redirect
            | Self::HugeBody
            | Self::SlowBody => true,
            Self::Unreachable
            | Self::Timeout
            | Self::Throttled { .. }
            | Self::ServerError
            | Self::Unreadable
            | Self::Misconfigured
            | Self::Refused(_)
            | Self::Inactive
            | Self::AnotherSession => false,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Word {
    Unreachable,
    Timeout,
    Throttled,
    ServerError,
    Unreadable,
    Misconfigured,
    Refused,
    Inactive,
    AnotherSession,
    Reset,
    Truncated,
    Html,
    Redirect,
    HugeBody,
    SlowBody,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Detailed {
    Throttled {
        #[serde(with = "humantime_serde", default)]
        retry_after: Option<Duration>,
    },
    Refused(Refusal),
}

impl From<Word> for Answer {
    fn from(word: Word) -> Self {
        match word {
            Word::Unreachable => Self::Unreachable,
            Word::Timeout => Self::Timeout,
            Word::Throttled => Self::Throttled { retry_after: None },
            Word::ServerError => Self::ServerError,
            Word::Unreadable => Self::Unreadable,
            Word::Misconfigured => Self::Misconfigured,
            Word::Refused => Self::Refused(Refusal::InvalidCredentials),
            Word::Inactive => Self::Inactive,
            Word::AnotherSession => Self::AnotherSession,
            Word::Reset => Self::Reset,
            Word::Truncated => Self::Truncated,
            Word::Html => Self::Html,
            Word::Redirect => Self::Redirect,
            Word::HugeBody => Self::HugeBody,
            Word::SlowBody => Self::SlowBody,
        }
    }
}

impl<'de> Deserialize<'de> for Answer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Answer;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of an answer, or an object with it as the only member")
            }

            fn visit_str<E: Error>(self, word: &str) -> Result<Answer, E> {
                Word::deserialize(StrDeserializer::new(word)).map(Answer::from)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Answer, A::Error> {
                let detailed = Detailed::deserialize(MapAccessDeserializer::new(map))?;
                Ok(match detailed {
                    Detailed::Throttled { retry_after } => Answer::Throttled { retry_after },
                    Detailed::Refused(reason) => Answer::Refused(reason),
                })
            }
        }

        deserializer.deserialize_any(Either)
    }
}
