//! A client of the authentication gateway. Copy this file and the dependencies of its `Cargo.toml`.
//!
//! ```no_run
//! # use auth_gateway_client::{AuthGateway, Credentials, Options};
//! # use secrecy::ExposeSecret;
//! # async fn example() -> auth_gateway_client::Result<()> {
//! let gateway = AuthGateway::new("https://auth.example.com", Options::default())?;
//! let credentials = Credentials::new("alice@example.test", "alice-pass");
//! let session = gateway.log_in(&credentials).await?;
//! // Before each request to a service; it is cached.
//! let token = session.access_token("urn:shop:orders:order:read").await?;
//! println!("{} bytes for {}", token.value.expose_secret().len(), token.scope);
//! session.log_out().await?;
//! # Ok(())
//! # }
//! ```
//!
//! Gateway and session are cheap to clone, and can be used by several tasks at once, on a Tokio runtime.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use reqwest::header::RETRY_AFTER;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use tokio::task::AbortHandle;

// A token is renewed after 70 to 85 % of its lifetime, at random, so that clients do not renew together. It is not used
// in the last 5 %, so that it does not expire on the way to a service.
const RENEW_AFTER: f64 = 0.7;
const RENEW_JITTER: f64 = 0.15;
const USABLE_FOR: f64 = 0.95;
/// After a failed renewal, while the old token can be used.
const RENEWAL_PAUSE: Duration = Duration::from_secs(5);
// Before each repetition: half of the backoff to all of it, in addition to `Retry-After`. It doubles each time.
const BACKOFF_MIN: Duration = Duration::from_millis(250);
const BACKOFF_MAX: Duration = Duration::from_secs(4);
/// The gateway closes a connection after 15 s without a request.
const IDLE_CONNECTION: Duration = Duration::from_secs(10);

/// The result of a call.
pub type Result<T> = std::result::Result<T, Error>;

/// A failed call. The gateway's log has the `request_id`.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The login was refused: ask the user again.
    #[error("the credentials are not accepted (request {request_id:?})")]
    InvalidCredentials { request_id: Option<String> },
    /// The session has ended: the user must log in again.
    #[error("the session has ended (request {request_id:?})")]
    SessionOver { request_id: Option<String> },
    /// All repetitions failed, or the call may not be repeated: try later, after `retry_after` if it is known.
    #[error("the gateway is not available: {reason} (request {request_id:?})")]
    Unavailable {
        reason: String,
        retry_after: Option<Duration>,
        request_id: Option<String>,
    },
    /// The program or its configuration is wrong: a repetition is useless. `error` is that of the response.
    #[error(
        "the request is refused with {status}, {error:?}: {description:?} (request {request_id:?})"
    )]
    RequestRefused {
        status: u16,
        error: Option<String>,
        description: Option<String>,
        request_id: Option<String>,
    },
    /// The gateway or its IAM has a fault that a repetition does not remove: report it with the `request_id`.
    #[error("the gateway has a fault: {reason} (request {request_id:?})")]
    GatewayFault {
        reason: String,
        request_id: Option<String>,
    },
    /// The settings of the HTTP client are not accepted.
    #[error("the HTTP client cannot be made: {0}")]
    Settings(String),
}

impl Error {
    fn fault(reason: impl Into<String>) -> Self {
        Self::GatewayFault {
            reason: reason.into(),
            request_id: None,
        }
    }
}

/// Whether a failed call may have had an effect. A call is repeated up to the risk that it can take.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Risk {
    /// No repetition.
    Never,
    /// It was not processed.
    None,
    /// Perhaps; the gateway says that it may be repeated.
    Accepted,
    /// Perhaps; the gateway did not respond.
    Unknown,
}

// A one-time password is used up once it reached the IAM. Exchanges and logouts have the same effect when repeated.
const LOGIN_RISK: Risk = Risk::Accepted;
const OTP_LOGIN_RISK: Risk = Risk::None;
const IDEMPOTENT_RISK: Risk = Risk::Unknown;

/// Time and randomness.
pub trait Timing: Send + Sync {
    /// The time since any origin.
    fn now(&self) -> Duration;
    fn sleep(&self, pause: Duration) -> BoxFuture<'static, ()>;
    /// From 0 to 1.
    fn random(&self) -> f64;
}

struct RealTiming(Instant);

impl Timing for RealTiming {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    fn sleep(&self, pause: Duration) -> BoxFuture<'static, ()> {
        tokio::time::sleep(pause).boxed()
    }

    fn random(&self) -> f64 {
        fastrand::f64()
    }
}

