//! One listener: a port, an application, and the limits of every connection.

use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use actix_http::body::MessageBody;
use actix_http::error::DispatchError;
use actix_http::{HttpService, KeepAlive, Request, Response};
use actix_service::{
    IntoServiceFactory, Service, ServiceFactory, ServiceFactoryExt as _, apply_fn_factory,
    fn_factory, fn_service, map_config,
};
use actix_web::Error;
use actix_web::dev::{AppConfig, Server};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::server::ResolvesServerCert;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::connection::{
    ConnectionLimiter, ConnectionLimits, ConnectionPermit, QueueDelay, respond,
};
use super::deadline_io::{DRAIN_TIMEOUT, DeadlineIo, SharedIo, Transport};
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
            let stopping = move || {
                let stopping = stopping.clone();
                async move { stopping.notified().await }
            };
            let http = HttpService::build()
                .graceful_shutdown_signal(stopping.clone())
                // These deadlines are those of `DeadlineIo`.
                .keep_alive(KeepAlive::Os)
                .client_request_timeout(Duration::ZERO)
                .client_disconnect_timeout(DRAIN_TIMEOUT)
                .local_addr(address)
                .on_connect_ext(|io: &SharedIo, data| {
                    data.insert(io.state());
                })
                .h1(apply_fn_factory(app, respond));
            let queue_delay = QueueDelay::default();
            actix_web::rt::spawn(queue_delay.measure(timeouts.queue_delay / 10));
            let limiter =
                ConnectionLimiter::new(limits, timeouts, queue_delay, Arc::clone(&events));
            let (events, tls) = (Arc::clone(&events), tls.clone());
            // The permit is acquired when the connection is accepted, not when it is first polled.
            fn_service(move |tcp| accept(tcp, limiter.acquire(), tls.clone(), Arc::clone(&events)))
                .and_then(fn_factory(move || {
                    let (http, stopping) = (http.new_service(()), stopping.clone());
                    async move {
                        let http = Rc::new(http.await?);
                        Ok(fn_service(move |connection| {
                            serve(connection, Rc::clone(&http), stopping())
                        }))
                    }
                }))
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
    // Enough for the next connection of the client. Each ticket takes time, and one of the few places in the cache of sessions.
    config.send_tls13_tickets = 1;
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
) -> Result<(SharedIo, Option<SocketAddr>), DispatchError> {
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
            // Boxed: plain connections would have the memory of a handshake too.
            accepted = timeout(permit.state().timeouts().head, Box::pin(tls.accept(tcp))) => {
                Box::new(accepted.map_err(io::Error::from)??)
            }
            () = permit.state().closed() => {
                return Err(io::Error::from(io::ErrorKind::TimedOut).into());
            }
        },
    };
    let io = DeadlineIo::new(stream, peer, permit, events);
    Ok((SharedIo::new(io), peer))
}

