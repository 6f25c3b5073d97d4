//! The map of the house.
//!
//! [`gateway`] decides: the three operations over one IAM adapter. [`http`] translates between the
//! network and the gateway. [`startup`] is the only place that knows everyone and connects them.

pub mod gateway;
