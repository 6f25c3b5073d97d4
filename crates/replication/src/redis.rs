//! Redis (RESP3): its address, directly or through Sentinel, and the commands on its streams.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use iam_adapters::name::Name as _;
use iam_adapters::{Clock, clock};
use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, IntoConnectionInfo as _, ProtocolVersion,
    RedisConnectionInfo, RedisResult, TlsCertificates, Value, cmd, pipe,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use secrecy::{ExposeSecret as _, SecretString};
use thiserror::Error;

use super::fault::RedisFault;
use super::format::{self, FIELD};
use auth_gateway_core::Keys;
use auth_gateway_core::event::Replicated;

/// The deadline of a new connection, including TLS and authentication.
const CONNECT_DEADLINE: Duration = Duration::from_secs(1);

/// The deadline of a response. The connection is closed after it; requests wait for less.
const RESPONSE_DEADLINE: Duration = Duration::from_secs(2);

/// How many entries are read at once: less than 100 KB.
const PAGE_LEN: usize = 1_000;

/// Reads a page of the stream, and removes expired entries from it, by the clock of Redis: the clock of
/// a replica may be ahead. It is a script because XRANGE and XREAD would send entries of any size: one
/// large entry of another writer would fill the memory of every replica. The last entry of a page stays: it can be
/// the one by which replicas find out whether the stream is still the same.
///
/// Returns the id of the last entry that is still there, the number of entries, the number of invalid
/// ones, and the valid ones as one text. Removing fails on a read-only Redis, which does not matter. A read
/// of new entries removes no expired ones. If the entry before them is no longer there, the id is empty: the
/// stream is another one, and its entries can have lower ids. Entries of more than 4 KiB, which no replica
/// of any version writes, are removed: each read would take the time of Redis again.
const PAGE_SCRIPT: &str = r"
local reads_new = ARGV[6] == '1'
if reads_new and ARGV[1] ~= '0-0' and #redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1]) == 0 then
  return {'', 0, 0, ''}
