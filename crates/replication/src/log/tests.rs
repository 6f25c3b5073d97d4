use std::io;

use aws_lc_rs::rand::SystemRandom;
use iam_adapters::Clock;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, RedisError, RedisResult, Value, parse_redis_value};
use test_support::ManualClock;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

use super::*;
use crate::format::ENTRY_LEN;
use crate::redis::{Address, Sentinels};
use auth_gateway_core::Keys;
use auth_gateway_core::event::{Replicated, Subscriber, Subscribers};
use auth_gateway_core::login_limiter::{Bound, Limits, SlowRate};
use auth_gateway_core::replica_state::Replicas;

/// A replica that is alone.
pub(crate) fn replica() -> Arc<ReplicaState> {
    reporting_replica(Subscribers::new([]))
}

fn reporting_replica(subscribers: Subscribers) -> Arc<ReplicaState> {
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(Duration::from_secs(1_800_000_000)));
    let keys = Arc::new(Keys::ephemeral(clock.now()).unwrap());
    let bound = Bound {
        most: 10,
        window: Duration::from_secs(300),
    };
    let limits = Limits {
        account: bound,
        account_slow: SlowRate {
            after: 50,
            interval: Duration::from_secs(900),
        },
        account_sessions: bound,
        address: bound,
    };
    Arc::new(ReplicaState::new(
        clock,
        Arc::new(SystemRandom::new()),
        keys,
        subscribers,
        limits,
        Replicas::default(),
    ))
}

#[derive(Debug, Default)]
struct AppliedNumbers {
    /// The numbers of the entries, in the order in which they were applied.
    numbers: Mutex<Vec<u64>>,
    /// Whether no item need be sent any more.
    has_expired: Arc<AtomicBool>,
}

impl Codec<ENTRY_LEN> for AppliedNumbers {
    type Item = u64;
    type Content = ();

    // There are two of them between two readings of the whole stream.
    const READ_PAUSE: Duration = Duration::from_secs(400);

    fn key_ids(&self) -> Vec<[u8; KEY_ID_LEN]> {
        Vec::new()
    }

    fn load(&self, _: &u64) -> Option<()> {
        (!self.has_expired.load(Ordering::Relaxed)).then_some(())
    }

    fn encode(&self, batch: &[(u64, ())]) -> Vec<[u8; ENTRY_LEN]> {
        batch.iter().map(|(number, ())| entry(*number)).collect()
    }

    fn apply(&self, entry: &[u8; ENTRY_LEN], outbox: &Outbox<u64>) -> Option<EntryOutcome> {
        let number = u64::from_be_bytes(*entry.first_chunk().unwrap());
        outbox.found(&number, || true);
        self.numbers.lock().push(number);
        None
    }
}

fn entry(number: u64) -> [u8; ENTRY_LEN] {
    let mut entry = [0; ENTRY_LEN];
    entry[..8].copy_from_slice(&number.to_be_bytes());
    entry
}

/// The address of a server without TLS and password.
pub(crate) fn address(host: &str, prefix: &str) -> Address {
    Address {
        host: host.to_owned(),
        port: 6379,
        tls: false,
        database: 0,
        username: None,
        password: None,
        authorities: None,
        sentinels: None,
        prefix: prefix.to_owned(),
    }
}

/// A Redis that stores nothing, and whose stream has the numbers from 1 on. Before each page `newest` gets the number after
/// which it begins and whether it is one of new entries, and returns the last number of the stream; `None` ends the
/// connection.
fn redis(newest: impl FnMut(u64, bool) -> Option<u64> + Clone + Send + Sync + 'static) -> Redis {
    let redis = Redis::over(address("redis.test", "test"), move |client, config| {
        Box::pin(open(client, config, newest.clone()))
    });
    redis.unwrap()
}

