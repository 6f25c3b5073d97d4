//! One listener: a port, the routes behind it, and every connection under watch.

use std::io;
use std::net::SocketAddr;
use std::num::NonZero;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix_http::error::DispatchError;
use actix_http::{HttpService, KeepAlive};
use actix_service::{ServiceFactoryExt as _, fn_service, map_config};
use actix_web::App;
use actix_web::dev::{AppConfig, Server};
use actix_web::middleware::from_fn;
use actix_web::web::{Data, ServiceConfig};
use anyhow::Context as _;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::http::connection::{LINGER, Stream, Watched, turn_away};
use crate::http::crowd::{Crowd, Place};
use crate::http::{self, Front};
use crate::mock::Namespaces;

/// Connections that the system may hold until a worker takes them.
const BACKLOG: u32 = 1024;

/// Connections beyond the most, which get no more than a refusal. Beyond them, the backlog waits.
const TURNED_AWAY: usize = 64;

/// What is served at which path.
pub(super) type Routes = Arc<dyn Fn(&mut ServiceConfig) + Send + Sync>;

/// What a listener is made of.
pub(super) struct Listener {
    /// The setting that names the address.
    pub(super) setting: &'static str,
    /// The address; port 0 takes any free one.
    pub(super) listen: SocketAddr,
    /// What is served.
    pub(super) routes: Routes,
    /// Whose gateways the requests are for, where there is more than one.
    pub(super) namespaces: Option<Arc<Namespaces>>,
    /// The certificate, where it speaks TLS.
    pub(super) tls: Option<rustls::ServerConfig>,
    /// Threads.
    pub(super) workers: usize,
    /// The most connections open at once, for each worker.
    pub(super) max_connections: usize,
    /// How long requests under way may take to finish at the end.
    pub(super) shutdown_deadline: Duration,
}

impl Listener {
    /// Binds the port. The server runs once it is polled.
    pub(super) fn bind(self, front: &Data<Front>) -> anyhow::Result<(Server, SocketAddr)> {
        let socket = bind(self.listen)
            .with_context(|| format!("cannot listen on {} ({})", self.listen, self.setting))?;
        let address = socket.local_addr()?;
        let most = self.max_connections;
        let server = Server::build()
            .disable_signals()
            .workers(self.workers)
            .max_concurrent_connections(most + TURNED_AWAY.min(most / 4).max(1))
            .shutdown_timeout(
                self.shutdown_deadline
                    .as_millis()
                    .div_ceil(1000)
                    .try_into()?,
            );
        let stopping = server.graceful_shutdown_signal();
        let (front, routes, namespaces) = (front.clone(), self.routes, self.namespaces);
        let tls = self.tls.map(Arc::new).map(TlsAcceptor::from);
        let server = server.listen("http", socket, move || {
            let app = App::new()
                .app_data(front.clone())
                .wrap(from_fn({
                    let namespaces = namespaces.clone();
                    move |front, request, next| {
                        http::around(namespaces.clone(), front, request, next)
                    }
                }))
                .configure(&*routes);
            let stopping = stopping.clone();
            let http = HttpService::build()
                .graceful_shutdown_signal(move || {
                    let stopping = stopping.clone();
                    async move { stopping.notified().await }
                })
                // The watch has these two deadlines.
                .keep_alive(KeepAlive::Os)
                .client_request_timeout(Duration::ZERO)
                .client_disconnect_timeout(LINGER)
                .local_addr(address)
                .on_connect_ext(|connection: &Watched, data| {
                    data.insert(connection.turn());
                })
                .h1(map_config(app, |()| AppConfig::default()));
            let (front, tls) = (front.clone(), tls.clone());
            let crowd = Crowd::new(most, &front.metrics);
            actix_web::rt::spawn(Crowd::measure(
                Rc::downgrade(&crowd),
                front.patience.queue / 10,
            ));
            // A place is taken as soon as the connection is there, and not in its turn.
            fn_service(move |tcp| accept(tcp, crowd.join(), tls.clone(), front.clone()))
                .and_then(http)
        })?;
        Ok((server.run(), address))
    }
}

pub(super) fn bind(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()
    } else {
        TcpSocket::new_v6()
    }?;
    // A gateway that starts again need not wait for the last connections of the one before.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)?.into_std()
}

/// As many workers as there are cores.
pub(super) fn cores() -> usize {
    std::thread::available_parallelism().map_or(2, NonZero::get)
}

async fn accept(
    tcp: TcpStream,
    place: Option<Place>,
    tls: Option<TlsAcceptor>,
    front: Data<Front>,
) -> Result<(Watched, Option<SocketAddr>), DispatchError> {
    let peer = tcp.peer_addr().ok();
    let Some(place) = place else {
        // To shake hands first would cost more than to serve.
        if tls.is_none() {
            let _ = timeout(LINGER, turn_away(tcp, peer, &front)).await;
        }
        return Err(io::Error::from(io::ErrorKind::ConnectionRefused).into());
    };
    let stream: Box<dyn Stream> = match tls {
        None => Box::new(tcp),
        Some(tls) => tokio::select! {
            shaken = timeout(front.patience.headers, tls.accept(tcp)) => {
                Box::new(shaken.map_err(io::Error::from)??)
            }
            () = place.turn().asked_to_leave() => {
                return Err(io::Error::from(io::ErrorKind::TimedOut).into());
            }
        },
    };
    Ok((Watched::new(stream, peer, place, front), peer))
}
