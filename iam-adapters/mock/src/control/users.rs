//! The users of the mock, and their permissions and states.

use actix_web::HttpResponse;
use actix_web::web::Path;
use iam_adapters::{Permission, Permissions, Subject};
use serde::{Deserialize, Serialize};

use super::answer::{created, done, ok};
use super::body::{Body, Json, Password, present};
use super::call::Call;
use super::refused::Refused;
use crate::iam::{AccountState, Format, User, UsersError, parse};

/// What is told of a user; never the password.
#[derive(Serialize)]
struct UserTold {
    email: String,
    subject: String,
    permissions: Vec<String>,
    state: AccountState,
    sessions: usize,
}

impl UserTold {
    fn of(user: &User, sessions: usize) -> Self {
        let permissions = user.permissions().iter();
        Self {
            email: user.email().to_owned(),
            subject: user.subject().as_str().to_owned(),
            permissions: permissions.map(ToString::to_string).collect(),
            state: user.state(),
            sessions,
        }
    }
}

/// `GET users`.
pub(super) async fn list(call: Call) -> HttpResponse {
    all(&call)
}

/// `PUT users`.
pub(super) async fn replace(call: Call<(), UsersFile>) -> HttpResponse {
    call.world.mock.directory().replace_users(&call.body.0);
    all(&call)
}

fn all<Q, B>(call: &Call<Q, B>) -> HttpResponse {
    #[derive(Serialize)]
    struct UsersTold {
        users: Vec<UserTold>,
    }

    let held = call.world.mock.directory().users_with_sessions();
    let told = held
        .iter()
        .map(|(user, sessions)| UserTold::of(user, *sessions));
    let mut users: Vec<_> = told.collect();
    users.sort_by(|one, other| one.email.cmp(&other.email));
    ok(&UsersTold { users })
}

/// A users file, in one of its formats.
pub(super) struct UsersFile(crate::iam::Users);

impl Body for UsersFile {
    const TYPES: &'static [&'static str] =
        &["application/json", "application/toml", "application/yaml"];

    fn parse(media_type: &'static str, bytes: &[u8]) -> Result<Self, Refused> {
        let format = match media_type {
            "application/toml" => Format::Toml,
            "application/yaml" => Format::Yaml,
            _ => Format::Json,
        };
        let text = std::str::from_utf8(bytes);
        let text = text.map_err(|_| Refused::invalid("the users file is not UTF-8"))?;
        let users = parse(text, format, "the users file");
        let users = users.map_err(|invalid| Refused::invalid(invalid.to_string()))?;
        Ok(Self(users))
    }
}

/// A user to be.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewUser {
    email: String,
    password: Password,
    #[serde(default)]
    permissions: Vec<String>,
    #[serde(default)]
    state: AccountState,
    #[serde(default, deserialize_with = "present")]
    subject: Option<String>,
}

/// `POST users`.
pub(super) async fn create(call: Call<(), Json<NewUser>>) -> Result<HttpResponse, Refused> {
    let Json(new) = call.body;
    let permissions = permissions(&new.permissions)?;
    let user = User::new(new.email, new.password.0, permissions);
    let user = user.map_err(|invalid| Refused::invalid(invalid.to_string()))?;
    let user = match new.subject {
        None => user,
        Some(id) => {
            let subject = Subject::new(id);
            user.with_subject(
                subject.ok_or_else(|| Refused::invalid("`subject`: must not be empty"))?,
            )
        }
    };
    let user = user.with_state(new.state);
    let told = UserTold::of(&user, 0);
    call.world.mock.directory().create_user(user)?;
    Ok(created(&told))
}

/// `GET users/{email}`.
pub(super) async fn show(call: Call, email: Path<String>) -> Result<HttpResponse, Refused> {
    one(&call, &email)
}

/// What shall be different about a user.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UserChange {
    #[serde(default, deserialize_with = "present")]
    password: Option<Password>,
    #[serde(default, deserialize_with = "present")]
    permissions: Option<Vec<String>>,
    #[serde(default, deserialize_with = "present")]
    state: Option<AccountState>,
}

/// `PATCH users/{email}`.
pub(super) async fn change(
    call: Call<(), Json<UserChange>>,
    email: Path<String>,
) -> Result<HttpResponse, Refused> {
    let Json(wanted) = &call.body;
    let directory = call.world.mock.directory();
    // All that can be wrong is found before anything is changed.
    let held = wanted.permissions.as_deref().map(permissions).transpose()?;
    if let Some(Password(password)) = &wanted.password {
        directory.set_password(&email, password.clone())?;
    }
    if let Some(held) = held {
        directory.set_permissions(&email, held)?;
    }
    if let Some(state) = wanted.state {
        directory.set_state(&email, state)?;
    }
    one(&call, &email)
}

fn one<Q, B>(call: &Call<Q, B>, email: &str) -> Result<HttpResponse, Refused> {
    let (user, sessions) = call.world.mock.directory().user_with_sessions(email)?;
    Ok(ok(&UserTold::of(&user, sessions)))
}

/// `DELETE users/{email}`.
pub(super) async fn delete(call: Call, email: Path<String>) -> Result<HttpResponse, Refused> {
    call.world.mock.directory().delete_user(&email)?;
    Ok(done())
}

fn permissions(names: &[String]) -> Result<Permissions, Refused> {
    let permission = |name: &String| {
        Permission::parse(name).map_err(|_| {
            let rule = "a permission is a scope name: printable ASCII without space, quote and \
                        backslash (RFC 6749 section 3.3)";
            Refused::invalid(format!("`permissions`: {name:?} cannot be one; {rule}"))
        })
    };
    names.iter().map(permission).collect()
}

impl From<UsersError> for Refused {
    fn from(error: UsersError) -> Self {
        match error {
            UsersError::Unknown => Self::not_found("nobody has this address"),
            UsersError::Taken => Self::conflict("somebody has this address already"),
            UsersError::SubjectTaken => Self::conflict("somebody has this subject already"),
            UsersError::Invalid(invalid) => Self::invalid(invalid.to_string()),
        }
    }
}
