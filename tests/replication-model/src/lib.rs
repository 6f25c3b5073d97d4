//! An executable model of what replicas share through Redis: revocations in a stream, and cached data.
//!
//! It specifies this protocol (`docs/replication.md`):
//!
//! * A revocation is an entry of one stream. A replica keeps it pending until Redis acknowledges it.
//! * A replica reads the stream from its beginning after every connection, because a server that took
//!   over may use lower ids. It issues no token before it has read the stream once.
//! * It adds those of its revocations again that the stream lacks: a failover loses acknowledged
//!   entries.
//! * An entry is removed when it has expired by the clock of Redis, never by that of a replica.
//! * The age of cached data is the greater of two: by the wall clocks of the replicas, and by the
//!   remaining time to live in Redis. Revocations are looked up again after it was read.
//!
//! The model follows one session. The model checker visits every state that the actions can reach
//! within a few units of time and a few faults, and checks the properties in `model.rs`. Each property
//! is also checked against a protocol with one deliberate `Flaw`, and the test has a history in which
//! it fails.

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
