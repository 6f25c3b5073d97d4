//! The HTTP client of all adapters, and the mapping of its errors to [`IamError`]. Deadlines are those
//! of [`ResilientAdapter`](crate::ResilientAdapter), which drops the future.

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use opentelemetry::KeyValue;
use opentelemetry::trace::{SpanBuilder, SpanKind, SpanRef, Status};
use reqwest::header::{AGE, DATE, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{Client, ClientBuilder, Request, RequestBuilder, StatusCode, redirect, retry};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::CertificateDer;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::Verifier;
use serde::de::DeserializeOwned;
use thiserror::Error;
use tokio::time::{Instant, timeout};
use url::Url;

use crate::adapter::SetupError;
use crate::clock::{self, Clock, Moment};
use crate::error::{Detail, IamError, Misconfiguration};
use crate::trace::{self, ChildSpan};
use crate::types::ClientContext;
use crate::{json, pem};

pub(crate) use fault::tls_reason;

use recycled::RecycledClient;
use resolver::SharedResolver;

mod fault;
mod recycled;
mod resolver;

/// The maximum length of a response body in bytes. Discovery documents have about 8 KiB, tokens with
/// hundreds of roles about 50 KiB.
pub const BODY_MAX: usize = 256 * 1024;

/// A token that no IAM has issued, for tests of its logout.
pub(crate) const MADE_UP_TOKEN: &str = "auth-gateway-check";

/// Shorter than the idle timeout of servers and proxies (60 s and more), so that a request is not sent
/// on a connection that is just being closed.
const POOL_IDLE: Duration = Duration::from_secs(20);

/// When TCP keep-alive starts to test an idle connection.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// How long sent data may stay unacknowledged before the connection is closed (`TCP_USER_TIMEOUT`), for
/// a host that disappeared without closing its connections.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED: Duration = Duration::from_secs(10);

/// How long at most before the deadline of a call its steps end that are not needed for a result.
const STEP_MARGIN: Duration = Duration::from_millis(50);

/// The resolution of `Date` (RFC 9110 section 5.6.7).
const DATE_RESOLUTION: Duration = Duration::from_secs(1);

tokio::task_local! {
    /// The offset of the server's clock by the last response with a `Date`, within a probe.
    pub(crate) static CLOCK_OFFSET: Cell<Option<f64>>;
    /// The deadline of the call in progress.
    pub(crate) static DEADLINE: Instant;
}

/// The result of a step without which the call in progress has a result too. The step ends a little before the
/// deadline of the call, so that the call returns in time.
///
/// # Errors
///
/// As [`within`].
pub(crate) async fn within_call<T>(
    longest: Duration,
    step: impl Future<Output = Result<T, IamError>>,
) -> Result<T, IamError> {
    let left = DEADLINE.try_with(|deadline| deadline.saturating_duration_since(Instant::now()));
    let left = left.unwrap_or(Duration::MAX);
    let margin = STEP_MARGIN.min(left / 4);
    within(longest.min(left.saturating_sub(margin)), step).await
}

/// The result of a call, or the fault that it has taken longer than the deadline.
///
/// # Errors
///
/// Those of the call, and [`IamError::TimedOut`].
pub async fn within<T>(
    deadline: Duration,
    call: impl Future<Output = Result<T, IamError>>,
) -> Result<T, IamError> {
    let ended = timeout(deadline, call).await;
    ended.unwrap_or(Err(IamError::TimedOut(deadline)))
}

/// Why a client could not be created.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The file with certificates cannot be read, contains no PEM certificate, or an invalid one.
    #[error("ca_file: {0}")]
    CaFile(String),
    /// TLS cannot be set up, usually because the machine has no trusted certificates.
    #[error("no TLS: the machine has no usable certificate authorities")]
    Tls,
}

impl ClientError {
    /// The error of an adapter whose settings are in this section.
    pub(crate) fn of_section(&self, section: &str) -> SetupError {
        SetupError(vec![format!("{section}: {self}")])
    }
}

