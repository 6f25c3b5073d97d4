//! What only the real executable can show: its streams, its signals, its exit codes.

// The attribute tells clippy that what helps the tests is test code as well.
#[cfg(test)]
mod canary;
#[cfg(test)]
mod check;
#[cfg(test)]
mod development;
#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod keys;
#[cfg(test)]
mod log;
#[cfg(test)]
mod logout_token;
#[cfg(test)]
mod mock_control;
#[cfg(test)]
mod mock_iam;
#[cfg(test)]
mod program;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod reload;
#[cfg(test)]
mod report;
#[cfg(test)]
mod rotate;
#[cfg(test)]
mod secrecy;
#[cfg(test)]
mod secrets;
#[cfg(test)]
mod stopping;
#[cfg(test)]
mod tls;
#[cfg(test)]
mod watched;
#[cfg(test)]
#[expect(dead_code, reason = "other binaries use the rest of it")]
mod wire;

#[cfg(test)]
#[path = "../../iam-adapters/tests/it/scripted_upstream.rs"]
#[expect(dead_code, reason = "other binaries use the rest of it")]
mod scripted_upstream;