pub struct Options {
    /// Bounds each request.
    pub attempt: Duration,
    /// Bounds a call with all repetitions.
    pub deadline: Duration,
    /// For tests.
    pub timing: Arc<dyn Timing>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            attempt: Duration::from_secs(10),
            deadline: Duration::from_secs(20),
            timing: Arc::new(RealTiming(Instant::now())),
        }
    }
}

/// What a login needs.
#[derive(Clone, Debug)]
pub struct Credentials {
    pub email: String,
    pub password: SecretString,
    /// For users who have one-time passwords.
    pub otp: Option<SecretString>,
    /// A server sets the user's address, by which the gateway limits logins.
    pub client_address: Option<IpAddr>,
}

impl Credentials {
    #[must_use]
    pub fn new(email: impl Into<String>, password: impl Into<SecretString>) -> Self {
        Self {
            email: email.into(),
            password: password.into(),
            otp: None,
            client_address: None,
        }
    }
}

/// Makes sessions.
#[derive(Clone)]
pub struct AuthGateway(Arc<Calls>);

impl fmt::Debug for AuthGateway {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "AuthGateway({})", self.0.url)
    }
}

impl AuthGateway {
    /// # Errors
    ///
    /// `Settings` if the HTTP client cannot be made.
    pub fn new(url: &str, options: Options) -> Result<Self> {
        let client = reqwest::Client::builder()
            // A redirect would send the password or the session elsewhere.
            .redirect(reqwest::redirect::Policy::none())
            .pool_idle_timeout(IDLE_CONNECTION)
            .build()
            .map_err(|error| Error::Settings(error.to_string()))?;
        let url = url.trim_end_matches('/').to_owned();
        Ok(Self(Arc::new(Calls {
            url,
            client,
            options,
        })))
    }

    /// # Errors
    ///
    /// `InvalidCredentials`, `Unavailable`, `RequestRefused` or `GatewayFault`.
    pub async fn log_in(&self, credentials: &Credentials) -> Result<Session> {
        let password = credentials.password.expose_secret();
        let mut body = json!({"email": credentials.email, "password": password});
        let mut risk = LOGIN_RISK;
        if let (Some(members), Some(otp)) = (body.as_object_mut(), &credentials.otp) {
            members.insert("otp".into(), otp.expose_secret().into());
            risk = OTP_LOGIN_RISK;
        }
        let address = credentials.client_address;
        let content = self
            .0
            .call("login", &body, address, risk, || Ok(()))
            .await?;
        let session_token = text(&content, "session_token")?.into();
        Ok(self.resume(
            text(&content, "session_id")?,
            session_token,
            Some(text(&content, "expires_at")?),
        ))
    }

    /// A session that was stored.
    #[must_use]
    pub fn resume(
        &self,
        session_id: String,
        session_token: SecretString,
        expires_at: Option<String>,
    ) -> Session {
        Session(Arc::new(SessionState {
            session_id,
            session_token,
            expires_at,
            calls: Arc::clone(&self.0),
            cache: Mutex::default(),
        }))
    }
}

/// The value is not in its `Debug` form.
#[derive(Clone, Debug)]
pub struct AccessToken {
    pub value: SecretString,
    /// What was granted, which can be less than what was requested.
    pub scope: String,
}

/// Store the id and the token to continue with `resume`. The token is a secret like a password.
#[derive(Clone)]
pub struct Session(Arc<SessionState>);

struct SessionState {
    session_id: String,
    session_token: SecretString,
    expires_at: Option<String>,
    calls: Arc<Calls>,
    cache: Mutex<Cache>,
}

#[derive(Default)]
struct Cache {
    over: bool,
    tokens: HashMap<String, Cached>,
    /// Those in progress or interrupted. One that ends in another way removes itself.
    exchanges: HashMap<String, Exchange>,
}

struct Exchange {
    task: AbortHandle,
    outcome: Shared<BoxFuture<'static, Result<AccessToken>>>,
}

#[derive(Clone)]
struct Cached {
    token: AccessToken,
    renew_at: Duration,
    usable_until: Duration,
}

impl fmt::Debug for Session {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Session({})", self.0.session_id)
    }
}

impl Session {
    #[must_use]
    pub fn id(&self) -> &str {
        &self.0.session_id
    }

    #[must_use]
    pub fn token(&self) -> &SecretString {
        &self.0.session_token
    }

    #[must_use]
    pub fn expires_at(&self) -> Option<&str> {
        self.0.expires_at.as_deref()
    }

