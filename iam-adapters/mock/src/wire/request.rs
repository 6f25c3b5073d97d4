//! A request to a realm: its form and client credentials, the checks that Keycloak makes, the journal
//! entry and the injected faults.

use std::sync::Arc;
use std::time::{Duration, Instant};

use actix_web::dev::Payload;
use actix_web::error::InternalError;
use actix_web::http::StatusCode;
use actix_web::http::header::{
    self, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue,
};
use actix_web::web::{Bytes, Data, Path};
use actix_web::{Error, FromRequest, HttpRequest, HttpResponse};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::LocalBoxFuture;
use iam_adapters::name::Name as _;
use iam_adapters::resilient::Operation;
use serde_json::json;
use tokio::time::sleep;
use url::form_urlencoded;
use zeroize::Zeroizing;

use super::realm::{ClientAuthError, Realm, Realms};
use super::refresh_token::Claims;
use super::response::{OAuthError, RealmResponse, plain_error};
use super::wire_fault::{ResetHandle, WireFault};
use crate::iam::PendingCall;
use crate::iam::faults::Answer;
use crate::iam::journal::Outcome;
use crate::random;

/// How long a timeout fault holds the response, unless the client disconnects.
const TIMEOUT_HOLD: Duration = Duration::from_secs(600);

/// The target of a redirect fault: a reserved name (RFC 2606 section 2).
const REDIRECT_TARGET: &str = "http://elsewhere.invalid/";

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// A request to a realm.
pub(super) struct RealmRequest {
    pub(super) realm: Arc<Realm>,
    /// The issuer of the realm, which follows `Host`.
    pub(super) issuer: String,
    pub(super) form: Form,
    request: HttpRequest,
    /// The error for a wrong client secret at this endpoint.
    wrong_secret: OAuthError,
}

impl FromRequest for RealmRequest {
    type Error = Error;
    type Future = LocalBoxFuture<'static, Result<Self, Error>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let body = Bytes::from_request(request, payload);
        let request = request.clone();
        Box::pin(async move {
            let body = body.await?;
            let name = Path::<String>::extract(&request).await?;
            let realms = request.app_data::<Data<Realms>>();
            let realm = realms.and_then(|realms| realms.find(&name));
            let realm = realm.ok_or_else(|| {
                let unknown = "Realm does not exist";
                let response = plain_error(StatusCode::NOT_FOUND, unknown);
                InternalError::from_response(unknown, response)
            })?;
            let headers = request.headers();
            let host = headers.get(HOST).and_then(|host| host.to_str().ok());
            let issuer = match host {
                Some(host) => realm.issuer(host),
                None => realm.issuer(&realm.server.settings.host()),
            };
            Ok(Self {
                realm,
                issuer,
                form: Form::parse(headers, &body),
                request,
                wrong_secret: OAuthError::SECRET,
            })
        })
    }
}

impl RealmRequest {
    /// Sets another error for a wrong client secret.
    pub(super) fn with_wrong_secret_error(self, wrong_secret: OAuthError) -> Self {
        Self {
            wrong_secret,
            ..self
        }
    }

    /// Authenticates the client (RFC 6749 section 2.3.1) and returns its id.
    pub(super) fn client(&self) -> Result<String, OAuthError> {
        let in_form = self.form.value("client_id");
        let (id, secret) = match basic(self.request.headers()) {
            Some((id, _)) if in_form.is_some_and(|in_form| in_form != id) => {
                return Err(self.wrong_secret.clone());
            }
            Some(pair) => pair,
            None => {
                let secret = self.form.value("client_secret").unwrap_or_default();
                let id = in_form.ok_or(OAuthError::UNKNOWN_CLIENT)?;
                (id.to_owned(), Zeroizing::new(secret.to_owned()))
            }
        };
        match self.realm.client(&id, &secret) {
            Ok(()) => Ok(id),
            Err(ClientAuthError::Unknown) => Err(OAuthError::UNKNOWN_CLIENT),
            Err(ClientAuthError::Secret) => Err(self.wrong_secret.clone()),
        }
    }

    /// The first check of every request.
    pub(super) fn check_tls(&self) -> Result<(), OAuthError> {
        let required = self.realm.settings().ssl_required;
        (!required).then_some(()).ok_or(OAuthError::HTTPS)
    }

