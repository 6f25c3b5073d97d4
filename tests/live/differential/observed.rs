//! What is compared of a response: all of it, with names instead of random values and with times relative to the server's.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};

/// Members that are times since 1970, in seconds.
const TIMES: [&str; 2] = ["exp", "iat"];
/// Members that are durations in seconds.
const DURATIONS: [&str; 2] = ["expires_in", "refresh_expires_in"];
/// How far times and durations may differ: the duration of the calls, on a busy machine.
const TOLERANCE: i64 = 60;

/// The names of random values: of sessions and of subjects, in the order in which they were first seen.
#[derive(Debug, Default)]
pub(super) struct Names {
    known: Vec<(String, String)>,
    subjects: usize,
    sessions: usize,
}

impl Names {
    /// Names the session of a login.
    pub(super) fn session(&mut self, id: &str, client: &str) {
        self.sessions += 1;
        let name = format!("session {} of {client}", self.sessions);
        self.known.push((id.to_owned(), name));
    }

    /// Names the subject of a login.
    pub(super) fn subject(&mut self, subject: &str) {
        if self.of(subject).is_none() {
            self.subjects += 1;
            let name = format!("subject {}", self.subjects);
            self.known.push((subject.to_owned(), name));
        }
    }

    pub(super) fn of(&self, value: &str) -> Option<&str> {
        let mut known = self.known.iter();
        let found = known.find(|(random, _)| random == value);
        found.map(|(_, name)| name.as_str())
    }

    /// A value as it is compared; `ahead` is that of the server's time.
    pub(super) fn normalized(&self, value: &Value, port: &str, ahead: Duration) -> Value {
        match value {
            Value::Object(members) => {
                let normalized = members
                    .iter()
                    .map(|(name, value)| (name.clone(), self.member(name, value, port, ahead)));
                Value::Object(normalized.collect::<Map<_, _>>())
            }
            Value::Array(items) => {
                let items = items.iter().map(|item| self.normalized(item, port, ahead));
                let mut items: Vec<_> = items.collect();
                // Lists of roles and audiences have no order.
                items.sort_by_key(Value::to_string);
                Value::Array(items)
            }
            Value::String(text) => match self.of(text) {
                Some(name) => json!(name),
                None => json!(text.replace(&format!(":{port}"), ":PORT")),
            },
            other => other.clone(),
        }
    }

    fn member(&self, name: &str, value: &Value, port: &str, ahead: Duration) -> Value {
        match (name, value) {
            ("jti" | "kid", Value::String(_)) => json!("text"),
            ("access_token" | "refresh_token", Value::String(token)) => {
                self.jwt(token, port, ahead)
            }
            ("scope", Value::String(scope)) => {
                let mut words: Vec<_> = scope.split(' ').collect();
                words.sort_unstable();
                json!(words)
            }
            (name, Value::Number(time)) if TIMES.contains(&name) => {
                let time = time.as_i64().expect("seconds");
                let now = i64::try_from(now(ahead).as_secs()).expect("seconds");
                json!(time - now)
            }
            (_, value) => self.normalized(value, port, ahead),
        }
    }

    /// The header and the claims of a token.
    pub(super) fn jwt(&self, token: &str, port: &str, ahead: Duration) -> Value {
        let [header, claims] = [0, 1].map(|at| self.normalized(&jwt_part(token, at), port, ahead));
        json!({"header": header, "claims": claims})
    }
}

/// The time of a server.
pub(super) fn now(ahead: Duration) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.expect("a time after 1970") + ahead
}

/// The header (0) or the claims (1) of a token.
pub(super) fn jwt_part(token: &str, at: usize) -> Value {
    let part = token.split('.').nth(at).expect("a JWT");
    let bytes = URL_SAFE_NO_PAD.decode(part).expect("base64url");
    serde_json::from_slice(&bytes).expect("JSON")
}

/// A value that differs. Null: the member is absent.
#[derive(Debug, Clone)]
pub(super) struct Difference {
    /// The members that lead to the value, joined by `/`.
    pub(super) path: String,
    pub(super) keycloak: Value,
    pub(super) mock: Value,
}

/// All differences between two responses.
pub(super) fn differences(path: &str, keycloak: &Value, mock: &Value, all: &mut Vec<Difference>) {
    match (keycloak, mock) {
        (Value::Object(ours), Value::Object(theirs)) => {
            let mut names: Vec<_> = ours.keys().chain(theirs.keys()).collect();
            names.sort_unstable();
            names.dedup();
            for name in names {
                let path = format!("{path}/{name}");
                differences(&path, &keycloak[name], &mock[name], all);
            }
        }
        (Value::Number(one), Value::Number(other)) if is_time(path) => {
            let (one, other) = (
                one.as_i64().expect("seconds"),
                other.as_i64().expect("seconds"),
            );
            if (one - other).abs() > TOLERANCE {
                all.push(difference(path, keycloak, mock));
            }
        }
        _ if keycloak == mock => {}
        _ => all.push(difference(path, keycloak, mock)),
    }
}

fn is_time(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    TIMES.contains(&name) || DURATIONS.contains(&name)
}

fn difference(path: &str, keycloak: &Value, mock: &Value) -> Difference {
    Difference {
        path: path.to_owned(),
        keycloak: keycloak.clone(),
        mock: mock.clone(),
    }
}
