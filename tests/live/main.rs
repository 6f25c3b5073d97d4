//! The gateway with real IAMs. `tests/run` starts a Keycloak and sets its address in the
//! environment, and installs the servers that tests start; without them, every test is ignored.

// Tells clippy that the helpers of tests are test code.
#![cfg(test)]
#![expect(
    clippy::disallowed_methods,
    reason = "tests use the machine's time, own clients and variables that choose what is tested"
)]

mod addresses;
mod admin_api;
mod administered;
mod administrator;
mod another_realm;
mod api_suite;
mod backchannel_logout;
mod claims;
mod client_authentication;
mod conformance;
mod differential;
mod fixture;
mod keycloak;
mod kratos;
mod launched;
mod ldap;
mod metrics;
mod misconfigured;
mod oauth2;
mod outage;
mod permission_source;
mod process;
mod random_scopes;
mod reload;
mod secrecy;
mod sessions;
mod settings_file;
mod several_iams;
mod traces;
mod version;
