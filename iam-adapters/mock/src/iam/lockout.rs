//! The lock-out of an account after failed logins, as Keycloak's brute-force detection.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Older failures are forgotten at the next one: Keycloak's `maxDeltaTimeSeconds` of a new realm.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(12 * 60 * 60);

/// The longest lock-out: Keycloak's `maxFailureWaitSeconds` of a new realm.
const WAIT_MAX: Duration = Duration::from_secs(15 * 60);

/// When an account is locked out, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Lockout {
    /// The number of failed logins that locks an account: Keycloak's `failureFactor`, at least 1. Each
    /// further failure after the wait locks it again.
    failures: std::num::NonZeroU32,
    /// How long, at most 15 minutes: Keycloak's `waitIncrementSeconds`. Twice as long after twice as many failures, and so on.
    #[serde(with = "humantime_serde")]
    wait: Duration,
}

/// The failed logins of an account since the last successful one. An attempt during a lock-out does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Failures {
    count: u32,
    last_at: Duration,
    locked_until: Duration,
}

impl Failures {
    pub(super) fn lock_out(&self, now: Duration) -> bool {
        now < self.locked_until
    }

    pub(super) fn and_another(self, now: Duration, lockout: Lockout) -> Self {
        let is_old = now.saturating_sub(self.last_at) > FORGOTTEN_AFTER;
        let count = if is_old {
            1
        } else {
            self.count.saturating_add(1)
        };
        let wait = lockout.wait.saturating_mul(count / lockout.failures);
        Self {
            count,
            last_at: now,
            locked_until: now.saturating_add(wait.min(WAIT_MAX)),
        }
    }
}
