//! `revoke`: revokes sessions through the management listener of a running gateway.

use std::io::Write;
use std::time::Duration;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use secrecy::ExposeSecret as _;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::error::UserError;
use super::management_call::{NOT_A_GATEWAY, call, management_url};
use super::{ConfigFile, Exit, Invocation};

const PATH: &str = "/admin/v1/sessions/revoke";

/// The gateway waits for Redis for at most 250 ms, and for nothing else.
const DEADLINE: Duration = Duration::from_secs(5);

#[derive(Debug, PartialEq, Eq, Args)]
#[command(mut_arg("config", |config| config.global(true)))]
pub struct Revoke {
    #[command(subcommand)]
    pub sessions: Sessions,
    #[command(flatten)]
    pub config: ConfigFile,
}

#[derive(Debug, PartialEq, Eq, Subcommand)]
pub enum Sessions {
    /// Revoke one session
    Session {
        /// Its `session_id`
        #[arg(value_name = "ID", allow_hyphen_values = true)]
        id: String,
    },
    /// Revoke the sessions of a user
    Subject {
        /// The user: `sub` of the access tokens, `subject` in the log
        #[arg(value_name = "SUBJECT", allow_hyphen_values = true)]
        subject: String,
        #[command(flatten)]
        restriction: Restriction,
    },
    /// Revoke all sessions, or all of one IAM
    All {
        /// The IAM, by its name in the configuration: `keycloak` for `[iam.keycloak]`
        #[arg(long, value_name = "NAME")]
        iam: Option<String>,
        #[command(flatten)]
        restriction: Restriction,
    },
}

#[derive(Debug, PartialEq, Eq, Args)]
pub struct Restriction {
    /// Only sessions whose login began then or before [default: now]
    ///
    /// A time such as 2030-01-31T12:00:00Z, or seconds since 1970.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub begun_until: Option<Timestamp>,
}

fn time(text: &str) -> Result<Timestamp, String> {
    let seconds = text.parse().ok();
    seconds
        .and_then(|seconds| Timestamp::from_second(seconds).ok())
        .or_else(|| text.parse().ok())
        .ok_or_else(|| "neither a time such as 2030-01-31T12:00:00Z nor seconds since 1970".into())
}

impl Sessions {
    /// What is revoked, and the body of the request.
    fn request(&self) -> (&'static str, Value) {
        let (revoked, name, value) = match self {
            Self::Session { id } => ("the session", "session_id", json!(id)),
            Self::Subject { subject, .. } => {
                ("the sessions of the subject", "subject", json!(subject))
            }
            Self::All { iam: Some(iam), .. } => ("all sessions of the IAM", "iam", json!(iam)),
            Self::All { iam: None, .. } => ("all sessions", "all", json!(true)),
        };
        let mut body = Map::from_iter([(name.to_owned(), value)]);
        if let Self::Subject { restriction, .. } | Self::All { restriction, .. } = self
            && let Some(time) = restriction.begun_until
        {
            body.insert("begun_until".to_owned(), json!(time));
        }
        (revoked, body.into())
    }

    /// Why these are perhaps the sessions of no user: the gateway cannot know which subjects exist. The
    /// prefixes are those of the IAMs.
    fn doubt(&self, prefixes: &[&str]) -> Option<&'static str> {
        let Self::Subject { subject, .. } = self else {
            return None;
        };
        let has_prefix = |prefix: &&str| !prefix.is_empty() && subject.starts_with(*prefix);
        if subject.contains('@') {
            Some(
                "the subject looks like an e-mail address; it is `sub` of the access tokens, which the log has \
                 for the account of `audit id --account EMAIL`",
            )
        } else if prefixes.iter().any(|prefix| !prefix.is_empty())
            && !prefixes.iter().any(has_prefix)
        {
            Some("the subject has the subject_prefix of no IAM; it is `sub` of the access tokens")
        } else {
            None
        }
    }
}

/// The response to a revocation.
#[derive(Deserialize)]
struct Revoked {
    begun_until: Option<String>,
    replication: String,
}