/// A client that verifies every certificate, follows no redirect, uses no proxy and requires TLS 1.2
/// or later. It resolves the IAM's name again at least every 30 s, also while its connections are busy.
#[derive(Debug, Clone)]
pub struct UpstreamClient(Arc<RecycledClient>);

/// A complete response.
///
/// The `Debug` form is without the body, which may contain tokens.
#[derive(derive_more::Debug)]
#[debug("Response {{ status: {status:?}, retry_after: {retry_after:?}, body_bytes: {} }}", body.len())]
pub struct Response {
    /// The status; never a redirection.
    pub status: StatusCode,
    /// `Retry-After`, if it is a number of seconds.
    pub retry_after: Option<Duration>,
    /// The body, at most [`BODY_MAX`] bytes.
    pub body: Vec<u8>,
}

impl Response {
    /// The fault of a status that never is about the request (RFC 6585 section 4, RFC 9110 section
    /// 15.6); `None` for other statuses.
    #[must_use]
    pub fn fault(&self) -> Option<IamError> {
        match self.status {
            StatusCode::TOO_MANY_REQUESTS => Some(IamError::Throttled {
                retry_after: self.retry_after,
            }),
            status if status.is_server_error() => {
                Some(IamError::Failed(format!("status {}", status.as_u16())))
            }
            _ => None,
        }
    }

    /// The JSON object in the body of a 200 response. `what` names it in errors.
    ///
    /// # Errors
    ///
    /// [`IamError::Unreadable`] if the body is something else.
    pub(crate) fn object<T: DeserializeOwned>(&self, what: &str) -> Result<T, IamError> {
        json::object(&self.body).map_err(|invalid| {
            let what = format!("{what} with status 200");
            IamError::Unreadable(Detail::caused_by(what, invalid))
        })
    }
}

/// The problems of an address, each with its key.
#[must_use]
pub fn address_problems(key: &str, url: &Url, production: bool) -> Vec<String> {
    let mut problems = Vec::new();
    let mut add = |problem: &str| problems.push(format!("{key}: {problem}"));
    match url.scheme() {
        "http" if production => add("must be https in production"),
        "http" | "https" => {}
        _ => add("must be http or https"),
    }
    if url.query().is_some() || url.fragment().is_some() {
        add("must have no query and no fragment");
    }
    if !url.username().is_empty() || url.password().is_some() {
        add("must hold no credentials");
    }
    problems
}

/// The address of this path below a base, with each segment percent-encoded.
pub(crate) fn url_below(base: &Url, path: &[&str]) -> Url {
    let mut url = base.clone();
    // Only addresses such as `mailto:` have no segments, which the checks of the settings refuse.
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().extend(path);
    }
    url
}

/// Reads the certificates that are trusted in addition to the machine's own; none without a file.
pub(crate) fn certificates(
    file: Option<&Path>,
) -> Result<Vec<CertificateDer<'static>>, ClientError> {
    let Some(file) = file else {
        return Ok(Vec::new());
    };
    let otherwise = "not a file of PEM certificates";
    let certificates = pem::certificates(file, otherwise).map_err(ClientError::CaFile)?;
    // Added to a root store here, so that an invalid certificate is reported with its file.
    let added = RootCertStore::empty().add_parsable_certificates(certificates.iter().cloned());
    let (_, 0) = added else {
        let problem = format!("{}: {otherwise}", file.display());
        return Err(ClientError::CaFile(problem));
    };
    Ok(certificates)
}

