//! The steps of a scenario.

use serde::{Deserialize, Serialize};

use super::recording_iam::Outage;

/// The number of gateways.
pub(super) const REPLICAS: usize = 3;

/// The settings of the gateways and the steps. Times in seconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ModelScenario {
    pub(super) setting: Setting,
    pub(super) steps: Vec<Step>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Setting {
    pub(super) freshness: u64,
    pub(super) permissions_ttl: u64,
    pub(super) stale_if_error: u64,
    /// The session lifetime of the IAM.
    pub(super) session_lifetime: u64,
    /// The gateway's limit of it.
    pub(super) max_lifetime: u64,
    pub(super) clocks: Clocks,
    /// Whether the replicas exchange revocations.
    pub(super) replication: bool,
}

/// What happens to the replicas' clocks. An age is the longer one by two clocks. It is right unless
/// one of them stands still and the other one is set back in the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Clocks {
    /// They advance together.
    Synchronous,
    /// A machine is suspended: its monotonic clock stands still.
    Suspended,
    /// Wall clocks are set forward and back.
    Adjusted,
}

/// One step. A number selects an item by its remainder; sessions count from the newest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Step {
    LogIn {
        at: u8,
        user: u8,
        password: Password,
    },
    /// A right password, and a response of the IAM that takes this number of milliseconds. In the meantime
    /// an administrator may end all sessions of the user, which the IAM reports to one replica.
    LogInSlowly {
        at: u8,
        user: u8,
        notified: Option<u8>,
        millis: u64,
    },
    Exchange {
        at: u8,
        session: u8,
        requested: u8,
    },
    LogOut {
        at: u8,
        session: u8,
    },
    /// The id of one session with the token of another, to exchange and to log out.
    MixPairs {
        at: u8,
        id_of: u8,
        token_of: u8,
    },
    /// Several exchanges of one session during a slow introspection. Other steps happen in the
    /// meantime, which lasts some milliseconds.
    ExchangeConcurrently {
        at: Vec<u8>,
        session: u8,
        requested: u8,
        held: Delayed,
        meanwhile: Vec<Step>,
        millis: u64,
    },
    /// The administrator sets the user's permissions.
    SetPermissions {
        user: u8,
        names: u8,
    },
    /// The administrator disables or enables an account.
    SetEnabled {
        user: u8,
        on: bool,
    },
    /// The administrator ends it, which the IAM may report to one replica.
    EndSession {
        session: u8,
        notified: Option<u8>,
    },
    EndSessionsOf {
        user: u8,
        notified: Option<u8>,
    },
    /// An operator revokes it at a replica. The IAM is not informed.
    RevokeSession {
        at: u8,
        session: u8,
    },
    /// An operator revokes the sessions of a user, or all.
    RevokeSessionsOf {
        at: u8,
        user: Option<u8>,
    },
    /// The IAM fails for one replica or for all.
    StartOutage {
        at: Option<u8>,
        outage: Outage,
    },
    EndOutage {
        at: Option<u8>,
    },
    /// The replica finishes failed logouts, after the longest pause between two calls. A whole
    /// service does that by itself.
    FinishLogouts {
        at: u8,
    },
    Restart {
        at: u8,
    },
    /// The replica is disconnected from the others, or connected again.
    Disconnect {
        at: u8,
    },
    Reconnect {
        at: u8,
    },
    Wait {
        millis: u64,
    },
    /// Advances the clocks to the moment of the edge, or a millisecond before or after.
    WaitFor {
        edge: Boundary,
        at: u8,
        session: u8,
        millis: i8,
    },
    /// Sets a wall clock this number of milliseconds ahead of the true time.
    SetWallClock {
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

/// What is delayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Delayed {
    /// The IAM processes the request late.
    Requests,
    /// The IAM processes the request at once, and its response is late.
    Responses,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Boundary {
    /// The last report about the session is no longer fresh.
    Liveness,
    /// It may not be used as stale data either.
    StaleLiveness,
    Permissions,
    StalePermissions,
    /// The session expires by the replica's clock.
    Expiry,
}
