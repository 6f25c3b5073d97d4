//! The gateway for development and tests: with the mock IAM, and the command `mock-iam`.

use std::process::ExitCode;

use tikv_jemallocator::Jemalloc;

/// As that of the gateway for production.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    auth_gateway::cli::execute(auth_gateway_dev::cli::parse, auth_gateway_dev::cli::run)
}
