//! The gateway for development and tests: with the mock IAM, and the command `mock-iam`.

use std::process::ExitCode;

fn main() -> ExitCode {
    auth_gateway::cli::execute(mock_iam::cli::parse, mock_iam::cli::run)
}
