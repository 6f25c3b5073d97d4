//! Several gateways with a real Redis between them. Where the machine has no `redis-server`, that is
//! said and the tests are none; with CI=true it is a failure.

// The attribute tells clippy that what helps the tests is test code as well.
#[cfg(test)]
#[expect(dead_code, reason = "the tests of the API need more of it")]
#[path = "../api/app.rs"]
mod app;
#[cfg(test)]
#[path = "../process/canary.rs"]
mod canary;
#[cfg(test)]
#[expect(
    dead_code,
    unused_imports,
    reason = "the tests of the API need more of it"
)]
#[path = "../api/client.rs"]
mod client;
#[path = "../api/contract.rs"]
mod contract;
#[cfg(test)]
mod figures;
#[cfg(test)]
mod forgery;
#[cfg(test)]
mod joining;
#[cfg(test)]
mod logout;
#[cfg(test)]
#[path = "../process/logout_token.rs"]
mod logout_token;
#[cfg(test)]
mod outage;
#[cfg(test)]
mod processes;
#[cfg(test)]
#[expect(dead_code, reason = "the tests of the executable need more of it")]
#[path = "../process/program.rs"]
mod program;
#[cfg(test)]
mod refusing;
#[cfg(test)]
mod scene;
#[cfg(test)]
#[expect(dead_code, reason = "other binaries use the rest of it")]
#[path = "../../iam-adapters/tests/it/scripted_upstream.rs"]
mod scripted_upstream;
#[cfg(test)]
mod secrecy;
#[cfg(test)]
mod server;
#[cfg(test)]
mod starting;
#[cfg(test)]
mod tls;
#[cfg(test)]
#[expect(dead_code, reason = "the tests of the executable need more of it")]
#[path = "../process/watched.rs"]
mod watched;
#[cfg(test)]
#[expect(dead_code, reason = "other binaries use the rest of it")]
#[path = "../process/wire.rs"]
mod wire;
