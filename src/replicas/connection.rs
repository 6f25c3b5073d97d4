//! The one door to Redis: one connection (RESP3), over which revocations are told, kept, heard and
//! caught up on.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, IntoConnectionInfo as _, Pipeline,
    ProtocolVersion, PushInfo, PushKind, RedisConnectionInfo, RedisResult, TlsCertificates, Value,
    cmd, pipe,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use secrecy::{ExposeSecret as _, SecretString};
use thiserror::Error;
use tokio::sync::{Notify, mpsc};

use super::fault::RedisFault;
use super::outbox::Sent;
use super::text::{self, CHANNEL, PREFIX, TEXT_MAX};
use crate::gateway::revocations::Revocation;

/// How long a connection may take to come about, TLS and authentication included.
const CONNECT_DEADLINE: Duration = Duration::from_secs(1);

/// How long Redis may take for an answer. No request waits for so long, but the connection ends.
const ANSWER_DEADLINE: Duration = Duration::from_secs(1);

/// How many revocations are sent or looked up at once.
pub(super) const PAGE: usize = 500;

/// The most messages that may wait to be taken in. Redis gives up on a slow listener as well.
const WAITING_MAX: usize = 65_536;

/// Where a Redis is, and as whom this gateway comes to it.
#[derive(Debug, Clone)]
pub struct Address {
    /// Its host: a name or an address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Whether it speaks TLS.
    pub tls: bool,
    /// The number of the database.
    pub database: i64,
    /// The user; none: the default one.
    pub username: Option<String>,
    /// The user's password.
    pub password: Option<SecretString>,
    /// Certificates (PEM) of the authorities to trust, in place of the machine's own.
    pub authorities: Option<Vec<u8>>,
}

/// Why Redis can never be reached with these settings.
#[derive(Debug, Error)]
pub enum InvalidRedis {
    /// The file of certificates holds none, or a broken one.
    #[error("not a file of PEM certificates")]
    Authorities,
}

/// A Redis that can be connected to.
#[derive(Clone)]
pub struct Redis(Client);

/// Shows neither user nor password.
impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self.0.get_connection_info().addr().to_string();
        f.debug_tuple("Redis").field(&address).finish()
    }
}

impl Redis {
    /// Speaks to nobody yet.
    ///
    /// # Errors
    ///
    /// [`InvalidRedis`] where the certificates are none.
    pub fn new(address: &Address) -> Result<Self, InvalidRedis> {
        let (host, port) = (address.host.clone(), address.port);
        let mut user = RedisConnectionInfo::default()
            .set_db(address.database)
            .set_protocol(ProtocolVersion::RESP3)
            .set_skip_set_lib_name();
        if let Some(username) = &address.username {
            user = user.set_username(username);
        }
        if let Some(password) = &address.password {
            user = user.set_password(password.expose_secret());
        }
        let server = if address.tls {
            ConnectionAddr::TcpTls {
                host,
                port,
                insecure: false,
                tls_params: None,
            }
        } else {
            ConnectionAddr::Tcp(host, port)
        };
        // Nothing is parsed here, so nothing can fail.
        let info = server
            .into_connection_info()
            .map_err(|_| InvalidRedis::Authorities)?
            .set_redis_settings(user)
            .set_tcp_settings(TcpSettings::default().set_nodelay(true));
        // An empty file would be no authority at all, and no certificate good enough.
        let certificates = address.authorities.as_deref();
        if certificates.is_some_and(|pem| CertificateDer::from_pem_slice(pem).is_err()) {
            return Err(InvalidRedis::Authorities);
        }
        let certificates = TlsCertificates {
            client_tls: None,
            root_cert: address.authorities.clone(),
        };
        let client = if address.tls {
            Client::build_with_tls(info, certificates)
        } else {
            Client::open(info)
        };
        client.map(Self).map_err(|_| InvalidRedis::Authorities)
    }

    /// Whether this gateway can connect, listen and write here.
    ///
    /// # Errors
    ///
    /// [`RedisFault`].
    pub async fn probe(&self) -> Result<(), RedisFault> {
        let (connection, _incoming) = self.connect().await?;
        connection.subscribe().await?;
        connection.page(0).await?;
        // Removes nothing, and still needs the right to write.
        let nothing = format!("{PREFIX}nothing");
        let mut inner = connection.0;
        let _: i64 = cmd("DEL").arg(nothing).query_async(&mut inner).await?;
        Ok(())
    }

