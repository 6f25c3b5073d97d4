//! A deterministic simulation of the gateway: three replicas of the real code, a Redis, an IAM, clients and an
//! operator in one thread. Time, delays, faults and random numbers come from a seed, so a seed repeats its
//! history (`SIM_SEED`).
//!
//! * **Real**: `crates/core`, `crates/replication` with its client of Redis and its Lua scripts, the layers
//!   around every adapter, the JSON and the cryptography.
//! * **Simulated**: the time (the paused clock of tokio), the clocks of the replicas, the network to Redis (an
//!   in-memory stream), Redis itself (`redis.rs`), the IAM (`iam.rs`).
//!
//! Not `turmoil` or `madsim`: both replace the network types of tokio, and the client of Redis and reqwest use
//! the real ones. Madsim also replaces functions of the C library, which this workspace forbids (no `unsafe`).
//! The gateway has seams in the right places: `Clock`, `Random`, `IamAdapter`, and the function that opens a
//! connection to Redis. With them, an own executor is the one of tokio with one thread and paused time.
//!
//! What a seed does not repeat: the signatures of access tokens, and the order in which a `HashMap` is
//! visited. Neither has an effect that a client, Redis or the IAM sees; `one_seed_has_one_history` tests that.

#[cfg(test)]
mod clock;
#[cfg(test)]
mod iam;
#[cfg(test)]
mod network;
#[cfg(test)]
mod oracle;
#[cfg(test)]
mod plan;
#[cfg(test)]
mod redis;
#[cfg(test)]
mod replica;
#[cfg(test)]
mod resp;
#[cfg(test)]
mod script;
#[cfg(test)]
mod shrink;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod trace;
