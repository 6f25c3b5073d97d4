//! Several gateways with a real Redis between them. Where the machine has no `redis-server`, that is
//! said and the tests are none; with CI=true it is a failure.

// The attribute tells clippy that what helps the tests is test code as well.
#[cfg(test)]
#[expect(dead_code, reason = "the tests of the API need more of it")]
#[path = "../api/app.rs"]
mod app;
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
mod secrecy;
#[cfg(test)]
mod server;
#[cfg(test)]
mod tls;
