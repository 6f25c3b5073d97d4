//! What responses have proven about an authorization server since the last misconfiguration.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{IamError, Misconfiguration};

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
    failed_introspection: Proof,
    /// The settings to check then.
    introspection_hint: &'static str,
}

impl Proofs {
    /// Those of the adapter before, which calls that have begun may still change; without one, nothing is proven. The
    /// hint names the settings to check if introspection reports an active session as inactive.
    pub(crate) fn kept(before: Option<&Arc<Self>>, introspection_hint: &'static str) -> Arc<Self> {
        let unproven = || {
            Arc::new(Self {
                introspection_hint,
                ..Self::default()
            })
        };
        before.map_or_else(unproven, Arc::clone)
    }

    pub(crate) fn record_active(&self) {
        self.active.record();
        self.failed_introspection.reset();
    }

    /// Records that introspection has reported an active session as inactive, which is this fault.
    pub(crate) fn active_session_reported_inactive(&self) -> IamError {
        self.failed_introspection.record();
        let hint = self.introspection_hint;
        IamError::misconfigured(
            Misconfiguration::Introspection,
            format!("an active session is reported as inactive: {hint}"),
        )
    }

    /// Fails unless "inactive" can be believed.
    pub(crate) fn check_introspection(&self) -> Result<(), IamError> {
        if self.failed_introspection.is_recorded() {
            return Err(self.active_session_reported_inactive());
        }
        Ok(())
    }

    /// The fault of a login that the server rejected, of which it is unknown whether that refuses the user. Without a
    /// login that has succeeded, the cause may as well be a setting.
    pub(crate) fn possible_refusal(&self, fault: IamError) -> IamError {
        if self.login.is_recorded() {
            IamError::PossibleRefusal(Box::new(fault))
        } else {
            fault
        }
    }

    pub(super) fn record_misconfiguration(&self, what: Misconfiguration) {
        // A foreign client concerns only one session.
        if what != Misconfiguration::ForeignClient {
            for proof in [&self.issuer, &self.active, &self.grant] {
                proof.reset();
            }
        }
    }
}
