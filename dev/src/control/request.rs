//! The request of a control call: its namespace, query and body. A handler reads a request only
//! through [`Call`], so an unknown parameter or an unexpected body is an error of every call.

use std::borrow::Cow;
use std::collections::HashMap;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use actix_web::dev::Payload;
use actix_web::http::header::{self, HeaderMap};
use actix_web::web::{self, Data};
use actix_web::{FromRequest, HttpRequest};
use auth_gateway::http::AppState;
use auth_gateway_server::BodyError;
use futures_util::future::LocalBoxFuture;
use humantime_serde::re::humantime;
use secrecy::SecretString;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use url::form_urlencoded;

use super::response::ControlError;
use crate::{
    InvalidNamespaceName, NAMESPACE, Namespace, NamespaceName, Namespaces, TooManyNamespaces,
};

/// A control call that has been read and validated.
pub(super) struct Call<Q = (), B = ()> {
    /// The namespace that the call names, or the default one.
    pub(super) namespace: Arc<Namespace>,
    /// All namespaces.
    pub(super) namespaces: Data<Namespaces>,
    /// The query parameters.
    pub(super) query: Q,
    /// The body.
    pub(super) body: B,
}

impl<Q: Query + 'static, B: Body + 'static> FromRequest for Call<Q, B> {
    type Error = ControlError;
    type Future = LocalBoxFuture<'static, Result<Self, ControlError>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let payload = web::Payload::from_request(request, payload);
        let request = request.clone();
        Box::pin(async move {
            let namespaces = request.app_data::<Data<Namespaces>>().cloned();
            let namespaces =
                namespaces.ok_or_else(|| ControlError::failed("there are no namespaces"))?;
            // Before the namespace: an invalid call must not create one.
            let query = parse_query(request.query_string())?;
            let payload = payload.await;
            let payload = payload.map_err(|_| ControlError::invalid("the body is incomplete"))?;
            let body = read_body(&request, payload).await?;
            let namespace = match namespace_name(request.headers())? {
                Some(name) => namespaces.get_or_create(&name)?,
                None => namespaces.default_namespace(),
            };
            Ok(Self {
                namespace,
                namespaces,
                query,
                body,
            })
        })
    }
}

impl<Q, B> Call<Q, B> {
    /// The gateway of the namespace.
    ///
    /// # Errors
    ///
    /// [`ControlError`] in `mock-iam`, which has no gateway.
    pub(super) fn gateway(&self) -> Result<&AppState, ControlError> {
        self.namespace.gateway().map(Arc::as_ref).ok_or_else(|| {
            ControlError::not_found(
                "`mock-iam` has no gateway and issues no access tokens; use the control API of a gateway",
            )
        })
    }
}

/// The namespace that the header names, if it is present.
fn namespace_name(headers: &HeaderMap) -> Result<Option<NamespaceName>, ControlError> {
    let mut named = headers.get_all(NAMESPACE);
    match (named.next(), named.next()) {
        (None, _) => Ok(None),
        (Some(name), None) => {
            let name = name.to_str().map_err(|_| InvalidNamespaceName)?;
            Ok(Some(NamespaceName::parse(name)?))
        }
        (Some(_), Some(_)) => Err(ControlError::invalid(
            "the header `Mock-Namespace` is present twice",
        )),
    }
}

/// The id in a path, which is always a number.
pub(super) fn number(id: &str) -> Result<u64, ControlError> {
    id.parse()
        .map_err(|_| ControlError::not_found("the id must be a whole number"))
}

impl From<InvalidNamespaceName> for ControlError {
    fn from(invalid: InvalidNamespaceName) -> Self {
        Self::invalid(invalid.to_string())
    }
}

impl From<TooManyNamespaces> for ControlError {
    fn from(many: TooManyNamespaces) -> Self {
        Self::too_many_namespaces(many.to_string())
    }
}

