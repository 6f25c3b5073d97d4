//! The state of one session at the IAM, in Redis and at two replicas, and every action that changes it.

use stateright::{Model, Property};

/// The number of replicas.
const REPLICAS: usize = 2;

/// The age from which cached data is not used, in units of time.
pub(crate) const FRESHNESS: i8 = 2;

/// How far the wall clock of the second replica is ahead, in units of time.
pub(crate) const SKEW: i8 = 2;

/// How far the clock of the Redis server that takes over is behind, in units of time.
pub(crate) const SERVER_LAG: i8 = 1;

/// The time at which the session expires and the checker stops.
const END: i8 = 4;

/// An id below all others.
const BEFORE: i8 = -9;

/// A deliberate mistake in the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// A replica that connects again continues after the last entry that it has read.
    KeepsCursor,
    /// A replica does not add its revocations again that are missing in the stream.
    AddsNothingAgain,
    /// A replica removes entries that have expired by its own clock.
    TrimsByOwnClock,
    /// A replica issues tokens before it has read the stream.
    ServesUnread,
    /// Cached data from Redis counts as new.
    ResetsAge,
    /// The age of cached data from Redis is the difference of two wall clocks, and nothing else.
    TrustsWallClocks,
    /// A response of the IAM is used without looking for a revocation again.
    ForgetsSecondLookUp,
}

/// The protocol, with the faults that it must survive.
#[derive(Debug, Clone)]
pub(crate) struct Protocol {
    /// A deliberate mistake; `None`: the protocol as it is.
    pub(crate) flaw: Option<Flaw>,
    /// The most faults in one history: broken connections, restarts, failovers.
    pub(crate) faults: u8,
    /// Whether Redis returns old cached data as if it had just been stored.
    pub(crate) hostile: bool,
    /// How long after the end of the session at the IAM a token may be issued, in units of time.
    pub(crate) bound: i8,
}

/// Everything that exists.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct State {
    now: i8,
    /// When the session ended at the IAM.
    ended_at: Option<i8>,
    has_logged_out: bool,
    redis: Redis,
    replicas: [Replica; REPLICAS],
    issued: Issued,
    faults_left: u8,
}

/// The primary server and what its replica server has of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Redis {
    /// The ids of the entries. All of them are the revocation of the session.
    stream: Vec<i8>,
    /// The greatest id that the server has used, also for entries of other sessions.
    last_id: i8,
    /// How many of them the replica server has.
    replicated: usize,
    /// How far the clock of the server is behind.
    clock_behind: i8,
    cached: Option<SharedData>,
}

/// Cached data of the session in Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct SharedData {
    /// The time of the request to the IAM by the wall clock of the replica that made it.
    requested_at: i8,
    /// When Redis removes it, by its own clock.
    expires_at: i8,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the facts are independent, and the checker visits their combinations"
)]
struct Replica {
    is_connected: bool,
    /// The id of the last entry that it has read.
    cursor: i8,
    /// Whether it has read to the end of the stream over this connection.
    has_read: bool,
    /// Whether the stream that it has read contained the revocation.
    found: bool,
    /// Whether it issues tokens.
    serves: bool,
    /// Whether it knows the revocation.
    is_revoked: bool,
    /// Whether Redis has not acknowledged the revocation yet.
    is_pending: bool,
    /// Whether it repeats the logout at the IAM.
    repeats_logout: bool,
    /// The time of the request to the IAM on which its cached data is based.
    cached: Option<i8>,
    /// The time of a request to the IAM without a response yet, and whether the session was active.
    in_flight: Option<(i8, bool)>,
    /// Whether the stream had the revocation when this replica started, and has not lost it since.
    started_after_revocation: bool,
}

/// What the properties have to know of the access tokens that were issued.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Issued {
    /// The longest time from the end of the session at the IAM to a later token.
    latest: Option<i8>,
    /// Whether a replica issued one that knew the revocation.
    after_revocation: bool,
    /// Whether a replica issued one that had started after the revocation was in the stream.
    after_start: bool,
    /// Whether one was issued after a fault.
    after_fault: bool,
}

