//! An entry of the table, with its replication state.

use super::{Cause, Key, Revocation};

/// The source of a revocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// This replica or the IAM. It is not sent to the other replicas.
    Local,
    /// This replica. It must be sent to the other replicas.
    Shared,
    /// Another replica, through the stream.
    Learned,
}

/// The result of offering a revocation to Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// It is in the stream.
    Stored,
    /// It is not.
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
    /// It is in the stream, or was there.
    Acknowledged,
}

/// A time since 1970 in N bytes: seconds until 2106 in four, milliseconds until 10889 in six. A table of
/// a million revocations is 16 MiB smaller with them than with 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Time<const N: usize>([u8; N]);

impl<const N: usize> Time<N> {
    const LATEST: Self = Self([u8::MAX; N]);

    /// Later times become the latest, which stands for every later time.
    fn new(time: u64) -> Self {
        let bytes = time.to_be_bytes();
        let fits = bytes.iter().rev().skip(N).all(|byte| *byte == 0);
        let last = bytes.last_chunk().filter(|_| fits);
        last.map_or(Self::LATEST, |bytes| Self(*bytes))
    }

    fn get(self) -> u64 {
        if self == Self::LATEST {
            return u64::MAX;
        }
        let add = |time, byte: &u8| time << 8 | u64::from(*byte);
        self.0.iter().fold(0, add)
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    begun_until: Time<6>,
    forget_at: Time<4>,
    /// The last reading of the stream in which it was there.
    reading: u16,
    pub(super) cause: Cause,
    replication: Replication,
}

impl Entry {
    pub(super) fn new(revocation: &Revocation, source: Source, reading: u16) -> Self {
        Self {
            cause: revocation.cause,
            begun_until: Time::new(revocation.begun_until),
            forget_at: Time::new(revocation.forget_at),
            reading,
            replication: match source {
                Source::Local => Replication::Local,
                Source::Shared => Replication::Needed,
                Source::Learned => Replication::Acknowledged,
            },
        }
    }

    /// Only sessions whose login began then or before are revoked, in milliseconds since 1970.
    pub(super) fn begun_until(&self) -> u64 {
        self.begun_until.get()
    }

    /// When it can be removed, in seconds since 1970.
    pub(super) fn forget_at(&self) -> u64 {
        self.forget_at.get()
    }

    /// The part that the stream has. The cause follows from the kind.
    const fn stored(&self) -> (Time<6>, Time<4>) {
        (self.begun_until, self.forget_at)
    }

    /// Merges another revocation into the entry: the later values win. Returns whether the entry
    /// changed.
    pub(super) fn merge(&mut self, new: &Revocation, source: Source, reading: u16) -> bool {
        let (cause, stored) = (self.cause, self.stored());
        let new_stored = (Time::new(new.begun_until), Time::new(new.forget_at));
        self.cause = self.cause.max(new.cause);
        self.begun_until = self.begun_until.max(new_stored.0);
        self.forget_at = self.forget_at.max(new_stored.1);
        let grew = stored != self.stored();
        self.replication = match (source, self.replication) {
            (Source::Shared, Replication::Local) => Replication::Needed,
            (Source::Shared, Replication::Acknowledged) if grew => Replication::Needed,
            (Source::Local, Replication::Acknowledged) if grew => Replication::Local,
            // The stream has all of it. A response to an offer still comes.
            (Source::Learned, before) if new_stored == self.stored() => {
                self.reading = reading;
                match before {
                    Replication::Offered => Replication::Offered,
                    _ => Replication::Acknowledged,
                }
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

    /// Whether it was in the stream and is no longer: this reading did not find it.
    pub(super) fn is_missing(&self, reading: u16) -> bool {
        self.replication == Replication::Acknowledged && self.reading != reading
    }

    /// Queues a revocation that the stream has lost.
    pub(super) fn requeue_missing(&mut self, reading: u16) -> bool {
        let is_missing = self.is_missing(reading);
        if is_missing {
            self.replication = Replication::Queued;
        }
        is_missing
    }

    /// Whether a logout waits for it: it is not in the stream, and Redis has not refused it.
    pub(super) const fn is_awaited(&self) -> bool {
        match self.replication {
            Replication::Needed | Replication::Queued | Replication::Offered => true,
            Replication::Local | Replication::Refused | Replication::Acknowledged => false,
        }
    }

    /// Whether the stream has it.
    pub(super) const fn is_acknowledged(&self) -> bool {
        matches!(self.replication, Replication::Acknowledged)
    }

    /// Marks the entry as offered. Returns whether it has to be: the stream may have it from another
    /// replica in the meantime.
    pub(super) fn offer(&mut self) -> bool {
        let is_due = matches!(self.replication, Replication::Queued | Replication::Refused);
        if is_due {
            self.replication = Replication::Offered;
        }
        is_due
    }

    /// Records the result of an offer; returns when it must be offered again, if at all.
    pub(super) fn settle(
        &mut self,
        sent: &Revocation,
        delivery: Delivery,
        reading: u16,
    ) -> Option<Resend> {
        // Removed and recorded anew in the meantime: it is queued already.
        if self.replication != Replication::Offered {
            return None;
        }
        let sent = (Time::new(sent.begun_until), Time::new(sent.forget_at));
        let (replication, again) = match delivery {
            Delivery::Stored if sent != self.stored() => {
                (Replication::Queued, Some(Resend::AtOnce))
            }
            Delivery::Stored => (Replication::Acknowledged, None),
            Delivery::Refused => (Replication::Refused, Some(Resend::Later)),
        };
        self.replication = replication;
        self.reading = reading;
        again
    }

    /// Queues what was offered or refused on a connection that has ended.
    pub(super) fn offer_again(&mut self) {
        if matches!(
            self.replication,
            Replication::Offered | Replication::Refused
        ) {
            self.replication = Replication::Queued;
        }
    }

    /// The revocation as it is sent to the other replicas.
    pub(super) fn replicated(&self, (kind, name): Key) -> Revocation {
        Revocation {
            kind,
            name,
            cause: kind.replicated_cause(),
            begun_until: self.begun_until(),
            forget_at: self.forget_at(),
        }
    }
}

/// When a revocation that Redis has not acknowledged is offered again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resend {
    /// The entry has changed since it was sent.
    AtOnce,
    /// Redis refused it.
    Later,
}