/// The largest body: a users file with some thousand users.
const BYTES_MAX: usize = 1024 * 1024;

const JSON: &str = "application/json";

/// The body of a call.
pub(super) trait Body: Sized {
    /// The accepted media types; none: the call takes no body.
    const TYPES: &'static [&'static str];

    /// Parses the body.
    ///
    /// # Errors
    ///
    /// [`ControlError`] with the problem and its position.
    fn parse(media_type: &'static str, bytes: &[u8]) -> Result<Self, ControlError>;
}

/// A call without a body. A body is an error, because the caller expects it to have an effect.
impl Body for () {
    const TYPES: &'static [&'static str] = &[];

    fn parse(_: &'static str, bytes: &[u8]) -> Result<Self, ControlError> {
        if bytes.is_empty() {
            Ok(())
        } else {
            Err(ControlError::invalid("this call takes no body"))
        }
    }
}

/// A JSON object.
#[derive(Debug)]
pub(super) struct Json<T>(pub(super) T);

impl<T: DeserializeOwned> Body for Json<T> {
    const TYPES: &'static [&'static str] = &[JSON];

    fn parse(_: &'static str, bytes: &[u8]) -> Result<Self, ControlError> {
        // serde would accept an array for a struct as well.
        if bytes.trim_ascii_start().first() != Some(&b'{') {
            return Err(ControlError::invalid("the body must be a JSON object"));
        }
        let mut json = serde_json::Deserializer::from_slice(bytes);
        let read = serde_path_to_error::deserialize(&mut json).map_err(|error| {
            let path = error.path().to_string();
            let what = error.into_inner();
            // The path of a problem at the top level, and of invalid JSON.
            if path == "." || path == "?" {
                ControlError::invalid(what.to_string())
            } else {
                ControlError::invalid(format!("`{path}`: {what}"))
            }
        })?;
        json.end()
            .map_err(|error| ControlError::invalid(error.to_string()))?;
        Ok(Self(read))
    }
}

/// Reads a call's body.
///
/// # Errors
///
/// [`ControlError`]: another type, too large, too slow, or invalid.
async fn read_body<B: Body>(
    request: &HttpRequest,
    payload: web::Payload,
) -> Result<B, ControlError> {
    let media_type = if B::TYPES.is_empty() {
        ""
    } else {
        media_type(request, B::TYPES).ok_or_else(|| ControlError::media_type(B::TYPES))?
    };
    let bytes = auth_gateway_server::read_body(request, payload, BYTES_MAX).await;
    let bytes = bytes.map_err(|error| match error {
        BodyError::TooLarge => ControlError::too_large(BYTES_MAX),
        BodyError::Timeout => ControlError::too_slow(),
        BodyError::Incomplete | BodyError::MalformedChunks => {
            ControlError::invalid("the body is incomplete")
        }
    })?;
    B::parse(media_type, &bytes)
}

/// The media type of the body, if it is one of `known`.
fn media_type(request: &HttpRequest, known: &'static [&'static str]) -> Option<&'static str> {
    let mut values = request.headers().get_all(header::CONTENT_TYPE);
    let (Some(value), None) = (values.next(), values.next()) else {
        return None;
    };
    let value = value.to_str().ok()?;
    let (essence, parameter) = value.split_once(';').unwrap_or((value, ""));
    let parameter = parameter.trim();
    let is_utf8 = ["", "charset=utf-8", "charset=\"utf-8\""]
        .iter()
        .any(|accepted| parameter.eq_ignore_ascii_case(accepted));
    let known = known
        .iter()
        .find(|known| essence.trim().eq_ignore_ascii_case(known));
    known.copied().filter(|_| is_utf8)
}

/// Deserializes an optional member that must not be `null`.
pub(super) fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// A password or another secret. The error does not quote a value of another type, because it may be the
/// secret.
#[derive(Debug)]
pub(super) struct SecretText(pub(super) SecretString);