impl UpstreamClient {
    /// Creates the client without connecting. `connect_deadline` is that of a new connection, including name
    /// resolution and TLS. The PEM certificates in `ca_file` are trusted in addition to the machine's own; `identity`
    /// is the certificate for servers that request one. The clock determines when names are resolved again.
    ///
    /// # Errors
    ///
    /// [`ClientError`] if certificates cannot be loaded.
    pub fn new(
        connect_deadline: Duration,
        ca_file: Option<&Path>,
        identity: Option<Arc<CertifiedKey>>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, ClientError> {
        let tls = tls_config(ca_file, identity)?;
        let resolver = Arc::new(SharedResolver::new(Arc::clone(&clock)));
        let builder =
            move || client_builder(&tls, connect_deadline).dns_resolver(Arc::clone(&resolver));
        let client = RecycledClient::new(builder, clock)?;
        Ok(Self(Arc::new(client)))
    }

    /// A GET request.
    pub fn get(&self, url: &Url) -> RequestBuilder {
        self.0.client().get(url.clone())
    }

    /// A POST request.
    pub fn post(&self, url: &Url) -> RequestBuilder {
        self.0.client().post(url.clone())
    }

    /// A DELETE request.
    pub fn delete(&self, url: &Url) -> RequestBuilder {
        self.0.client().delete(url.clone())
    }

    /// Sends a request and reads the complete response, with any status except a redirection.
    ///
    /// # Errors
    ///
    /// [`IamError::Unreachable`] if the connection fails,
    /// [`IamError::Misconfigured`] if TLS fails or the response is a redirection,
    /// [`IamError::Unreadable`] if the response is not HTTP or longer than [`BODY_MAX`].
    pub async fn send(&self, request: RequestBuilder) -> Result<Response, IamError> {
        let (client, request) = request.build_split();
        let mut request = request.map_err(fault::of)?;
        let span = ChildSpan::start(|| client_span(&request));
        span.propagate(request.headers_mut());
        let response = span.around(receive(&client, request, &*self.0.clock)).await;
        span.end(|span| describe(span, &response));
        response
    }
}

/// Adds the client's address and the request id in `X-Forwarded-For` and `X-Request-Id`.
pub(crate) fn on_behalf_of(mut request: RequestBuilder, client: &ClientContext) -> RequestBuilder {
    if let Some(address) = client.address {
        request = request.header("x-forwarded-for", address.to_string());
    }
    if let Ok(request_id) = HeaderValue::from_str(&client.request_id) {
        request = request.header("x-request-id", request_id);
    }
    request
}

/// Sends a request and reads the complete response.
async fn receive(
    client: &Client,
    request: Request,
    clock: &dyn Clock,
) -> Result<Response, IamError> {
    let is_plain = request.url().scheme() == "http";
    let sent = clock.now();
    let mut response = client.execute(request).await.map_err(fault::of)?;
    let _ = CLOCK_OFFSET.try_with(|offset| {
        let last = clock_offset(response.headers(), sent, clock.now());
        offset.set(last.or(offset.get()));
    });
    let status = response.status();
    if status.is_redirection() {
        return Err(IamError::misconfigured(
            Misconfiguration::Other,
            format!(
                "redirect (status {}), which is never followed",
                status.as_u16()
            ),
        ));
    }
    let retry_after = response
        .headers()
        .get(RETRY_AFTER)
        .and_then(|value| value.to_str().ok()?.trim().parse::<u32>().ok())
        .map(|seconds| Duration::from_secs(seconds.into()));
    let announced = response.content_length().unwrap_or_default();
    let announced = usize::try_from(announced).unwrap_or(usize::MAX);
    if announced > BODY_MAX {
        return Err(too_long());
    }
    let mut body = Vec::with_capacity(announced);
    while let Some(chunk) = response.chunk().await.map_err(fault::of)? {
        if body.len() + chunk.len() > BODY_MAX {
            return Err(too_long());
        }
        body.extend_from_slice(&chunk);
    }
    if is_plain && status == StatusCode::BAD_REQUEST {
        fault::of_missing_tls(&body).map_or(Ok(()), Err)?;
    }
    Ok(Response {
        status,
        retry_after,
        body,
    })
}

/// The offset of the server's clock. `None` without `Date`, and for a response from a cache, which has an
/// `Age` (RFC 9111 section 5.1).
fn clock_offset(headers: &HeaderMap, sent: Moment, received: Moment) -> Option<f64> {
    if headers.contains_key(AGE) {
        return None;
    }
    let date = httpdate::parse_http_date(headers.get(DATE)?.to_str().ok()?).ok()?;
    let date = date.duration_since(UNIX_EPOCH).ok()?;
    Some(clock::offset(sent, date, DATE_RESOLUTION, received))
}

/// The span of a request, by the semantic conventions of OpenTelemetry for HTTP clients. The address
/// is without query and fragment, which can have secrets; reqwest has removed its credentials.
fn client_span(request: &Request) -> SpanBuilder {
    let method = request.method().to_string();
    let mut url = request.url().clone();
    url.set_query(None);
    url.set_fragment(None);
    let mut attributes = vec![
        KeyValue::new("http.request.method", method.clone()),
        KeyValue::new("server.address", url.host_str().unwrap_or("").to_owned()),
    ];
    if let Some(port) = url.port_or_known_default() {
        attributes.push(KeyValue::new("server.port", i64::from(port)));
    }
    attributes.push(KeyValue::new("url.full", String::from(url)));
    SpanBuilder::from_name(method)
        .with_kind(SpanKind::Client)
        .with_attributes(attributes)
}

fn describe(span: &SpanRef<'_>, response: &Result<Response, IamError>) {
    match response {
        Ok(response) => {
            let status = response.status;
            let code = KeyValue::new("http.response.status_code", i64::from(status.as_u16()));
            span.set_attribute(code);
            if status.is_client_error() || status.is_server_error() {
                let code = status.as_str().to_owned();
                span.set_attribute(KeyValue::new("error.type", code));
                span.set_status(Status::error(""));
            }
        }
        Err(fault) => trace::fail(span, fault.kind()),
    }
}

/// The builder of each client. The TLS configuration is shared, so that session tickets outlive the client that
/// received them.
#[expect(
    clippy::disallowed_methods,
    reason = "the only place that creates clients"
)]
fn client_builder(tls: &ClientConfig, connect_deadline: Duration) -> ClientBuilder {
    let builder = Client::builder()
        .user_agent("auth-gateway")
        .tls_backend_preconfigured(tls.clone())
        .redirect(redirect::Policy::none())
        // `ResilientAdapter` retries, because it knows which operations are idempotent.
        .retry(retry::never())
        .referer(false)
        .no_proxy()
        .connect_timeout(connect_deadline)
        .pool_idle_timeout(POOL_IDLE)
        .tcp_keepalive(KEEP_ALIVE)
        .tcp_nodelay(true);
    #[cfg(target_os = "linux")]
    let builder = builder.tcp_user_timeout(UNACKNOWLEDGED);
    builder
}

