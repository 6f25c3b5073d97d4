//! The file that the users of the mock are written in.

use std::collections::HashSet;
use std::fmt;
use std::path::Path;

use secrecy::SecretString;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use thiserror::Error;

use super::user::{AccountState, InvalidUser, User};
use super::users::Users;
use crate::scope::Permission;
use crate::types::Subject;

/// The users there are where no file is named, in the form of a users file.
pub const DEMO_USERS: &str = include_str!("demo_users.toml");

/// Everything that is wrong with a users file, by entry. Never holds a password.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub struct InvalidUsers {
    origin: String,
    problems: Vec<String>,
}

impl fmt::Display for InvalidUsers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.origin, self.problems.join("; "))
    }
}

/// Reads the users file at `path`, or the demo users where none is named.
///
/// # Errors
///
/// [`InvalidUsers`] with every problem of the file.
pub fn load(path: Option<&Path>) -> Result<Users, InvalidUsers> {
    let Some(path) = path else {
        return parse(DEMO_USERS, "the demo users");
    };
    let origin = path.display().to_string();
    match std::fs::read_to_string(path) {
        Ok(text) => parse(&text, &origin),
        Err(error) => Err(InvalidUsers {
            origin,
            problems: vec![format!("cannot be read: {error}")],
        }),
    }
}