    /// A token from the cache or of a new exchange. Concurrent calls with the same scope share one exchange, which continues
    /// if its first caller is dropped.
    ///
    /// # Errors
    ///
    /// `SessionOver`, `Unavailable`, `RequestRefused` or `GatewayFault`.
    pub async fn access_token(&self, scope: &str) -> Result<AccessToken> {
        let outcome = {
            let mut cache = self.0.active()?;
            let now = self.0.calls.options.timing.now();
            let usable = cache
                .tokens
                .get(scope)
                .filter(|cached| now < cached.usable_until)
                .cloned();
            let running = cache
                .exchanges
                .get(scope)
                // Otherwise it was interrupted, such as by the end of the runtime of its first caller.
                .filter(|exchange| !exchange.task.is_finished())
                .map(|exchange| exchange.outcome.clone());
            match (usable, running) {
                (Some(cached), running) if running.is_some() || now < cached.renew_at => {
                    return Ok(cached.token);
                }
                (_, Some(running)) => running,
                (usable, None) => {
                    let task = tokio::spawn(Arc::clone(&self.0).run(scope.to_owned(), usable));
                    let interrupted = || Err(Error::fault("the exchange was interrupted"));
                    let exchange = Exchange {
                        task: task.abort_handle(),
                        outcome: task
                            .map(move |done| done.unwrap_or_else(|_| interrupted()))
                            .boxed()
                            .shared(),
                    };
                    let outcome = exchange.outcome.clone();
                    cache.exchanges.insert(scope.to_owned(), exchange);
                    outcome
                }
            }
        };
        outcome.await
    }

    /// Removes a token that a service refused with 401, so that the next call makes a new one.
    pub fn discard(&self, token: &AccessToken) {
        let refused = token.value.expose_secret();
        self.0
            .cache()
            .tokens
            .retain(|_, cached| cached.token.value.expose_secret() != refused);
    }

    /// Ends the session here at once, also if the call fails. It can be repeated.
    ///
    /// # Errors
    ///
    /// `Unavailable`, `RequestRefused` or `GatewayFault`.
    pub async fn log_out(&self) -> Result<()> {
        self.0.end();
        self.0
            .calls
            .call("logout", &self.0.pair(), None, IDEMPOTENT_RISK, || Ok(()))
            .await
            .map(drop)
    }
}

impl SessionState {
    /// Makes the exchange. With an old token that can still be used, it makes one attempt only.
    async fn run(self: Arc<Self>, scope: String, usable: Option<Cached>) -> Result<AccessToken> {
        let risk = if usable.is_some() {
            Risk::Never
        } else {
            IDEMPOTENT_RISK
        };
        let mut result = self.exchange(&scope, risk).await;
        let mut cache = self.cache();
        cache.exchanges.remove(&scope);
        if let Some(old) = usable {
            let retry_after = match &result {
                Err(Error::Unavailable { retry_after, .. }) => {
                    Some(retry_after.unwrap_or_default())
                }
                Err(Error::GatewayFault { .. }) => Some(Duration::ZERO),
                _ => None,
            };
            // Without it in the cache, a service has refused the old token during the exchange.
            let cached = cache.tokens.get_mut(&scope);
            if let Some((retry_after, cached)) = retry_after.zip(cached) {
                cached.renew_at = self.calls.options.timing.now() + retry_after.max(RENEWAL_PAUSE);
                result = Ok(old.token);
            }
        }
        // A logout during the exchange.
        if cache.over {
            Err(Error::SessionOver { request_id: None })
        } else {
            result
        }
    }

    async fn exchange(&self, scope: &str, risk: Risk) -> Result<AccessToken> {
        let timing = &self.calls.options.timing;
        let mut body = self.pair();
        if let Some(members) = body.as_object_mut() {
            members.insert("grant_type".into(), "session".into());
            members.insert("scope".into(), scope.into());
        }
        let sent_at = timing.now();
        let content = match self
            .calls
            .call("token", &body, None, risk, || self.active().map(drop))
            .await
        {
            Err(over @ Error::SessionOver { .. }) => {
                self.end();
                return Err(over);
            }
            other => other?,
        };
        let value = text(&content, "access_token")?.into();
        let token = AccessToken {
            value,
            scope: text(&content, "scope")?,
        };
        let lifetime = content.get("expires_in").and_then(Value::as_u64);
        let lifetime = Duration::from_secs(
            lifetime.ok_or_else(|| Error::fault("the response has no lifetime"))?,
        );
        let cached = Cached {
            token: token.clone(),
            renew_at: sent_at + lifetime.mul_f64(RENEW_AFTER + RENEW_JITTER * timing.random()),
            usable_until: sent_at + lifetime.mul_f64(USABLE_FOR),
        };
        self.active()?.tokens.insert(scope.to_owned(), cached);
        Ok(token)
    }

    fn pair(&self) -> Value {
        json!({"session_id": self.session_id, "session_token": self.session_token.expose_secret()})
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cache, unless the session has ended.
    fn active(&self) -> Result<MutexGuard<'_, Cache>> {
        let cache = self.cache();
        if cache.over {
            Err(Error::SessionOver { request_id: None })
        } else {
            Ok(cache)
        }
    }

