//! The settings and the actions of one history.

use std::time::Duration;

use fastrand::Rng;

/// The number of gateways.
pub(crate) const REPLICAS: usize = 3;

/// The number of users.
pub(crate) const USERS: usize = 3;

/// The time of the actions. Then all faults end.
pub(crate) const HORIZON: Duration = Duration::from_millis(5_500);

/// Clocks that differ by five minutes from the true time, as the documentation permits, in milliseconds.
const FAR_APART: i64 = 600_000;

/// What a seed determines before the history begins.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) setting: Setting,
    /// In their order.
    pub(crate) steps: Vec<Step>,
}

/// The settings of the gateways, and their surroundings.
#[derive(Debug, Clone)]
pub(crate) struct Setting {
    /// `session.freshness`; `permissions.ttl` is twice as long.
    pub(crate) freshness: Duration,
    pub(crate) stale_if_error: Duration,
    /// `redis.share_knowledge`.
    pub(crate) shares: bool,
    pub(crate) catch_up_deadline: Option<Duration>,
    /// Of sessions at the IAM.
    pub(crate) lifetime: Duration,
    /// How far the clocks of replicas differ at most, in milliseconds.
    pub(crate) apart: i64,
    /// How far each wall clock is ahead at the beginning, in milliseconds.
    pub(crate) ahead: [i64; REPLICAS],
    /// How fast each monotonic clock is, in millionths.
    pub(crate) fast: [i32; REPLICAS],
    /// The longest usual delay of a message to or from Redis and the IAM, in milliseconds.
    pub(crate) redis_delay: u64,
    pub(crate) iam_delay: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct Step {
    /// In milliseconds since the beginning.
    pub(crate) at: u64,
    pub(crate) action: Action,
}

/// `at` is a replica. A session counts from the newest.
#[derive(Debug, Clone)]
pub(crate) enum Action {
    LogIn {
        at: usize,
        user: usize,
        is_right: bool,
    },
    Exchange {
        at: usize,
        session: usize,
        patience: Option<u64>,
    },
    LogOut {
        at: usize,
        session: usize,
        patience: Option<u64>,
    },
    /// An operator revokes sessions.
    Revoke {
        at: usize,
        what: Revoked,
    },
    /// The administrator of the IAM ends a session, which the IAM may report to a replica.
    EndAtIam {
        session: usize,
        told: Option<usize>,
    },
    /// The administrator of the IAM disables an account.
    Disable {
        user: usize,
    },
    /// The process is killed, and another one started.
    Restart {
        at: usize,
    },
    DisturbRedis {
        at: usize,
        by: Disturbance,
        millis: u64,
    },
    DisturbIam {
        at: usize,
        by: IamFault,
        millis: u64,
    },
    /// Another server takes over. It lacks the writes of the last time, and its clock differs by some
    /// milliseconds. The connections to the former server last for a while.
    FailOver {
        lost: u64,
        clock_ahead: i64,
        lasting: u64,
    },
    /// The stream of revocations is deleted.
    ForgetStream,
    /// Redis refuses writes: its memory is full.
    RefuseWrites {
        millis: u64,
    },
    SetClock {
        at: usize,
        ahead: i64,
    },
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Revoked {
    Session(usize),
    User(usize),
    All,
}

/// What is wrong between a replica and Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disturbance {
    /// Connections break, and there are no new ones.
    Broken,
    /// Messages arrive only when it is over: a half-open connection.
    Stalled,
    /// Each message takes up to half a second longer.
    Slow,
}

/// What is wrong between a replica and the IAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IamFault {
    Unreachable,
    Failing,
    RequestsLost,
    /// A call takes effect.
    ResponsesLost,
    /// Each message takes up to a second longer.
    Slow,
}

impl Plan {
    /// The plan of a seed.
    pub(crate) fn of(seed: u64) -> Self {
        let rng = &mut Rng::with_seed(seed);
        let setting = Setting::random(rng);
        let mut steps = Vec::new();
        for _ in 0..rng.u64(2..5) {
            add(&mut steps, rng.u64(50..600), log_in(rng));
        }
        for _ in 0..rng.u64(1..3) {
            add(&mut steps, within(rng), log_in(rng));
        }
        for _ in 0..rng.u64(10..20) {
            add(&mut steps, within(rng), exchange(rng));
        }
        let faults = if rng.u8(..6) == 0 { 0 } else { rng.u64(1..4) };
        for _ in 0..faults {
            let (begin, action) = (within(rng), fault(rng, &setting));
            match action {
                Action::DisturbIam { at, millis, .. } => {
                    add(&mut steps, begin + rng.u64(..millis), log_out(rng, at));
                }
                // A rolling upgrade: then no process has what only those before it knew.
                Action::Restart { at } if rng.bool() => {
                    let mut begin = begin;
                    for next in 1..REPLICAS {
                        begin += rng.u64(100..800);
                        let at = (at + next) % REPLICAS;
                        add(&mut steps, begin, Action::Restart { at });
                    }
                }
                _ => {}
            }
            add(&mut steps, begin, action);
        }
        for _ in 0..rng.u64(1..5) {
            let (at, action) = (rng.u64(400..4_500), end(rng));
            probe(rng, &mut steps, at, &setting);
            add(&mut steps, at, action);
        }
        steps.sort_by_key(|step| step.at);
        Self { setting, steps }
    }
}