    /// The next check of requests about users.
    pub(super) fn check_enabled(&self) -> Result<(), OAuthError> {
        let enabled = self.realm.settings().enabled;
        enabled.then_some(()).ok_or(OAuthError::REALM_DISABLED)
    }

    /// The claims of the refresh token in the form. Fails unless this realm issued it. Its session may have
    /// ended.
    pub(super) fn refresh_token(&self) -> Result<Claims, OAuthError> {
        let token = self
            .form
            .value("refresh_token")
            .ok_or(OAuthError::NO_REFRESH_TOKEN)?;
        let claims = self
            .realm
            .refresh_key
            .verify(token)
            .ok_or(OAuthError::GARBAGE)?;
        if claims.iss != self.issuer {
            return Err(OAuthError::issuer(&self.issuer));
        }
        Ok(claims)
    }

    /// Begins the journal entry.
    pub(super) fn begin_call(&self, operation: Operation) -> PendingCall<'_> {
        let mut call = PendingCall::begin(&self.realm.mock, operation);
        let headers = self.request.headers();
        let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let entry = call.entry();
        entry.request_id = header(X_REQUEST_ID).map(str::to_owned);
        entry.client_address = header(X_FORWARDED_FOR).and_then(|text| text.trim().parse().ok());
        call
    }

    /// Begins the journal entry of a call about the session of a token of this realm.
    pub(super) fn begin_session_call(
        &self,
        operation: Operation,
        token: Option<&str>,
    ) -> PendingCall<'_> {
        let mut call = self.begin_call(operation);
        let claims = token.and_then(|token| self.realm.refresh_key.verify(token));
        if let Some(session) = claims.and_then(|claims| claims.session()) {
            let entry = call.entry();
            entry.user = self.realm.mock.directory().address_of(&session);
            entry.subject = Some(session.subject);
            entry.session = Some(session.id);
        }
        call
    }

    /// Responds with the result of `handler`, or with the injected fault.
    pub(super) async fn respond(
        &self,
        mut call: PendingCall<'_>,
        handler: impl AsyncFnOnce() -> RealmResponse,
    ) -> HttpResponse {
        let began = Instant::now();
        let operation = call.entry().operation;
        let fault = call.fault().await;
        let mut wire_fault = WireFault::None;
        let mut response = match fault {
            None => handler().await,
            Some(Answer::Truncated) => {
                wire_fault = WireFault::Truncated;
                as_fault(handler().await, "unreachable")
            }
            Some(Answer::SlowBody) => {
                wire_fault = WireFault::Slow;
                as_fault(handler().await, "timed_out")
            }
            Some(Answer::HugeBody) => {
                wire_fault = WireFault::Huge;
                as_fault(RealmResponse::json(json!({})), "unreadable")
            }
            Some(answer) => self.injected(answer, operation).await,
        };
        let entry = call.entry();
        if let Some((subject, session)) = response.session.take() {
            entry.subject = Some(subject);
            entry.session = Some(session);
        }
        tracing::info!(
            realm = self.realm.name,
            iam.operation = operation.name(),
            outcome = response.outcome.name(),
            status = response.status.as_u16(),
            fault = entry.fault,
            request_id = entry.request_id,
            duration_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX),
            "request handled"
        );
        call.end(response.outcome);
        wire_fault.apply(response)
    }

    /// The response of a fault. The requested operation is not performed.
    async fn injected(&self, answer: Answer, operation: Operation) -> RealmResponse {
        match answer {
            Answer::Unreachable | Answer::Reset => {
                if let Some(connection) = self.request.conn_data::<ResetHandle>() {
                    connection.reset();
                }
                as_fault(OAuthError::failed().into(), "unreachable")
            }
            Answer::Timeout => {
                sleep(TIMEOUT_HOLD).await;
                as_fault(OAuthError::failed().into(), "timed_out")
            }
            Answer::Throttled { retry_after } => {
                let response = RealmResponse::from(OAuthError::throttled());
                match retry_after {
                    None => response,
                    Some(pause) => response.with(header::RETRY_AFTER, whole_seconds(pause)),
                }
            }
            Answer::Misconfigured => self.wrong_secret.clone().into(),
            Answer::Refused(refusal) => OAuthError::login(refusal).into(),
            // The gateway confirms a doubtful introspection by a refresh grant.
            Answer::Inactive if self.form.value("grant_type").is_some() => OAuthError::SESSION_OVER.into(),
            Answer::Inactive if operation == Operation::Introspection => RealmResponse::inactive(),
            Answer::AnotherSession => as_fault(another_session(&self.realm.server.settings.client_id), "unreadable"),
            Answer::Unreadable => RealmResponse::unreadable(),
            Answer::Html => RealmResponse::page(Outcome::Fault("unreadable")),
            Answer::Redirect => RealmResponse {
                status: StatusCode::FOUND,
                body: None,
                ..as_fault(RealmResponse::no_content(), "misconfigured")
            }
            .with(header::LOCATION, HeaderValue::from_static(REDIRECT_TARGET)),
            Answer::ServerError
            | Answer::Inactive
            // `respond` handles these.
            | Answer::Truncated
            | Answer::SlowBody
            | Answer::HugeBody => OAuthError::failed().into(),
        }
    }
}

