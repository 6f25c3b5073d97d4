//! One request to a realm: what it brings, and what it is answered, faults included.

use std::time::{Duration, Instant};

use actix_web::http::StatusCode;
use actix_web::http::header::{self, HOST, HeaderMap, HeaderName, HeaderValue};
use actix_web::{HttpRequest, HttpResponse};
use iam_adapters::resilient::Operation;
use serde_json::json;
use tokio::time::sleep;
use zeroize::Zeroizing;

use super::connection::Line;
use super::damage::Damage;
use super::form::{self, Form};
use super::realm::{NoClient, Realm, Realms};
use super::refresh_token::Claims;
use super::told::{No, Told};
use crate::iam::Asked;
use crate::iam::faults::Answer;
use crate::iam::journal::Outcome;
use crate::random;

/// How long nothing is said where nothing shall be said, unless the caller gives up before.
const NEVER: Duration = Duration::from_secs(600);

/// Where a redirect leads: a name that nobody can have (RFC 2606 section 2).
const ELSEWHERE: &str = "http://elsewhere.invalid/";

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// A request, and the realm that it came to.
pub(super) struct Visit<'a> {
    pub(super) realms: &'a Realms,
    pub(super) realm: &'a Realm,
    /// What the realm calls itself to this caller.
    pub(super) issuer: String,
    pub(super) form: Form,
    headers: &'a HeaderMap,
    line: Option<&'a Line>,
    /// The words for a wrong secret at this endpoint.
    wrong_secret: No,
}

impl<'a> Visit<'a> {
    pub(super) fn of(
        realms: &'a Realms,
        realm: &'a Realm,
        request: &'a HttpRequest,
        body: &[u8],
    ) -> Self {
        let headers = request.headers();
        let host = headers.get(HOST).and_then(|host| host.to_str().ok());
        let issuer = match host {
            Some(host) => realms.issuer(realm, host),
            None => realms.issuer(realm, &realms.portrait.host()),
        };
        Self {
            realms,
            realm,
            issuer,
            form: Form::of(headers, body),
            headers,
            line: request.conn_data::<Line>(),
            wrong_secret: No::SECRET,
        }
    }

    /// At an endpoint with words of its own for a wrong secret.
    pub(super) fn refusing_secrets_by(self, wrong_secret: No) -> Self {
        Self {
            wrong_secret,
            ..self
        }
    }

    /// The caller's client id, once its secret is found right (RFC 6749 section 2.3.1).
    pub(super) fn client(&self) -> Result<String, No> {
        let told = self.form.value("client_id");
        let (id, secret) = match form::basic(self.headers) {
            Some((id, _)) if told.is_some_and(|told| told != id) => {
                return Err(self.wrong_secret.clone());
            }
            Some(pair) => pair,
            None => {
                let secret = self.form.value("client_secret").unwrap_or_default();
                let id = told.ok_or(No::UNKNOWN_CLIENT)?;
                (id.to_owned(), Zeroizing::new(secret.to_owned()))
            }
        };
        match self.realms.client(self.realm, &id, &secret) {
            Ok(()) => Ok(id),
            Err(NoClient::Unknown) => Err(No::UNKNOWN_CLIENT),
            Err(NoClient::Secret) => Err(self.wrong_secret.clone()),
        }
    }

    /// What every request meets first.
    pub(super) fn check_tls(&self) -> Result<(), No> {
        let required = self.realm.switches().ssl_required;
        (!required).then_some(()).ok_or(No::HTTPS)
    }

    /// What those meet next that are about users.
    pub(super) fn check_enabled(&self) -> Result<(), No> {
        let enabled = self.realm.switches().enabled;
        enabled.then_some(()).ok_or(No::REALM_DISABLED)
    }

    /// The refresh token in the form, where it is one of this realm and client, whether its session
    /// is alive or not.
    pub(super) fn refresh_token(&self, client: &str) -> Result<Claims, No> {
        let token = self
            .form
            .value("refresh_token")
            .ok_or(No::NO_REFRESH_TOKEN)?;
        let claims = self.realm.refresh_key().verify(token).ok_or(No::GARBAGE)?;
        if claims.iss != self.issuer {
            return Err(No::issuer(&self.issuer));
        }
        if claims.azp != client {
            return Err(No::OTHER_CLIENT);
        }
        Ok(claims)
    }