/// TLS 1.2 or later, with verified certificates, and with a certificate of the client if it has one. Trusts the
/// certificate authorities of the machine, and the PEM certificates in `ca_file`.
pub(crate) fn tls_config(
    ca_file: Option<&Path>,
    identity: Option<Arc<CertifiedKey>>,
) -> Result<ClientConfig, ClientError> {
    let provider = Arc::new(default_provider());
    let trusted = certificates(ca_file)?;
    let verifier = Verifier::new_with_extra_roots(trusted, Arc::clone(&provider));
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13, &TLS12])
        .map_err(|_| ClientError::Tls)?
        // rustls calls a custom verifier dangerous; this one is the operating system's.
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier.map_err(|_| ClientError::Tls)?));
    let mut config = match identity {
        None => config.with_no_client_auth(),
        Some(identity) => {
            config.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(identity)))
        }
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn too_long() -> IamError {
    IamError::Unreadable(format!("the body is longer than {BODY_MAX} bytes").into())
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::Mutex;

    use reqwest::dns::{Addrs, Name, Resolve, Resolving};
    use test_support::scripted_upstream::{self, ScriptedUpstream};

    use super::*;
    use crate::clock::SystemClock;
    use crate::clock::tests::ManualClock;

    const CONNECT_DEADLINE: Duration = Duration::from_secs(1);

    #[test]
    fn problems_of_an_address_have_its_key_and_not_its_value() {
        let (https, parts) = (
            "must be https in production",
            "must have no query and no fragment",
        );
        let (scheme, credentials) = ("must be http or https", "must hold no credentials");
        for (url, production, expected) in [
            ("https://x.test/path", true, &[][..]),
            ("http://x.test", false, &[]),
            ("http://x.test", true, &[https]),
            ("ldap://canary.test", false, &[scheme]),
            ("https://x.test/?canary", false, &[parts]),
            ("https://x.test/#canary", false, &[parts]),
            ("https://canary@x.test", false, &[credentials]),
            ("https://:canary@x.test", false, &[credentials]),
            (
                "http://canary@x.test/?q",
                true,
                &[https, parts, credentials],
            ),
        ] {
            let problems = address_problems("key", &url.parse().expect("a URL"), production);
            let expected = expected.iter().map(|problem| format!("key: {problem}"));
            assert_eq!(problems, expected.collect::<Vec<_>>(), "{url}");
        }
    }

    #[test]
    fn span_of_a_request_has_its_address_without_credentials_query_and_fragment() {
        let client = UpstreamClient::new(
            CONNECT_DEADLINE,
            None,
            None,
            Arc::new(SystemClock::default()),
        );
        let url = Url::parse("https://user:secret@iam.test:8443/token?secret=1#secret").unwrap();
        let request = client.unwrap().get(&url).build().unwrap();
        let attributes = client_span(&request).attributes.unwrap();
        let address = attributes
            .iter()
            .find(|attribute| attribute.key.as_str() == "url.full");
        let address = address.unwrap().value.as_str();
        assert_eq!(address, "https://iam.test:8443/token");
        assert!(!format!("{attributes:?}").contains("secret"));
    }

    /// Resolves every name to the current address of one host.
    struct NameService(Mutex<SocketAddr>);

    impl NameService {
        fn set(&self, upstream: &ScriptedUpstream) {
            *self.0.lock().expect("the address") = address(upstream);
        }
    }

    impl Resolve for NameService {
        fn resolve(&self, _: Name) -> Resolving {
            let address = *self.0.lock().expect("the address");
            Box::pin(async move { Ok(Box::new(std::iter::once(address)) as Addrs) })
        }
    }

    fn address(upstream: &ScriptedUpstream) -> SocketAddr {
        let address = upstream.url().replace("http://", "");
        address.parse().expect("an address")
    }

    /// Without a port, so that the port of the name service is used.
    const URL_WITHOUT_PORT: &str = "http://iam.test/";

    /// Its connections are never idle, so none is closed.
    #[tokio::test]
    async fn busy_client_uses_a_changed_address_within_thirty_seconds_without_a_failed_call() {
        let (old, new) = (
            ScriptedUpstream::start().await,
            ScriptedUpstream::start().await,
        );
        for upstream in [&old, &new] {
            upstream.on("/", scripted_upstream::Answer::empty(204));
        }
        let names = Arc::new(NameService(Mutex::new(address(&old))));
        let clock = Arc::new(ManualClock::at(Duration::from_secs(1_800_000_000)));
        let tls = tls_config(None, None).expect("TLS");
        let builder = move || client_builder(&tls, CONNECT_DEADLINE);
        let resolver = Arc::<NameService>::clone(&names);
        let with_resolver = move || builder().dns_resolver(Arc::clone(&resolver));
        let client = RecycledClient::new(with_resolver, Arc::<ManualClock>::clone(&clock));
        let client = UpstreamClient(Arc::new(client.expect("a client")));
        let url: Url = URL_WITHOUT_PORT.parse().expect("a URL");
        let call = async || {
            let answer = client.send(client.get(&url)).await;
            assert_eq!(answer.expect("a response").status.as_u16(), 204);
        };
        for _ in 0..30 {
            call().await;
            clock.advance(Duration::from_millis(999));
        }
        names.set(&new);
        // One call is in flight while the client is replaced.
        old.on("/", scripted_upstream::Answer::empty(204).held());
        let ((), ()) = tokio::join!(call(), async {
            old.received("/", 31).await;
            clock.advance(Duration::from_millis(30));
            call().await;
            assert_eq!(new.requests().len(), 1, "the new address is used");
            old.release();
        });
        for _ in 0..10 {
            call().await;
        }
        assert_eq!((old.requests().len(), new.requests().len()), (31, 11));
    }
}
