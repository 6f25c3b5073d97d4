//! Connections to the servers of a directory: one that all searches share, with the service account, and one for
//! each login. A connection that a user was bound with is never used again.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use ldap3::adapters::{Adapter, EntriesOnly, PagedResults};
use ldap3::{
    Ldap, LdapConnAsync, LdapConnSettings, LdapError, LdapResult, Scope, SearchEntry,
    SearchOptions, StdStream,
};
use opentelemetry::KeyValue;
use opentelemetry::trace::{SpanBuilder, SpanKind};
use rustls::ClientConfig;
use scopeguard::ScopeGuard;
use secrecy::{ExposeSecret as _, SecretString};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::timeout;
use url::Url;

use super::bind_result::{PASSWORD_POLICY, password_policy_control};
use super::entry::{Entry, defines};
use super::fault::{fault, fault_of};
use super::settings::LdapSettings;
use crate::error::{IamError, Misconfiguration};
use crate::trace::{self, ChildSpan};

/// Asks for no attributes (RFC 4511 section 4.5.1.8).
pub(super) const NO_ATTRIBUTES: &[&str] = &["1.1"];

/// How many entries one page of a long answer has. Active Directory sends 1,000 at most.
const PAGE: i32 = 500;

/// The servers, the account for searches, and the connection that the searches share.
#[derive(derive_more::Debug)]
pub(super) struct Connections {
    settings: Arc<LdapSettings>,
    #[debug(skip)]
    options: LdapConnSettings,
    connect_deadline: Duration,
    shared: Mutex<Option<LdapConnection>>,
}

/// A connection to one of the servers. Clones send their operations over the same one.
#[derive(Debug, Clone)]
pub(super) struct LdapConnection {
    ldap: Ldap,
    /// The number of the server.
    pub(super) server: usize,
    host: Arc<str>,
    /// An operation had no response in time, so further ones get another connection.
    is_stuck: Arc<AtomicBool>,
}

impl Connections {
    /// Connects to nothing.
    pub(super) fn new(
        settings: Arc<LdapSettings>,
        tls: ClientConfig,
        connect_deadline: Duration,
    ) -> Self {
        Self {
            options: LdapConnSettings::new()
                .set_starttls(settings.start_tls)
                .set_config(Arc::new(tls)),
            settings,
            connect_deadline,
            shared: Mutex::default(),
        }
    }

    /// The connection for searches. A new one goes to the server after that of the last one, or to the first that
    /// can be reached.
    pub(super) async fn shared(&self) -> Result<LdapConnection, IamError> {
        // The lock is held while it connects, so that a burst of calls makes one connection.
        let mut shared = self.shared.lock().await;
        let next = match &*shared {
            Some(connection) if connection.is_usable() => return Ok(connection.clone()),
            Some(connection) => connection.server + 1,
            None => 0,
        };
        let all = self.settings.urls.len();
        let connect = |server, url| self.service(server, url);
        let connection = self.first(next, all, connect).await?;
        *shared = Some(connection.clone());
        Ok(connection)
    }

    /// A connection for searches to another server than this one; `None`: there is only one.
    pub(super) async fn another(&self, server: usize) -> Option<Result<LdapConnection, IamError>> {
        let others = self.settings.urls.len().saturating_sub(1);
        if others == 0 {
            return None;
        }
        let connect = |server, url| self.service(server, url);
        Some(self.first(server + 1, others, connect).await)
    }

    /// Binds as a user, on a connection of its own: to this server, whose entry was read, or else to another one.
    pub(super) async fn bind(
        &self,
        server: usize,
        dn: &str,
        password: &SecretString,
    ) -> Result<LdapResult, IamError> {
        let all = self.settings.urls.len();
        let connect = |server, url| self.connect(server, url);
        let mut connection = self.first(server, all, connect).await?;
        let result = connection.bind(dn, password).await;
        // The result is known, whatever happens to this.
        let _ = connection.ldap.unbind().await;
        result
    }

