//! Exchanges login events with the other replicas, through two streams: one of known networks, and one
//! of everything else.
//!
//! Each event has the id of its replica, which is random at each start, and a number. An event that
//! does not have a higher number than those before it is ignored. So a stream can be read again, a
//! batch can be sent again, and a replay has no effect; what this replica sent is counted already.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::login_entry::{self, ENTRY_LEN, NumberedEvent};
use super::redis::{Connection, Page, Primary, Redis, Stream};
use super::{BATCH_MAX, Never, PAUSE_MAX, PAUSE_MIN, READING_INTERVAL, RedisFault, STABLE};
use crate::gateway::login_limiter::{LoginChange, LoginEvent, LoginReplicas};
use crate::gateway::{Gateway, Random};
use crate::telemetry::metrics::{LoginEventOutcome, ReplicaMetrics};

/// How many events wait for Redis at most, about 1 MB. The oldest are dropped.
const QUEUE_MAX: usize = 10_000;

/// The pause between two reads of new events.
const READ_PAUSE: Duration = Duration::from_millis(100);

/// The highest number of each replica. A start of a replica adds one, and no attacker can.
type Numbers = Mutex<HashMap<u64, u64>>;

/// The last reading of a whole stream.
struct Reading {
    at: Instant,
    /// The id of the last entry that was received, also after it.
    last: String,
}

/// Sends and receives login events.
#[derive(Debug)]
pub(super) struct LoginExchange {
    redis: Redis,
    gateway: Arc<Gateway>,
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
        random: &dyn Random,
        metrics: ReplicaMetrics,
    ) -> Self {
        let mut replica = [0; 8];
        // Without random numbers no login succeeds.
        let _ = random.fill(&mut replica);
        let replica = u64::from_be_bytes(replica);
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
        }
    }

    /// Reads a whole stream.
    async fn read_all(
        &self,
        connection: &Connection,
        stream: &Stream<ENTRY_LEN>,
        numbers: &Numbers,
    ) -> Result<Reading, RedisFault> {
        let at = Instant::now();
        let learn = |page: &Page<ENTRY_LEN>| self.learn(page, numbers);
        let last = connection.read_all(stream, learn).await?;
        Ok(Reading { at, last })
    }

    /// Receives new entries. Reads the stream again from time to time, which removes expired entries.
    async fn receive(
        &self,
        connection: &Connection,
        stream: &Stream<ENTRY_LEN>,
        numbers: &Numbers,
        mut reading: Reading,
    ) -> Result<Never, RedisFault> {
        loop {
            if reading.at.elapsed() >= READING_INTERVAL {
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
        let mut ignored = page.invalid;
        for entry in &page.entries {
            let Ok(numbered) = login_entry::read(entry, limiter.entry_key()) else {
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
            let key = self.gateway.login_limiter().entry_key();
            for (stream, of_networks) in [(&logins, false), (&networks, true)] {
                let of_stream = |numbered: &&NumberedEvent| {
                    matches!(numbered.event.change, LoginChange::Known { .. }) == of_networks
                };
                let entries = batch.iter().filter(of_stream);
                let entries = entries.map(|numbered| login_entry::write(numbered, key));
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