end
local entries = redis.call('XRANGE', KEYS[1], '(' .. ARGV[1], '+', 'COUNT', ARGV[2])
local length, expired_at = tonumber(ARGV[4]), redis.call('TIME')[1] - ARGV[5]
local last, invalid, live = ARGV[1], 0, {}
for i, entry in ipairs(entries) do
  local id, fields, is_removed = entry[1], entry[2], false
  if #fields == 2 and fields[1] == ARGV[3] and #fields[2] == length then
    local version, forget_at = struct.unpack('>BI8', fields[2])
    if version <= 2 and forget_at <= expired_at and not reads_new then
      is_removed = i < #entries and redis.pcall('XDEL', KEYS[1], id) == 1
    else
      live[#live + 1] = fields[2]
    end
  else
    invalid = invalid + 1
    local size = 0
    for _, text in ipairs(fields) do
      size = size + #text
    end
    if size > 4096 then
      is_removed = redis.pcall('XDEL', KEYS[1], id) == 1
    end
  end
  if not is_removed then
    last = id
  end
end
return {last, #entries, invalid, table.concat(live)}
";

/// Adds what a replica states about its keys to the statements of the others, and returns all of them: the keys
/// that it uses, and for each key that a replica uses and that it does not have, that it lacks it. A
/// statement is a line with the time from which on it does not count, by the clock of Redis. A replica
/// that has ended makes no statements, so they disappear.
///
/// Its own statements come first: what another program wrote cannot take their room. A Redis that
/// stores nothing is no error here, and a value of another type is replaced.
const KEYS_SCRIPT: &str = r"
local lifetime, bytes_max, uses = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local now = tonumber(redis.call('TIME')[1])
local statements, ends_at, has = {}, {}, {}
local function keep(time, statement)
  if time <= now or time > now + lifetime then
    return false
  end
  if not ends_at[statement] then
    statements[#statements + 1] = statement
  end
  ends_at[statement] = math.max(time, ends_at[statement] or 0)
  return true
end
for i = 4, #ARGV do
  has[ARGV[i]] = true
  if i < 4 + uses then
    keep(now + lifetime, 'used ' .. ARGV[i])
  end
end
local stored = redis.pcall('GETRANGE', KEYS[1], 0, bytes_max)
if type(stored) ~= 'string' then
  stored = ''
end
for time, statement in string.gmatch(stored, '(%d+) ([^\n]+)\n') do
  local used = string.match(statement, '^used (.+)')
  if keep(tonumber(time), statement) and used and not has[used] then
    keep(now + lifetime, 'missing ' .. used)
  end
end
if uses > 0 then
  local lines = {}
  for i, statement in ipairs(statements) do
    lines[i] = ends_at[statement] .. ' ' .. statement .. '\n'
  end
  redis.pcall('SET', KEYS[1], table.concat(lines), 'PX', lifetime * 1000)
end
return table.concat(statements, '\n')
";

/// How long a statement about keys counts, in seconds: three times as long as the time between two.
const KEYS_LIFETIME: u64 = 15;

/// How many bytes of statements about keys are read at most. Replicas with the same keys write about 50 for each.
const KEYS_BYTES_MAX: usize = 16_384;

/// How much later than their time entries are removed, in seconds. So they survive a clock of Redis
/// that is an hour ahead.
const REMOVAL_MARGIN: u64 = 3_600;

/// About how many login events are kept at most, 100 bytes each. When more are added, the oldest are
/// removed: an attacker must not fill Redis. Replicas that run have received them.
const LOGINS_MAX: usize = 100_000;

/// About how many events of known networks are kept at most. They have a stream of their own, so that
/// failed logins do not push them out.
const KNOWN_NETWORKS_MAX: usize = 500_000;

/// How long what [`Redis::probe`] sets remains if it is interrupted, in milliseconds.
const CHECK_LIFETIME: u64 = 10_000;

/// The id before that of the first entry of a stream.
pub(super) const BEGINNING: &str = "0-0";

/// The address of a Redis, and the credentials of the gateway.
#[derive(Debug, Clone)]
pub struct Address {
    /// A host name or an IP address; not used with `sentinels`.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Whether the connections use TLS.
    pub tls: bool,
    /// The number of the database.
    pub database: i64,
    /// The user; `None`: the default user.
    pub username: Option<String>,
    /// The user's password.
    pub password: Option<SecretString>,
    /// PEM certificates of the authorities to trust, instead of the machine's own.
    pub authorities: Option<Vec<u8>>,
    /// The Sentinels that know the primary.
    pub sentinels: Option<Sentinels>,
    /// The beginning of each key.
    pub prefix: String,
}

/// Redis Sentinels, and the credentials of the gateway there.
#[derive(Debug, Clone)]
pub struct Sentinels {
    /// The host and port of each, in the order in which they are asked.
    pub addresses: Vec<(String, u16)>,
    /// Their name of the primary.
    pub master: String,
    /// The user; `None`: the default user.
    pub username: Option<String>,
    /// The user's password.
    pub password: Option<SecretString>,
}

/// Why the settings of a Redis cannot be used.
#[derive(Debug, Error)]
pub enum InvalidRedis {
    /// The file contains no PEM certificate, or an invalid one.
    #[error("not a file of PEM certificates")]
    Authorities,
}

/// A client of a Redis, which is not connected yet. Its `Debug` form has no user and no password.
#[derive(Clone, derive_more::Debug)]
#[debug("Redis({}:{})", self.0.address.load().host, self.0.address.load().port)]
pub struct Redis(Arc<RedisServer>);

/// Opens a connection to the server of a client.
pub type Connect = dyn Fn(Client, AsyncConnectionConfig) -> Connecting + Send + Sync;

/// A connection that is being opened.
pub type Connecting = Pin<Box<dyn Future<Output = RedisResult<MultiplexedConnection>> + Send>>;

struct RedisServer {
    address: ArcSwap<Address>,
    connect: Box<Connect>,
    // These do not change when the address is replaced.
    prefix: String,
    has_sentinels: bool,
}

/// Settings of a Redis that a replica checks before it uses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Warning {
    /// A failover may lose revocations that Redis acknowledged.
    #[error("min-replicas-to-write is 0, so a failover can lose acknowledged writes")]
    AcknowledgedWritesCanBeLost,
    /// The user may not read the information about the server.
    #[error("the user may not call INFO, so its eviction policy is unknown")]
    NotExamined,
}

impl Redis {
    /// Creates the client without connecting. It connects over TCP.
    ///
    /// # Errors
    ///
    /// [`InvalidRedis`] if the certificates are invalid.
    pub fn new(address: Address) -> Result<Self, InvalidRedis> {
        Self::over(address, |client, config| {
            Box::pin(async move {
                client
                    .get_multiplexed_async_connection_with_config(&config)
                    .await
            })
        })
    }

    /// The same over another network.
    ///
    /// # Errors
    ///
    /// As [`Self::new`].
    pub fn over(
        address: Address,
        connect: impl Fn(Client, AsyncConnectionConfig) -> Connecting + Send + Sync + 'static,
    ) -> Result<Self, InvalidRedis> {
        // An empty file would trust no authority, so every connection would fail.
        let certificates = address.authorities.as_deref();
        if certificates.is_some_and(|pem| CertificateDer::from_pem_slice(pem).is_err()) {
            return Err(InvalidRedis::Authorities);
        }
        client(&address, (&address.host, address.port), &address.user())
            .map_err(|_| InvalidRedis::Authorities)?;
        Ok(Self(Arc::new(RedisServer {
            prefix: address.prefix.clone(),
            has_sentinels: address.sentinels.is_some(),
            connect: Box::new(connect),
            address: ArcSwap::from_pointee(address),
        })))
    }

    /// Uses the password and the certificates of another client for new connections.
    pub fn replace(&self, other: &Self) {
        self.0.address.store(other.0.address.load_full());
    }

    pub(super) fn prefix(&self) -> &str {
        &self.0.prefix
    }

    /// The key of what replicas share. At that of [`Replicated::Keys`] they state which keys they use.
    fn key(&self, of: Replicated) -> String {
        format!("{}:{}", self.0.prefix, of.name())
    }

    pub(super) fn stream<const N: usize>(&self, of: Replicated) -> Stream<N> {
        Stream {
            of,
            key: self.key(of),
            max_len: match of {
                Replicated::Logins => Some(LOGINS_MAX),
                Replicated::KnownNetworks => Some(KNOWN_NETWORKS_MAX),
                Replicated::Revocations | Replicated::Keys => None,
            },
        }
    }

    /// Tests whether this gateway can connect, read and write, and whether Redis keeps what is
    /// written. Compares these keys with those that the replicas use, as [`Keys::compare`] does. Returns the
    /// [`offset`](clock::offset) of its clock too.
    ///
    /// # Errors
    ///
    /// [`RedisFault`].
    pub async fn probe(
        &self,
        keys: &Keys,
        clock: &dyn Clock,
    ) -> Result<(f64, Option<Warning>), RedisFault> {
        let primary = self.primary().await?;
        let connection = self.connect(&primary).await?;
        let now = clock.now();
        let time = connection.time().await?;
        let offset = clock::offset(now, time, Duration::ZERO, clock.now());
        let revocations: Stream<{ format::ENTRY_LEN }> = self.stream(Replicated::Revocations);
        connection.page(&revocations, BEGINNING, false).await?;
        // Another key, so that no replica reads what the test writes.
        let key = format!("{}:check", self.0.prefix);
        let mut inner = connection.inner.clone();
        // One for each type: a test that was interrupted leaves them, and another one can run at the same time.
        let [added, set] = ["stream", "value"].map(|of| format!("{key}:{of}"));
        let mut add = cmd("XADD");
        add.arg(&added).arg("*").arg(FIELD).arg("");
        let id: String = add.query_async(&mut inner).await?;
        let mut remove = cmd("XDEL");
        remove.arg(&added).arg(id).exec_async(&mut inner).await?;
        let mut store = cmd("SET");
        store.arg(&set).arg("").arg("PX").arg(CHECK_LIFETIME);
        store.exec_async(&mut inner).await?;
        let mut read = cmd("GETRANGE");
        read.arg(&set).arg(0).arg(0).exec_async(&mut inner).await?;
        cmd("PTTL").arg(&set).exec_async(&mut inner).await?;
        let mut delete = cmd("DEL");
        delete.arg(&[added, set]).exec_async(&mut inner).await?;
        let [_, stored] = keys.names(now);
        let statements = connection.key_statements(self, &[], &stored).await?;
        keys.compare(statements.lines(), now);
        let information: RedisResult<String> = cmd("INFO").query_async(&mut inner).await;
        let Ok(information) = information else {
            return Ok((offset, Some(Warning::NotExamined)));
        };
        let value = |name: &str| {
            let mut lines = information.lines();
            lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        };
        if value("maxmemory_policy").is_some_and(|policy| policy.starts_with("allkeys-")) {
            return Err(RedisFault::Evicts);
        }
        let has_replicas = value("connected_slaves").is_some_and(|count| count != "0");
        // Redis reports it only where min-replicas-to-write is set.
        let waits_for_replicas = value("min_slaves_good_slaves").is_some();
        let loses = (has_replicas || self.0.has_sentinels) && !waits_for_replicas;
        Ok((
            offset,
            loses.then_some(Warning::AcknowledgedWritesCanBeLost),
        ))
    }

    /// The address of the primary now.
    ///
    /// # Errors
    ///
    /// A Sentinel that responds does not know it; without one, the fault of the last.
    pub(super) async fn primary(&self) -> Result<Primary, RedisFault> {
        let address = self.0.address.load_full();
        let Some(sentinels) = &address.sentinels else {
            return Ok(Primary(address.host.clone(), address.port));
        };
        let user = user(
            0,
            sentinels.username.as_deref(),
            sentinels.password.as_ref(),
        );
        let (mut last, mut is_unknown) = (RedisFault::UnknownPrimary, false);
        for (host, port) in &sentinels.addresses {
            let ask = async {
                let client = client(&address, (host, *port), &user)?;
                let mut connection = self.open(client).await?;
                let mut question = cmd("SENTINEL");
                question
                    .arg("GET-MASTER-ADDR-BY-NAME")
                    .arg(&sentinels.master);
                Ok(question.query_async(&mut connection).await?)
            };
            match ask.await {
                Ok(Some((host, port))) => return Ok(Primary(host, port)),
                Ok(None) => is_unknown = true,
                Err(fault) => {
                    last = RedisFault::Sentinel {
                        sentinel: format!("{host}:{port}"),
                        fault: Box::new(fault),
                    };
                }
            }
        }
        // The name is wrong then, whatever the others would respond.
        Err(if is_unknown {
            RedisFault::UnknownPrimary
        } else {
            last
        })
    }

    pub(super) async fn connect(&self, primary: &Primary) -> Result<Connection, RedisFault> {
        let Primary(host, port) = primary;
        let address = self.0.address.load_full();
        let client = client(&address, (host, *port), &address.user())?;
        let mut inner = self.open(client).await?;
        if self.0.has_sentinels {
            // Sentinel may not know yet that it is the primary no longer (Redis: Sentinel clients).
            let role: Vec<Value> = cmd("ROLE").query_async(&mut inner).await?;
            if !matches!(role.first(), Some(Value::BulkString(role)) if role == b"master") {
                return Err(RedisFault::ReadOnly);
            }
        }
        Ok(Connection { inner })
    }

    async fn open(&self, client: Client) -> RedisResult<MultiplexedConnection> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_DEADLINE))
            .set_response_timeout(Some(RESPONSE_DEADLINE));
        (self.0.connect)(client, config).await
    }
}

