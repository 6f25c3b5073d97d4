//! The users of the mock.

use actix_web::HttpResponse;
use actix_web::web::Path;
use iam_adapters::{Clock as _, Permission, Permissions, Subject};
use mock_iam::{AccountState, Format, TotpVerifier, User, Users, UsersError, parse};
use secrecy::ExposeSecret as _;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::request::{Body, Call, Json, Parameters, Query, SecretText, present};
use super::response::{ControlError, created, no_content, ok};
use crate::Namespace;

/// A user, without the password and the secret of the one-time passwords.
#[derive(Serialize)]
struct UserResponse {
    email: String,
    subject: String,
    permissions: Vec<String>,
    attributes: Map<String, Value>,
    state: AccountState,
    sessions: usize,
    /// The one-time password now.
    #[serde(skip_serializing_if = "Option::is_none")]
    otp: Option<String>,
}

impl UserResponse {
    fn of(namespace: &Namespace, user: &User, sessions: usize) -> Self {
        let permissions = user.permissions().iter();
        let now = namespace.clock.now().unix;
        Self {
            email: user.email().to_owned(),
            subject: user.subject().as_str().to_owned(),
            permissions: permissions.map(ToString::to_string).collect(),
            attributes: user.attributes().clone(),
            state: user.state_at(now),
            sessions,
            otp: user.totp().map(|totp| totp.otp_at(now)),
        }
    }
}

/// `GET users`.
pub(super) async fn list(call: Call) -> HttpResponse {
    all(&call)
}

/// `PUT users`.
pub(super) async fn replace(call: Call<(), UsersFile>) -> HttpResponse {
    call.namespace.mock.directory().replace_users(&call.body.0);
    all(&call)
}

fn all<Q, B>(call: &Call<Q, B>) -> HttpResponse {
    #[derive(Serialize)]
    struct ListUsersResponse {
        users: Vec<UserResponse>,
    }

    let found = call.namespace.mock.directory().users_with_sessions();
    let users = found
        .iter()
        .map(|(user, sessions)| UserResponse::of(&call.namespace, user, *sessions));
    let mut users: Vec<_> = users.collect();
    users.sort_by(|one, other| one.email.cmp(&other.email));
    ok(&ListUsersResponse { users })
}

/// A users file, in one of its formats.
pub(super) struct UsersFile(Users);

impl Body for UsersFile {
    const TYPES: &'static [&'static str] =
        &["application/json", "application/toml", "application/yaml"];

    fn parse(media_type: &'static str, bytes: &[u8]) -> Result<Self, ControlError> {
        let format = match media_type {
            "application/toml" => Format::Toml,
            "application/yaml" => Format::Yaml,
            _ => Format::Json,
        };
        let text = std::str::from_utf8(bytes);
        let text = text.map_err(|_| ControlError::invalid("the users file is not UTF-8"))?;
        let users = parse(text, format, "the users file");
        let users = users.map_err(|invalid| ControlError::invalid(invalid.to_string()))?;
        Ok(Self(users))
    }
}

/// `?format=json` or `toml`.
pub(super) struct FormatQuery(Format);

impl Query for FormatQuery {
    const NAMES: &'static [&'static str] = &["format"];

    fn read(parameters: &Parameters<'_>) -> Result<Self, ControlError> {
        let format = parameters.parsed("format", "json or toml", |name| match name {
            "json" => Some(Format::Json),
            "toml" => Some(Format::Toml),
            _ => None,
        });
        Ok(Self(format?.unwrap_or(Format::Json)))
    }
}

/// `GET users-file`.
pub(super) async fn export(call: Call<FormatQuery>) -> Result<HttpResponse, ControlError> {
    let FormatQuery(format) = call.query;
    let users = call.namespace.mock.directory().users();
    let file = mock_iam::write(&users, format);
    let file = file.map_err(|invalid| ControlError::conflict(invalid.to_string()))?;
    let media_type = match format {
        Format::Toml => "application/toml",
        Format::Json | Format::Yaml => "application/json",
    };
    Ok(HttpResponse::Ok()
        .content_type(media_type)
        .body(file.expose_secret().to_owned()))
}

/// A user to create.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewUser {
    email: String,
    password: SecretText,
    #[serde(default, deserialize_with = "present")]
    totp_secret: Option<SecretText>,
    #[serde(default)]
    permissions: Vec<String>,
    #[serde(default)]
    attributes: Map<String, Value>,
    #[serde(default)]
    state: AccountState,
    #[serde(default, deserialize_with = "present")]
    subject: Option<String>,
}

