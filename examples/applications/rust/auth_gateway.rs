//! A client of the authentication gateway. Copy this file and the dependencies of its `Cargo.toml`.
//!
//! ```no_run
//! # use auth_gateway_client::{AuthGateway, Credentials, Options};
//! # use secrecy::ExposeSecret;
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
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
//! Gateway and session can be used by several tasks at once, on a Tokio runtime. Clones of a session share its cache.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use reqwest::header::RETRY_AFTER;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use tokio::sync::watch;

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
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failed call.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{kind}: {detail} (request {request_id:?})")]
pub struct Error {
    pub kind: ErrorKind,
    /// The member `error` of the response.
    pub code: Option<String>,
    /// The gateway's log has it.
    pub request_id: Option<String>,
    /// When to try again, if it is known.
    pub retry_after: Option<Duration>,
    detail: String,
    /// What a repetition risks; `None`: it is useless.
    risk: Option<Risk>,
}

/// What to do after an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ErrorKind {
    /// The login was refused: ask the user again.
    #[error("the credentials are not accepted")]
    InvalidCredentials,
    /// The user must log in again.
    #[error("the session has ended")]
    SessionOver,
    /// All repetitions failed, or the call may not be repeated: try later.
    #[error("the gateway is not available")]
    Unavailable,
    /// The program or its configuration is wrong: a repetition is useless.
    #[error("the request is refused")]
    RequestRefused,
    /// The gateway or its IAM has a fault that a repetition does not remove: report it with the `request_id`.
    #[error("the gateway has a fault")]
    GatewayFault,
}

impl Error {
    fn new(kind: ErrorKind, detail: impl Into<String>) -> Self {
        Self {
            kind,
            code: None,
            request_id: None,
            retry_after: None,
            detail: detail.into(),
            risk: None,
        }
    }
}

/// Whether a failed call may have had an effect. A call is repeated up to the risk that it can take.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
enum Risk {
    /// It was not processed.
    NotProcessed,
    /// Perhaps; the gateway says that it may be repeated.
    Accepted,
    /// Perhaps; the gateway did not respond.
    Unknown,
}

// A one-time password is used up once it reached the IAM. Exchanges and logouts have the same effect when repeated.
const LOGIN_RISK: Risk = Risk::Accepted;
const OTP_LOGIN_RISK: Risk = Risk::NotProcessed;
const IDEMPOTENT_RISK: Risk = Risk::Unknown;

pub struct Options {
    /// Bounds each request.
    pub attempt: Duration,
    /// Bounds a call with all repetitions.
    pub deadline: Duration,
    /// For tests.
    pub timing: Timing,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            attempt: Duration::from_secs(10),
            deadline: Duration::from_secs(20),
            timing: Timing {
                now: Instant::now,
                sleep: |pause| tokio::time::sleep(pause).boxed(),
                random: fastrand::f64,
            },
        }
    }
}

/// Time and randomness.
pub struct Timing {
    pub now: fn() -> Instant,
    pub sleep: fn(Duration) -> BoxFuture<'static, ()>,
    /// From 0 to 1.
    pub random: fn() -> f64,
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
    /// The HTTP client cannot be made.
    pub fn new(url: &str, options: Options) -> Result<Self, reqwest::Error> {
        let client = reqwest::Client::builder()
            // A redirect would send the password or the session elsewhere.
            .redirect(reqwest::redirect::Policy::none())
            .pool_idle_timeout(IDLE_CONNECTION)
            .build()?;
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
        if let Some(otp) = &credentials.otp {
            body["otp"] = otp.expose_secret().into();
            risk = OTP_LOGIN_RISK;
        }
        let address = credentials.client_address;
        let call = self.0.call("login", &body, address, Some(risk), None);
        let content = call.await?;
        Ok(self.resume(
            text(&content, "session_id")?,
            text(&content, "session_token")?.into(),
            Some(text(&content, "expires_at")?),
        ))
    }

