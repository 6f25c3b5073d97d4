//! The one HTTP client: what every adapter that speaks HTTP may rely on, and what a failure on
//! the wire means. Deadlines are the decorator's: it drops the future.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use reqwest::dns::Resolve;
use reqwest::header::RETRY_AFTER;
use reqwest::{Client, ClientBuilder, RequestBuilder, StatusCode, redirect, retry};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use thiserror::Error;
use url::Url;

use crate::clock::Clock;
use crate::error::{IamError, Misconfiguration};
use crate::files;

use renewed::Renewed;

mod fault;
mod renewed;
mod secure;

/// The longest body that is read, in bytes. Discovery documents have some 8 KiB, tokens with
/// hundreds of roles some 50 KiB; whatever is longer was not written by an IAM for us.
pub const BODY_MAX: usize = 256 * 1024;

/// Servers and what stands before them close idle connections after 60 s and more. A connection
/// taken up shorter than that is not one that is just being closed.
const POOL_IDLE: Duration = Duration::from_secs(20);

/// How soon a peer that is gone without a word is looked for on a connection that waits.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// How long a peer may leave what was sent to it unacknowledged: a host that is gone without a word
/// ends its connections, whoever waits on them or does not.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED: Duration = Duration::from_secs(10);

/// How the client connects.
#[derive(Debug, Clone)]
pub struct ClientSettings {
    /// How long a connection may take to come about, name resolution and TLS included.
    pub connect_deadline: Duration,
    /// PEM certificates that are trusted beside the machine's own.
    pub ca_file: Option<PathBuf>,
}

/// Why there is no client.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The file of certificates cannot be read.
    #[error("ca_file: {}: {}", path.display(), files::reason(source))]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file holds no PEM certificate, or a broken one.
    #[error("ca_file: {}: not a file of PEM certificates", .0.display())]
    NotCertificates(PathBuf),
    /// TLS cannot be set up: as a rule the machine has no trusted certificates at all.
    #[error("no TLS: the machine has no usable certificate authorities")]
    Tls,
}

/// A client that verifies every certificate, follows no redirect, asks no proxy and speaks
/// TLS 1.2 or later. It looks the IAM's name up again at least every 30 s, however busy its
/// connections are.
#[derive(Debug)]
pub struct UpstreamClient(Renewed);

/// The answer to one request, read whole.
pub struct Answer {
    /// Its status; never a redirection.
    pub status: StatusCode,
    /// Its `Retry-After`, where that is a number of seconds.
    pub retry_after: Option<Duration>,
    /// Its body, at most [`BODY_MAX`] bytes.
    pub body: Vec<u8>,
}

/// Shows no body: tokens are in there.
impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer")
            .field("status", &self.status)
            .field("retry_after", &self.retry_after)
            .field("body_bytes", &self.body.len())
            .finish()
    }
}

impl ClientSettings {
    /// Reads the additional certificates; none where no file is named.
    ///
    /// # Errors
    ///
    /// [`ClientError`] where the file cannot be read or holds no certificate.
    pub fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, ClientError> {
        let Some(file) = &self.ca_file else {
            return Ok(Vec::new());
        };
        let pem = std::fs::read(file).map_err(|source| ClientError::Unreadable {
            path: file.clone(),
            source,
        })?;
        let not_certificates = || ClientError::NotCertificates(file.clone());
        // Read into a store of roots first, so that a broken one is found here and by its file.
        let mut roots = RootCertStore::empty();
        let mut certificates = Vec::new();
        for certificate in CertificateDer::pem_slice_iter(&pem) {
            let certificate = certificate.map_err(|_| not_certificates())?;
            certificates.push(certificate.clone());
            roots.add(certificate).map_err(|_| not_certificates())?;
        }
        if certificates.is_empty() {
            return Err(not_certificates());
        }
        Ok(certificates)
    }
}

impl UpstreamClient {
    /// Makes the client; connects to nothing. The clock decides when names are looked up again.
    ///
    /// # Errors
    ///
    /// [`ClientError`] where certificates cannot be loaded.
    pub fn new(settings: &ClientSettings, clock: Arc<dyn Clock>) -> Result<Self, ClientError> {
        Renewed::new(recipe(settings)?, clock).map(Self)
    }

    /// A client that asks another name service than the machine's.
    ///
    /// # Errors
    ///
    /// As [`UpstreamClient::new`].
    pub fn with_resolver(
        settings: &ClientSettings,
        clock: Arc<dyn Clock>,
        resolver: Arc<dyn Resolve>,
    ) -> Result<Self, ClientError> {
        let recipe = recipe(settings)?;
        let resolving = move || recipe().dns_resolver(Arc::clone(&resolver));
        Renewed::new(resolving, clock).map(Self)
    }

    /// Begins a GET.
    pub fn get(&self, url: &Url) -> RequestBuilder {
        self.0.client().get(url.clone())
    }

    /// Begins a POST.
    pub fn post(&self, url: &Url) -> RequestBuilder {
        self.0.client().post(url.clone())
    }

    /// Sends a request and reads the answer whole, whatever its status, except a redirection.
    ///
    /// # Errors
    ///
    /// [`IamError::Unreachable`] where the connection fails or breaks,
    /// [`IamError::Misconfigured`] where it cannot be made secure or the answer is a redirection,
    /// [`IamError::Unreadable`] where the answer is not HTTP or longer than [`BODY_MAX`].
    pub async fn send(&self, request: RequestBuilder) -> Result<Answer, IamError> {
        let mut response = request.send().await.map_err(fault::of)?;
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
        Ok(Answer {
            status,
            retry_after,
            body,
        })
    }
}

/// How every client is made, one like the other: the TLS settings are read once, and the tickets
/// that shorten a handshake outlive the client that got them.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place that makes clients"
)]
fn recipe(
    settings: &ClientSettings,
) -> Result<impl Fn() -> ClientBuilder + Send + Sync + 'static, ClientError> {
    let tls = secure::settings(settings.certificates()?)?;
    let connect_deadline = settings.connect_deadline;
    Ok(move || {
        let builder = Client::builder()
            .user_agent("auth-gateway")
            .tls_backend_preconfigured(tls.clone())
            .redirect(redirect::Policy::none())
            // The decorator knows which operations may be repeated; the client does not.
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
    })
}

fn too_long() -> IamError {
    IamError::Unreadable(format!("the body is longer than {BODY_MAX} bytes"))
}
