//! Asking the IAM: once for all who wait, in a task that no client can end.

use std::collections::hash_map::Entry;
use std::sync::{Arc, PoisonError};

use iam_adapters::{IamError, Introspection, Moment, Permissions};
use tokio::sync::watch;

use super::super::error::{GatewayError, Internal, InvalidSession};
use super::{Digest, Inquiry, Knowledge, Source};

/// None: the session ended.
type Answer = Result<Option<Arc<Permissions>>, IamError>;

/// A question on its way.
pub(super) struct Flight {
    asked_at: Moment,
    answer: watch::Receiver<Option<Answer>>,
}

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
        let fingerprint = inquiry.fingerprint;
        let (mut pending, source) = match self.join_or_depart(inquiry, now) {
            Departure::Landed(permissions) => return Ok((permissions, Source::Coalesced)),
            Departure::Under(pending, source) => (pending, source),
        };
        let answer = pending.wait_for(Option::is_some).await;
        let answer = answer.ok().and_then(|answer| answer.clone());
        match answer.ok_or(Internal::LostTask)? {
            Ok(Some(permissions)) => Ok((permissions, source)),
            Ok(None) => Err(InvalidSession::Ended.into()),
            Err(fault) => {
                // By the time now: what was good enough on arrival may have grown too old since.
                is_silence(&fault)
                    .then(|| self.clock.now())
                    .and_then(|now| self.known(&fingerprint, now, self.freshness.stale_if_error))
                    .map(|permissions| (permissions, Source::Stale))
                    .ok_or_else(|| fault.into())
            }
        }
    }

    fn join_or_depart(self: &Arc<Self>, inquiry: Inquiry, now: Moment) -> Departure {
        let patience = self.freshness.liveness.min(self.freshness.permissions);
        let mut flights = self.flights.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = flights.entry(inquiry.fingerprint.session);
        if let Entry::Occupied(flight) = &entry
            && now.since(flight.get().asked_at) < patience
        {
            return Departure::Under(flight.get().answer.clone(), Source::Coalesced);
        }
        // The flight may have landed between the caller's look at the caches and this lock.
        if let Some(permissions) = self.fresh(&inquiry.fingerprint, now) {
            return Departure::Landed(permissions);
        }
        let (sender, answer) = watch::channel(None);
        entry.insert_entry(Flight {
            asked_at: now,
            answer: answer.clone(),
        });
        drop(flights);
        let landing = Landing {
            knowledge: Arc::clone(self),
            session: inquiry.fingerprint.session,
            sender,
        };
        tokio::spawn(landing.fly(inquiry, now));
        Departure::Under(answer, Source::Miss)
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

enum Departure {
    /// The answer is in the caches by now.
    Landed(Arc<Permissions>),
    /// A question is on its way, one's own or another's.
    Under(watch::Receiver<Option<Answer>>, Source),
}

/// Takes the flight off the board however it ends, also by a panic.
struct Landing {
    knowledge: Arc<Knowledge>,
    session: Digest,
    sender: watch::Sender<Option<Answer>>,
}

impl Landing {
    async fn fly(self, inquiry: Inquiry, asked_at: Moment) {
        let answer = self.knowledge.iam.introspect(&inquiry.upstream).await;
        let answer = answer.and_then(|word| self.knowledge.note(&inquiry, asked_at, word));
        self.sender.send_replace(Some(answer));
    }
}

impl Drop for Landing {
    fn drop(&mut self) {
        let mut flights = self
            .knowledge
            .flights
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Entry::Occupied(flight) = flights.entry(self.session)
            && flight.get().answer.same_channel(&self.sender.subscribe())
        {
            flight.remove();
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
        | IamError::Saturated => true,
        IamError::Refused(_) | IamError::Unreadable(_) | IamError::Misconfigured { .. } => false,
    }
}