    /// A session that was stored.
    #[must_use]
    pub fn resume(&self, id: String, token: SecretString, expires_at: Option<String>) -> Session {
        Session {
            id,
            token,
            expires_at,
            calls: Arc::clone(&self.0),
            cache: Arc::default(),
        }
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
pub struct Session {
    pub id: String,
    pub token: SecretString,
    pub expires_at: Option<String>,
    calls: Arc<Calls>,
    cache: Arc<Mutex<Cache>>,
}

#[derive(Default)]
struct Cache {
    over: bool,
    tokens: HashMap<String, Cached>,
    /// Those in progress or interrupted.
    exchanges: HashMap<String, Exchange>,
}

impl Cache {
    fn end(&mut self) {
        self.over = true;
        self.tokens.clear();
    }
}

struct Cached {
    token: AccessToken,
    renew_at: Instant,
    usable_until: Instant,
}

/// Gets the outcome.
type Exchange = watch::Receiver<Option<Result<AccessToken>>>;

impl fmt::Debug for Session {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Session({})", self.id)
    }
}

impl Session {
    /// A token from the cache or of a new exchange. Concurrent calls with the same scope share one exchange, which
    /// continues if its first caller is dropped.
    ///
    /// # Errors
    ///
    /// `SessionOver`, `Unavailable`, `RequestRefused` or `GatewayFault`.
    pub async fn access_token(&self, scope: &str) -> Result<AccessToken> {
        loop {
            let mut exchange = {
                let mut cache = self.active()?;
                let now = self.now();
                let old = cache.tokens.get(scope);
                let old = old.filter(|old| now < old.usable_until);
                let running = cache.exchanges.get(scope);
                // Otherwise it was interrupted, such as by the end of the runtime of its first caller.
                let running = running.filter(|exchange| exchange.has_changed().is_ok());
                if let Some(old) = old
                    && (running.is_some() || now < old.renew_at)
                {
                    return Ok(old.token.clone());
                }
                if let Some(running) = running {
                    running.clone()
                } else {
                    let exchange = self.clone().start(scope.to_owned(), old.is_some());
                    cache.exchanges.insert(scope.to_owned(), exchange.clone());
                    exchange
                }
            };
            let outcome = exchange.wait_for(Option::is_some).await;
            if let Ok(Some(outcome)) = outcome.map(|outcome| outcome.clone()) {
                return outcome;
            }
        }
    }

    /// Removes a token that a service refused with 401, so that the next call makes a new one.
    pub fn discard(&self, token: &AccessToken) {
        let refused = token.value.expose_secret();
        self.cache()
            .tokens
            .retain(|_, cached| cached.token.value.expose_secret() != refused);
    }

    /// Ends the session here at once, also if the call fails. It can be repeated.
    ///
    /// # Errors
    ///
    /// `Unavailable`, `RequestRefused` or `GatewayFault`.
    pub async fn log_out(&self) -> Result<()> {
        self.cache().end();
        let (body, limit) = (self.pair(), Some(IDEMPOTENT_RISK));
        let call = self.calls.call("logout", &body, None, limit, None);
        call.await.map(drop)
    }

    /// Makes the exchange in a task, so that it does not depend on its first caller.
    fn start(self, scope: String, is_renewal: bool) -> Exchange {
        let (sender, exchange) = watch::channel(None);
        tokio::spawn(async move {
            let outcome = self.run(&scope, is_renewal).await;
            sender.send_replace(Some(outcome));
        });
        exchange
    }

    /// A renewal makes one attempt only, because the old token can still be used.
    async fn run(&self, scope: &str, is_renewal: bool) -> Result<AccessToken> {
        let limit = (!is_renewal).then_some(IDEMPOTENT_RISK);
        let outcome = self.exchange(scope, limit).await;
        let mut cache = self.cache();
        cache.exchanges.remove(scope);
        match outcome {
            Err(error) if error.kind == ErrorKind::SessionOver => {
                cache.end();
                Err(error)
            }
            // A logout during the exchange.
            _ if cache.over => Err(session_over()),
            Err(error) if is_renewal => {
                let Some(old) = cache.tokens.get_mut(scope) else {
                    // A service has refused the old token during the exchange.
                    return Err(error);
                };
                let pause = error.retry_after.unwrap_or_default().max(RENEWAL_PAUSE);
                old.renew_at = self.now() + pause;
                Ok(old.token.clone())
            }
            other => other,
        }
    }

    async fn exchange(&self, scope: &str, limit: Option<Risk>) -> Result<AccessToken> {
        let calls = &self.calls;
        let mut body = self.pair();
        body["grant_type"] = "session".into();
        body["scope"] = scope.into();
        let sent_at = self.now();
        let call = calls.call("token", &body, None, limit, Some(self));
        let content = call.await?;
        let token = AccessToken {
            value: text(&content, "access_token")?.into(),
            scope: text(&content, "scope")?,
        };
        let seconds = content.get("expires_in").and_then(Value::as_u64);
        let seconds = seconds.and_then(|seconds| u32::try_from(seconds).ok());
        let seconds = seconds.ok_or_else(|| missing("expires_in"))?;
        let lifetime = Duration::from_secs(seconds.into());
        let renew_after = RENEW_AFTER + RENEW_JITTER * (calls.options.timing.random)();
        let cached = Cached {
            token: token.clone(),
            renew_at: sent_at + lifetime.mul_f64(renew_after),
            usable_until: sent_at + lifetime.mul_f64(USABLE_FOR),
        };
        self.active()?.tokens.insert(scope.to_owned(), cached);
        Ok(token)
    }

