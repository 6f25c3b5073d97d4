//! The gateway before a real Keycloak. `tests/run` starts one and tells where it is; every test here
//! is ignored where nobody did.

// The attribute tells clippy that what helps the tests is test code as well.
#[cfg(test)]
mod admin_api;
#[cfg(test)]
mod administered;
#[cfg(test)]
mod administrator;
#[cfg(test)]
mod another_realm;
#[cfg(test)]
mod api_suite;
#[cfg(test)]
#[path = "../api/app.rs"]
mod app;
#[cfg(test)]
mod backchannel_logout;
#[cfg(test)]
#[path = "../api/client.rs"]
mod client;
#[cfg(test)]
mod conformance;
#[path = "../api/contract.rs"]
mod contract;
#[cfg(test)]
mod differential;
#[cfg(test)]
mod figures;
#[cfg(test)]
mod keycloak;
#[cfg(test)]
mod logout_inbox;
#[cfg(test)]
mod misconfigured;
#[cfg(test)]
mod outage;
#[cfg(test)]
mod process;
#[cfg(test)]
mod random_scopes;
#[cfg(test)]
mod replicas;
#[cfg(test)]
mod scene;
#[cfg(test)]
#[expect(dead_code, reason = "the tests of the adapter need more of it")]
#[path = "../../iam-adapters/tests/it/scripted_upstream.rs"]
mod scripted_upstream;
#[cfg(test)]
mod sessions;
#[cfg(test)]
#[path = "../api/suite.rs"]
mod suite;
