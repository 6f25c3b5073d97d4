//! The gateway for production.

use std::process::ExitCode;

use auth_gateway::cli::{self, Program};
use tikv_jemallocator::Jemalloc;

/// It returns the memory of a burst, which the allocator of glibc keeps.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    cli::execute(cli::parse, |command, environment, out, err| {
        cli::run(&command, &Program::default(), environment, out, err)
    })
}
