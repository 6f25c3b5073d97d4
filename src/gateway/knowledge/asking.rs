//! Asking the IAM: once for all who wait, in a task that no client can end.

use std::collections::hash_map::Entry;
use std::sync::{Arc, PoisonError};

use iam_adapters::{IamError, Introspection, Moment, Permissions};
use tokio::sync::watch;

use super::super::error::{GatewayError, Internal, InvalidSession};
use super::{Digest, Fingerprint, Inquiry, Knowledge, Source, Until};

/// None: the session ended.
type Answer = Result<Option<Arc<Permissions>>, IamError>;

/// A question on its way.
#[derive(Clone)]
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
        let (mut flight, source) = match self.join_or_depart(inquiry, now) {
            Departure::Landed(permissions) => return (now, Ok((permissions, Source::Coalesced))),
            Departure::Under(flight, source) => (flight, source),
        };
        let answer = flight.answer.wait_for(Option::is_some).await;
        let told = match answer.ok().and_then(|answer| answer.clone()) {
            Some(Ok(Some(permissions))) => Ok((permissions, source)),
            Some(Ok(None)) => Err(InvalidSession::Ended.into()),
            Some(Err(fault)) => self
                .instead(&inquiry.fingerprint, &fault)
                .ok_or_else(|| fault.into()),
            None => Err(Internal::LostTask.into()),
        };
        (flight.asked_at, told)
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

    fn join_or_depart(self: &Arc<Self>, inquiry: &Inquiry, now: Moment) -> Departure {
        let patience = self.freshness.liveness.min(self.freshness.permissions);
        let mut flights = self.flights.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = flights.entry(inquiry.fingerprint.session);
        if let Entry::Occupied(flight) = &entry
            && now.since(flight.get().asked_at) < patience
            && !self.distrusts(flight.get().asked_at)
        {
            return Departure::Under(flight.get().clone(), Source::Coalesced);
        }
        // The flight may have landed between the caller's look at the caches and this lock.
        if let Some(permissions) = self.fresh(&inquiry.fingerprint, now) {
            return Departure::Landed(permissions);
        }
        let (sender, answer) = watch::channel(None);
        let flight = Flight {
            asked_at: now,
            answer,
        };
        entry.insert_entry(flight.clone());
        drop(flights);
        let landing = Landing {
            knowledge: Arc::clone(self),
            session: inquiry.fingerprint.session,
            sender,
        };
        tokio::spawn(landing.fly(inquiry.clone(), now));
        Departure::Under(flight, Source::Miss)
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
    Under(Flight, Source),
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
        | IamError::Saturated
        | IamError::CircuitOpen => true,
        IamError::Refused(_) | IamError::Unreadable(_) | IamError::Misconfigured { .. } => false,
    }
}
