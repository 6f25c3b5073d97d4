//! An entry of the table, with its replication state.

use super::{Cause, Key, Revocation};

/// The source of a revocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// This replica or the IAM. It is not sent to the other replicas.
    Local,
    /// This replica. It must be sent to the other replicas.
    Shared,
    /// Another replica, through Redis.
    Learned,
}

/// The result of offering a revocation to Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// Published to the replicas that are connected, and stored for the others.
    Stored,
    /// Published but not stored.
    Published,
    /// Neither published nor stored.
    Refused,
}

/// Whether the other replicas have a revocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Replication {
    /// It is not sent from here.
    Local,
    /// It has to be queued.
    Needed,
    /// It is queued.
    Queued,
    /// It was offered to Redis, which has not responded yet.
    Offered,
    /// Redis refused it; it is queued to be offered again.
    Refused,
    /// Redis published it and did not store it; it is queued to be offered again.
    Published,
    /// Redis acknowledged it, or has it from another replica.
    Acknowledged,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) cause: Cause,
    pub(super) begun_until: u64,
    pub(super) forget_at: u64,
    replication: Replication,
}

impl Entry {
    pub(super) fn new(revocation: &Revocation, source: Source) -> Self {
        Self {
            cause: revocation.cause,
            begun_until: revocation.begun_until,
            forget_at: revocation.forget_at,
            replication: match source {
                Source::Local => Replication::Local,
                Source::Shared => Replication::Needed,
                Source::Learned => Replication::Acknowledged,
            },
        }
    }

    /// The part that Redis stores. The cause follows from the kind.
    const fn stored(&self) -> (u64, u64) {
        (self.begun_until, self.forget_at)
    }

    /// Merges another revocation into the entry: the later values win. Returns whether the entry
    /// changed.
    pub(super) fn merge(&mut self, new: &Revocation, source: Source) -> bool {
        let (cause, stored) = (self.cause, self.stored());
        self.cause = self.cause.max(new.cause);
        self.begun_until = self.begun_until.max(new.begun_until);
        self.forget_at = self.forget_at.max(new.forget_at);
        let grew = stored != self.stored();
        let is_complete = (new.begun_until, new.forget_at) == self.stored();
        self.replication = match (source, self.replication) {
            (Source::Shared, Replication::Local) => Replication::Needed,
            (Source::Shared, Replication::Acknowledged) if grew => Replication::Needed,
            (Source::Local, Replication::Acknowledged) if grew => Replication::Local,
            (Source::Learned, Replication::Local) if is_complete => Replication::Acknowledged,
            // The published values are out of date.
            (Source::Local | Source::Shared, Replication::Published) if grew => {
                Replication::Refused
            }
            (_, unchanged) => unchanged,
        };
        grew || cause != self.cause
    }

    /// Marks the entry as queued if it must be; returns whether.
    pub(super) fn enqueue(&mut self) -> bool {
        let needed = self.replication == Replication::Needed;
        if needed {
            self.replication = Replication::Queued;
        }
        needed
    }

    /// Whether it must still be sent to the replicas that are connected.
    pub(super) const fn is_awaited(&self) -> bool {
        match self.replication {
            Replication::Needed
            | Replication::Queued
            | Replication::Offered
            | Replication::Refused => true,
            Replication::Local | Replication::Published | Replication::Acknowledged => false,
        }
    }

    pub(super) const fn offered(&mut self) {
        self.replication = Replication::Offered;
    }

    /// Records the result of an offer; returns when it must be offered again, if at all.
    pub(super) fn settle(&mut self, sent: &Revocation, delivery: Delivery) -> Option<Again> {
        // Removed and recorded anew in the meantime: it is queued already.
        if self.replication != Replication::Offered {
            return None;
        }
        let grew = (sent.begun_until, sent.forget_at) != self.stored();
        let (replication, again) = match delivery {
            Delivery::Stored | Delivery::Published if grew => {
                (Replication::Queued, Some(Again::AtOnce))
            }
            Delivery::Stored => (Replication::Acknowledged, None),
            Delivery::Published => (Replication::Published, Some(Again::Later)),
            Delivery::Refused => (Replication::Refused, Some(Again::Later)),
        };
        self.replication = replication;
        again
    }

    pub(super) fn offer_again(&mut self) {
        // No logout waits for one that was published.
        if self.replication != Replication::Published {
            self.replication = Replication::Queued;
        }
    }

    /// The revocation as it is sent to the other replicas.
    pub(super) const fn replicated(&self, (kind, name): Key) -> Revocation {
        Revocation {
            kind,
            name,
            cause: kind.replicated_cause(),
            begun_until: self.begun_until,
            forget_at: self.forget_at,
        }
    }
}

/// When a revocation that Redis has not acknowledged is offered again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Again {
    /// The entry has changed since it was sent.
    AtOnce,
    /// Redis refused it, or did not store it.
    Later,
}