/// Serves the requests of a connection. Its part of actix-http exists only while there are some.
async fn serve<S>(
    (mut io, peer): (SharedIo, Option<SocketAddr>),
    http: Rc<S>,
    stopping: impl Future<Output = ()>,
) -> Result<(), DispatchError>
where
    S: Service<(SharedIo, Option<SocketAddr>), Response = (), Error = DispatchError>,
{
    let mut stopping = pin!(stopping);
    loop {
        let has_request = tokio::select! {
            biased;
            () = &mut stopping => false,
            has_request = io.has_request() => has_request?,
        };
        if !has_request {
            return Ok(io.shutdown().await?);
        }
        Box::pin(http.call((io.clone(), peer))).await?;
        if !io.state().is_released() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::pending;

    use actix_web::HttpResponse;
    use tokio::io::{AsyncReadExt as _, DuplexStream};
    use tokio::task::{LocalSet, spawn_local};
    use tokio::time::{Instant, sleep};

    use super::*;
    use crate::{ConnectionRefusal, RequestHead, ShedReason};

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

    /// It is handled for longer than a head may take.
    const SLOW_REQUEST: &[u8] = b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n";

    struct Events;

    impl ConnectionEvents for Events {
        fn connection_shed(&self, _: ShedReason) {}

        fn refusal(&self, _: Option<SocketAddr>, _: ConnectionRefusal) -> HttpResponse {
            HttpResponse::BadRequest().finish()
        }

        fn refusal_of_request(
            &self,
            _: Option<SocketAddr>,
            head: RequestHead<'_>,
        ) -> Option<HttpResponse> {
            (head.target == "/refused").then(|| HttpResponse::TooManyRequests().finish())
        }
    }

    /// Serves a connection for as long as this client uses it, in a task of its own: only input and
    /// timers poll it. Returns how often actix-http got it.
    async fn serve_client(
        stopping: impl Future<Output = ()> + 'static,
        client: impl AsyncFnOnce(DuplexStream),
    ) -> u32 {
        let parts = Rc::new(Cell::new(0));
        let counted = Rc::clone(&parts);
        let app = fn_service(|request: Request| {
            let is_slow = request.path() == "/slow";
            async move {
                if is_slow {
                    sleep(Duration::from_secs(10)).await;
                }
                Ok::<Response<()>, Error>(Response::ok().drop_body())
            }
        });
        let limits = ConnectionLimits {
            connections: 20,
            request_bytes: REQUEST_BYTES,
        };
        let (timeouts, events) = (ConnectionTimeouts::default(), Arc::new(Events));
        let limiter = ConnectionLimiter::new(limits, timeouts, QueueDelay::default(), events);
        let permit = limiter.acquire().expect("room");
        let (far, near) = tokio::io::duplex(1024);
        let io = DeadlineIo::new(Box::new(near), None, permit, Arc::new(Events));
        let connection = (SharedIo::new(io), None);
        let served = async move {
            let http = HttpService::build()
                .keep_alive(KeepAlive::Os)
                .client_request_timeout(Duration::ZERO)
                .on_connect_ext(move |io: &SharedIo, data| {
                    counted.set(counted.get() + 1);
                    data.insert(io.state());
                })
                .h1(apply_fn_factory(app, respond));
            let http = Rc::new(http.new_service(()).await.expect("a service"));
            serve(connection, http, stopping).await.expect("served");
        };
        let both = async {
            let served = spawn_local(served);
            client(far).await;
            served.await.expect("served");
        };
        LocalSet::new().run_until(both).await;
        parts.get()
    }

    async fn receive_response(client: &mut DuplexStream) {
        assert_eq!(receive_status(client).await, 200);
    }

    async fn receive_status(client: &mut DuplexStream) -> u16 {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(client.read_u8().await.expect("a response"));
        }
        let status = head
            .strip_prefix(b"HTTP/1.1 ")
            .and_then(|rest| rest.get(..3));
        let status = status.and_then(|status| std::str::from_utf8(status).ok());
        status
            .and_then(|status| status.parse().ok())
            .expect("a status")
    }

    #[tokio::test(start_paused = true)]
    async fn actix_http_loses_an_idle_connection_and_gets_it_again_with_the_next_request() {
        for (pause, expected) in [(900, 1), (1_100, 2)] {
            let client = async |mut client: DuplexStream| {
                for _ in 0..2 {
                    client.write_all(REQUEST).await.expect("written");
                    receive_response(&mut client).await;
                    sleep(Duration::from_millis(pause)).await;
                }
            };
            assert_eq!(serve_client(pending(), client).await, expected, "{pause}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_ends_also_if_no_timer_was_left_when_its_response_was_made() {
        let idle = ConnectionTimeouts::default().idle;
        // The request is there before the connection is first polled, or the timer that was set
        // before the request fires while it is handled.
        let pause = Duration::from_secs(1);
        for (pause, request) in [(None, REQUEST), (Some(pause), SLOW_REQUEST)] {
            let client = async |mut client: DuplexStream| {
                if let Some(pause) = pause {
                    sleep(pause).await;
                }
                client.write_all(request).await.expect("written");
                receive_response(&mut client).await;
                let began = Instant::now();
                let ended = timeout(10 * idle, client.read(&mut [0])).await;
                assert_eq!(ended.expect("ended").expect("the end"), 0);
                assert_eq!(began.elapsed(), idle);
            };
            assert_eq!(serve_client(pending(), client).await, 1);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_idle_from_the_end_of_a_body_that_came_after_its_response() {
        let client = async |mut client: DuplexStream| {
            // Longer than a head may take; twice, it is longer than a connection may be idle.
            let pause = Duration::from_secs(10);
            let head = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
            client.write_all(head).await.expect("written");
            receive_response(&mut client).await;
            sleep(pause).await;
            client
                .write_all(b"1\r\n \r\n0\r\n\r\n")
                .await
                .expect("written");
            sleep(pause).await;
            client.write_all(REQUEST).await.expect("still open");
            receive_response(&mut client).await;
        };
        // actix-http loses it while it is idle.
        assert_eq!(serve_client(pending(), client).await, 2);
    }

    const REFUSED: &[u8] = b"POST /refused HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc";

    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_refused_by_its_head_costs_the_application_nothing() {
        let client = async |mut client: DuplexStream| {
            for _ in 0..2 {
                client.write_all(REFUSED).await.expect("written");
                assert_eq!(receive_status(&mut client).await, 429);
            }
            let began = Instant::now();
            assert_eq!(client.read(&mut [0]).await.expect("the end"), 0);
            assert_eq!(began.elapsed(), ConnectionTimeouts::default().idle);
        };
        assert_eq!(serve_client(pending(), client).await, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn requests_before_and_after_a_refused_one_have_responses_in_their_order() {
        let (head, body) = REFUSED.split_at(REFUSED.len() - 3);
        let client = async |mut client: DuplexStream| {
            let requests = [REQUEST, REFUSED, REFUSED, REQUEST, head].concat();
            client.write_all(&requests).await.expect("written");
            for expected in [200, 429, 429, 200] {
                assert_eq!(receive_status(&mut client).await, expected);
            }
            // Its body comes later, so the application gets it.
            client.write_all(body).await.expect("written");
            receive_response(&mut client).await;
        };
        assert_eq!(serve_client(pending(), client).await, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_request_that_is_the_last_one_ends_its_connection() {
        // With this, the head is too long: it is refused by the listener only.
        let padding = format!("Host: a\r\nX: {}", "x".repeat(8 * 1024 - 30));
        for (version, fields, status, has_close) in [
            ("1.1", padding.as_str(), 400, true),
            ("1.0", "Host: a", 429, false),
            ("1.1", "Host: a\r\nConnection: keep-alive, Close", 429, true),
        ] {
            let request =
                format!("POST /refused HTTP/{version}\r\n{fields}\r\nContent-Length: 0\r\n\r\n");
            let client = async |mut client: DuplexStream| {
                client.write_all(request.as_bytes()).await.expect("written");
                let mut response = String::new();
                let began = Instant::now();
                let read = client.read_to_string(&mut response);
                read.await.expect("the response and the end");
                assert_eq!(began.elapsed(), Duration::ZERO);
                let line = format!("HTTP/1.1 {status} ");
                assert!(response.starts_with(&line), "{response}");
                let close = response.contains("\r\nconnection: close\r\n");
                assert_eq!(close, has_close, "{response}");
            };
            assert_eq!(serve_client(pending(), client).await, 0);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_a_request_ends_when_the_server_stops() {
        let began = Instant::now();
        let client = async |mut client: DuplexStream| {
            assert_eq!(client.read(&mut [0]).await.expect("the end"), 0);
        };
        let stopping = sleep(Duration::from_millis(100));
        assert_eq!(serve_client(stopping, client).await, 0);
        assert_eq!(began.elapsed(), Duration::from_millis(100));
    }
}