/// Receives from this Redis.
async fn receive(
    newest: impl FnMut(u64, bool) -> Option<u64> + Clone + Send + Sync + 'static,
) -> Vec<u64> {
    let redis = redis(newest);
    let log = Log::new(
        redis.stream::<ENTRY_LEN>(Replicated::Revocations),
        AppliedNumbers::default(),
        Outbox::new(usize::MAX),
        &replica(),
    );
    let primary = redis.primary().await.unwrap();
    let connection = redis.connect(&primary).await.unwrap();
    let Err(_) = log.receive(&connection).await;
    log.codec.numbers.into_inner()
}

async fn open(
    client: Client,
    config: AsyncConnectionConfig,
    newest: impl FnMut(u64, bool) -> Option<u64> + Send + 'static,
) -> RedisResult<MultiplexedConnection> {
    let (near, far) = duplex(1 << 20);
    tokio::spawn(serve(far, newest));
    let user = client.get_connection_info().redis_settings();
    let (connection, driver) = MultiplexedConnection::new_with_config(user, near, config).await?;
    tokio::spawn(driver);
    Ok(connection)
}

async fn serve(mut connection: DuplexStream, mut newest: impl FnMut(u64, bool) -> Option<u64>) {
    let mut bytes = Vec::new();
    while let Ok(1..) = connection.read_buf(&mut bytes).await {
        // The log waits for the response to each command.
        let Ok(Value::Array(command)) = parse_redis_value(&bytes) else {
            continue;
        };
        bytes.clear();
        let reply = match &command[..] {
            [Value::BulkString(hello), ..] if hello == b"HELLO" => {
                b"%1\r\n+proto\r\n:3\r\n".to_vec()
            }
            [Value::BulkString(sentinel), ..] if sentinel == b"SENTINEL" => b"_\r\n".to_vec(),
            [Value::BulkString(add), ..] if add == b"XADD" => {
                b"-NOREPLICAS Not enough good replicas to write.\r\n".to_vec()
            }
            [
                ..,
                Value::BulkString(after),
                _,
                _,
                _,
                _,
                Value::BulkString(reads_new),
            ] => {
                let after = std::str::from_utf8(after).unwrap();
                let (after, _) = after.split_once('-').unwrap();
                let after: u64 = after.parse().unwrap();
                let Some(newest) = newest(after, reads_new == b"1") else {
                    return;
                };
                page(after, newest)
            }
            other => panic!("{other:?}"),
        };
        connection.write_all(&reply).await.unwrap();
    }
}

/// The response of the script: at most 1,000 numbers.
fn page(after: u64, newest: u64) -> Vec<u8> {
    let last = newest.min(after + 1_000);
    let count = last - after;
    let entries: Vec<u8> = (after + 1..=last).flat_map(entry).collect();
    let id = format!("{last}-0");
    let head = format!(
        "*4\r\n${}\r\n{id}\r\n:{count}\r\n:0\r\n${}\r\n",
        id.len(),
        entries.len()
    );
    [head.as_bytes(), &entries, b"\r\n"].concat()
}

#[tokio::test(start_paused = true)]
async fn full_page_of_new_entries_is_followed_by_the_next_one_without_a_pause() {
    let reads = Arc::<Mutex<Vec<(u64, Instant)>>>::default();
    let applied = {
        let reads = Arc::clone(&reads);
        receive(move |after, reads_new| {
            let mut reads = reads.lock();
            if !reads_new {
                return Some(0);
            }
            reads.push((after, Instant::now()));
            (reads.len() < 4).then_some(2_500)
        })
        .await
    };
    assert_eq!(applied, (1..=2_500).collect::<Vec<_>>());
    let reads = reads.lock();
    let [first, second, third, last] = reads[..] else {
        panic!("{reads:?}");
    };
    let at = first.1;
    assert_eq!([first, second, third], [(0, at), (1_000, at), (2_000, at)]);
    assert_eq!(last.0, 2_500);
    assert!(last.1 > at);
}

