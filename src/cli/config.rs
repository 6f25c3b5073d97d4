//! `config show`: the settings in effect.

use std::io::ErrorKind;

use super::error::UserError;
use super::{ConfigFile, Exit, Invocation};

#[derive(Debug, PartialEq, Eq, clap::Subcommand)]
pub enum ConfigCommand {
    /// Write the settings in effect with their origins, without secrets
    ///
    /// The output is a settings file, with the origin of each value as a comment: the default, the file
    /// or a variable of the environment. It can be loaded again if the secrets are set elsewhere.
    Show {
        #[command(flatten)]
        config: ConfigFile,
        /// Write JSON: an object for each key, with `value` or `hidden`, and `origin`
        #[arg(long)]
        json: bool,
    },
}

pub(super) fn show(
    config: &ConfigFile,
    json: bool,
    invocation: &mut Invocation<'_>,
) -> anyhow::Result<Exit> {
    let source = invocation.source(config);
    let settings = source.effective().map_err(UserError::from)?;
    let text = if json {
        serde_json::to_string_pretty(&settings)? + "\n"
    } else {
        settings.to_string()
    };
    let out = &mut invocation.out;
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // The reader has what it wanted, such as `head`.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Exit::Ok),
        written => Ok(written.map(|()| Exit::Ok)?),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::{self, Write};

    use super::*;
    use crate::config::sample;

    /// A pipe whose reader has ended, or another output that cannot be written.
    struct Broken(ErrorKind);

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn reader_that_ends_early_is_no_failure() {
        for (kind, ends_quietly) in [
            (ErrorKind::BrokenPipe, true),
            (ErrorKind::StorageFull, false),
        ] {
            for json in [false, true] {
                let ended = show(
                    &ConfigFile::default(),
                    json,
                    &mut Invocation {
                        registry: &sample::registry(),
                        environment: &BTreeMap::new(),
                        out: &mut Broken(kind),
                        err: &mut io::sink(),
                    },
                );
                assert_eq!(ended.is_ok_and(|exit| exit == Exit::Ok), ends_quietly);
            }
        }
    }
}
