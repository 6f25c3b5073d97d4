//! The map of the house.
//!
//! [`gateway`] decides: the three operations over one IAM adapter. [`http`] translates between the
//! network and the gateway, [`server`] limits connections and knows nothing of the others, [`replicas`] between the gateway and others of its kind. [`startup`] is the only place that knows everyone and connects them;
//! around them stand [`cli`], [`config`], [`telemetry`] and [`health`].

pub mod cli;
pub mod config;
pub mod gateway;
pub mod health;
pub mod http;
pub mod replicas;
pub mod server;
pub mod startup;
pub mod telemetry;
