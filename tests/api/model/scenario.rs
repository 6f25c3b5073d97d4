//! What can happen.

use serde::{Deserialize, Serialize};

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
    /// Whether the replicas tell each other what ends.
    pub(super) bus: bool,
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
    /// A right password, and the IAM's answer is so many milliseconds on its way. Meanwhile an
    /// administrator may end all sessions of the user, of which the IAM tells one replica.
    LogInSlowly {
        at: u8,
        user: u8,
        told: Option<u8>,
        millis: u64,
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
        meanwhile: Vec<Step>,
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
    /// The replica and the others do not hear of each other any more, or do so again.
    Cut {
        at: u8,
    },
    Rejoin {
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