    /// The first of this many servers, from `start` on, for which `connect` succeeds; else the first fault.
    async fn first<'s, F: Future<Output = Result<LdapConnection, IamError>>>(
        &'s self,
        start: usize,
        count: usize,
        connect: impl Fn(usize, &'s Url) -> F,
    ) -> Result<LdapConnection, IamError> {
        let mut first_fault = None;
        let servers = self.settings.urls.iter().enumerate().cycle();
        for (server, url) in servers.skip(start).take(count) {
            match connect(server, url).await {
                Ok(connection) => return Ok(connection),
                Err(fault) => first_fault = first_fault.or(Some(fault)),
            }
        }
        Err(first_fault.unwrap_or_else(|| IamError::Unreachable("no server is configured".into())))
    }

    async fn connect(&self, server: usize, url: &Url) -> Result<LdapConnection, IamError> {
        let opened = timeout(self.connect_deadline, open(url, self.options.clone()));
        let opened = opened.await.unwrap_or_else(|elapsed| Err(elapsed.into()));
        let host = url.host_str().unwrap_or_default();
        let (driver, ldap) = opened.map_err(|error| {
            fault(error, url.scheme()).with_hint(&format!(" ({host}, one of urls)"))
        })?;
        // Ends with the last handle. What breaks the connection is returned by the operations.
        tokio::spawn(driver.drive());
        Ok(LdapConnection {
            ldap,
            server,
            host: host.into(),
            is_stuck: Arc::default(),
        })
    }

    /// A connection with the service account.
    async fn service(&self, server: usize, url: &Url) -> Result<LdapConnection, IamError> {
        let mut connection = self.connect(server, url).await?;
        // The check of the settings requires one.
        let password = self.settings.bind_password.clone().unwrap_or_default();
        let result = connection.bind(&self.settings.bind_dn, &password).await?;
        match result.rc {
            0 => {}
            // 34: the name is no DN; 32, 48 and 53: there is no such account, or it has no password.
            32 | 34 | 48 | 49 | 53 => {
                return Err(IamError::misconfigured(
                    Misconfiguration::ClientSecret,
                    "the service account is refused: check bind_dn and bind_password",
                ));
            }
            _ => return Err(fault_of(&result)),
        }
        if self.settings.schema().password_policy {
            let root = connection
                .search("", Scope::Base, "(objectClass=*)", &["supportedControl"], 1)
                .await?;
            let supported = root.iter().flat_map(|root| root.texts("supportedControl"));
            if !supported.into_iter().any(|oid| oid == PASSWORD_POLICY) {
                return Err(IamError::misconfigured(
                    Misconfiguration::Other,
                    "the server does not support the password policy control, without which a user who must change the \
                     password can log in: set password_policy = false if there is no such user",
                ));
            }
        }
        Ok(connection)
    }
}

/// Connects without Nagle's algorithm, with which a bind waits until the server acknowledges the end of the TLS
/// handshake: 40 ms.
async fn open(url: &Url, settings: LdapConnSettings) -> Result<(LdapConnAsync, Ldap), LdapError> {
    let port = match url.scheme() {
        "ldapi" => return LdapConnAsync::from_url_with_settings(settings, url).await,
        "ldaps" => 636,
        _ => 389,
    };
    let host = url.host_str().unwrap_or_default();
    let stream = TcpStream::connect(format!("{host}:{}", url.port().unwrap_or(port))).await?;
    stream.set_nodelay(true)?;
    let settings = settings.set_std_stream(StdStream::Tcp(stream.into_std()?));
    LdapConnAsync::from_url_with_settings(settings, url).await
}

impl LdapConnection {
    fn is_usable(&self) -> bool {
        !self.ldap.clone().is_closed() && !self.is_stuck.load(Ordering::Relaxed)
    }

    async fn bind(&mut self, dn: &str, password: &SecretString) -> Result<LdapResult, IamError> {
        let mut ldap = self.ldap.clone();
        ldap.with_controls(password_policy_control());
        let bound = ldap.simple_bind(dn, password.expose_secret());
        self.run("bind", bound).await
    }