impl<'de> Deserialize<'de> for SecretText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(secret) => Ok(Self(secret.into())),
            _ => Err(D::Error::custom("must be a string")),
        }
    }
}

/// The query parameters of a call.
pub(super) trait Query: Sized {
    /// The names of the parameters.
    const NAMES: &'static [&'static str];

    /// Reads the parameters.
    ///
    /// # Errors
    ///
    /// [`ControlError`], which names the parameter.
    fn read(parameters: &Parameters<'_>) -> Result<Self, ControlError>;
}

/// A call without parameters.
impl Query for () {
    const NAMES: &'static [&'static str] = &[];

    fn read(_: &Parameters<'_>) -> Result<Self, ControlError> {
        Ok(())
    }
}

/// The parameters that a query contains.
#[derive(Debug)]
pub(super) struct Parameters<'a>(HashMap<&'static str, Cow<'a, str>>);

/// Reads a call's query.
///
/// # Errors
///
/// [`ControlError`] for a parameter that is unknown, repeated or invalid.
fn parse_query<Q: Query>(query: &str) -> Result<Q, ControlError> {
    let mut parameters = HashMap::new();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        let known = Q::NAMES.iter().find(|known| **known == name);
        let known = known.ok_or_else(|| unknown(&name, Q::NAMES))?;
        if parameters.insert(*known, value).is_some() {
            let repeated = format!("the query parameter `{known}` is present more than once");
            return Err(ControlError::invalid(repeated));
        }
    }
    Q::read(&Parameters(parameters))
}

fn unknown(name: &str, known: &[&str]) -> ControlError {
    let takes = if known.is_empty() {
        "none".to_owned()
    } else {
        format!("`{}`", known.join("`, `"))
    };
    ControlError::invalid(format!(
        "unknown query parameter {name:?}; this call takes {takes}"
    ))
}

impl Parameters<'_> {
    /// A parameter as text.
    pub(super) fn text(&self, name: &'static str) -> Option<&str> {
        self.0.get(name).map(AsRef::as_ref)
    }

    /// A parsed parameter; `what` describes the expected form.
    pub(super) fn parsed<T>(
        &self,
        name: &'static str,
        what: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, ControlError> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        let wrong =
            || ControlError::invalid(format!("the query parameter `{name}` must be {what}"));
        parse(text).map(Some).ok_or_else(wrong)
    }

    /// A whole number.
    pub(super) fn number<T: FromStr>(&self, name: &'static str) -> Result<Option<T>, ControlError> {
        // `FromStr` would accept a sign as well.
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        self.parsed(name, "a whole number", |text| {
            digits(text).then(|| text.parse().ok()).flatten()
        })
    }

    /// A boolean; false by default.
    pub(super) fn flag(&self, name: &'static str) -> Result<bool, ControlError> {
        let flag = self.parsed(name, "`true` or `false`", |text| text.parse().ok())?;
        Ok(flag.unwrap_or_default())
    }

    /// A duration of at most `max`.
    pub(super) fn duration(
        &self,
        name: &'static str,
        max: Duration,
    ) -> Result<Option<Duration>, ControlError> {
        let longest = humantime::format_duration(max);
        let what = format!("a duration such as `200ms` or `5s`, at most {longest}");
        self.parsed(name, &what, |text| {
            let duration = humantime::parse_duration(text).ok();
            duration.filter(|duration| *duration <= max)
        })
    }
}

/// `?notify=true`: sends logout tokens.
#[derive(Debug)]
pub(super) struct Notify {
    /// Whether to send logout tokens.
    pub(super) notify: bool,
}

