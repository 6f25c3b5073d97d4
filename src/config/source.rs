//! Where the settings come from, so that the files that they name can be read again.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use ::config::Value;
use aws_lc_rs::digest::{Context, SHA256};
use iam_adapters::files;
use iam_adapters::registry::Registry;
use secrecy::{ExposeSecret as _, SecretString};

/// The settings file as it was at the start, the environment, and the kinds of IAM. Each load reads
/// the files that they name, so only those can change without a restart.
#[derive(Debug)]
pub struct SettingsSource {
    /// An error has the path.
    pub(super) file: Option<Result<SettingsFile, String>>,
    /// Some are secrets.
    pub(super) environment: BTreeMap<String, SecretString>,
    pub(super) registry: Registry,
}

/// The settings file, which may contain secrets.
#[derive(Debug)]
pub(super) struct SettingsFile {
    pub(super) path: PathBuf,
    /// Its permission bits.
    pub(super) mode: u32,
    text: SecretString,
}

impl SettingsSource {
    /// Reads the settings file, if one is given. The environment overrides it.
    #[must_use]
    pub fn new(
        file: Option<&Path>,
        environment: &BTreeMap<String, String>,
        registry: &Registry,
    ) -> Self {
        let variables = environment.iter();
        let variables = variables.map(|(name, value)| (name.clone(), value.as_str().into()));
        Self {
            file: file.map(SettingsFile::read),
            environment: variables.collect(),
            registry: registry.clone(),
        }
    }
}

impl SettingsFile {
    fn read(path: &Path) -> Result<Self, String> {
        let read = || {
            let mut file = File::open(path)?;
            let mode = files::mode(&file.metadata()?);
            let mut text = String::new();
            file.read_to_string(&mut text)?;
            Ok((mode, text.into()))
        };
        let (mode, text) = read().map_err(|error: io::Error| {
            let reason = files::reason(&error);
            format!("{}: cannot be read: {reason}", path.display())
        })?;
        let path = path.to_owned();
        Ok(Self { path, mode, text })
    }

    /// The values of the file. An error has the number of the line but not its text, which may contain
    /// a secret.
    pub(super) fn values(&self) -> Result<BTreeMap<String, Value>, String> {
        let text = self.text.expose_secret();
        toml::from_str(text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start));
            let line = before.unwrap_or_default().matches('\n').count() + 1;
            // Only the text of a number that is too large quotes it. It may be a secret without its quotation marks.
            let message = match error.message() {
                quoted if quoted.starts_with("invalid type") => {
                    "a number is too large for a setting; a text needs quotes"
                }
                parsed => parsed,
            };
            format!(
                "{}: line {line} is not TOML: {message}",
                self.path.display()
            )
        })
    }
}

/// The files that the settings name, and a digest of them from before they were read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamedFiles {
    paths: Vec<PathBuf>,
    digest: Vec<u8>,
}

impl NamedFiles {
    pub(super) fn new(paths: Vec<PathBuf>) -> Self {
        let digest = digest(&paths);
        Self { paths, digest }
    }

    /// The same files as they are now.
    #[must_use]
    pub fn again(&self) -> Self {
        Self::new(self.paths.clone())
    }
}

/// Over the permissions and the content of each file, or the reason why it cannot be read.
fn digest(paths: &[PathBuf]) -> Vec<u8> {
    let mut digest = Context::new(&SHA256);
    for path in paths {
        let read = files::open(path).and_then(|mut file| {
            let mode = files::mode(&file.metadata()?);
            let mut content = Vec::new();
            file.read_to_end(&mut content)?;
            Ok((mode, content))
        });
        let (mode, content) = read.unwrap_or_else(|error| (0, files::reason(&error).into_bytes()));
        digest.update(&mode.to_be_bytes());
        digest.update(&content.len().to_be_bytes());
        digest.update(&content);
    }
    digest.finish().as_ref().to_vec()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn changed_content_permissions_and_missing_files_are_detected() {
        let folder = tempfile::tempdir().expect("a folder");
        let [one, two] = ["one", "two"].map(|name| folder.path().join(name));
        fs::write(&one, "a").expect("written");
        let mut before = NamedFiles::new(vec![one.clone(), two.clone()]);
        let mut changes = |what: &str, expected: bool| {
            let now = before.again();
            assert_eq!(now != before, expected, "{what}");
            before = now;
        };
        changes("nothing", false);
        fs::write(&one, "a").expect("written");
        changes("the same content", false);
        fs::write(&one, "b").expect("written");
        changes("another content", true);
        fs::set_permissions(&one, Permissions::from_mode(0o600)).expect("permissions");
        changes("other permissions", true);
        fs::write(&two, "").expect("written");
        changes("a new file", true);
        fs::remove_file(&one).expect("removed");
        changes("no file", true);
    }
}
