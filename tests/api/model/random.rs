//! Random scenarios and the probability of each step.

use test_support::rng::Rng;

use super::recording_iam::Outage;
use super::scenario::{Boundary, Clocks, Delayed, ModelScenario, Password, Setting, Step};

impl Setting {
    fn random(rng: &mut Rng, cached_at_least: u64) -> Self {
        Self {
            // Never shorter than the deadline of an introspection, which is 2 s.
            freshness: cached_at_least.max(*rng.one_of(&[2, 5, 30, 30, 120])),
            permissions_ttl: cached_at_least.max(*rng.one_of(&[2, 10, 60, 60, 300])),
            stale_if_error: *rng.one_of(&[0, 0, 20, 300, 900]),
            session_lifetime: *rng.one_of(&[100, 3600, 28_800]),
            max_lifetime: *rng.one_of(&[60, 86_400]),
            clocks: *rng.one_of(&[Clocks::Synchronous, Clocks::Suspended, Clocks::Adjusted]),
            replication: rng.one_in(2),
        }
    }
}

impl ModelScenario {
    /// The scenario of this seed, in which gateways cache for at least this number of seconds.
    pub(super) fn random(seed: u64, steps: usize, cached_at_least: u64) -> Self {
        let mut rng = Rng::new(seed);
        let setting = Setting::random(&mut rng, cached_at_least);
        let steps = (0..steps).map(|_| step(&setting, &mut rng)).collect();
        Self { setting, steps }
    }
}

fn step(setting: &Setting, rng: &mut Rng) -> Step {
    let (at, session, user) = (rng.byte(), rng.byte(), rng.byte());
    let roll: fn(&Setting, &mut Rng, [u8; 3]) -> Step = rng.weighted(&[
        (40, |_, rng, [at, session, _]| Step::Exchange {
            at,
            session,
            requested: requested(rng),
        }),
        (14, |_, rng, [at, _, user]| Step::LogIn {
            at,
            user,
            password: rng.weighted(&[
                (10, Password::Right),
                (1, Password::Wrong),
                (1, Password::Empty),
            ]),
        }),
        (2, |_, rng, [at, _, user]| Step::LogInSlowly {
            at,
            user,
            notified: maybe_replica(rng),
            millis: rng.below(5000),
        }),
        (5, |_, _, [at, session, _]| Step::LogOut { at, session }),
        (1, |_, rng, [at, session, _]| Step::MixPairs {
            at,
            id_of: session,
            token_of: rng.byte(),
        }),
        (8, |setting, rng, [at, session, user]| {
            exchange_concurrently(setting, rng, [at, session, user])
        }),
        (10, |setting, rng, _| wait(setting, rng)),
        (8, |_, rng, [at, session, _]| Step::WaitFor {
            edge: rng.weighted(&[
                (6, Boundary::Liveness),
                (2, Boundary::StaleLiveness),
                (4, Boundary::Permissions),
                (2, Boundary::StalePermissions),
                (1, Boundary::Expiry),
            ]),
            at,
            session,
            millis: *rng.one_of(&[-1, 0, 1]),
        }),
        (2, |_, rng, _| Step::StartOutage {
            at: maybe_replica(rng),
            outage: *rng.one_of(&Outage::ALL),
        }),
        (6, |_, rng, _| Step::EndOutage {
            at: maybe_replica(rng),
        }),
        (4, |_, _, [at, ..]| Step::FinishLogouts { at }),
        (1, |_, _, [at, ..]| Step::Restart { at }),
        (1, |_, _, [at, ..]| Step::Disconnect { at }),
        (2, |_, _, [at, ..]| Step::Reconnect { at }),
        (3, |setting, rng, [at, ..]| clock(setting, rng, at)),
        (8, |_, rng, [_, session, user]| {
            administer(rng, session, user)
        }),
        (2, |_, rng, [at, session, user]| {
            revoke(rng, [at, session, user])
        }),
    ]);
    roll(setting, rng, [at, session, user])
}

/// Most request all scopes: what the response lacks was not held.
fn requested(rng: &mut Rng) -> u8 {
    if rng.one_in(3) { rng.byte() } else { u8::MAX }
}

fn maybe_replica(rng: &mut Rng) -> Option<u8> {
    let one = rng.byte();
    rng.one_in(2).then_some(one)
}

fn administer(rng: &mut Rng, session: u8, user: u8) -> Step {
    let names = rng.byte();
    match rng.below(12) {
        0..=5 => Step::SetPermissions { user, names },
        6 => Step::SetEnabled { user, on: false },
        7..=9 => Step::SetEnabled { user, on: true },
        _ if rng.one_in(3) => Step::EndSessionsOf {
            user,
            notified: maybe_replica(rng),
        },
        _ => Step::EndSession {
            session,
            notified: maybe_replica(rng),
        },
    }
}

fn revoke(rng: &mut Rng, [at, session, user]: [u8; 3]) -> Step {
    match rng.below(4) {
        0 => Step::RevokeSessionsOf { at, user: None },
        1 => Step::RevokeSessionsOf {
            at,
            user: Some(user),
        },
        _ => Step::RevokeSession { at, session },
    }
}

fn exchange_concurrently(setting: &Setting, rng: &mut Rng, [at, session, user]: [u8; 3]) -> Step {
    let meanwhile = match rng.below(7) {
        0 => vec![],
        3 => vec![revoke(rng, [at, session, user])],
        1 => vec![administer(rng, session, user)],
        2 => vec![
            Step::LogOut { at, session },
            Step::Reconnect { at: rng.byte() },
        ],
        _ => vec![Step::LogOut { at, session }],
    };
    let replicas = 1 + rng.below(5);
    // A response arrives within the deadline or never.
    let deadline = setting.freshness.min(setting.permissions_ttl).min(2) * 1000;
    Step::ExchangeConcurrently {
        at: (0..replicas).map(|_| rng.byte()).collect(),
        session,
        requested: requested(rng),
        held: *rng.one_of(&[Delayed::Requests, Delayed::Responses]),
        meanwhile,
        millis: if rng.one_in(2) {
            rng.below(deadline)
        } else {
            0
        },
    }
}

fn wait(setting: &Setting, rng: &mut Rng) -> Step {
    let seconds = match rng.below(20) {
        0..=7 => 1,
        8..=12 => setting.freshness,
        13..=15 => setting.permissions_ttl,
        16..=17 => 2 * setting.freshness.max(setting.permissions_ttl),
        18 => setting.freshness + setting.stale_if_error,
        _ => setting.session_lifetime / 2,
    };
    Step::Wait {
        millis: rng.below(seconds * 1000),
    }
}

fn clock(setting: &Setting, rng: &mut Rng, at: u8) -> Step {
    match setting.clocks {
        Clocks::Synchronous => wait(setting, rng),
        Clocks::Suspended => Step::Suspend {
            at,
            millis: rng.below(4 * setting.freshness * 1000),
        },
        Clocks::Adjusted => Step::SetWallClock {
            at,
            ahead: *rng.one_of(&[-590_000, -61_000, -59_000, -1_500, 0, 0, 0, 900, 61_000]),
        },
    }
}
