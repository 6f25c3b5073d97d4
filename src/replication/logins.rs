//! Exchanges login events with the other replicas, through two streams: one of known networks, and one
//! of everything else.
//!
//! Each event has the id of its replica, which is random at each start, and a number. An event that
//! does not have a higher number than those before it is ignored. So a stream can be read again, a
//! batch can be sent again, and a replay has no effect; what this replica sent is counted already.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::login_entry::{self, ENTRY_LEN, NumberedEvent};
use super::redis::{Connection, Page, Primary, Redis, Stream};
use super::{BATCH_MAX, Never, PAUSE_MAX, PAUSE_MIN, READING_INTERVAL, RedisFault, STABLE};
use crate::gateway::entry_key::KEY_ID_LEN;
use crate::gateway::login_limiter::{LoginChange, LoginEvent, LoginKey, LoginReplicas};
use crate::gateway::{Gateway, Random};
use crate::telemetry::metrics::{LoginEventOutcome, ReplicaMetrics};

/// How many events wait for Redis at most, about 1 MB. The oldest are dropped.
const QUEUE_MAX: usize = 10_000;

/// The time between two comparisons of the key with the one in Redis: another sealing key may be in
/// use, or Redis may have lost it.
const KEY_INTERVAL: Duration = Duration::from_secs(60);

/// The pause between two reads of new events.
const READ_PAUSE: Duration = Duration::from_millis(100);

/// The highest number of each replica. A start of a replica adds one, and no attacker can.
type Numbers = Mutex<HashMap<u64, u64>>;

/// The last reading of a whole stream.
struct Reading {
    /// The id of the key.
    key: [u8; KEY_ID_LEN],
    at: Instant,
    /// The id of the last entry that was received, also after it.
    last: String,
}

/// Sends and receives login events.
#[derive(Debug)]
pub(super) struct LoginExchange {
    redis: Redis,
    gateway: Arc<Gateway>,
    random: Arc<dyn Random>,
    metrics: ReplicaMetrics,
    queue: Arc<Queue>,
    login_numbers: Numbers,
    network_numbers: Numbers,
    last_fault: Mutex<Option<RedisFault>>,
}

impl LoginExchange {
    pub(super) fn new(
        redis: Redis,
        gateway: Arc<Gateway>,
        random: Arc<dyn Random>,
        metrics: ReplicaMetrics,
    ) -> Self {
        let replica = RandomState::new().hash_one(());
        let queue = Arc::new(Queue {
            replica,
            events: Mutex::default(),
            added: Notify::new(),
            metrics: metrics.clone(),
        });
        let limiter = gateway.login_limiter();
        limiter.join(Arc::<Queue>::clone(&queue));
        let numbers = || Mutex::new(HashMap::from([(replica, u64::MAX)]));
        Self {
            redis,
            gateway,
            random,
            metrics,
            queue,
            login_numbers: numbers(),
            network_numbers: numbers(),
            last_fault: Mutex::default(),
        }
    }