    fn pair(&self) -> Value {
        json!({"session_id": self.id, "session_token": self.token.expose_secret()})
    }

    fn now(&self) -> Instant {
        (self.calls.options.timing.now)()
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cache, unless the session has ended.
    fn active(&self) -> Result<MutexGuard<'_, Cache>> {
        let cache = self.cache();
        if cache.over {
            Err(session_over())
        } else {
            Ok(cache)
        }
    }
}

struct Calls {
    url: String,
    client: reqwest::Client,
    options: Options,
}

impl Calls {
    /// The response, after repetitions up to this risk and while this session is active. Without a limit: none.
    async fn call(
        &self,
        operation: &str,
        body: &Value,
        client_address: Option<IpAddr>,
        limit: Option<Risk>,
        session: Option<&Session>,
    ) -> Result<Value> {
        let Timing { now, sleep, random } = self.options.timing;
        let deadline = now() + self.options.deadline;
        let mut backoff = BACKOFF_MIN;
        loop {
            let remaining = deadline.saturating_duration_since(now());
            let bound = remaining.min(self.options.attempt);
            let attempt = self.attempt(operation, body, client_address, bound);
            let error = match attempt.await {
                Ok(content) => return Ok(content),
                Err(error) => error,
            };
            let pause = backoff.mul_f64(f64::midpoint(1.0, random()));
            let pause = pause + error.retry_after.unwrap_or_default();
            if error.risk.is_none() || error.risk > limit || now() + pause >= deadline {
                return Err(error);
            }
            sleep(pause).await;
            if let Some(session) = session {
                drop(session.active()?);
            }
            if now() >= deadline {
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
    ) -> Result<Value> {
        let no_response = |error: reqwest::Error| {
            let detail = format!("no response to {operation}: {}", error.without_url());
            Error {
                risk: Some(Risk::Unknown),
                ..Error::new(ErrorKind::Unavailable, detail)
            }
        };
        let url = format!("{}/api/v1/auth/{operation}", self.url);
        // The timeout is also for the body of the response.
        let mut request = self.client.post(url).timeout(bound).json(body);
        if let Some(address) = client_address {
            request = request.header("X-Forwarded-For", address.to_string());
        }
        let response = request.send().await.map_err(no_response)?;
        let status = response.status().as_u16();
        let retry_after = response.headers().get(RETRY_AFTER).cloned();
        let body = response.bytes().await.map_err(no_response)?;
        // The error of the parser is left out: it could quote the text, which can have secrets.
        let content = serde_json::from_slice::<Value>(&body).unwrap_or_default();
        if status == 200 {
            return Ok(content);
        }
        let retry_after = retry_after.and_then(|value| value.to_str().ok()?.parse::<u32>().ok());
        Err(Error {
            retry_after: retry_after.map(|seconds| Duration::from_secs(seconds.into())),
            ..refusal(operation, status, &content)
        })
    }
}

fn refusal(operation: &str, status: u16, content: &Value) -> Error {
    let member = |name| content.get(name).and_then(Value::as_str).map(str::to_owned);
    let code = member("error");
    let risk = match (status, code.as_deref()) {
        (408 | 429, _) => Some(Risk::NotProcessed),
        (_, Some("temporarily_unavailable")) => Some(Risk::Accepted),
        // Of a proxy.
        (502..=504, None) => Some(Risk::Unknown),
        _ => None,
    };
    let kind = match (status, code.as_deref()) {
        _ if risk.is_some() => ErrorKind::Unavailable,
        (401, Some("invalid_grant")) if operation == "login" => ErrorKind::InvalidCredentials,
        (401, Some("invalid_grant")) => ErrorKind::SessionOver,
        (400..=499, _) => ErrorKind::RequestRefused,
        _ => ErrorKind::GatewayFault,
    };
    let description = member("error_description").unwrap_or_default();
    let detail = format!("{operation}: status {status}, {code:?}: {description}");
    Error {
        code,
        request_id: member("request_id"),
        risk,
        ..Error::new(kind, detail)
    }
}

fn session_over() -> Error {
    Error::new(ErrorKind::SessionOver, "no request was made")
}

fn missing(name: &str) -> Error {
    let detail = format!("the response has no valid {name}");
    Error::new(ErrorKind::GatewayFault, detail)
}

fn text(content: &Value, name: &str) -> Result<String> {
    let value = content.get(name).and_then(Value::as_str);
    value.map(str::to_owned).ok_or_else(|| missing(name))
}