/// Revokes sessions at the running gateway of the settings, and writes the result.
pub(super) fn revoke(command: &Revoke, invocation: &mut Invocation<'_>) -> anyhow::Result<Exit> {
    // The prefixes of the IAMs are used for a warning alone.
    let settings = invocation.settings_for("management", &command.config)?;
    let Invocation { out, err, .. } = invocation;
    let iams = settings.iams.iter();
    let prefixes: Vec<_> = iams.map(|iam| &*iam.options.subject_prefix).collect();
    let management = settings.management;
    let token = management.token.ok_or_else(|| {
        UserError::Request(
            "revoke needs management.token or management.token_file of the running gateway"
                .to_owned(),
        )
    })?;
    let url = management_url(management.listen, PATH)?;
    let (revoked, body) = command.sessions.request();
    let late = "no response: it is unknown whether the sessions are revoked";
    let response = call(DEADLINE, late, async |client| {
        let request = client.post(&url).bearer_auth(token.expose_secret());
        client.send(request.json(&body)).await
    })?;
    let problem = match response {
        Err(problem) => problem,
        Ok(response) => match response.status.as_u16() {
            200 => match serde_json::from_slice(&response.body) {
                Ok(response) => {
                    write_result(revoked, &response, out)?;
                    if let Some(doubt) = command.sessions.doubt(&prefixes) {
                        writeln!(err, "auth-gateway: warning: {doubt}")?;
                    }
                    return Ok(Exit::Ok);
                }
                Err(_) => NOT_A_GATEWAY.to_owned(),
            },
            400 => return Err(UserError::Request(description(&response.body)).into()),
            401 => "the gateway has another management.token".to_owned(),
            403 => "the gateway has no management.token".to_owned(),
            status => format!("status {status}: {}", description(&response.body)),
        },
    };
    writeln!(err, "auth-gateway: {url}: {problem}")?;
    Ok(Exit::Unavailable)
}

/// The description of a problem response.
fn description(body: &[u8]) -> String {
    let problem: Value = serde_json::from_slice(body).unwrap_or_default();
    let description = problem.get("error_description").and_then(Value::as_str);
    description.unwrap_or(NOT_A_GATEWAY).to_owned()
}

fn write_result(sessions: &str, revoked: &Revoked, out: &mut dyn Write) -> std::io::Result<()> {
    let until = revoked.begun_until.as_ref();
    let until = until.map(|time| format!(" that began until {time}"));
    writeln!(out, "revoked {sessions}{}", until.unwrap_or_default())?;
    let replication = match revoked.replication.as_str() {
        "delivered" => "the other replicas refuse them too",
        "pending" => {
            "pending: the other replicas refuse them when Redis stores the revocation; if the sealing keys of the \
             replicas differ (keys_differ in readiness), revoke again when they are the same"
        }
        _ => "at this replica alone: no Redis is configured",
    };
    writeln!(out, "{replication}")
}

#[cfg(test)]
mod tests {
    use super::{Restriction, Sessions};

    #[test]
    fn subject_that_looks_like_an_address_or_has_the_prefix_of_no_iam_is_doubted() {
        let id = "7f1b6a52-9a44-4b9e-9d36-0f6f5c1f6a11";
        let none: &[&str] = &[""];
        let some: &[&str] = &["", "partner-"];
        for (subject, prefixes, doubted) in [
            (id, none, None),
            ("alice@example.test", none, Some("e-mail address")),
            ("partner-7", some, None),
            (id, some, Some("subject_prefix of no IAM")),
            ("partner-alice@example.test", some, Some("e-mail address")),
        ] {
            let sessions = Sessions::Subject {
                subject: subject.to_owned(),
                restriction: Restriction { begun_until: None },
            };
            let doubt = sessions.doubt(prefixes);
            assert_eq!(doubt.is_some(), doubted.is_some(), "{subject}: {doubt:?}");
            let expected = doubted.unwrap_or_default();
            assert!(doubt.unwrap_or_default().contains(expected), "{doubt:?}");
        }
    }
}
