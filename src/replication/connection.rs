//! A connection to Redis (RESP3), over which revocations are published, stored, received and read.

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
use super::format::{self, CHANNEL, PREFIX, TEXT_MAX};
use super::pending_queue::Sent;
use crate::gateway::revocations::Revocation;

/// The deadline of a new connection, including TLS and authentication.
const CONNECT_DEADLINE: Duration = Duration::from_secs(1);

/// The deadline of a response. The connection is closed after it; requests wait for less.
const RESPONSE_DEADLINE: Duration = Duration::from_secs(1);

/// How many revocations are sent or read at once.
pub(super) const BATCH_MAX: usize = 500;

/// The maximum number of buffered messages. Redis also disconnects slow subscribers.
const BUFFERED_MAX: usize = 65_536;

/// The address of a Redis, and the credentials of the gateway.
#[derive(Debug, Clone)]
pub struct Address {
    /// A host name or an IP address.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Whether the connection uses TLS.
    pub tls: bool,
    /// The number of the database.
    pub database: i64,
    /// The user; `None`: the default user.
    pub username: Option<String>,
    /// The user's password.
    pub password: Option<SecretString>,
    /// PEM certificates of the authorities to trust, instead of the machine's own.
    pub authorities: Option<Vec<u8>>,
}

/// Why the settings of a Redis cannot be used.
#[derive(Debug, Error)]
pub enum InvalidRedis {
    /// The file contains no PEM certificate, or an invalid one.
    #[error("not a file of PEM certificates")]
    Authorities,
}

/// A client of a Redis, which is not connected yet.
#[derive(Clone)]
pub struct Redis(Client);

/// Without the user and the password.
impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self.0.get_connection_info().addr().to_string();
        f.debug_tuple("Redis").field(&address).finish()
    }
}

impl Redis {
    /// Creates the client without connecting.
    ///
    /// # Errors
    ///
    /// [`InvalidRedis`] if the certificates are invalid.
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
        // Never fails, because nothing is parsed.
        let info = server
            .into_connection_info()
            .map_err(|_| InvalidRedis::Authorities)?
            .set_redis_settings(user)
            .set_tcp_settings(TcpSettings::default().set_nodelay(true));
        // An empty file would trust no authority, so every connection would fail.
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

    /// Tests whether this gateway can connect, subscribe, read and write.
    ///
    /// # Errors
    ///
    /// [`RedisFault`].
    pub async fn probe(&self) -> Result<(), RedisFault> {
        let (connection, _incoming) = self.connect().await?;
        connection.subscribe().await?;
        connection.page(0).await?;
        // Deletes a key that does not exist, which needs the right to write.
        let missing = format!("{PREFIX}nothing");
        let mut inner = connection.0;
        let _: i64 = cmd("DEL").arg(missing).query_async(&mut inner).await?;
        Ok(())
    }

    pub(super) async fn connect(&self) -> Result<(Connection, Incoming), RedisFault> {
        let (sender, messages) = mpsc::channel(BUFFERED_MAX);
        let lost = Arc::<Notify>::default();
        let notify_lost = Arc::clone(&lost);
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_DEADLINE))
            .set_response_timeout(Some(RESPONSE_DEADLINE))
            .set_push_sender(move |push: PushInfo| {
                let is_received = match message(push) {
                    Push::Message(message) => sender.try_send(message).is_ok(),
                    Push::Other => true,
                    Push::End => false,
                };
                if !is_received {
                    notify_lost.notify_one();
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
            // A longer message is invalid, and is truncated to save memory.
            message.truncate(TEXT_MAX + 1);
            message.shrink_to_fit();
            Push::Message(message)
        }
        (PushKind::Disconnection, _) => Push::End,
        _ => Push::Other,
    }
}

/// The published messages of a connection.
pub(super) struct Incoming {
    messages: mpsc::Receiver<Vec<u8>>,
    /// A message could not be buffered, or the connection failed.
    lost: Arc<Notify>,
}

impl Incoming {
    /// The next message.
    pub(super) async fn next(&mut self) -> Result<Vec<u8>, RedisFault> {
        tokio::select! {
            biased;
            () = self.lost.notified() => {
                Err(if self.messages.len() >= BUFFERED_MAX {
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

/// An open connection. Closed on drop.
pub(super) struct Connection(MultiplexedConnection);

/// A key with the prefix and its value; `None` if the value is not a string.
pub(super) type Entry = (Vec<u8>, Option<Vec<u8>>);

impl Connection {
    pub(super) async fn subscribe(&self) -> Result<(), RedisFault> {
        Ok(self.0.clone().subscribe(CHANNEL).await?)
    }

    pub(super) async fn ping(&self) -> Result<(), RedisFault> {
        cmd("PING").exec_async(&mut self.0.clone()).await?;
        Ok(())
    }

    /// One page of keys with their values, and the cursor of the next page; zero: this was the last.
    pub(super) async fn page(&self, cursor: u64) -> Result<(u64, Vec<Entry>), RedisFault> {
        let mut connection = self.0.clone();
        let (next, keys): (u64, Vec<Vec<u8>>) = cmd("SCAN")
            .cursor_arg(cursor)
            .arg("MATCH")
            .arg(format!("{PREFIX}*"))
            .arg("COUNT")
            .arg(BATCH_MAX)
            .query_async(&mut connection)
            .await?;
        if keys.is_empty() {
            return Ok((next, Vec::new()));
        }
        let mut lookups = Pipeline::with_capacity(keys.len());
        lookups.ignore_errors();
        for key in &keys {
            // No more than the length of a valid value.
            lookups.cmd("GETRANGE").arg(key).arg(0).arg(TEXT_MAX);
        }
        let values: Vec<RedisResult<Vec<u8>>> = lookups.query_async(&mut connection).await?;
        let values = values.into_iter().map(Result::ok);
        Ok((next, keys.into_iter().zip(values).collect()))
    }

    /// Stores each revocation, then publishes it: in this order, so that a replica that connects in
    /// between does not miss it.
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
                .arg(format::key(revocation))
                .arg(format::value(revocation))
                .arg("EX")
                .arg(revocation.forget_at.saturating_sub(now).max(1));
            let message = format::message(revocation);
            commands.cmd("PUBLISH").arg(CHANNEL).arg(message);
        }
        let results: Vec<RedisResult<Value>> = commands.query_async(&mut self.0.clone()).await?;
        let mut results = results.into_iter();
        let sent = revocations.iter().map(|_| {
            let (stored, published) = (results.next().transpose(), results.next().transpose());
            match (stored, published) {
                (Ok(_), Ok(_)) => Sent::Stored,
                (Err(fault), Ok(_)) => Sent::Published(fault.into()),
                (_, Err(fault)) => Sent::Refused(fault.into()),
            }
        });
        Ok(sent.collect())
    }
}