/// Reads users from TOML; `origin` is what the messages call it.
///
/// # Errors
///
/// [`InvalidUsers`] with every problem of the text.
pub fn parse(text: &str, origin: &str) -> Result<Users, InvalidUsers> {
    let refused = |problems| InvalidUsers {
        origin: origin.to_owned(),
        problems,
    };
    let file: File = toml::from_str(text).map_err(|error| {
        // The error's own Display quotes the line, which may hold a password.
        let start = error.span().map_or(0, |span| span.start);
        let line = text.bytes().take(start).filter(|b| *b == b'\n').count() + 1;
        refused(vec![format!("line {line}: {}", error.message())])
    })?;

    let mut users = Users::default();
    let mut problems = Vec::new();
    let mut subjects = HashSet::new();
    for (number, entry) in (1..).zip(file.users) {
        let email = entry.email.clone();
        let mut problem = |what: &str| problems.push(format!("user {number} ({email:?}): {what}"));
        match entry.into_user() {
            Ok(user) => {
                let subject = user.subject.clone();
                if let Err(refused) = users.add(user) {
                    problem(&refused.to_string());
                } else if !subjects.insert(subject) {
                    problem("the subject is taken");
                }
            }
            Err(InvalidUser(what)) => problem(&what),
        }
    }
    if users.iter().len() == 0 && problems.is_empty() {
        problems.push("there are no users".to_owned());
    }
    if problems.is_empty() {
        Ok(users)
    } else {
        Err(refused(problems))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    users: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    email: String,
    #[serde(deserialize_with = "password")]
    password: SecretString,
    #[serde(default)]
    permissions: Vec<String>,
    #[serde(default)]
    state: AccountState,
    subject: Option<String>,
}

impl Entry {
    fn into_user(self) -> Result<User, InvalidUser> {
        let permissions = self
            .permissions
            .iter()
            .map(|name| {
                Permission::parse(name)
                    .map_err(|_| InvalidUser(format!("{name:?} cannot be a permission")))
            })
            .collect::<Result<_, _>>()?;
        let user = User::new(self.email, self.password, permissions)?;
        let subject = match self.subject {
            None => user.subject,
            Some(id) => {
                Subject::new(id).ok_or_else(|| InvalidUser("the subject is empty".to_owned()))?
            }
        };
        Ok(User {
            state: self.state,
            subject,
            ..user
        })
    }
}

/// Like `SecretString`'s own, but silent about a value that is not a string: a password of digits
/// without quotes would otherwise stand in the message.
fn password<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SecretString, D::Error> {
    match toml::Value::deserialize(deserializer)? {
        toml::Value::String(password) => Ok(password.into()),
        _ => Err(D::Error::custom("the password is not a string in quotes")),
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    fn problems(text: &str) -> String {
        parse(text, "users.toml")
            .expect_err("is refused")
            .to_string()
    }

    #[test]
    fn a_users_file_tells_everything_about_a_user() {
        let users = parse(
            r#"
            [[users]]
            email = "Carol@Example.test"
            password = " s p a c e s "
            permissions = ["b", "a", "b"]
            state = "incomplete"
            subject = "0-1-2"
            "#,
            "users.toml",
        )
        .expect("users");
        let (_, carol) = users.find("carol@example.test").expect("carol");
        assert_eq!(carol.email(), "Carol@Example.test");
        assert_eq!(carol.password.expose_secret(), " s p a c e s ");
        assert_eq!(carol.permissions().iter().count(), 2);
        assert_eq!(carol.state(), AccountState::Incomplete);
        assert_eq!(carol.subject().as_str(), "0-1-2");
    }

    #[test]
    fn the_demo_users_are_alice_and_bob() {
        let users = load(None).expect("demo users");
        let mut told: Vec<_> = users
            .iter()
            .map(|u| (u.email(), u.password.expose_secret(), u.permissions().len()))
            .collect();
        told.sort_unstable();
        assert_eq!(
            told,
            [
                ("alice@example.test", "alice-pass", 2),
                ("bob@example.test", "bob-pass", 1)
            ]
        );
    }

    #[test]
    fn every_problem_is_told_with_its_entry() {
        let told = problems(
            r#"
            users = [
                { email = "a@b", password = "canary" },
                { email = "A@B", password = "canary" },
                { email = "no-address", password = "canary" },
                { email = "c@d", password = "" },
                { email = "e@f", password = "canary", permissions = ["two words"] },
                { email = "g@h", password = "canary", subject = "" },
                { email = "i@j", password = "canary", subject = "same" },
                { email = "k@l", password = "canary", subject = "same" },
            ]"#,
        );
        assert!(told.starts_with("users.toml: user 2 (\"A@B\")"), "{told}");
        for expected in [
            "user 2 (\"A@B\"): the address is taken",
            "user 3 (\"no-address\"): not an e-mail address",
            "user 4 (\"c@d\"): the password is empty",
            "user 5 (\"e@f\"): \"two words\" cannot be a permission",
            "user 6 (\"g@h\"): the subject is empty",
            "user 8 (\"k@l\"): the subject is taken",
        ] {
            assert!(told.contains(expected), "{expected} is not in {told}");
        }
        assert!(!told.contains("canary"), "{told}");
    }

    #[test]
    fn no_message_shows_a_password_however_it_is_miswritten() {
        for line in [
            "password = 271828",
            "password = canary",
            "password = 'canary",
            "password = \"canary\n",
            "password = ['canary']",
            "password = { canary = 271828 }",
            "password = 'canary' 'canary'",
            "password = \"canary\\q\"",
            "password 'canary'",
            "password = 'canary'\npassword = 'canary'",
            "passwort = 'canary'",
            "password = 'canary'\nstate = 'gone'",
            "password = 'canary'\npermissions = 'a'",
        ] {
            let told = problems(&format!("[[users]]\nemail = 'a@b'\n{line}\n"));
            assert!(told.starts_with("users.toml: line "), "{told}");
            assert!(
                !told.contains("canary") && !told.contains("271828"),
                "{line:?} gives {told}"
            );
        }
    }

    #[test]
    fn a_file_without_users_or_no_file_at_all_is_refused() {
        assert_eq!(problems(""), "users.toml: there are no users");
        let told = load(Some(Path::new("no/such/users.toml"))).expect_err("is refused");
        assert!(
            told.to_string()
                .starts_with("no/such/users.toml: cannot be read"),
            "{told}"
        );
    }
}