/// A step. The number is that of a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    /// A unit of time passes.
    Tick,
    /// A client logs out, and the IAM ends the session.
    LogOut(usize),
    /// A client logs out, and the call to the IAM fails.
    LogOutFails(usize),
    /// The replica repeats the failed logout, and the IAM ends the session.
    RepeatLogOut(usize),
    /// Redis stores the pending revocation and acknowledges it.
    Add(usize),
    /// The replica reads the stream from its cursor to the end.
    Read(usize),
    /// The replica has read a stream without a revocation that it knows, and queues it.
    AddAgain(usize),
    /// The replica removes expired entries from the stream.
    Trim(usize),
    /// The replica server receives what the primary server has.
    Replicate,
    /// The replica server takes over. Its clock is behind, and it may lack entries.
    FailOver,
    /// The connection to Redis breaks.
    Disconnect(usize),
    /// The replica connects to Redis.
    Connect(usize),
    /// The replica restarts: it loses everything that it has in memory.
    Restart(usize),
    /// The replica sends an introspection request to the IAM.
    Introspect(usize),
    /// The replica receives the response and stores it in its cache and in Redis.
    Receive(usize),
    /// The replica takes the cached data in Redis into its own cache.
    Fetch(usize),
    /// The replica issues an access token.
    Issue(usize),
    /// Redis offers the cached data again as if it had just been stored.
    Replay,
}

impl Protocol {
    /// A protocol without a fault in it, which must survive `faults` faults.
    pub(crate) fn with_faults(faults: u8) -> Self {
        Self {
            flaw: None,
            faults,
            hostile: false,
            bound: FRESHNESS,
        }
    }

    /// The same protocol with a deliberate mistake.
    pub(crate) fn with(self, flaw: Flaw) -> Self {
        Self {
            flaw: Some(flaw),
            ..self
        }
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }
}

/// How far the wall clock of a replica is ahead.
const fn skew(replica: usize) -> i8 {
    if replica == 0 { 0 } else { SKEW }
}

impl Replica {
    /// A replica that has just started. It reads the stream before it serves.
    fn started(protocol: &Protocol) -> Self {
        Self {
            serves: protocol.has(Flaw::ServesUnread),
            cursor: BEFORE,
            ..Self::default()
        }
    }

    fn disconnect(&mut self) {
        self.is_connected = false;
        self.has_read = false;
        self.found = false;
    }

    /// Whether its own cached data is fresh.
    fn is_fresh(&self, now: i8) -> bool {
        self.cached
            .is_some_and(|requested_at| now - requested_at < FRESHNESS)
    }

    /// Whether it knows a revocation that the stream does not contain.
    fn misses_revocation(&self) -> bool {
        self.has_read && self.is_revoked && !self.found
    }

    /// Whether nothing is left to do for it.
    fn is_settled(&self, stream: &[i8], protocol: &Protocol) -> bool {
        let adds_again = self.misses_revocation() && !protocol.has(Flaw::AddsNothingAgain);
        let is_synchronized = self.is_connected && self.has_read && !self.has_unread(stream);
        is_synchronized && !self.is_pending && !adds_again
    }

    fn has_unread(&self, stream: &[i8]) -> bool {
        stream.iter().any(|id| *id > self.cursor)
    }
}

impl Redis {
    fn now(&self, now: i8) -> i8 {
        now - self.clock_behind
    }

    /// Ids only grow, whatever the clock of the server is (`XADD` with `*`).
    fn add(&mut self, now: i8) {
        self.last_id = self.now(now).max(self.last_id + 1);
        self.stream.push(self.last_id);
    }

    fn store(&mut self, requested_at: i8, wall_clock: i8, now: i8) {
        let age = now - requested_at;
        self.cached = Some(SharedData {
            requested_at: requested_at + wall_clock,
            expires_at: self.now(now) + FRESHNESS - age,
        });
    }
}

impl State {
    fn fail(&mut self) {
        self.faults_left -= 1;
    }

