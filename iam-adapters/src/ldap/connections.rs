//! Connections to the servers of a directory: one that all searches share, with the service account, one for each
//! login, and one for each long answer. A connection that a user was bound with is never used again.

use std::io;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use ldap3::controls::{Control, ControlType, PagedResults, RawControl};
use ldap3::{
    Ldap, LdapConnAsync, LdapConnSettings, LdapError, LdapResult, Scope, SearchEntry,
    SearchOptions, SearchStream, StdStream,
};
use opentelemetry::KeyValue;
use opentelemetry::trace::{SpanBuilder, SpanKind};
use rustls::ClientConfig;
use scopeguard::ScopeGuard;
use secrecy::{ExposeSecret as _, SecretString};
use tokio::net::{TcpStream, lookup_host};
use tokio::sync::Mutex;
use tokio::time::timeout;
use url::Url;

use super::bind_result::{PASSWORD_POLICY, password_policy_control};
use super::entry::{Entry, defines};
use super::fault::{fault, fault_of, fault_of_search};
use super::settings::LdapSettings;
use crate::error::{IamError, Misconfiguration};
use crate::trace::{self, ChildSpan};

/// Asks for no attributes (RFC 4511 section 4.5.1.8).
pub(super) const NO_ATTRIBUTES: &[&str] = &["1.1"];

/// At so many operations in a row without a response, further ones get another connection. One alone may be that of a client
/// that has left.
const UNANSWERED_MAX: usize = 2;

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
    /// The number of the server to which the next connection for searches goes first.
    next: AtomicUsize,
}