#[tokio::test(start_paused = true)]
async fn new_entry_is_received_before_the_stream_has_been_read_again() {
    let mut readings = 0;
    let applied = receive(move |after, reads_new| {
        if !reads_new && after == 0 {
            readings += 1;
        }
        // The entry 1,501 is added when the second reading has begun.
        match (readings, after, reads_new) {
            (3, ..) => None,
            (1, ..) | (2, 0, false) => Some(1_500),
            _ => Some(1_501),
        }
    })
    .await;
    let expected = (1..=1_500).chain([1_501]).chain(1..=1_501);
    assert_eq!(applied, expected.collect::<Vec<_>>());
}

#[tokio::test]
async fn fault_of_a_sentinel_names_it_and_none_of_its_credentials() {
    let text = "has no known primary: the Sentinel down.test:26379 cannot be reached";
    let expected = format!("{text}: {}", refused());
    assert_eq!(fault_of_sentinels(&["down.test"]).await, expected);
}

#[tokio::test]
async fn name_that_a_sentinel_does_not_know_is_the_fault_also_if_another_one_is_down() {
    let expected = "has no primary: no Sentinel that responds knows one of this name";
    for names in [["up.test", "down.test"], ["down.test", "up.test"]] {
        assert_eq!(fault_of_sentinels(&names).await, expected, "{names:?}");
    }
}

fn refused() -> io::Error {
    io::ErrorKind::ConnectionRefused.into()
}

/// The fault of a Redis with these Sentinels: `up.test` knows no primary, and others refuse connections.
async fn fault_of_sentinels(names: &[&str]) -> String {
    let addresses = names.iter().map(|&name| (name.to_owned(), 26_379));
    let sentinels = Sentinels {
        addresses: addresses.collect(),
        master: "primary".to_owned(),
        username: Some("canary".to_owned()),
        password: Some("canary".into()),
    };
    let address = Address {
        sentinels: Some(sentinels),
        ..address("redis.test", "test")
    };
    let redis = Redis::over(address, move |client, config| {
        Box::pin(async move {
            if client.get_connection_info().addr().to_string() != "up.test:26379" {
                return Err(RedisError::from(refused()));
            }
            open(client, config, |_, _| None).await
        })
    });
    redis.unwrap().primary().await.unwrap_err().to_string()
}

/// Why Redis does not store entries, each time it was reported; `None`: it does.
#[derive(Debug, Default)]
struct ReportedRefusals(Mutex<Vec<Option<String>>>);

impl Subscriber for ReportedRefusals {
    fn on_event(&self, event: &Event<'_>) {
        if let Event::Replication { stored, .. } = event {
            self.0.lock().push(stored.err().map(str::to_owned));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn refusal_is_over_when_another_replica_has_added_the_entry_or_it_has_expired() {
    for is_added in [true, false] {
        let reported = Arc::<ReportedRefusals>::default();
        let subscribers: [Arc<dyn Subscriber>; 1] = [reported.clone()];
        let (codec, outbox) = (AppliedNumbers::default(), Outbox::new(usize::MAX));
        let (has_expired, mut reads) = (Arc::clone(&codec.has_expired), 0);
        // The entry has been refused for 400 s before the second read.
        let redis = redis(move |_, _| {
            reads += 1;
            has_expired.store(!is_added && reads > 1, Ordering::Relaxed);
            match reads {
                1 => Some(0),
                2 => Some(u64::from(is_added)),
                _ => None,
            }
        });
        let replica = reporting_replica(Subscribers::new(subscribers));
        let stream = redis.stream::<ENTRY_LEN>(Replicated::Revocations);
        let log = Log::new(stream, codec, outbox.clone(), &replica);
        outbox.push(1);
        let primary = redis.primary().await.unwrap();
        // Of each connection, the server reads one command at a time.
        let receiving = redis.connect(&primary).await.unwrap();
        let sending = redis.connect(&primary).await.unwrap();
        let Err(_) = tokio::select! {
            fault = log.receive(&receiving) => fault,
            fault = log.send(&sending) => fault,
        };
        let mut reported = reported.0.lock().clone();
        reported.dedup();
        let refusal = RedisFault::Refused("NOREPLICAS, too few of its replicas are connected");
        assert_eq!(reported, [None, Some(refusal.to_string()), None]);
    }
}
