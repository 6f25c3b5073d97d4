//! What the table keeps of an end, and whether the other replicas have it.

use super::{End, Key, Revocation};

/// Who says that something ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// This replica, or the IAM to this replica. The others need not learn of it from here.
    Local,
    /// This replica, and the others have to learn of it.
    Shared,
    /// Another replica, by way of Redis.
    Learned,
}

/// What became of an end that was offered to Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// Published to the replicas that are connected, and stored for the others.
    Stored,
    /// Published, and not stored.
    Published,
    /// Neither.
    Refused,
}

/// Whether the other replicas have an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Replication {
    /// They need not have it from here, or have less of it.
    Local,
    /// It has to be queued.
    Needed,
    /// It is queued.
    Queued,
    /// It was offered to Redis, which has not answered yet.
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
    pub(super) end: End,
    pub(super) begun_until: u64,
    pub(super) forget_at: u64,
    replication: Replication,
}

impl Entry {
    pub(super) fn new(revocation: &Revocation, source: Source) -> Self {
        Self {
            end: revocation.end,
            begun_until: revocation.begun_until,
            forget_at: revocation.forget_at,
            replication: match source {
                Source::Local => Replication::Local,
                Source::Shared => Replication::Needed,
                Source::Learned => Replication::Acknowledged,
            },
        }
    }

    /// What Redis stores of it: the kind says how it ended.
    const fn stored(&self) -> (u64, u64) {
        (self.begun_until, self.forget_at)
    }

    /// Makes it no less than the new one; returns whether that changed anything.
    pub(super) fn strengthen(&mut self, new: &Revocation, source: Source) -> bool {
        let (end, stored) = (self.end, self.stored());
        self.end = self.end.max(new.end);
        self.begun_until = self.begun_until.max(new.begun_until);
        self.forget_at = self.forget_at.max(new.forget_at);
        let grew = stored != self.stored();
        let told_all = (new.begun_until, new.forget_at) == self.stored();
        self.replication = match (source, self.replication) {
            (Source::Shared, Replication::Local) => Replication::Needed,
            (Source::Shared, Replication::Acknowledged) if grew => Replication::Needed,
            (Source::Local, Replication::Acknowledged) if grew => Replication::Local,
            (Source::Learned, Replication::Local) if told_all => Replication::Acknowledged,
            // What was published is less than what is known now.
            (Source::Local | Source::Shared, Replication::Published) if grew => {
                Replication::Refused
            }
            (_, unchanged) => unchanged,
        };
        grew || end != self.end
    }

    /// Whether it has to be queued, which it is from now on.
    pub(super) fn enqueue(&mut self) -> bool {
        let needed = self.replication == Replication::Needed;
        if needed {
            self.replication = Replication::Queued;
        }
        needed
    }

    /// Whether the replicas that are connected still have to be given it.
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

    /// Takes what became of it; returns where it is queued again, if it is.
    pub(super) fn settle(&mut self, sent: &Revocation, delivery: Delivery) -> Option<Again> {
        // Forgotten and recorded anew in the meantime: it is queued already.
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
        // One that was published stays so, and nothing waits for it.
        if self.replication != Replication::Published {
            self.replication = Replication::Queued;
        }
    }

    /// The end as the other replicas are told of it.
    pub(super) const fn told(&self, (kind, name): Key) -> Revocation {
        Revocation {
            kind,
            name,
            end: kind.told_as(),
            begun_until: self.begun_until,
            forget_at: self.forget_at,
        }
    }
}

/// When an end that Redis has not acknowledged is offered again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Again {
    /// It is more than what was sent.
    AtOnce,
    /// Redis refused it.
    Later,
}
