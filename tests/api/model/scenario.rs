//! What can happen, and random sequences of it.

use serde::{Deserialize, Serialize};

use super::dice::Dice;
use super::line::Outage;

/// How many gateways stand before the IAM.
pub(super) const REPLICAS: usize = 3;

/// How these gateways are set, and in which order what happens to them. Times in seconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Scenario {
    pub(super) setting: Setting,
    pub(super) steps: Vec<Step>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Setting {
    pub(super) freshness: u64,
    pub(super) permissions_ttl: u64,
    pub(super) stale_if_error: u64,
    /// What the IAM promises its sessions.
    pub(super) session_lifetime: u64,
    /// What the gateway cuts that to.
    pub(super) max_lifetime: u64,
    pub(super) clocks: Clocks,
}

/// What becomes of the replicas' clocks. An age is the longer one by two clocks, so it is right
/// unless one of them stands still and the other one is set back within the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Clocks {
    /// They run on together.
    Run,
    /// A machine is suspended for a while: its monotonic clock stands still.
    AreSuspended,
    /// Wall clocks are set, forward and back.
    AreSet,
}

/// One thing that happens. A number stands for what is left of it after division by how many there
/// are; a session counts from the newest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Step {
    LogIn {
        at: u8,
        user: u8,
        password: Password,
    },
    Exchange {
        at: u8,
        session: u8,
        asked: u8,
    },
    LogOut {
        at: u8,
        session: u8,
    },
    /// The id of one session with the token of another, to exchange and to log out.
    Mix {
        at: u8,
        id_of: u8,
        token_of: u8,
    },
    /// Several exchanges of one session whose questions the IAM answers late. Something happens in
    /// the meantime, which lasts some milliseconds.
    Storm {
        at: Vec<u8>,
        session: u8,
        asked: u8,
        held: Held,
        meanwhile: Option<Box<Step>>,
        millis: u64,
    },
    /// The administrator makes these the user's permissions.
    Permit {
        user: u8,
        names: u8,
    },
    /// The administrator disables or enables an account.
    Switch {
        user: u8,
        on: bool,
    },
    /// The administrator ends it, of which the IAM may tell one replica by itself.
    EndSession {
        session: u8,
        told: Option<u8>,
    },
    EndSessionsOf {
        user: u8,
        told: Option<u8>,
    },
    /// One replica, or all of them, cannot speak with the IAM as they should.
    Break {
        at: Option<u8>,
        outage: Outage,
    },
    Mend {
        at: Option<u8>,
    },
    Restart {
        at: u8,
    },
    Wait {
        millis: u64,
    },
    /// Time goes on until the edge of something, or a millisecond before or after.
    WaitFor {
        edge: Edge,
        at: u8,
        session: u8,
        millis: i8,
    },
    /// A wall clock is set to be so many milliseconds ahead of the true time.
    SetWall {
        at: u8,
        ahead: i64,
    },
    Suspend {
        at: u8,
        millis: u64,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Password {
    Right,
    Wrong,
    Empty,
}

/// What is late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Held {
    /// The IAM decides late.
    Questions,
    /// The IAM decides at once, and the answer is long on its way.
    Answers,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Edge {
    /// What the replica was told last about the session is no longer fresh.
    Liveness,
    /// Nor may it be stretched.
    StaleLiveness,
    Permissions,
    StalePermissions,
    /// The session expires by the replica's clock.
    Expiry,
}

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
    let meanwhile = match dice.below(4) {
        0 => None,
        1 => Some(administer(dice, session, user)),
        _ => Some(Step::LogOut { at, session }),
    };
    let replicas = 1 + dice.below(5);
    // An answer comes within the deadline, or not at all.
    let deadline = setting.freshness.min(setting.permissions_ttl).min(2) * 1000;
    Step::Storm {
        at: (0..replicas).map(|_| dice.byte()).collect(),
        session,
        asked: asked(dice),
        held: dice.one_of(&[Held::Questions, Held::Answers]),
        meanwhile: meanwhile.map(Box::new),
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
