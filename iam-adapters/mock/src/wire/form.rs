//! What a caller sends: a form, and perhaps credentials of a client in a header.

use actix_web::http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use url::form_urlencoded;
use zeroize::Zeroizing;

/// The members of a form, in their order. Passwords are among them.
pub(super) struct Form(Vec<(String, Zeroizing<String>)>);

impl Form {
    /// Reads a body; one that says it is no form has no members.
    pub(super) fn of(headers: &HeaderMap, body: &[u8]) -> Self {
        let said = headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok());
        let essence = said.and_then(|said| said.split(';').next());
        let form = essence.is_some_and(|essence| {
            essence
                .trim()
                .eq_ignore_ascii_case("application/x-www-form-urlencoded")
        });
        Self(if form { pairs(body) } else { Vec::new() })
    }

    /// The first member of that name.
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        let mut named = self.0.iter().filter(|(there, _)| there == name);
        named.next().map(|(_, value)| value.as_str())
    }

    /// Whether a name stands there twice.
    pub(super) fn repeats_itself(&self) -> bool {
        let mut rest = self.0.as_slice();
        while let Some(((name, _), others)) = rest.split_first() {
            if others.iter().any(|(other, _)| other == name) {
                return true;
            }
            rest = others;
        }
        false
    }
}

/// The id and the secret of HTTP Basic, each form-encoded (RFC 6749 section 2.3.1).
pub(super) fn basic(headers: &HeaderMap) -> Option<(String, Zeroizing<String>)> {
    let said = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, encoded) = said.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let pair = Zeroizing::new(STANDARD.decode(encoded.trim()).ok()?);
    let (id, secret) = std::str::from_utf8(&pair).ok()?.split_once(':')?;
    Some((decoded(id), Zeroizing::new(decoded(secret))))
}

fn pairs(form: &[u8]) -> Vec<(String, Zeroizing<String>)> {
    form_urlencoded::parse(form)
        .map(|(name, value)| (name.into_owned(), Zeroizing::new(value.into_owned())))
        .collect()
}

/// One value of a form. `=` and `&` in it are meant as they stand: it is no form by itself.
fn decoded(text: &str) -> String {
    let alone = text.replace('&', "%26").replace('=', "%3D");
    let mut pairs = form_urlencoded::parse(alone.as_bytes());
    pairs
        .next()
        .map(|(name, _)| name.into_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::{HeaderName, HeaderValue};

    use super::*;

    fn headers(name: HeaderName, value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_str(value).expect("a value"));
        headers
    }

    #[test]
    fn credentials_of_a_client_are_form_encoded_before_they_are_basic() {
        for (id, secret, sent) in [
            ("auth-gateway", "secret", "auth-gateway:secret"),
            ("a b", "x:y", "a+b:x%3Ay"),
            ("ä", "a=b&c", "%C3%A4:a=b&c"),
            ("a", "", "a:"),
        ] {
            let header = format!("Basic {}", STANDARD.encode(sent));
            let (got, word) = basic(&headers(AUTHORIZATION, &header)).expect("a pair");
            assert_eq!((got.as_str(), word.as_str()), (id, secret));
        }
        for odd in ["Bearer x", "Basic", "Basic ?", "Basic YQ=="] {
            assert!(basic(&headers(AUTHORIZATION, odd)).is_none(), "{odd}");
        }
    }

    #[test]
    fn only_a_form_has_members_and_a_repeated_one_is_noticed() {
        let form = headers(
            CONTENT_TYPE,
            "application/x-www-form-urlencoded; charset=utf-8",
        );
        let read = Form::of(&form, b"a=1&b=%20&a=2");
        assert_eq!((read.value("a"), read.value("b")), (Some("1"), Some(" ")));
        assert!(read.repeats_itself() && !Form::of(&form, b"a=1&b=1").repeats_itself());
        let json = headers(CONTENT_TYPE, "application/json");
        assert_eq!(Form::of(&json, b"a=1").value("a"), None);
    }
}
