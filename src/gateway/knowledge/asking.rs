//! Asking the IAM: once for all who wait, in a task that no client can end.

use std::sync::Arc;

use iam_adapters::{IamError, Introspection, Moment, Permissions};

use super::super::error::{GatewayError, InvalidSession};
use super::super::single_flight::Admission;
use super::{Fingerprint, Inquiry, Knowledge, Source, Until};

/// None: the session ended.
pub(super) type Answer = Result<Option<Arc<Permissions>>, IamError>;

impl Knowledge {
    /// Asks the IAM, or waits for a question about the same session that is on its way already.
    ///
    /// The question goes on when the client that caused it hangs up, so hanging up and coming
    /// back multiplies nothing.
    ///
    /// # Errors
    ///
    /// [`InvalidSession::Ended`] where the IAM says so, otherwise its fault.
    pub async fn ask(
        self: &Arc<Self>,
        inquiry: Inquiry,
        now: Moment,
    ) -> Result<(Arc<Permissions>, Source), GatewayError> {
        let (asked_at, told) = self.told(&inquiry, now).await;
        if told.is_ok() && self.distrusts(asked_at) {
            // Ends may have been missed while the question was on its way. Once: a connection to
            // the other replicas that comes and goes must keep nobody waiting.
            let (_, told) = self.told(&inquiry, self.clock.now()).await;
            return told;
        }
        told
    }

    /// The answer, and when it was asked for.
    async fn told(
        self: &Arc<Self>,
        inquiry: &Inquiry,
        now: Moment,
    ) -> (Moment, Result<(Arc<Permissions>, Source), GatewayError>) {
        let (flight, source) = match self.join_or_ask(inquiry, now) {
            Admission::Done(permissions) => return (now, Ok((permissions, Source::Coalesced))),
            Admission::Joined(flight) => (flight, Source::Coalesced),
            Admission::Started(flight) => (flight, Source::Miss),
        };
        let asked_at = flight.began;
        let told = match flight.result().await {
            Ok(Ok(Some(permissions))) => Ok((permissions, source)),
            Ok(Ok(None)) => Err(InvalidSession::Ended.into()),
            Ok(Err(fault)) => self
                .instead(&inquiry.fingerprint, &fault)
                .ok_or_else(|| fault.into()),
            Err(lost) => Err(lost.into()),
        };
        (asked_at, told)
    }

    /// What may stand in for an answer that is a fault. By the time now: what was good enough on
    /// arrival may have grown too old since.
    fn instead(
        &self,
        fingerprint: &Fingerprint,
        fault: &IamError,
    ) -> Option<(Arc<Permissions>, Source)> {
        let now = self.clock.now();
        // It was asked for early; the promise itself still holds.
        if let Some(permissions) = self.known(fingerprint, now, Until::Promised) {
            return Some((permissions, Source::Hit));
        }
        is_silence(fault)
            .then(|| self.known(fingerprint, now, Until::Stale))
            .flatten()
            .map(|permissions| (permissions, Source::Stale))
    }

    fn join_or_ask(
        self: &Arc<Self>,
        inquiry: &Inquiry,
        now: Moment,
    ) -> Admission<Answer, Arc<Permissions>> {
        let patience = self.freshness.liveness.min(self.freshness.permissions);
        self.questions.join_or_start(
            inquiry.fingerprint.session,
            now,
            |asked_at| now.since(asked_at) < patience && !self.distrusts(asked_at),
            || self.fresh(&inquiry.fingerprint, now),
            || {
                let (knowledge, inquiry) = (Arc::clone(self), inquiry.clone());
                async move {
                    let answer = knowledge.iam.introspect(&inquiry.upstream).await;
                    answer.and_then(|word| knowledge.note(&inquiry, now, word))
                }
            },
        )
    }

    fn note(&self, inquiry: &Inquiry, asked_at: Moment, word: Introspection) -> Answer {
        match word {
            // An adapter that mixes answers up must not write into somebody else's knowledge.
            Introspection::Active { subject, .. } if subject != inquiry.upstream.subject => Err(
                IamError::Unreadable("an answer about another subject".to_owned()),
            ),
            Introspection::Active { permissions, .. } => {
                let permissions = Arc::new(permissions);
                self.learn(
                    &inquiry.fingerprint,
                    asked_at,
                    Some(Arc::clone(&permissions)),
                );
                Ok(Some(permissions))
            }
            Introspection::Inactive => {
                self.revocations.record(&inquiry.if_over, self.clock.now());
                self.liveness.invalidate(&inquiry.fingerprint.session);
                Ok(None)
            }
        }
    }
}

/// Whether the IAM said nothing at all, so that what it said before may still be held to. An IAM
/// that answers something strange has spoken.
fn is_silence(fault: &IamError) -> bool {
    match fault {
        IamError::Unreachable(_)
        | IamError::TimedOut(_)
        | IamError::Failed(_)
        | IamError::Throttled { .. }
        | IamError::Saturated
        | IamError::CircuitOpen => true,
        IamError::Refused(_) | IamError::Unreadable(_) | IamError::Misconfigured { .. } => false,
    }
}