    /// The entries that match, at most `max`: the answer is read in pages.
    ///
    /// # Errors
    ///
    /// Every result other than success is a fault, so that no error can be taken for "nothing". More entries than `max`
    /// are [`IamError::UnreadableSession`].
    pub(super) async fn search(
        &mut self,
        base: &str,
        scope: Scope,
        filter: &str,
        attributes: &[&str],
        max: usize,
    ) -> Result<Vec<Entry>, IamError> {
        let mut ldap = self.ldap.clone();
        // Aliases are not followed, and `EntriesOnly` leaves out referrals to other servers.
        ldap.with_search_options(SearchOptions::new());
        let names = attributes.to_vec();
        let searched = async move {
            let adapters: Vec<Box<dyn Adapter<'_, &str, Vec<&str>>>> = vec![
                Box::new(EntriesOnly::new()),
                Box::new(PagedResults::new(PAGE)),
            ];
            let mut stream = ldap
                .streaming_search_with(adapters, base, scope, filter, names)
                .await?;
            let mut entries = Vec::new();
            while let Some(entry) = stream.next().await? {
                entries.push(Entry::from(SearchEntry::construct(entry)));
                if entries.len() > max {
                    break;
                }
            }
            // Also ends a search that is not read to its end.
            Ok((entries, stream.finish().await))
        };
        let (entries, result) = self.run("search", searched).await?;
        match result.rc {
            _ if entries.len() > max => Err(IamError::UnreadableSession(
                format!("more than {max} entries match").into(),
            )),
            0 => Ok(entries),
            _ => Err(fault_of(&result)),
        }
    }

    /// Whether an entry matches, as far as the server can find out within its limits.
    ///
    /// # Errors
    ///
    /// As [`Self::search`].
    pub(super) async fn has(&mut self, base: &str, filter: &str) -> Result<bool, IamError> {
        let mut ldap = self.ldap.clone();
        ldap.with_search_options(SearchOptions::new().sizelimit(1));
        let searched = ldap.search(base, Scope::Subtree, filter, NO_ATTRIBUTES);
        let found = self.run("search", searched).await?;
        match found.1.rc {
            // 4: there are more entries.
            0 | 4 => Ok(!found.0.is_empty()),
            // The server ended a long search without a result.
            3 | 11 => Ok(true),
            _ => Err(fault_of(&found.1)),
        }
    }

    /// Whether the schema of the server has no such attribute (RFC 4512 section 4.4); no if the account may not read it.
    ///
    /// # Errors
    ///
    /// As [`Self::search`].
    pub(super) async fn has_no_attribute(&mut self, name: &str) -> Result<bool, IamError> {
        const ANY: &str = "(objectClass=*)";
        let wanted = &["subschemaSubentry"];
        let root = self.search("", Scope::Base, ANY, wanted, 1).await?;
        let Some(place) = root.first().and_then(|root| root.text(wanted[0])) else {
            return Ok(false);
        };
        let wanted = &["attributeTypes"];
        let schema = match self.search(place, Scope::Base, ANY, wanted, 1).await {
            Err(IamError::Misconfigured { .. }) => return Ok(false),
            schema => schema?,
        };
        let mut types = schema.iter().flat_map(|it| it.texts(wanted[0])).peekable();
        Ok(types.peek().is_some() && !types.any(|one| defines(one, name)))
    }

    /// Runs an operation. If it is dropped without a response, others no longer use the connection.
    async fn run<T>(
        &self,
        operation: &'static str,
        sent: impl Future<Output = Result<T, LdapError>>,
    ) -> Result<T, IamError> {
        let span = ChildSpan::start(|| {
            SpanBuilder::from_name(format!("ldap {operation}"))
                .with_kind(SpanKind::Client)
                .with_attributes([KeyValue::new("server.address", self.host.to_string())])
        });
        let unanswered = scopeguard::guard((), |()| self.is_stuck.store(true, Ordering::Relaxed));
        // The library panics on messages that are no LDAP.
        let answered = span.around(AssertUnwindSafe(sent).catch_unwind()).await;
        ScopeGuard::into_inner(unanswered);
        let result = match answered {
            Ok(result) => result.map_err(|error| fault(error, "")),
            Err(_) => Err(IamError::Unreadable(
                "the response is no LDAP message".into(),
            )),
        };
        span.end(|span| {
            if let Err(fault) = &result {
                trace::fail(span, fault.kind());
            }
        });
        result
    }
}
