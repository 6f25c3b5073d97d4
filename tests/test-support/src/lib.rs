//! Fixtures that several test binaries share: gateways, clients, IAMs, and the suite of the API.
//!
//! A unit-test build of a crate is a different crate from its library, so its types differ from those here. Unit tests
//! of the adapters use only [`canary`], [`json`], [`scripted_upstream`], [`wycheproof`], [`LogoutSigner`] and the times
//! of [`ManualClock`], which contain no type of the gateway or the adapters; those of the core also
//! [`misconfigurations`], [`scripted_iam`], [`slow_iam`], [`resilient`] and [`wrapper`], which implement the trait of
//! the adapters.

#![expect(
    clippy::disallowed_methods,
    reason = "tests use the machine's time, own clients and variables that choose what is tested"
)]
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a fixture that does not work has to end its test"
)]
#![expect(
    clippy::missing_panics_doc,
    clippy::must_use_candidate,
    reason = "all callers are tests"
)]

pub mod canary;
pub mod client;
pub mod contract;
pub mod development_markers;
pub mod endpoints;
pub mod files;
pub mod gateway;
pub mod json;
pub mod keys;
pub mod log;
pub mod logout_inbox;
pub mod logout_token;
pub mod machine;
pub mod metrics;
pub mod misconfigurations;
pub mod mock_fixture;
pub mod program;
pub mod redis_server;
pub mod resilient;
pub mod rng;
pub mod scenario;
pub mod scripted_iam;
pub mod scripted_upstream;
pub mod secrecy;
pub mod slow_iam;
pub mod spans;
pub mod suite;
pub mod totp;
pub mod wait;
pub mod wire;
pub mod wrapper;
pub mod wycheproof;

pub use mock_iam::{LogoutSigner, ManualClock};