/// A connection to one of the servers. Clones send their operations over the same one.
#[derive(Debug, Clone)]
pub(super) struct LdapConnection {
    ldap: Ldap,
    /// The number of the server.
    pub(super) server: usize,
    url: Arc<Url>,
    /// Its address; `None`: a socket on this machine.
    address: Option<SocketAddr>,
    /// The operations that were dropped since the last response.
    unanswered: Arc<AtomicUsize>,
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
            next: AtomicUsize::default(),
        }
    }

    /// The connection for searches. A new one goes to the server after that of the last one, or to the first that
    /// can be reached.
    pub(super) async fn shared(&self) -> Result<LdapConnection, IamError> {
        // The lock is held while it connects, so that a burst of calls makes one connection.
        let mut shared = self.shared.lock().await;
        if let Some(connection) = shared.as_ref().filter(|it| it.is_usable()) {
            return Ok(connection.clone());
        }
        let next = self.next.load(Ordering::Relaxed);
        let connection = self.service_from(next).await?;
        *shared = Some(connection.clone());
        Ok(connection)
    }

    /// A connection with the service account, which can be the shared one: to the first server from `start` on that can
    /// be reached.
    async fn service_from(&self, start: usize) -> Result<LdapConnection, IamError> {
        let all = self.settings.urls.len();
        let connect = |server, url| {
            // First: if this is dropped meanwhile, the next call goes to another server.
            self.next.store(server + 1, Ordering::Relaxed);
            self.service(server, url)
        };
        self.first(start, all, connect).await
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

    /// The entries below a base that match, at most `max`, without attributes. An answer that is too long for the server
    /// is read again, in pages, on a connection of its own: OpenLDAP has one state of pages for each connection, which
    /// the next search in pages replaces.
    ///
    /// # Errors
    ///
    /// As [`LdapConnection::search`].
    pub(super) async fn search_long(
        &self,
        shared: &mut LdapConnection,
        base: &str,
        filter: &str,
        max: usize,
    ) -> Result<Vec<Entry>, IamError> {
        let (scope, attributes) = (Scope::Subtree, NO_ATTRIBUTES);
        let entries = shared.entries(base, scope, filter, attributes, max, false);
        if let Some(entries) = entries.await? {
            return Ok(entries);
        }
        let connect = |server, url| self.service(server, url);
        let mut own = self.first(shared.server, 1, connect).await?;
        let entries = own.entries(base, scope, filter, attributes, max, true);
        entries.await?.ok_or_else(too_long)
    }

    /// Binds as a user, on a connection of its own, at the server and address at which the entry was searched: another
    /// one, also with the same name, may not have a new password yet.
    pub(super) async fn bind(
        &self,
        searched: &LdapConnection,
        dn: &str,
        password: &SecretString,
    ) -> Result<LdapResult, IamError> {
        let (server, url) = (searched.server, &searched.url);
        let connected = self.connect(server, url, searched.address).await;
        // So that the next login is at another server, unless another login has seen to that. If none can be reached,
        // searches go on at this one.
        if connected.is_err()
            && self.is_shared(searched).await
            && let Ok(other) = self.service_from(server + 1).await
        {
            *self.shared.lock().await = Some(other);
        }
        let mut connection = connected?;
        let result = connection.bind(dn, password).await;
        // The result is known, whatever happens to this.
        let _ = connection.ldap.unbind().await;
        result
    }

    /// Whether searches still use this connection.
    async fn is_shared(&self, connection: &LdapConnection) -> bool {
        let shared = self.shared.lock().await;
        let shared = shared.as_ref();
        shared.is_some_and(|shared| Arc::ptr_eq(&shared.unanswered, &connection.unanswered))
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

    /// Connects to this address; `None`: to one of the URL's host.
    async fn connect(
        &self,
        server: usize,
        url: &Url,
        address: Option<SocketAddr>,
    ) -> Result<LdapConnection, IamError> {
        let opened = open(url, address, self.options.clone(), self.connect_deadline);
        let opened = timeout(self.connect_deadline, opened).await;
        let opened = opened.unwrap_or_else(|elapsed| Err(elapsed.into()));
        let (driver, ldap, address) = opened.map_err(|error| fault_at(url, error))?;
        // Ends with the last handle. What breaks the connection is returned by the operations.
        tokio::spawn(driver.drive());
        Ok(LdapConnection {
            ldap,
            server,
            url: Arc::new(url.clone()),
            address,
            unanswered: Arc::default(),
        })
    }

    /// A connection with the service account.
    async fn service(&self, server: usize, url: &Url) -> Result<LdapConnection, IamError> {
        let mut connection = self.connect(server, url, None).await?;
        // A server can accept connections and respond to nothing.
        let prepared = timeout(self.connect_deadline, self.prepare(&mut connection)).await;
        prepared.unwrap_or_else(|elapsed| Err(fault_at(url, elapsed.into())))?;
        Ok(connection)
    }

    /// Binds as the service account, and checks what the settings require of the server.
    async fn prepare(&self, connection: &mut LdapConnection) -> Result<(), IamError> {
        // The check of the settings requires one.
        let password = self.settings.bind_password.clone().unwrap_or_default();
        let result = connection.bind(&self.settings.bind_dn, &password).await?;
        match result.rc {
            0 => {}
            // 34: the name is no DN; 32, 48 and 53: there is no such account, or it has no password; 19: it is locked
            // (389 Directory Server).
            19 | 32 | 34 | 48 | 49 | 53 => {
                return Err(IamError::misconfigured(
                    Misconfiguration::ClientSecret,
                    "the service account is refused: check bind_dn and bind_password, and whether it is locked",
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
        Ok(())
    }
}

fn fault_at(url: &Url, error: LdapError) -> IamError {
    let host = url.host_str().unwrap_or_default();
    fault(error, url.scheme()).with_hint(&format!(" ({host}, one of urls)"))
}

/// Connects to this address, or else to one of the URL's host, without Nagle's algorithm, with which a bind waits until
/// the server acknowledges the end of the TLS handshake: 40 ms. Also returns the address.
async fn open(
    url: &Url,
    address: Option<SocketAddr>,
    settings: LdapConnSettings,
    deadline: Duration,
) -> Result<(LdapConnAsync, Ldap, Option<SocketAddr>), LdapError> {
    let port = match url.scheme() {
        "ldapi" => {
            let (driver, ldap) = LdapConnAsync::from_url_with_settings(settings, url).await?;
            return Ok((driver, ldap, None));
        }
        "ldaps" => 636,
        _ => 389,
    };
    let addresses: Vec<_> = if let Some(address) = address {
        vec![address]
    } else {
        let host = url.host_str().unwrap_or_default();
        let host = format!("{host}:{}", url.port().unwrap_or(port));
        lookup_host(host).await?.collect()
    };
    let stream = connect_to_one(&addresses, deadline).await?;
    stream.set_nodelay(true)?;
    // The system knows none if the server has reset the connection: then it fails below, with a better reason.
    let address = stream.peer_addr().ok();
    let settings = settings.set_std_stream(StdStream::Tcp(stream.into_std()?));
    let (driver, ldap) = LdapConnAsync::from_url_with_settings(settings, url).await?;
    Ok((driver, ldap, address))
}

/// Connects to the first address of a host that responds. Each has an equal part of the deadline: the name of a domain
/// can stand for all of its servers, and some of them may be down.
async fn connect_to_one(addresses: &[SocketAddr], deadline: Duration) -> io::Result<TcpStream> {
    let part = deadline / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in addresses {
        match timeout(part, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = error,
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(last)
}

/// Reads entries until there are more than `max`, and leaves out references to other servers.
///
/// The stream has no adapters of the library: with one, the connection keeps the id of each search for as long as it lives.
async fn read<'s>(
    stream: &mut SearchStream<'s, &'s str, Vec<&'s str>>,
    entries: &mut Vec<Entry>,
    max: usize,
) -> Result<(), LdapError> {
    while entries.len() <= max
        && let Some(entry) = stream.next().await?
    {
        if !entry.is_ref() && !entry.is_intermediate() {
            entries.push(Entry::from(SearchEntry::construct(entry)));
        }
    }
    Ok(())
}

/// The cookie of the next page (RFC 2696); it is empty after the last one.
fn next_page(result: &LdapResult) -> Vec<u8> {
    let paged = result.ctrls.iter().find_map(|control| match control {
        Control(Some(ControlType::PagedResults), raw) => Some(raw.parse::<PagedResults>()),
        Control(..) => None,
    });
    paged.map(|page| page.cookie).unwrap_or_default()
}

fn too_long() -> IamError {
    let problem = "the server sends only a part of the entries: raise its size limit for bind_dn";
    IamError::UnreadableSession(problem.into())
}

impl LdapConnection {
    fn is_usable(&self) -> bool {
        !self.ldap.clone().is_closed() && self.unanswered.load(Ordering::Relaxed) < UNANSWERED_MAX
    }

    async fn bind(&mut self, dn: &str, password: &SecretString) -> Result<LdapResult, IamError> {
        let mut ldap = self.ldap.clone();
        ldap.with_controls(password_policy_control());
        let bound = ldap.simple_bind(dn, password.expose_secret());
        self.run("bind", bound).await
    }

    /// The entries that match, at most `max`.
    ///
    /// # Errors
    ///
    /// Every result other than success is a fault, so that no error can be taken for "nothing". More entries than `max`,
    /// or than the server sends, are [`IamError::UnreadableSession`].
    pub(super) async fn search(
        &mut self,
        base: &str,
        scope: Scope,
        filter: &str,
        attributes: &[&str],
        max: usize,
    ) -> Result<Vec<Entry>, IamError> {
        let entries = self.entries(base, scope, filter, attributes, max, false);
        entries.await?.ok_or_else(too_long)
    }

    /// The entries that match; `None`: the server does not send so many.
    async fn entries(
        &mut self,
        base: &str,
        scope: Scope,
        filter: &str,
        attributes: &[&str],
        max: usize,
        in_pages: bool,
    ) -> Result<Option<Vec<Entry>>, IamError> {
        let mut ldap = self.ldap.clone();
        let searched = async move {
            let (mut entries, mut cookie) = (Vec::new(), Vec::new());
            loop {
                // Aliases are not followed.
                ldap.with_search_options(SearchOptions::new());
                if in_pages {
                    ldap.with_controls(RawControl::from(PagedResults { size: PAGE, cookie }));
                }
                let names = attributes.to_vec();
                let mut stream = ldap.streaming_search(base, scope, filter, names).await?;
                read(&mut stream, &mut entries, max).await?;
                // Also ends a search that is not read to its end.
                let result = stream.finish().await;
                cookie = next_page(&result);
                if cookie.is_empty() || result.rc != 0 || entries.len() > max {
                    return Ok((entries, result));
                }
            }
        };
        let (entries, result) = self.run("search", searched).await?;
        match result.rc {
            _ if entries.len() > max => Err(IamError::UnreadableSession(
                format!("more than {max} entries match").into(),
            )),
            0 => Ok(Some(entries)),
            4 => Ok(None),
            _ => Err(fault_of_search(&result)),
        }
    }

    /// Whether an entry matches, as far as the server can find out within its limits.
    ///
    /// # Errors
    ///
    /// As [`Self::search`].
    pub(super) async fn has(&mut self, base: &str, filter: &str) -> Result<bool, IamError> {
        let mut ldap = self.ldap.clone();
        let searched = async move {
            ldap.with_search_options(SearchOptions::new().sizelimit(1));
            let names = NO_ATTRIBUTES.to_vec();
            let search = ldap.streaming_search(base, Scope::Subtree, filter, names);
            let (mut stream, mut entries) = (search.await?, Vec::new());
            read(&mut stream, &mut entries, 1).await?;
            Ok((entries, stream.finish().await))
        };
        let (entries, result) = self.run("search", searched).await?;
        match result.rc {
            // 4: there are more entries. 88: the library has them, from a server without limits.
            0 | 4 | 88 => Ok(!entries.is_empty()),
            // The server ended a long search without a result.
            3 | 11 => Ok(true),
            _ => Err(fault_of_search(&result)),
        }
    }

    /// The first of these attributes that the schema of the server does not have (RFC 4512 section 4.4); `None` also if
    /// the account may not read it.
    ///
    /// # Errors
    ///
    /// As [`Self::search`].
    pub(super) async fn undefined<'n>(
        &mut self,
        names: &[&'n str],
    ) -> Result<Option<&'n str>, IamError> {
        const ANY: &str = "(objectClass=*)";
        let wanted = &["subschemaSubentry"];
        let root = self.search("", Scope::Base, ANY, wanted, 1).await?;
        let Some(place) = root.first().and_then(|root| root.text(wanted[0])) else {
            return Ok(None);
        };
        let wanted = &["attributeTypes"];
        let schema = match self.search(place, Scope::Base, ANY, wanted, 1).await {
            Err(IamError::Misconfigured { .. }) => return Ok(None),
            schema => schema?,
        };
        let types: Vec<_> = schema.iter().flat_map(|it| it.texts(wanted[0])).collect();
        let is_undefined =
            |name: &&&str| !types.is_empty() && !types.iter().any(|one| defines(one, name));
        Ok(names.iter().find(is_undefined).copied())
    }

    /// Runs an operation, and counts it if it is dropped without a response.
    async fn run<T>(
        &self,
        operation: &'static str,
        sent: impl Future<Output = Result<T, LdapError>>,
    ) -> Result<T, IamError> {
        let span = ChildSpan::start(|| {
            let host = self.url.host_str().unwrap_or_default().to_owned();
            SpanBuilder::from_name(format!("ldap {operation}"))
                .with_kind(SpanKind::Client)
                .with_attributes([KeyValue::new("server.address", host)])
        });
        let unanswered = scopeguard::guard((), |()| {
            self.unanswered.fetch_add(1, Ordering::Relaxed);
        });
        // The library panics on messages that are no LDAP.
        let answered = span.around(AssertUnwindSafe(sent).catch_unwind()).await;
        ScopeGuard::into_inner(unanswered);
        self.unanswered.store(0, Ordering::Relaxed);
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

#[cfg(test)]
mod tests {
    use tokio::net::TcpSocket;
    use tokio::time::{advance, resume};

    use super::*;

    const DEADLINE: Duration = Duration::from_secs(60);

    /// A socket that refuses connections until it listens.
    fn bound() -> (TcpSocket, SocketAddr) {
        let socket = TcpSocket::new_v4().expect("a socket");
        let any = "127.0.0.2:0".parse().expect("an address");
        socket.bind(any).expect("a free port");
        let address = socket.local_addr().expect("an address");
        (socket, address)
    }

    #[tokio::test]
    async fn address_that_refuses_connections_is_passed_over() {
        let ((_closed, refusing), (socket, listening)) = (bound(), bound());
        let _listener = socket.listen(1).expect("a listener");
        let stream = connect_to_one(&[refusing, listening], DEADLINE).await;
        let peer = stream.and_then(|stream| stream.peer_addr());
        assert_eq!(peer.expect("a connection"), listening);
        let refused = connect_to_one(&[refusing], DEADLINE).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[tokio::test(start_paused = true)]
    async fn address_that_responds_to_nothing_has_its_part_of_the_deadline() {
        let ((full, silent), (socket, listening)) = (bound(), bound());
        // Linux ignores further connections if one more than the backlog waits to be accepted.
        let _full = full.listen(1).expect("a listener");
        let _waiting =
            [(); 2].map(|()| std::net::TcpStream::connect(silent).expect("in the queue"));
        let _listener = socket.listen(1).expect("a listener");
        let addresses = [silent, listening];
        let connecting = timeout(DEADLINE, connect_to_one(&addresses, DEADLINE));
        let (connected, ()) = tokio::join!(biased; connecting, async {
            advance(DEADLINE / 2).await;
            // The second connection takes the time that the system needs.
            resume();
        });
        let stream = connected.expect("some of the deadline is left for the second address");
        let peer = stream.and_then(|stream| stream.peer_addr());
        assert_eq!(peer.expect("a connection"), listening);
    }
}