impl Query for Notify {
    const NAMES: &'static [&'static str] = &["notify"];

    fn read(parameters: &Parameters<'_>) -> Result<Self, ControlError> {
        let notify = parameters.flag("notify")?;
        Ok(Self { notify })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "the test only parses it")]
    struct Sample {
        #[serde(default, deserialize_with = "present")]
        password: Option<SecretText>,
        #[serde(default)]
        names: Vec<String>,
    }

    #[track_caller]
    fn body_error(body: &str) -> String {
        let read = Json::<Sample>::parse(JSON, body.as_bytes());
        read.expect_err(body).to_string()
    }

    #[test]
    fn refused_member_is_named_with_its_path() {
        let message = body_error(r#"{"name": []}"#);
        assert!(
            message.contains("unknown field `name`, expected `password` or `names`"),
            "{message}"
        );
        let message = body_error(r#"{"names": ["a", 7]}"#);
        assert!(message.starts_with("`names[1]`: "), "{message}");
        assert!(body_error("{} {}").contains("trailing characters"));
        for body in ["", "[]", "[[], []]", "\"a\"", "null", "7"] {
            assert_eq!(body_error(body), "the body must be a JSON object");
        }
    }

    #[test]
    fn no_error_message_quotes_a_password() {
        for body in [
            r#"{"password": 271828}"#,
            r#"{"password": ["canary"]}"#,
            r#"{"password": {"canary": "canary"}}"#,
            r#"{"password": "canary"#,
            r#"{"password": "canary" "canary"}"#,
            r#"{"password": canary}"#,
            r#"{"password": "canary\q"}"#,
            r#"{"password": null}"#,
            r#"{"password": "canary", "password": "canary"}"#,
            r#""canary""#,
        ] {
            let message = body_error(body);
            assert!(
                !message.contains("canary") && !message.contains("271828"),
                "{body} gives {message}"
            );
        }
    }

    #[derive(Debug)]
    struct Wait(Option<u64>, Option<Duration>);

    impl Query for Wait {
        const NAMES: &'static [&'static str] = &["count", "timeout"];

        fn read(parameters: &Parameters<'_>) -> Result<Self, ControlError> {
            let timeout = parameters.duration("timeout", Duration::from_secs(60))?;
            Ok(Self(parameters.number("count")?, timeout))
        }
    }

    #[track_caller]
    fn query_error<Q: Query + std::fmt::Debug>(query: &str) -> String {
        parse_query::<Q>(query).expect_err(query).to_string()
    }

    #[test]
    fn parameters_are_parsed_by_their_type() {
        let Wait(count, timeout) = parse_query("timeout=1m&count=7").expect("valid");
        assert_eq!((count, timeout), (Some(7), Some(Duration::from_secs(60))));
        let Wait(count, timeout) = parse_query("").expect("valid");
        assert_eq!((count, timeout), (None, None));
        assert!(parse_query::<Notify>("notify=true").expect("valid").notify);
        assert!(!parse_query::<Notify>("").expect("valid").notify);
    }

    #[test]
    fn an_error_names_the_parameter_and_the_allowed_values() {
        assert_eq!(
            query_error::<Wait>("time=1s"),
            "unknown query parameter \"time\"; this call takes `count`, `timeout`"
        );
        assert_eq!(
            query_error::<()>("a%20b"),
            "unknown query parameter \"a b\"; this call takes none"
        );
        assert_eq!(
            query_error::<Wait>("count=1&count=2"),
            "the query parameter `count` is present more than once"
        );
        assert_eq!(
            query_error::<Notify>("notify=yes"),
            "the query parameter `notify` must be `true` or `false`"
        );
        for invalid in ["", "-1", "+1", "1.5", "x", "99999999999999999999"] {
            let message = query_error::<Wait>(&format!("count={}", invalid.replace('+', "%2B")));
            assert_eq!(
                message,
                "the query parameter `count` must be a whole number"
            );
        }
        for invalid in ["", "5", "61s", "soon"] {
            let message = query_error::<Wait>(&format!("timeout={invalid}"));
            assert!(
                message.ends_with("such as `200ms` or `5s`, at most 1m"),
                "{message}"
            );
        }
    }
}