/// The host and port of the Redis that accepts writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Primary(pub(super) String, pub(super) u16);

impl Address {
    fn user(&self) -> RedisConnectionInfo {
        user(
            self.database,
            self.username.as_deref(),
            self.password.as_ref(),
        )
    }
}

fn user(
    database: i64,
    username: Option<&str>,
    password: Option<&SecretString>,
) -> RedisConnectionInfo {
    let mut user = RedisConnectionInfo::default()
        .set_db(database)
        .set_protocol(ProtocolVersion::RESP3)
        .set_skip_set_lib_name();
    if let Some(username) = username {
        user = user.set_username(username);
    }
    if let Some(password) = password {
        user = user.set_password(password.expose_secret());
    }
    user
}

/// A client of one server, with the TLS of the address.
fn client(
    address: &Address,
    (host, port): (&str, u16),
    user: &RedisConnectionInfo,
) -> RedisResult<Client> {
    let host = host.to_owned();
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
    let info = server
        .into_connection_info()?
        .set_redis_settings(user.clone())
        .set_tcp_settings(TcpSettings::default().set_nodelay(true));
    if !address.tls {
        return Client::open(info);
    }
    let certificates = TlsCertificates {
        client_tls: None,
        root_cert: address.authorities.clone(),
    };
    Client::build_with_tls(info, certificates)
}