    /// Begins the entry in the journal.
    pub(super) fn asked(&self, operation: Operation) -> Asked<'a> {
        let mut asked = Asked::begin(self.realm.mock(), operation);
        let header = |name| self.headers.get(name).and_then(|value| value.to_str().ok());
        let call = asked.call();
        call.request_id = header(X_REQUEST_ID).map(str::to_owned);
        call.client_address = header(X_FORWARDED_FOR).and_then(|text| text.trim().parse().ok());
        asked
    }

    /// The same, about the session of a token, where it is one of this realm.
    pub(super) fn asked_about(&self, operation: Operation, token: Option<&str>) -> Asked<'a> {
        let mut asked = self.asked(operation);
        let claims = token.and_then(|token| self.realm.refresh_key().verify(token));
        if let Some(session) = claims.and_then(|claims| claims.session()) {
            let call = asked.call();
            call.user = self.realm.mock().directory().address_of(&session);
            call.subject = Some(session.subject);
            call.session = Some(session.id);
        }
        asked
    }

    /// Answers with the truth, or with the fault that stands in its way.
    pub(super) async fn answer(
        &self,
        mut asked: Asked<'_>,
        truth: impl AsyncFnOnce() -> Told,
    ) -> HttpResponse {
        let began = Instant::now();
        let operation = asked.call().operation;
        let fault = asked.fault().await;
        let mut damage = Damage::None;
        let mut told = match fault {
            None => truth().await,
            Some(Answer::Truncated) => {
                damage = Damage::Truncated;
                ending(truth().await, "unreachable")
            }
            Some(Answer::SlowBody) => {
                damage = Damage::Slow;
                ending(truth().await, "timed_out")
            }
            Some(Answer::HugeBody) => {
                damage = Damage::Huge;
                ending(Told::json(json!({})), "unreadable")
            }
            Some(answer) => self.pretended(answer, operation).await,
        };
        let call = asked.call();
        if let Some((subject, session)) = told.began.take() {
            call.subject = Some(subject);
            call.session = Some(session);
        }
        tracing::info!(
            realm = self.realm.name,
            iam.operation = operation.name(),
            outcome = told.outcome.name(),
            status = told.status.as_u16(),
            fault = call.fault,
            request_id = call.request_id,
            duration_ms = began.elapsed().as_secs_f64() * 1e3,
            "asked"
        );
        asked.end(told.outcome);
        damage.done_to(told)
    }

    /// What is said in place of the truth, of which nothing comes about.
    async fn pretended(&self, answer: Answer, operation: Operation) -> Told {
        match answer {
            Answer::Unreachable | Answer::Reset => {
                if let Some(line) = self.line {
                    line.reset();
                }
                ending(No::failed().into(), "unreachable")
            }
            Answer::Timeout => {
                sleep(NEVER).await;
                ending(No::failed().into(), "timed_out")
            }
            Answer::Throttled { retry_after } => {
                let told = Told::from(No::throttled());
                match retry_after {
                    None => told,
                    Some(pause) => told.with(header::RETRY_AFTER, whole_seconds(pause)),
                }
            }
            Answer::Misconfigured => self.wrong_secret.clone().into(),
            Answer::Refused(refusal) => No::login(refusal).into(),
            // Asked by a grant, as whoever does not believe an introspection does.
            Answer::Inactive if self.form.value("grant_type").is_some() => No::SESSION_OVER.into(),
            Answer::Inactive if operation == Operation::Introspection => Told::inactive(),
            Answer::AnotherSession => ending(somebody_elses(&self.realms.portrait.client_id), "unreadable"),
            Answer::Unreadable => Told::unreadable(),
            Answer::Html => Told::page(Outcome::Fault("unreadable")),
            Answer::Redirect => Told {
                status: StatusCode::FOUND,
                body: None,
                ..ending(Told::done(), "misconfigured")
            }
            .with(header::LOCATION, HeaderValue::from_static(ELSEWHERE)),
            Answer::ServerError
            | Answer::Inactive
            // What is done to the truth was done before.
            | Answer::Truncated
            | Answer::SlowBody
            | Answer::HugeBody => No::failed().into(),
        }
    }
}

/// The answer, written down as a fault of this kind.
fn ending(told: Told, kind: &'static str) -> Told {
    Told {
        outcome: Outcome::Fault(kind),
        ..told
    }
}

/// What is true of a session that nobody asked about.
fn somebody_elses(client: &str) -> Told {
    let anybody = || random::id().unwrap_or_default();
    Told::json(json!({
        "active": true,
        "sub": anybody(),
        "sid": anybody(),
        "azp": client,
        "client_id": client,
    }))
}

/// RFC 9110 section 10.2.3: whole seconds, and never too few.
fn whole_seconds(pause: Duration) -> u64 {
    pause.as_secs() + u64::from(pause.subsec_nanos() > 0)
}