    pub(super) async fn connect(&self) -> Result<(Connection, Incoming), RedisFault> {
        let (sender, messages) = mpsc::channel(WAITING_MAX);
        let lost = Arc::<Notify>::default();
        let told = Arc::clone(&lost);
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_DEADLINE))
            .set_response_timeout(Some(ANSWER_DEADLINE))
            .set_push_sender(move |push: PushInfo| {
                let taken = match message(push) {
                    Push::Message(message) => sender.try_send(message).is_ok(),
                    Push::Other => true,
                    Push::End => false,
                };
                if !taken {
                    told.notify_one();
                }
                Ok::<(), ()>(())
            });
        let connection = self.0.get_multiplexed_async_connection_with_config(&config);
        let connection = connection.await?;
        Ok((Connection(connection), Incoming { messages, lost }))
    }
}

enum Push {
    Message(Vec<u8>),
    Other,
    End,
}

fn message(mut push: PushInfo) -> Push {
    match (push.kind, push.data.pop()) {
        (PushKind::Message, Some(Value::BulkString(mut message))) => {
            // What is too long is nothing, and needs no memory to find that out.
            message.truncate(TEXT_MAX + 1);
            message.shrink_to_fit();
            Push::Message(message)
        }
        (PushKind::Disconnection, _) => Push::End,
        _ => Push::Other,
    }
}

/// What Redis tells by itself.
pub(super) struct Incoming {
    messages: mpsc::Receiver<Vec<u8>>,
    /// Something was not taken in, or the connection broke.
    lost: Arc<Notify>,
}

impl Incoming {
    /// The next message.
    pub(super) async fn next(&mut self) -> Result<Vec<u8>, RedisFault> {
        tokio::select! {
            biased;
            () = self.lost.notified() => {
                Err(if self.messages.len() >= WAITING_MAX {
                    RedisFault::Overrun
                } else {
                    RedisFault::Unreachable("the connection broke".to_owned())
                })
            }
            message = self.messages.recv() => {
                message.ok_or_else(|| RedisFault::Unreachable("the connection ended".to_owned()))
            }
        }
    }
}

/// A connection that goes on until it is dropped.
pub(super) struct Connection(MultiplexedConnection);

/// A key under the prefix with its value; none where that is not a string.
pub(super) type Entry = (Vec<u8>, Option<Vec<u8>>);

impl Connection {
    pub(super) async fn subscribe(&self) -> Result<(), RedisFault> {
        Ok(self.0.clone().subscribe(CHANNEL).await?)
    }

    pub(super) async fn ping(&self) -> Result<(), RedisFault> {
        cmd("PING").exec_async(&mut self.0.clone()).await?;
        Ok(())
    }

    /// Some of the keys with their values, and where the next ones begin; zero: there are none.
    pub(super) async fn page(&self, cursor: u64) -> Result<(u64, Vec<Entry>), RedisFault> {
        let mut connection = self.0.clone();
        let (next, keys): (u64, Vec<Vec<u8>>) = cmd("SCAN")
            .cursor_arg(cursor)
            .arg("MATCH")
            .arg(format!("{PREFIX}*"))
            .arg("COUNT")
            .arg(PAGE)
            .query_async(&mut connection)
            .await?;
        if keys.is_empty() {
            return Ok((next, Vec::new()));
        }
        let mut lookups = Pipeline::with_capacity(keys.len());
        lookups.ignore_errors();
        for key in &keys {
            // No more of it than a value has.
            lookups.cmd("GETRANGE").arg(key).arg(0).arg(TEXT_MAX);
        }
        let values: Vec<RedisResult<Vec<u8>>> = lookups.query_async(&mut connection).await?;
        let values = values.into_iter().map(Result::ok);
        Ok((next, keys.into_iter().zip(values).collect()))
    }

    /// Keeps each revocation for whoever comes, then tells it to whoever is there: in that order,
    /// so that nobody can come in between and miss it.
    pub(super) async fn send(
        &self,
        revocations: &[Revocation],
        now: u64,
    ) -> Result<Vec<Sent>, RedisFault> {
        let mut commands = pipe();
        commands.ignore_errors();
        for revocation in revocations {
            commands
                .cmd("SET")
                .arg(text::key(revocation))
                .arg(text::value(revocation))
                .arg("EX")
                .arg(revocation.forget_at.saturating_sub(now).max(1));
            let message = text::message(revocation);
            commands.cmd("PUBLISH").arg(CHANNEL).arg(message);
        }
        let results: Vec<RedisResult<Value>> = commands.query_async(&mut self.0.clone()).await?;
        let mut results = results.into_iter();
        let sent = revocations.iter().map(|_| {
            let (kept, told) = (results.next().transpose(), results.next().transpose());
            match (kept, told) {
                (Ok(_), Ok(_)) => Sent::Kept,
                (Err(fault), Ok(_)) => Sent::Told(fault.into()),
                (_, Err(fault)) => Sent::Refused(fault.into()),
            }
        });
        Ok(sent.collect())
    }
}