/// An open connection. Closed on drop.
pub(super) struct Connection {
    inner: MultiplexedConnection,
}

/// A stream of entries that have N bytes each.
#[derive(Debug, Clone)]
pub(super) struct Stream<const N: usize> {
    pub(super) of: Replicated,
    pub(super) key: String,
    /// `None`: only expired entries are removed.
    max_len: Option<usize>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Page<const N: usize> {
    /// The id of the last entry; `None`: there was no entry.
    pub(super) last: Option<String>,
    /// The entries that are as long as entries of replicas.
    pub(super) entries: Vec<[u8; N]>,
    /// The number of the others.
    pub(super) invalid: usize,
}

impl<const N: usize> Page<N> {
    /// Whether there can be more new entries than this page has.
    pub(super) fn is_full(&self) -> bool {
        self.entries.len() + self.invalid >= PAGE_LEN
    }
}

impl Connection {
    pub(super) fn commands(&self) -> MultiplexedConnection {
        self.inner.clone()
    }

    /// The time of Redis, since 1970.
    pub(super) async fn time(&self) -> Result<Duration, RedisFault> {
        let (seconds, micros) = cmd("TIME").query_async(&mut self.inner.clone()).await?;
        Ok(Duration::from_secs(seconds).saturating_add(Duration::from_micros(micros)))
    }