impl Setting {
    fn random(rng: &mut Rng) -> Self {
        let apart = one_of(rng, &[0, 200, 900, 900, 6_000, FAR_APART]);
        let lifetime = one_of(rng, &[3_600, 3_600, 100, 4]);
        Self {
            freshness: Duration::from_millis(rng.u64(2_000..3_000)),
            stale_if_error: Duration::from_millis(one_of(rng, &[0, 0, 0, 1_500])),
            shares: rng.u8(..4) > 0,
            catch_up_deadline: one_of(rng, &[None, Some(Duration::from_millis(1_500))]),
            // A session that has expired by the clock of one replica and not by that of another.
            lifetime: Duration::from_secs(if apart == FAR_APART { 100 } else { lifetime }),
            apart,
            ahead: [(); REPLICAS].map(|()| clock(rng, apart)),
            fast: [(); REPLICAS].map(|()| rng.i32(-200..=200)),
            redis_delay: one_of(rng, &[0, 1, 3]),
            iam_delay: one_of(rng, &[3, 30, 200]),
        }
    }
}

fn add(steps: &mut Vec<Step>, at: u64, action: Action) {
    steps.push(Step { at, action });
}

fn within(rng: &mut Rng) -> u64 {
    rng.u64(300..u64::try_from(HORIZON.as_millis()).expect("a short time"))
}

fn one_of<T: Copy>(rng: &mut Rng, values: &[T]) -> T {
    values[rng.usize(..values.len())]
}

fn replica(rng: &mut Rng) -> usize {
    rng.usize(..REPLICAS)
}

fn session(rng: &mut Rng) -> usize {
    rng.usize(..4)
}

/// How far a wall clock is ahead.
fn clock(rng: &mut Rng, apart: i64) -> i64 {
    let most = apart / 2;
    one_of(rng, &[-most, 0, most])
}

fn patience(rng: &mut Rng) -> Option<u64> {
    (rng.u8(..10) == 0).then(|| rng.u64(1..300))
}

fn log_in(rng: &mut Rng) -> Action {
    Action::LogIn {
        at: replica(rng),
        user: rng.usize(..USERS),
        is_right: rng.u8(..12) > 0,
    }
}

fn exchange(rng: &mut Rng) -> Action {
    Action::Exchange {
        at: replica(rng),
        session: session(rng),
        patience: patience(rng),
    }
}

fn log_out(rng: &mut Rng, at: usize) -> Action {
    Action::LogOut {
        at,
        session: session(rng),
        patience: patience(rng),
    }
}

/// What ends sessions.
fn end(rng: &mut Rng) -> Action {
    let at = replica(rng);
    match rng.u8(..20) {
        0..=9 => log_out(rng, at),
        10..=12 => Action::Revoke {
            at,
            what: Revoked::Session(session(rng)),
        },
        13 => Action::Revoke {
            at,
            what: Revoked::User(rng.usize(..USERS)),
        },
        14 => Action::Revoke {
            at,
            what: Revoked::All,
        },
        15 => Action::Disable {
            user: rng.usize(..USERS),
        },
        _ => Action::EndAtIam {
            session: session(rng),
            told: rng.bool().then_some(at),
        },
    }
}

/// Exchanges around an end: just before it, right after it, and around the freshness later.
fn probe(rng: &mut Rng, steps: &mut Vec<Step>, end: u64, setting: &Setting) {
    let freshness = u64::try_from(setting.freshness.as_millis()).expect("a short time");
    for _ in 0..rng.u64(2..8) {
        let at = match rng.u8(..4) {
            0 => end.saturating_sub(rng.u64(..250)),
            1 => end + rng.u64(..300),
            2 => end + rng.u64(..freshness),
            _ => end + freshness + rng.u64(..700),
        };
        let session = session(rng);
        for at_replica in 0..REPLICAS {
            if rng.u8(..3) > 0 {
                let action = Action::Exchange {
                    at: at_replica,
                    session,
                    patience: None,
                };
                add(steps, at, action);
            }
        }
    }
}

fn fault(rng: &mut Rng, setting: &Setting) -> Action {
    let at = replica(rng);
    match rng.u8(..20) {
        0..=3 => Action::Restart { at },
        4..=7 => Action::DisturbRedis {
            at,
            by: one_of(
                rng,
                &[Disturbance::Broken, Disturbance::Stalled, Disturbance::Slow],
            ),
            millis: rng.u64(50..2_500),
        },
        8..=11 => Action::FailOver {
            lost: one_of(rng, &[0, 100, 1_000, 5_000]),
            clock_ahead: one_of(rng, &[0, 0, -500, -2_000, -5_000, 1_000]),
            lasting: rng.u64(..500),
        },
        12 | 13 => Action::ForgetStream,
        14 => Action::RefuseWrites {
            millis: rng.u64(50..2_000),
        },
        // A replica whose clock is wrong by minutes and is then corrected is not promised anything.
        15 if setting.apart < FAR_APART => Action::SetClock {
            at,
            ahead: clock(rng, setting.apart),
        },
        _ => Action::DisturbIam {
            at,
            by: one_of(
                rng,
                &[
                    IamFault::Unreachable,
                    IamFault::Failing,
                    IamFault::RequestsLost,
                    IamFault::ResponsesLost,
                    IamFault::Slow,
                ],
            ),
            millis: rng.u64(50..2_500),
        },
    }
}
