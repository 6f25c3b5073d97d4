//! The body of a control call: of bounded size and in time, with no member that nobody reads.

use actix_web::HttpRequest;
use actix_web::http::header;
use actix_web::web::Payload;
use auth_gateway::server::{self, BodyError};
use secrecy::SecretString;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::refused::Refused;

/// The largest body: a users file of some thousand users.
const BYTES_MAX: usize = 1024 * 1024;

const JSON: &str = "application/json";

/// What a call is sent.
pub(super) trait Body: Sized {
    /// The media types that it may be of; none: there must not be a body.
    const TYPES: &'static [&'static str];

    /// Reads it.
    ///
    /// # Errors
    ///
    /// [`Refused`], with what is wrong and where.
    fn parse(media_type: &'static str, bytes: &[u8]) -> Result<Self, Refused>;
}

/// A call that is sent nothing. One that is sent something all the same was meant otherwise.
impl Body for () {
    const TYPES: &'static [&'static str] = &[];

    fn parse(_: &'static str, bytes: &[u8]) -> Result<Self, Refused> {
        if bytes.is_empty() {
            Ok(())
        } else {
            Err(Refused::invalid("this call takes no body"))
        }
    }
}

/// An object of JSON.
#[derive(Debug)]
pub(super) struct Json<T>(pub(super) T);

impl<T: DeserializeOwned> Body for Json<T> {
    const TYPES: &'static [&'static str] = &[JSON];

    fn parse(_: &'static str, bytes: &[u8]) -> Result<Self, Refused> {
        // serde would take an array for a struct as well.
        if bytes.trim_ascii_start().first() != Some(&b'{') {
            return Err(Refused::invalid("the body must be a JSON object"));
        }
        let mut json = serde_json::Deserializer::from_slice(bytes);
        let read = serde_path_to_error::deserialize(&mut json).map_err(|error| {
            let path = error.path().to_string();
            let what = error.into_inner();
            // The path of what stands at the top, and of what is no JSON at all.
            if path == "." || path == "?" {
                Refused::invalid(what.to_string())
            } else {
                Refused::invalid(format!("`{path}`: {what}"))
            }
        })?;
        json.end()
            .map_err(|error| Refused::invalid(error.to_string()))?;
        Ok(Self(read))
    }
}

/// Reads a call's body.
///
/// # Errors
///
/// [`Refused`]: of another type, too large, too slow, or not as it has to be.
pub(super) async fn read<B: Body>(request: &HttpRequest, payload: Payload) -> Result<B, Refused> {
    let media_type = if B::TYPES.is_empty() {
        ""
    } else {
        media_type(request, B::TYPES).ok_or_else(|| Refused::media_type(B::TYPES))?
    };
    let bytes = server::read_body(request, payload, BYTES_MAX).await;
    let bytes = bytes.map_err(|error| match error {
        BodyError::TooLarge => Refused::too_large(BYTES_MAX),
        BodyError::Timeout => Refused::too_slow(),
        BodyError::Incomplete | BodyError::MalformedChunks => {
            Refused::invalid("the body broke off")
        }
    })?;
    B::parse(media_type, &bytes)
}

/// Which of the types the body is of.
fn media_type(request: &HttpRequest, known: &'static [&'static str]) -> Option<&'static str> {
    let mut said = request.headers().get_all(header::CONTENT_TYPE);
    let (Some(said), None) = (said.next(), said.next()) else {
        return None;
    };
    let (essence, parameter) = said
        .to_str()
        .ok()
        .map(|said| said.split_once(';').unwrap_or((said, "")))?;
    let parameter = parameter.trim();
    let plain = ["", "charset=utf-8", "charset=\"utf-8\""]
        .iter()
        .any(|fair| parameter.eq_ignore_ascii_case(fair));
    let known = known
        .iter()
        .find(|known| essence.trim().eq_ignore_ascii_case(known));
    known.copied().filter(|_| plain)
}

/// A member that may be left out and not be `null`, which would mean nothing.
pub(super) fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// A password. What stands there in place of a string is not told, because it may be one.
#[derive(Debug)]
pub(super) struct Password(pub(super) SecretString);

impl<'de> Deserialize<'de> for Password {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(password) => Ok(Self(password.into())),
            _ => Err(D::Error::custom("must be a string")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only whether it is read counts")]
    struct Sample {
        #[serde(default, deserialize_with = "present")]
        password: Option<Password>,
        #[serde(default)]
        names: Vec<String>,
    }

    #[track_caller]
    fn refused(body: &str) -> String {
        let read = Json::<Sample>::parse(JSON, body.as_bytes());
        read.expect_err(body).to_string()
    }

    #[test]
    fn what_is_refused_is_named_with_its_place() {
        let told = refused(r#"{"name": []}"#);
        assert!(
            told.contains("unknown field `name`, expected `password` or `names`"),
            "{told}"
        );
        let told = refused(r#"{"names": ["a", 7]}"#);
        assert!(told.starts_with("`names[1]`: "), "{told}");
        assert!(refused("{} {}").contains("trailing characters"));
        for no_object in ["", "[]", "[[], []]", "\"a\"", "null", "7"] {
            assert_eq!(refused(no_object), "the body must be a JSON object");
        }
    }

    #[test]
    fn no_message_shows_a_password_however_it_is_miswritten() {
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
            let told = refused(body);
            assert!(
                !told.contains("canary") && !told.contains("271828"),
                "{body} gives {told}"
            );
        }
    }
}