    /// The entries after this id, at most [`PAGE_LEN`], and removes the expired ones of them unless
    /// `reads_new`. Its size is bounded. `None`: it reads new entries, and `after` is no longer there.
    async fn page<const N: usize>(
        &self,
        stream: &Stream<N>,
        after: &str,
        reads_new: bool,
    ) -> Result<Option<Page<N>>, RedisFault> {
        let (last, count, invalid, live): (String, usize, usize, Vec<u8>) = cmd("EVAL")
            .arg(PAGE_SCRIPT)
            .arg(1)
            .arg(&stream.key)
            .arg(after)
            .arg(PAGE_LEN)
            .arg(FIELD)
            .arg(N)
            .arg(REMOVAL_MARGIN)
            .arg(u8::from(reads_new))
            .query_async(&mut self.inner.clone())
            .await?;
        let (entries, _) = live.as_chunks::<N>();
        Ok((!last.is_empty()).then(|| Page {
            last: (count > 0).then_some(last),
            entries: entries.to_vec(),
            invalid,
        }))
    }

    /// Reads a whole stream. Returns the id of its last entry. With the id of the last entry that was read before, it
    /// reads the new ones between the pages: they do not wait until all others have been read again.
    pub(super) async fn read_all<const N: usize>(
        &self,
        stream: &Stream<N>,
        mut received: Option<String>,
        mut process: impl FnMut(&Page<N>),
    ) -> Result<String, RedisFault> {
        let mut last = BEGINNING.to_owned();
        let mut next = self.page(stream, &last, false).await?;
        while let Some(mut page) = next
            && let Some(id) = page.last.take()
        {
            last = id;
            if let Some(after) = received.take() {
                let new = self.read_new(stream, &after).await?;
                received = new.map(|new| {
                    process(&new);
                    new.last.unwrap_or(after)
                });
            }
            // Redis collects the next page while this one is processed.
            let process = async {
                tokio::task::yield_now().await;
                process(&page);
            };
            let (page, ()) = tokio::join!(self.page(stream, &last, false), process);
            next = page?;
        }
        Ok(last)
    }

    /// The entries after this id, which [`Self::read_all`] or this method returned; `None`: the stream is
    /// another one now, and must be read from its beginning.
    pub(super) async fn read_new<const N: usize>(
        &self,
        stream: &Stream<N>,
        after: &str,
    ) -> Result<Option<Page<N>>, RedisFault> {
        self.page(stream, after, true).await
    }

    /// Adds entries to a stream, in this order. The result of each is in the same place.
    pub(super) async fn append<const N: usize>(
        &self,
        stream: &Stream<N>,
        entries: impl Iterator<Item = [u8; N]>,
    ) -> Result<Vec<Result<(), RedisFault>>, RedisFault> {
        let mut commands = pipe();
        commands.ignore_errors();
        for entry in entries {
            let command = commands.cmd("XADD").arg(&stream.key);
            if let Some(max_len) = stream.max_len {
                command.arg("MAXLEN").arg("~").arg(max_len);
            }
            command.arg("*").arg(FIELD).arg(&entry[..]);
        }
        let results: Vec<RedisResult<Value>> =
            commands.query_async(&mut self.inner.clone()).await?;
        let results = results.into_iter();
        Ok(results.map(|result| Ok(result.map(drop)?)).collect())
    }

    /// States which keys this replica uses, of all that it has. Returns the statements of all replicas, one in a
    /// line. If it uses none, it states nothing.
    pub(super) async fn key_statements(
        &self,
        redis: &Redis,
        used: &[String],
        stored: &[String],
    ) -> Result<String, RedisFault> {
        let statements: Vec<u8> = cmd("EVAL")
            .arg(KEYS_SCRIPT)
            .arg(1)
            .arg(redis.key(Replicated::Keys))
            .arg(KEYS_LIFETIME)
            .arg(KEYS_BYTES_MAX)
            .arg(used.len())
            .arg(used)
            .arg(stored)
            .query_async(&mut self.inner.clone())
            .await?;
        Ok(String::from_utf8_lossy(&statements).into_owned())
    }
}
