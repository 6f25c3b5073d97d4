//! What responses have proven about an authorization server since the last misconfiguration.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::Misconfiguration;

#[derive(Debug, Default)]
pub(super) struct Proofs {
    /// The discovery document has named the configured issuer.
    issuer: AtomicBool,
    /// Introspection has reported a session as active.
    active: AtomicBool,
    /// A password grant has reached the check of the user, so that password grants are enabled.
    grant: AtomicBool,
    /// A password grant has succeeded. Not reset: from then on, the meaning of an unknown response does
    /// not depend on the proofs above.
    login: AtomicBool,
    /// Introspection has reported an active session as inactive, and no session as active since. A
    /// probe cannot find that, so a misconfiguration does not reset it.
    failed_introspection: AtomicBool,
}

impl Proofs {
    pub(super) fn record_issuer(&self) {
        self.issuer.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_issuer(&self) -> bool {
        self.issuer.load(Ordering::Relaxed)
    }

    pub(super) fn record_active(&self) {
        self.active.store(true, Ordering::Relaxed);
        self.failed_introspection.store(false, Ordering::Relaxed);
    }

    pub(super) fn has_active(&self) -> bool {
        self.active.load(Ordering::Relaxed)
    }

    pub(super) fn record_grant(&self) {
        self.grant.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_grant(&self) -> bool {
        self.grant.load(Ordering::Relaxed)
    }

    pub(super) fn record_login(&self) {
        self.login.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_login(&self) -> bool {
        self.login.load(Ordering::Relaxed)
    }

    pub(super) fn has_failed_introspection(&self) -> bool {
        self.failed_introspection.load(Ordering::Relaxed)
    }

    pub(super) fn record_misconfiguration(&self, what: Misconfiguration) {
        if what == Misconfiguration::Introspection {
            self.failed_introspection.store(true, Ordering::Relaxed);
        }
        // A foreign client concerns only one session.
        if what != Misconfiguration::ForeignClient {
            for proof in [&self.issuer, &self.active, &self.grant] {
                proof.store(false, Ordering::Relaxed);
            }
        }
    }
}