    fn issue(&mut self, number: usize, faults: u8) -> Option<()> {
        let replica = self.replicas.get(number)?;
        let issued = &mut self.issued;
        issued.latest = issued
            .latest
            .max(self.ended_at.map(|ended_at| self.now - ended_at));
        issued.after_revocation |= replica.is_revoked;
        issued.after_start |= replica.started_after_revocation;
        issued.after_fault |= self.faults_left < faults;
        Some(())
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    /// A client has just logged in at the first replica. Both replicas have read the stream, whose
    /// last entry, of another session, the replica server of Redis does not have yet.
    fn init_states(&self) -> Vec<State> {
        let ready = Replica {
            is_connected: true,
            has_read: true,
            serves: true,
            cursor: 0,
            ..Replica::default()
        };
        let mut redis = Redis {
            stream: Vec::new(),
            last_id: 0,
            replicated: 0,
            clock_behind: 0,
            cached: None,
        };
        redis.store(0, skew(0), 0);
        let first = Replica {
            cached: Some(0),
            ..ready.clone()
        };
        vec![State {
            now: 0,
            ended_at: None,
            has_logged_out: false,
            redis,
            replicas: [first, ready],
            issued: Issued::default(),
            faults_left: self.faults,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.now < END {
            actions.push(Action::Tick);
        }
        let can_fail = state.faults_left > 0;
        if state.redis.replicated < state.redis.stream.len() {
            actions.push(Action::Replicate);
        }
        if can_fail {
            actions.push(Action::FailOver);
        }
        if self.hostile && state.redis.cached.is_some() {
            actions.push(Action::Replay);
        }
        for (number, replica) in state.replicas.iter().enumerate() {
            let mut add = |possible: bool, action: fn(usize) -> Action| {
                if possible {
                    actions.push(action(number));
                }
            };
            let is_connected = replica.is_connected;
            add(!state.has_logged_out, Action::LogOut);
            add(!state.has_logged_out, Action::LogOutFails);
            add(replica.repeats_logout, Action::RepeatLogOut);
            add(is_connected && replica.is_pending, Action::Add);
            let reads = !replica.has_read || replica.has_unread(&state.redis.stream);
            add(is_connected && reads, Action::Read);
            let adds_again = replica.misses_revocation()
                && !replica.is_pending
                && !self.has(Flaw::AddsNothingAgain);
            add(is_connected && adds_again, Action::AddAgain);
            let clock = if self.has(Flaw::TrimsByOwnClock) {
                state.now + skew(number)
            } else {
                state.redis.now(state.now)
            };
            let can_trim = clock >= END && !state.redis.stream.is_empty();
            add(is_connected && can_trim, Action::Trim);
            add(is_connected && can_fail, Action::Disconnect);
            add(!is_connected, Action::Connect);
            add(can_fail, Action::Restart);
            let serves = replica.serves && !replica.is_revoked && state.now < END;
            let is_fresh = replica.is_fresh(state.now);
            let is_idle = replica.in_flight.is_none();
            add(serves && !is_fresh && is_idle, Action::Introspect);
            add(!is_idle, Action::Receive);
            let shared = state.redis.cached.is_some();
            add(serves && !is_fresh && is_connected && shared, Action::Fetch);
            add(serves && is_fresh, Action::Issue);
        }
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each action")]
    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        let now = state.now;
        match action {
            Action::Tick => {
                state.now += 1;
                let redis_now = state.redis.now(state.now);
                state.redis.cached = state
                    .redis
                    .cached
                    .filter(|data| data.expires_at > redis_now);
                for replica in &mut state.replicas {
                    replica.cached = replica.cached.filter(|at| state.now - at < FRESHNESS);
                }
            }
            Action::LogOut(number) | Action::LogOutFails(number) => {
                state.has_logged_out = true;
                let replica = state.replicas.get_mut(number)?;
                replica.is_revoked = true;
                replica.is_pending = true;
                if action == Action::LogOut(number) {
                    state.ended_at = Some(now);
                } else {
                    replica.repeats_logout = true;
                }
            }
            Action::RepeatLogOut(number) => {
                state.replicas.get_mut(number)?.repeats_logout = false;
                state.ended_at = Some(now);
            }
            Action::Add(number) => {
                state.redis.add(now);
                let replica = state.replicas.get_mut(number)?;
                replica.is_pending = false;
                replica.found = true;
            }
            Action::Read(number) => {
                let stream = &state.redis.stream;
                let replica = state.replicas.get_mut(number)?;
                let found = replica.has_unread(stream);
                replica.found |= found;
                replica.is_revoked |= found;
                replica.cursor = stream
                    .last()
                    .copied()
                    .unwrap_or(replica.cursor)
                    .max(replica.cursor);
                replica.has_read = true;
                replica.serves = true;
            }
            Action::AddAgain(number) => state.replicas.get_mut(number)?.is_pending = true,
            Action::Trim(_) => {
                state.redis.stream.clear();
                state.redis.replicated = 0;
            }
            Action::Replicate => state.redis.replicated = state.redis.stream.len(),
            Action::FailOver => {
                state.fail();
                state.redis.stream.truncate(state.redis.replicated);
                state.redis.last_id = state.redis.stream.last().copied().unwrap_or(BEFORE);
                state.redis.clock_behind = SERVER_LAG;
                let is_lost = state.redis.stream.is_empty();
                for replica in &mut state.replicas {
                    replica.disconnect();
                    replica.started_after_revocation &= !is_lost;
                }
            }
            Action::Disconnect(number) => {
                state.fail();
                state.replicas.get_mut(number)?.disconnect();
            }
            Action::Connect(number) => {
                let replica = state.replicas.get_mut(number)?;
                replica.is_connected = true;
                if !self.has(Flaw::KeepsCursor) {
                    replica.cursor = BEFORE;
                }
            }
            Action::Restart(number) => {
                state.fail();
                let has_entry = !state.redis.stream.is_empty();
                let replica = state.replicas.get_mut(number)?;
                *replica = Replica::started(self);
                replica.started_after_revocation = has_entry;
            }
            Action::Introspect(number) => {
                let is_active = state.ended_at.is_none();
                state.replicas.get_mut(number)?.in_flight = Some((now, is_active));
            }
            Action::Receive(number) => {
                let replica = state.replicas.get_mut(number)?;
                let (requested_at, is_active) = replica.in_flight.take()?;
                if is_active {
                    replica.cached = Some(requested_at);
                    if replica.is_connected && now - requested_at < FRESHNESS {
                        state.redis.store(requested_at, skew(number), now);
                    }
                    if self.has(Flaw::ForgetsSecondLookUp) {
                        state.issue(number, self.faults)?;
                    }
                } else {
                    replica.is_revoked = true;
                }
            }
            Action::Fetch(number) => {
                let data = state.redis.cached?;
                let replica = state.replicas.get_mut(number)?;
                let by_wall_clock = now + skew(number) - data.requested_at;
                let by_redis = FRESHNESS - (data.expires_at - state.redis.now(now));
                // Data from the future is ignored, unless only the clocks of the replicas differ.
                let age = if self.has(Flaw::ResetsAge) {
                    0
                } else if self.has(Flaw::TrustsWallClocks) {
                    by_wall_clock
                } else {
                    by_wall_clock.max(by_redis)
                };
                replica.cached = Some(now - age.max(0));
            }
            Action::Issue(number) => state.issue(number, self.faults)?,
            Action::Replay => {
                let redis_now = state.redis.now(now);
                let data = state.redis.cached.as_mut()?;
                data.expires_at = redis_now + FRESHNESS;
            }
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(BOUND, |protocol: &Self, state: &State| {
                state
                    .issued
                    .latest
                    .is_none_or(|latest| latest < protocol.bound)
            }),
            Property::always(REVOKED, |_, state: &State| !state.issued.after_revocation),
            Property::always(STARTED, |_, state: &State| !state.issued.after_start),
            Property::always(AGREED, |protocol: &Self, state: &State| {
                let is_settled =
                    |replica: &Replica| replica.is_settled(&state.redis.stream, protocol);
                let is_settled = state.replicas.iter().all(is_settled);
                let is_revoked = |replica: &Replica| replica.is_revoked;
                let has_expired = state.now >= END;
                // If every replica has lost it, the IAM knows whether the session has ended.
                has_expired
                    || !is_settled
                    || state.replicas.iter().all(is_revoked)
                    || !state.replicas.iter().any(is_revoked) && state.redis.stream.is_empty()
            }),
            Property::sometimes(SERVED, |protocol: &Self, state: &State| {
                state.issued.after_fault || protocol.faults == 0
            }),
        ]
    }
}

/// A token is issued at most [`Protocol::bound`] after the IAM has ended the session.
pub(crate) const BOUND: &str = "no token later than the bound after the end at the IAM";
/// A replica that knows a revocation issues no token, whatever Redis or the IAM respond.
pub(crate) const REVOKED: &str = "no token from a replica that knows the revocation";
/// Cached data of a login is not used by a replica that starts after the revocation was stored.
pub(crate) const STARTED: &str =
    "no token from a replica that started after the revocation was stored";
/// Replicas with nothing left to do agree, also after Redis has lost acknowledged entries.
pub(crate) const AGREED: &str = "replicas with nothing left to do agree on the revocation";
/// The faults do not keep the replicas from issuing tokens.
pub(crate) const SERVED: &str = "a token is issued after a fault";
