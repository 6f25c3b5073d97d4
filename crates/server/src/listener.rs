//! One listener: a port, an application, and the limits of every connection.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use actix_http::body::MessageBody;
use actix_http::error::DispatchError;
use actix_http::{HttpService, KeepAlive, Request, Response};
use actix_service::{
    IntoServiceFactory, Service, ServiceFactory, ServiceFactoryExt as _, apply_fn_factory,
    fn_service, map_config,
};
use actix_web::Error;
use actix_web::dev::{AppConfig, Server};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::server::ResolvesServerCert;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::connection::{
    ConnectionLimiter, ConnectionLimits, ConnectionPermit, QueueDelay, respond,
};
use super::deadline_io::{DRAIN_TIMEOUT, DeadlineIo, Transport};
use super::refusal::refuse_connection;
use super::{ConnectionEvents, ConnectionTimeouts};

/// Connections that the system holds until a worker accepts them.
const BACKLOG: u32 = 1024;

/// Connections beyond the limit that are accepted and get a refusal. Further ones wait in the
/// backlog.
const REFUSED_CONNECTIONS: usize = 64;

/// The most bytes of requests that the connections of a listener hold, each with its longest request
/// so far: 10,000 connections with 3 KiB each, or 1,300 with the largest request.
const REQUEST_BYTES: usize = 32 * 1024 * 1024;

/// The settings of a listener.
pub struct Listener {
    /// The setting with the address, for the error.
    pub setting: &'static str,
    /// The address; port 0 stands for any free port.
    pub address: SocketAddr,
    /// A socket that listens already, in place of the address.
    pub socket: Option<std::net::TcpListener>,
    /// The certificate, for TLS 1.2 and 1.3; `None`: plain HTTP.
    pub tls: Option<Arc<dyn ResolvesServerCert>>,
    /// Threads.
    pub workers: usize,
    /// The most open connections. Each worker has an equal share of them.
    pub max_connections: usize,
    /// How long clients may take.
    pub timeouts: ConnectionTimeouts,
    /// How long requests in progress may take when the server stops.
    pub shutdown_timeout: Duration,
}

impl Listener {
    /// Binds the port, unless there is a socket. The server runs once it is polled.
    ///
    /// `app` makes the application of each worker, as for `actix_web::HttpServer::new`: an
    /// `actix_web::App` with any middleware around it.
    ///
    /// # Errors
    ///
    /// [`BindError`], also if the process cannot use TLS.
    pub fn bind<F, I, S, B>(
        self,
        events: Arc<dyn ConnectionEvents>,
        app: F,
    ) -> Result<(Server, SocketAddr), BindError>
    where
        F: Fn() -> I + Send + Clone + 'static,
        I: IntoServiceFactory<S, Request>,
        S: ServiceFactory<Request, Config = AppConfig> + 'static,
        S::Error: Into<Error> + 'static,
        S::InitError: fmt::Debug,
        S::Response: Into<Response<B>> + 'static,
        S::Service: 'static,
        <S::Service as Service<Request>>::Future: 'static,
        B: MessageBody + 'static,
    {
        let Self {
            setting, address, ..
        } = self;
        let unbound = |source| BindError {
            setting,
            address,
            source,
        };
        let socket = self.socket.map_or_else(|| bind(address), Ok);
        let socket = socket.map_err(unbound)?;
        let address = socket.local_addr().map_err(unbound)?;
        let timeouts = self.timeouts;
        let limits = ConnectionLimits {
            connections: (self.max_connections / self.workers).max(1),
            request_bytes: REQUEST_BYTES / self.workers,
        };
        let refused = REFUSED_CONNECTIONS.min(limits.connections / 4).max(1);
        let seconds = self.shutdown_timeout.as_millis().div_ceil(1000);
        let server = Server::build()
            .disable_signals()
            .workers(self.workers)
            .max_concurrent_connections(limits.connections + refused)
            .shutdown_timeout(u64::try_from(seconds).unwrap_or(u64::MAX));
        let stopping = server.graceful_shutdown_signal();
        let tls = self.tls.map(acceptor).transpose();
        let tls = tls.map_err(|error| unbound(io::Error::other(error)))?;
        let server = server.listen("http", socket, move || {
            let stopping = stopping.clone();
            let app = app().into_factory().map_err(Into::<Error>::into);
            let app = map_config(app, |()| AppConfig::default());
            let http = HttpService::build()
                .graceful_shutdown_signal(move || {
                    let stopping = stopping.clone();
                    async move { stopping.notified().await }
                })
                // These deadlines are those of `DeadlineIo`.
                .keep_alive(KeepAlive::Os)
                .client_request_timeout(Duration::ZERO)
                .client_disconnect_timeout(DRAIN_TIMEOUT)
                .local_addr(address)
                .on_connect_ext(|io: &DeadlineIo, data| {
                    data.insert(Rc::clone(io.state()));
                })
                .h1(apply_fn_factory(app, respond));
            let queue_delay = QueueDelay::default();
            actix_web::rt::spawn(queue_delay.measure(timeouts.queue_delay / 10));
            let limiter =
                ConnectionLimiter::new(limits, timeouts, queue_delay, Arc::clone(&events));
            let (events, tls) = (Arc::clone(&events), tls.clone());
            // The permit is acquired when the connection is accepted, not when it is first polled.
            fn_service(move |tcp| accept(tcp, limiter.acquire(), tls.clone(), Arc::clone(&events)))
                .and_then(http)
        });
        Ok((server.map_err(unbound)?.run(), address))
    }
}

/// A listener cannot be bound.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} ({setting})")]
pub struct BindError {
    setting: &'static str,
    address: SocketAddr,
    source: io::Error,
}

/// TLS 1.2 and 1.3 with this certificate, for HTTP/1.1 only.
fn acceptor(certificate: Arc<dyn ResolvesServerCert>) -> Result<TlsAcceptor, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(certificate);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config).into())
}

/// Binds a port. Needs a tokio runtime around it.
///
/// # Errors
///
/// The port cannot be bound.
pub fn bind(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()
    } else {
        TcpSocket::new_v6()
    }?;
    // A restarted server need not wait for the last connections of the previous one.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)?.into_std()
}

async fn accept(
    tcp: TcpStream,
    permit: Option<ConnectionPermit>,
    tls: Option<TlsAcceptor>,
    events: Arc<dyn ConnectionEvents>,
) -> Result<(DeadlineIo, Option<SocketAddr>), DispatchError> {
    let peer = tcp.peer_addr().ok();
    let Some(permit) = permit else {
        // A TLS handshake would cost more than the request that is refused.
        if tls.is_none() {
            let _ = timeout(DRAIN_TIMEOUT, refuse_connection(tcp, peer, &*events)).await;
        }
        return Err(io::Error::from(io::ErrorKind::ConnectionRefused).into());
    };
    let stream: Box<dyn Transport> = match tls {
        None => Box::new(tcp),
        Some(tls) => tokio::select! {
            accepted = timeout(permit.state().timeouts.head, tls.accept(tcp)) => {
                Box::new(accepted.map_err(io::Error::from)??)
            }
            () = permit.state().closed() => {
                return Err(io::Error::from(io::ErrorKind::TimedOut).into());
            }
        },
    };
    Ok((DeadlineIo::new(stream, peer, permit, events), peer))
}