/// The response, with a fault of this kind as its outcome.
fn as_fault(response: RealmResponse, kind: &'static str) -> RealmResponse {
    RealmResponse {
        outcome: Outcome::Fault(kind),
        ..response
    }
}

/// The introspection of another session.
fn another_session(client: &str) -> RealmResponse {
    let id = || random::id().unwrap_or_default();
    RealmResponse::json(json!({
        "active": true,
        "sub": id(),
        "sid": id(),
        "azp": client,
        "client_id": client,
    }))
}

/// `Retry-After` in whole seconds, rounded up (RFC 9110 section 10.2.3).
fn whole_seconds(pause: Duration) -> u64 {
    pause.as_secs() + u64::from(pause.subsec_nanos() > 0)
}

/// The members of a form in their order, including passwords.
pub(super) struct Form(Vec<(String, Zeroizing<String>)>);

impl Form {
    /// Parses a body. A body of another content type has no members.
    fn parse(headers: &HeaderMap, body: &[u8]) -> Self {
        let content_type = headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok());
        let essence = content_type.and_then(|value| value.split(';').next());
        let form = essence.is_some_and(|essence| {
            essence
                .trim()
                .eq_ignore_ascii_case("application/x-www-form-urlencoded")
        });
        Self(if form { pairs(body) } else { Vec::new() })
    }

    /// The first member with this name.
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        let mut named = self.0.iter().filter(|(there, _)| there == name);
        named.next().map(|(_, value)| value.as_str())
    }

    /// Whether a name is repeated.
    pub(super) fn has_duplicates(&self) -> bool {
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

/// The client id and secret of HTTP Basic, each form-encoded (RFC 6749 section 2.3.1).
fn basic(headers: &HeaderMap) -> Option<(String, Zeroizing<String>)> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, encoded) = value.split_once(' ')?;
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

/// Decodes one form-encoded value. `=` and `&` are literal, because the text is not a whole form.
fn decoded(text: &str) -> String {
    let escaped = text.replace('&', "%26").replace('=', "%3D");
    let mut pairs = form_urlencoded::parse(escaped.as_bytes());
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
    fn client_credentials_in_http_basic_are_form_decoded() {
        for (id, secret, sent) in [
            ("auth-gateway", "secret", "auth-gateway:secret"),
            ("a b", "x:y", "a+b:x%3Ay"),
            ("ä", "a=b&c", "%C3%A4:a=b&c"),
            ("a", "", "a:"),
        ] {
            let header = format!("Basic {}", STANDARD.encode(sent));
            let (parsed_id, parsed_secret) =
                basic(&headers(AUTHORIZATION, &header)).expect("a pair");
            assert_eq!((parsed_id.as_str(), parsed_secret.as_str()), (id, secret));
        }
        for invalid in ["Bearer x", "Basic", "Basic ?", "Basic YQ=="] {
            assert!(
                basic(&headers(AUTHORIZATION, invalid)).is_none(),
                "{invalid}"
            );
        }
    }

    #[test]
    fn only_a_form_has_members_and_repeated_names_are_detected() {
        let form = headers(
            CONTENT_TYPE,
            "application/x-www-form-urlencoded; charset=utf-8",
        );
        let read = Form::parse(&form, b"a=1&b=%20&a=2");
        assert_eq!((read.value("a"), read.value("b")), (Some("1"), Some(" ")));
        assert!(read.has_duplicates() && !Form::parse(&form, b"a=1&b=1").has_duplicates());
        let json = headers(CONTENT_TYPE, "application/json");
        assert_eq!(Form::parse(&json, b"a=1").value("a"), None);
    }
}
