//! The gateway for production.

use std::process::ExitCode;

use auth_gateway::cli::{self, Program};

fn main() -> ExitCode {
    cli::execute(cli::parse, |command, environment, out, err| {
        cli::run(&command, &Program::default(), environment, out, err)
    })
}