    /// Sends and receives until the future is dropped. Revocations do not depend on it.
    pub(super) async fn run(&self, primary: &Primary) -> Never {
        let mut pause = PAUSE_MIN;
        loop {
            let started = Instant::now();
            let Err(fault) = self.run_connections(primary).await;
            self.disconnected(&fault);
            if started.elapsed() >= STABLE {
                pause = PAUSE_MIN;
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Reports that this replica counts for itself.
    pub(super) fn disconnected(&self, fault: &RedisFault) {
        self.metrics.login_limits_synchronized(false);
        let mut last = lock(&self.last_fault);
        if last.as_ref() != Some(fault) {
            tracing::warn!(error = %fault, "login limits are not shared with the other replicas");
            *last = Some(fault.clone());
        }
    }

    async fn run_connections(&self, primary: &Primary) -> Result<Never, RedisFault> {
        let login_reader = self.redis.connect(primary).await?;
        let network_reader = self.redis.connect(primary).await?;
        let writer = self.redis.connect(primary).await?;
        self.agree(&writer).await?;
        let (logins, networks) = (self.redis.logins(), self.redis.known_networks());
        let login_reading = self
            .read_all(&login_reader, &logins, &self.login_numbers)
            .await?;
        let network_reading = self
            .read_all(&network_reader, &networks, &self.network_numbers)
            .await?;
        self.metrics.login_limits_synchronized(true);
        if lock(&self.last_fault).take().is_some() {
            tracing::info!("login limits are shared with the other replicas again");
        }
        tokio::select! {
            fault = self.receive(&login_reader, &logins, &self.login_numbers, login_reading) => fault,
            fault = self.receive(&network_reader, &networks, &self.network_numbers, network_reading) => fault,
            fault = self.send(&writer) => fault,
            fault = self.keep_agreeing(&writer) => fault,
        }
    }

    async fn keep_agreeing(&self, connection: &Connection) -> Result<Never, RedisFault> {
        loop {
            sleep(KEY_INTERVAL).await;
            self.agree(connection).await?;
        }
    }

    /// Uses the key that is stored in Redis, or stores the own one there, encrypted with the sealing
    /// key in use.
    async fn agree(&self, connection: &Connection) -> Result<(), RedisFault> {
        let limiter = self.gateway.login_limiter();
        let sealing_keys = self.gateway.keys().sealing.key_set();
        let current = sealing_keys.current(self.gateway.now()).logins();
        let wrap = |key: &LoginKey| {
            let wrapped = current.wrap(key, &*self.random);
            wrapped.map_err(|_| RedisFault::Unreachable("no random numbers".to_owned()))
        };
        let name = self.redis.login_key();
        connection
            .store_first(&name, &wrap(&limiter.key())?)
            .await?;
        let stored = connection.stored(&name).await?;
        let mut keys = sealing_keys.iter();
        let opened = keys.find_map(|key| key.logins().unwrap(&stored));
        let stored_id = opened.as_ref().map(|key| key.entries().id());
        let is_current = current.unwrap(&stored).is_some();
        let agreed = limiter.agree(opened);
        if !is_current || stored_id != Some(agreed.entries().id()) {
            connection.store(&name, &wrap(&agreed)?).await?;
        }
        Ok(())
    }

    /// Reads a whole stream.
    async fn read_all(
        &self,
        connection: &Connection,
        stream: &Stream<ENTRY_LEN>,
        numbers: &Numbers,
    ) -> Result<Reading, RedisFault> {
        let key = self.gateway.login_limiter().key().entries().id();
        let at = Instant::now();
        let learn = |page: &Page<ENTRY_LEN>| self.learn(page, numbers);
        let last = connection.read_all(stream, learn).await?;
        Ok(Reading { key, at, last })
    }

    /// Receives new entries. Reads the stream again from time to time, which removes expired entries,
    /// and with another key: entries of a key that was unknown were ignored.
    async fn receive(
        &self,
        connection: &Connection,
        stream: &Stream<ENTRY_LEN>,
        numbers: &Numbers,
        mut reading: Reading,
    ) -> Result<Never, RedisFault> {
        loop {
            let key = self.gateway.login_limiter().key().entries().id();
            if reading.key != key || reading.at.elapsed() >= READING_INTERVAL {
                reading = self.read_all(connection, stream, numbers).await?;
            }
            sleep(READ_PAUSE).await;
            let Some(page) = connection.read_new(stream, &reading.last).await? else {
                reading = self.read_all(connection, stream, numbers).await?;
                continue;
            };
            self.learn(&page, numbers);
            reading.last = page.last.unwrap_or(reading.last);
        }
    }

    fn learn(&self, page: &Page<ENTRY_LEN>, numbers: &Numbers) {
        let limiter = self.gateway.login_limiter();
        let key = limiter.key();
        let mut ignored = page.invalid;
        for entry in &page.entries {
            let Ok(numbered) = login_entry::read(entry, key.entries()) else {
                ignored += 1;
                continue;
            };
            let mut numbers = lock(numbers);
            let highest = numbers.entry(numbered.replica).or_default();
            if numbered.number <= *highest {
                continue;
            }
            *highest = numbered.number;
            drop(numbers);
            if limiter.learn(&numbered.event) {
                self.metrics.login_events(LoginEventOutcome::Received, 1);
            } else {
                ignored += 1;
            }
        }
        self.metrics
            .login_events(LoginEventOutcome::Ignored, ignored);
    }

    /// Sends the events of this replica. What Redis refuses is sent again on another connection.
    async fn send(&self, connection: &Connection) -> Result<Never, RedisFault> {
        let (logins, networks) = (self.redis.logins(), self.redis.known_networks());
        loop {
            let batch = self.queue.first(BATCH_MAX);
            let Some(last) = batch.last() else {
                self.queue.added.notified().await;
                continue;
            };
            let key = self.gateway.login_limiter().key();
            for (stream, of_networks) in [(&logins, false), (&networks, true)] {
                let of_stream = |numbered: &&NumberedEvent| {
                    matches!(numbered.event.change, LoginChange::Known { .. }) == of_networks
                };
                let entries = batch.iter().filter(of_stream);
                let entries = entries.map(|numbered| login_entry::write(numbered, key.entries()));
                let entries: Vec<_> = entries.collect();
                if !entries.is_empty() {
                    let results = connection.append(stream, entries.into_iter()).await?;
                    results.into_iter().collect::<Result<(), _>>()?;
                }
            }
            self.queue.remove_up_to(last.number);
            self.metrics
                .login_events(LoginEventOutcome::Sent, batch.len());
        }
    }
}

/// The events of this replica that are not sent yet.
#[derive(Debug)]
struct Queue {
    replica: u64,
    /// And the number of the last one.
    events: Mutex<(VecDeque<NumberedEvent>, u64)>,
    added: Notify,
    metrics: ReplicaMetrics,
}

impl Queue {
    /// The oldest events. They stay until they are removed.
    fn first(&self, most: usize) -> Vec<NumberedEvent> {
        let events = lock(&self.events);
        events.0.iter().take(most).copied().collect()
    }

    fn remove_up_to(&self, number: u64) {
        let events = &mut lock(&self.events).0;
        while events
            .pop_front_if(|first| first.number <= number)
            .is_some()
        {}
    }
}

impl LoginReplicas for Queue {
    fn send(&self, event: LoginEvent) {
        let mut guard = lock(&self.events);
        let (events, last) = &mut *guard;
        *last += 1;
        if events.len() >= QUEUE_MAX {
            events.pop_front();
            self.metrics.login_events(LoginEventOutcome::Dropped, 1);
        }
        events.push_back(NumberedEvent {
            replica: self.replica,
            number: *last,
            event,
        });
        drop(guard);
        self.added.notify_one();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
