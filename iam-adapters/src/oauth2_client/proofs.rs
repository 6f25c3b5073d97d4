//! What responses have proven about an authorization server since the last misconfiguration.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::Misconfiguration;

#[derive(Debug, Default)]
pub(crate) struct Proof(AtomicBool);

impl Proof {
    pub(crate) fn record(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_recorded(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn reset(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

#[derive(Debug, Default)]
pub(crate) struct Proofs {
    /// The discovery document has named the configured issuer.
    pub(crate) issuer: Proof,
    /// Introspection has reported a session as active.
    pub(crate) active: Proof,
    /// A password grant has reached the check of the user, so that password grants are enabled.
    pub(super) grant: Proof,
    /// A password grant has succeeded. Not reset: from then on, the meaning of an unknown response does
    /// not depend on the proofs above.
    pub(crate) login: Proof,
    /// Introspection has reported an active session as inactive, and no session as active since. A
    /// probe cannot find that, so a misconfiguration does not reset it.
    pub(crate) failed_introspection: Proof,
}

impl Proofs {
    pub(crate) fn record_active(&self) {
        self.active.record();
        self.failed_introspection.reset();
    }

    pub(super) fn record_misconfiguration(&self, what: Misconfiguration) {
        if what == Misconfiguration::Introspection {
            self.failed_introspection.record();
        }
        // A foreign client concerns only one session.
        if what != Misconfiguration::ForeignClient {
            for proof in [&self.issuer, &self.active, &self.grant] {
                proof.reset();
            }
        }
    }
}
