//! The mock IAM as an instrument: namespaces, each of them an IAM of its own with a gateway before
//! it, so that tests that run at the same time know nothing of each other; and what tests ask of
//! tokens and scopes.

pub mod explain;
mod logout_receiver;
mod name;
mod namespaces;
pub mod snapshots;
pub mod tokens;

pub use logout_receiver::LogoutReceiver;
pub use name::{InvalidName, Name};
pub use namespaces::{Forgetting, Founder, House, Namespaces, TooMany, World};
