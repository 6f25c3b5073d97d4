//! Tests of the adapters against scripted servers.

// The attribute tells clippy that the helpers of the tests are test code.
#[cfg(test)]
mod calls;
#[cfg(test)]
mod client;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod keycloak;
#[cfg(test)]
mod kratos;
#[cfg(test)]
mod ldap;
#[cfg(test)]
mod oauth2;
#[cfg(test)]
mod permission_source;
