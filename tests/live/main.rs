//! The gateway with a real Keycloak. `tests/run` starts one and sets its address in the
//! environment; without it, every test is ignored.

#![expect(
    clippy::disallowed_methods,
    reason = "tests use the machine's time, own clients and variables that choose what is tested"
)]

// The attribute tells clippy that the helpers of tests are test code.
#[cfg(test)]
mod addresses;
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
mod backchannel_logout;
#[cfg(test)]
mod conformance;
#[cfg(test)]
mod differential;
#[cfg(test)]
mod figures;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod keycloak;
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
mod sessions;