    fn end(&self) {
        let mut cache = self.cache();
        cache.over = true;
        cache.tokens.clear();
    }
}

struct Calls {
    url: String,
    client: reqwest::Client,
    options: Options,
}

/// A failed attempt, and what a repetition risks. Without it, a repetition is useless.
struct Failure(Error, Option<Risk>);

impl Calls {
    /// The response, after repetitions as far as the risk allows them.
    async fn call(
        &self,
        operation: &str,
        body: &Value,
        client_address: Option<IpAddr>,
        limit: Risk,
        before_repetition: impl Fn() -> Result<()>,
    ) -> Result<Value> {
        let timing = &self.options.timing;
        let deadline = timing.now() + self.options.deadline;
        let mut backoff = BACKOFF_MIN;
        loop {
            let bound = self
                .options
                .attempt
                .min(deadline.saturating_sub(timing.now()));
            let attempt = self.attempt(operation, body, client_address, bound);
            let Failure(error, risk) = match attempt.await {
                Ok(content) => return Ok(content),
                Err(failure) => failure,
            };
            if risk.is_none_or(|risk| risk > limit) {
                return Err(error);
            }
            let retry_after = match &error {
                Error::Unavailable { retry_after, .. } => retry_after.unwrap_or_default(),
                _ => Duration::ZERO,
            };
            let pause = retry_after + backoff.mul_f64(f64::midpoint(1.0, timing.random()));
            if timing.now() + pause >= deadline {
                return Err(error);
            }
            timing.sleep(pause).await;
            before_repetition()?;
            if timing.now() >= deadline {
                return Err(error);
            }
            backoff = (backoff * 2).min(BACKOFF_MAX);
        }
    }

    async fn attempt(
        &self,
        operation: &str,
        body: &Value,
        client_address: Option<IpAddr>,
        bound: Duration,
    ) -> std::result::Result<Value, Failure> {
        let no_response = |error: reqwest::Error| {
            let reason = format!("no response to {operation}: {}", error.without_url());
            Failure(
                Error::Unavailable {
                    reason,
                    retry_after: None,
                    request_id: None,
                },
                Some(Risk::Unknown),
            )
        };
        let url = format!("{}/api/v1/auth/{operation}", self.url);
        // The timeout is also for the body of the response.
        let mut request = self.client.post(url).timeout(bound).json(body);
        if let Some(address) = client_address {
            request = request.header("X-Forwarded-For", address.to_string());
        }
        let response = request.send().await.map_err(no_response)?;
        let status = response.status().as_u16();
        let retry_after = response
            .headers()
            .get(RETRY_AFTER)
            .and_then(|value| value.to_str().ok()?.parse::<u32>().ok());
        let body = response.bytes().await.map_err(no_response)?;
        // The error of the parser is left out: it could quote the text, which can have secrets.
        let content = serde_json::from_slice::<Value>(&body).unwrap_or_default();
        if status == 200 {
            return Ok(content);
        }
        Err(failure(
            operation,
            status,
            &content,
            retry_after.map(|seconds| Duration::from_secs(seconds.into())),
        ))
    }
}

fn failure(
    operation: &str,
    status: u16,
    content: &Value,
    retry_after: Option<Duration>,
) -> Failure {
    let member = |name| content.get(name).and_then(Value::as_str).map(str::to_owned);
    let (error, request_id) = (member("error"), member("request_id"));
    let reason = format!("{operation}: status {status}");
    let risk = match (status, error.as_deref()) {
        (408 | 429, _) => Some(Risk::None),
        (_, Some("temporarily_unavailable")) => Some(Risk::Accepted),
        (502..=504, None) => Some(Risk::Unknown), // Of a proxy.
        _ => None,
    };
    let error = match (status, error.as_deref()) {
        _ if risk.is_some() => Error::Unavailable {
            reason,
            retry_after,
            request_id,
        },
        (401, Some("invalid_grant")) if operation == "login" => {
            Error::InvalidCredentials { request_id }
        }
        (401, Some("invalid_grant")) => Error::SessionOver { request_id },
        (400..=499, _) => {
            let description = member("error_description");
            Error::RequestRefused {
                status,
                error,
                description,
                request_id,
            }
        }
        _ => Error::GatewayFault { reason, request_id },
    };
    Failure(error, risk)
}

fn text(content: &Value, name: &str) -> Result<String> {
    let value = content.get(name).and_then(Value::as_str).map(str::to_owned);
    value.ok_or_else(|| Error::fault(format!("the response has no {name}")))
}
