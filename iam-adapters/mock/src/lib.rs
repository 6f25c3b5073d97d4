//! The mock IAM: an in-memory IAM for development and tests.
//!
//! [`Directory`] is the IAM, [`Mock`] its adapter, which injects [`faults`] and keeps a [`journal`].
//! [`ShiftedClock`] and [`ManualClock`] are times that tests set. [`wire`] serves an IAM to another process in Keycloak's
//! protocol. The program `auth-gateway-dev` runs all of it with a gateway.

mod host_name;
mod iam;
pub mod jws;
mod logout_signer;
mod manual_clock;
pub mod random;
mod shifted_clock;
pub mod wire;

pub use host_name::{HostName, InvalidHostName};
pub use iam::{
    AccountState, DEMO_USERS, Directory, DirectorySnapshot, Format, Identity, InvalidTotpSecret,
    InvalidUser, InvalidUsers, LiveSession, Lockout, Mock, MockSettings, NAME, PendingCall,
    TotpVerifier, User, Users, UsersError, faults, journal, load, parse, with_begun_session, write,
};
pub use logout_signer::{LogoutSigner, logout_claims};
pub use manual_clock::ManualClock;
pub use shifted_clock::{Offset, ShiftError, ShiftedClock};