/// `POST users`.
pub(super) async fn create(call: Call<(), Json<NewUser>>) -> Result<HttpResponse, ControlError> {
    let Json(new) = call.body;
    let permissions = permissions(&new.permissions)?;
    let user = User::new(new.email, new.password.0, permissions);
    let user = user.map_err(|invalid| ControlError::invalid(invalid.to_string()))?;
    let user = match new.subject {
        None => user,
        Some(id) => {
            let subject = Subject::new(id);
            user.with_subject(
                subject.ok_or_else(|| ControlError::invalid("`subject`: must not be empty"))?,
            )
        }
    };
    let user = user.with_attributes(new.attributes).with_state(new.state);
    let user = user.with_totp(totp(new.totp_secret.as_ref())?);
    let response = UserResponse::of(&call.namespace, &user, 0);
    call.namespace.mock.directory().create_user(user)?;
    Ok(created(&response))
}

/// `GET users/{email}`.
pub(super) async fn show(call: Call, email: Path<String>) -> Result<HttpResponse, ControlError> {
    one(&call, &email)
}

/// The changes of a user.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(
    clippy::option_option,
    reason = "an absent member and null differ, as in RFC 7396"
)]
pub(super) struct UserChange {
    #[serde(default, deserialize_with = "present")]
    password: Option<SecretText>,
    /// `null`: a login needs no one-time password.
    #[serde(default, deserialize_with = "present")]
    totp_secret: Option<Option<SecretText>>,
    #[serde(default, deserialize_with = "present")]
    permissions: Option<Vec<String>>,
    #[serde(default, deserialize_with = "present")]
    attributes: Option<Map<String, Value>>,
    #[serde(default, deserialize_with = "present")]
    state: Option<AccountState>,
}

/// `PATCH users/{email}`.
pub(super) async fn change(
    call: Call<(), Json<UserChange>>,
    email: Path<String>,
) -> Result<HttpResponse, ControlError> {
    let Json(change) = &call.body;
    let directory = call.namespace.mock.directory();
    // Validate everything before the first change.
    let new_permissions = change.permissions.as_deref().map(permissions).transpose()?;
    let new_totp = change.totp_secret.as_ref();
    let new_totp = new_totp.map(|secret| totp(secret.as_ref())).transpose()?;
    if let Some(SecretText(password)) = &change.password {
        directory.set_password(&email, password.clone())?;
    }
    if let Some(new_totp) = new_totp {
        directory.set_totp(&email, new_totp)?;
    }
    if let Some(new_permissions) = new_permissions {
        directory.set_permissions(&email, new_permissions)?;
    }
    if let Some(attributes) = &change.attributes {
        directory.set_attributes(&email, attributes.clone())?;
    }
    if let Some(state) = change.state {
        directory.set_state(&email, state)?;
    }
    one(&call, &email)
}

fn one<Q, B>(call: &Call<Q, B>, email: &str) -> Result<HttpResponse, ControlError> {
    let (user, sessions) = call.namespace.mock.directory().user_with_sessions(email)?;
    Ok(ok(&UserResponse::of(&call.namespace, &user, sessions)))
}

/// `DELETE users/{email}`.
pub(super) async fn delete(call: Call, email: Path<String>) -> Result<HttpResponse, ControlError> {
    call.namespace.mock.directory().delete_user(&email)?;
    Ok(no_content())
}

fn totp(secret: Option<&SecretText>) -> Result<Option<TotpVerifier>, ControlError> {
    let totp = secret.map(|SecretText(secret)| TotpVerifier::new(secret));
    let totp = totp.transpose();
    totp.map_err(|invalid| ControlError::invalid(invalid.to_string()))
}

fn permissions(names: &[String]) -> Result<Permissions, ControlError> {
    let permission = |name: &String| {
        Permission::parse(name).map_err(|_| {
            let rule = "a permission is a scope name: printable ASCII without space, quote and \
                        backslash (RFC 6749 section 3.3)";
            ControlError::invalid(format!(
                "`permissions`: {name:?} cannot be a permission; {rule}"
            ))
        })
    };
    names.iter().map(permission).collect()
}

impl From<UsersError> for ControlError {
    fn from(error: UsersError) -> Self {
        match error {
            UsersError::Unknown => Self::not_found("there is no user with this address"),
            UsersError::Taken => Self::conflict("another user has this address"),
            UsersError::SubjectTaken => Self::conflict("another user has this subject"),
            UsersError::Invalid(invalid) => Self::invalid(invalid.to_string()),
        }
    }
}
