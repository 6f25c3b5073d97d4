//! Reads aloud: arguments, then the command; settings and the rest are the command's affair.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::process::ExitCode;

use auth_gateway::cli::{self, Exit};

fn main() -> ExitCode {
    // A variable that is not Unicode is no setting of ours.
    let environment: BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let command = match cli::parse(std::env::args_os(), &environment) {
        Ok(command) => command,
        Err(stop) => {
            let written = if stop.exit == Exit::Ok {
                write!(io::stdout(), "{}", stop.text)
            } else {
                write!(io::stderr(), "{}", stop.text)
            };
            return written.map_or(Exit::Internal, |()| stop.exit).into();
        }
    };
    let exit = cli::run(command, &environment, &mut io::stdout(), &mut io::stderr());
    exit.unwrap_or_else(|error| {
        let _ = writeln!(io::stderr(), "auth-gateway: {error:#}");
        Exit::Internal
    })
    .into()
}
