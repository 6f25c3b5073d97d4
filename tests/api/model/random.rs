//! Random scenarios: what happens how often.

use super::dice::Dice;
use super::line::Outage;
use super::scenario::{Clocks, Edge, Held, Password, Scenario, Setting, Step};

impl Setting {
    fn random(dice: &mut Dice) -> Self {
        Self {
            // Never shorter than the deadline of an introspection, which is 2 s.
            freshness: dice.one_of(&[2, 5, 30, 30, 120]),
            permissions_ttl: dice.one_of(&[2, 10, 60, 60, 300]),
            stale_if_error: dice.one_of(&[0, 0, 20, 300, 900]),
            session_lifetime: dice.one_of(&[100, 3600, 28_800]),
            max_lifetime: dice.one_of(&[60, 86_400]),
            clocks: dice.one_of(&[Clocks::Run, Clocks::AreSuspended, Clocks::AreSet]),
            bus: dice.once_in(2),
        }
    }
}

impl Scenario {
    /// What this seed stands for.
    pub(super) fn random(seed: u64, steps: usize) -> Self {
        let mut dice = Dice::new(seed);
        let setting = Setting::random(&mut dice);
        let steps = (0..steps).map(|_| step(&setting, &mut dice)).collect();
        Self { setting, steps }
    }
}

fn step(setting: &Setting, dice: &mut Dice) -> Step {
    let (at, session, user) = (dice.byte(), dice.byte(), dice.byte());
    let roll: fn(&Setting, &mut Dice, [u8; 3]) -> Step = dice.weighted(&[
        (40, |_, dice, [at, session, _]| Step::Exchange {
            at,
            session,
            asked: asked(dice),
        }),
        (14, |_, dice, [at, _, user]| Step::LogIn {
            at,
            user,
            password: dice.weighted(&[
                (10, Password::Right),
                (1, Password::Wrong),
                (1, Password::Empty),
            ]),
        }),
        (2, |_, dice, [at, _, user]| Step::LogInSlowly {
            at,
            user,
            told: maybe_replica(dice),
            millis: dice.below(5000),
        }),
        (3, |_, _, [at, session, _]| Step::LogOut { at, session }),
        (1, |_, dice, [at, session, _]| Step::Mix {
            at,
            id_of: session,
            token_of: dice.byte(),
        }),
        (8, |setting, dice, [at, session, user]| {
            storm(setting, dice, [at, session, user])
        }),
        (10, |setting, dice, _| wait(setting, dice)),
        (8, |_, dice, [at, session, _]| Step::WaitFor {
            edge: dice.weighted(&[
                (6, Edge::Liveness),
                (2, Edge::StaleLiveness),
                (4, Edge::Permissions),
                (2, Edge::StalePermissions),
                (1, Edge::Expiry),
            ]),
            at,
            session,
            millis: dice.one_of(&[-1, 0, 1]),
        }),
        (2, |_, dice, _| Step::Break {
            at: maybe_replica(dice),
            outage: dice.one_of(&Outage::ALL),
        }),
        (6, |_, dice, _| Step::Mend {
            at: maybe_replica(dice),
        }),
        (1, |_, _, [at, ..]| Step::Restart { at }),
        (1, |_, _, [at, ..]| Step::Cut { at }),
        (2, |_, _, [at, ..]| Step::Rejoin { at }),
        (3, |setting, dice, [at, ..]| clock(setting, dice, at)),
        (8, |_, dice, [_, session, user]| {
            administer(dice, session, user)
        }),
    ]);
    roll(setting, dice, [at, session, user])
}

/// Most ask for all there is: what is left out of the answer then was not held.
fn asked(dice: &mut Dice) -> u8 {
    if dice.once_in(3) {
        dice.byte()
    } else {
        u8::MAX
    }
}

fn maybe_replica(dice: &mut Dice) -> Option<u8> {
    let one = dice.byte();
    dice.once_in(2).then_some(one)
}

fn administer(dice: &mut Dice, session: u8, user: u8) -> Step {
    let names = dice.byte();
    match dice.below(12) {
        0..=5 => Step::Permit { user, names },
        6 => Step::Switch { user, on: false },
        7..=9 => Step::Switch { user, on: true },
        _ if dice.once_in(3) => Step::EndSessionsOf {
            user,
            told: maybe_replica(dice),
        },
        _ => Step::EndSession {
            session,
            told: maybe_replica(dice),
        },
    }
}

fn storm(setting: &Setting, dice: &mut Dice, [at, session, user]: [u8; 3]) -> Step {
    let meanwhile = match dice.below(6) {
        0 => vec![],
        1 => vec![administer(dice, session, user)],
        2 => vec![
            Step::LogOut { at, session },
            Step::Rejoin { at: dice.byte() },
        ],
        _ => vec![Step::LogOut { at, session }],
    };
    let replicas = 1 + dice.below(5);
    // An answer comes within the deadline, or not at all.
    let deadline = setting.freshness.min(setting.permissions_ttl).min(2) * 1000;
    Step::Storm {
        at: (0..replicas).map(|_| dice.byte()).collect(),
        session,
        asked: asked(dice),
        held: dice.one_of(&[Held::Questions, Held::Answers]),
        meanwhile,
        millis: if dice.once_in(2) {
            dice.below(deadline)
        } else {
            0
        },
    }
}

fn wait(setting: &Setting, dice: &mut Dice) -> Step {
    let seconds = match dice.below(20) {
        0..=7 => 1,
        8..=12 => setting.freshness,
        13..=15 => setting.permissions_ttl,
        16..=17 => 2 * setting.freshness.max(setting.permissions_ttl),
        18 => setting.freshness + setting.stale_if_error,
        _ => setting.session_lifetime / 2,
    };
    Step::Wait {
        millis: dice.below(seconds * 1000),
    }
}

fn clock(setting: &Setting, dice: &mut Dice, at: u8) -> Step {
    match setting.clocks {
        Clocks::Run => wait(setting, dice),
        Clocks::AreSuspended => Step::Suspend {
            at,
            millis: dice.below(4 * setting.freshness * 1000),
        },
        Clocks::AreSet => Step::SetWall {
            at,
            ahead: dice.one_of(&[-3_600_000, -61_000, -59_000, -1_500, 0, 0, 0, 900, 61_000]),
        },
    }
}
