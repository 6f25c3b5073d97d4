//! Where the settings come from, so that the files that they name can be read again.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{Context, SHA256};
use iam_adapters::files;
use iam_adapters::registry::Registry;
use secrecy::SecretString;

use super::effective::EffectiveSettings;
use super::known::is_own_variable;
use super::layers::Layers;
use super::problems::Problems;
use super::{InvalidSettings, Settings, reading, safety};

/// The settings file as it was at the start, the environment, and the kinds of IAM. Each load reads
/// the files that they name, so only those can change without a restart.
pub struct Source {
    pub(super) file: Option<(PathBuf, Result<FileText, String>)>,
    /// The variables that may be settings. Some are secrets.
    pub(super) environment: BTreeMap<String, SecretString>,
    pub(super) registry: Registry,
}

/// The text of the settings file, which may contain secrets.
pub(super) struct FileText {
    /// The permission bits of the file.
    pub(super) mode: u32,
    pub(super) text: SecretString,
}

/// Without the text and the environment.
impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.as_ref().map(|(path, _)| path);
        f.debug_struct("Source")
            .field("file", &file)
            .finish_non_exhaustive()
    }
}

impl Source {
    /// Reads the settings file, if one is given. The environment overrides it.
    #[must_use]
    pub fn new(
        file: Option<&Path>,
        environment: &BTreeMap<String, String>,
        registry: &Registry,
    ) -> Self {
        let variables = environment.iter();
        let variables = variables.filter(|(name, _)| is_own_variable(name));
        let variables = variables.map(|(name, value)| (name.clone(), value.as_str().into()));
        Self {
            file: file.map(|path| (path.to_owned(), read(path))),
            environment: variables.collect(),
            registry: registry.clone(),
        }
    }

    /// Reads the settings as [`load`](super::load) does, and calls `prepare` with them. The error has
    /// the problems of both. A setting that cannot be read has its default in `prepare`.
    ///
    /// # Errors
    ///
    /// [`InvalidSettings`] with every problem.
    pub(crate) fn load_with<T>(
        &self,
        prepare: impl FnOnce(&Settings, &mut Problems) -> Option<T>,
    ) -> Result<(Settings, T), InvalidSettings> {
        let loaded = self.load_layers(prepare);
        loaded.map(|(_, settings, prepared)| (settings, prepared))
    }

    /// Reads the settings as [`load`](super::load) does, with the origin of each.
    ///
    /// # Errors
    ///
    /// [`InvalidSettings`] with every problem.
    pub fn effective(&self) -> Result<EffectiveSettings, InvalidSettings> {
        let (layers, settings, ()) = self.load_layers(|_, _| Some(()))?;
        Ok(EffectiveSettings::new(&settings, &layers, &self.registry))
    }

    fn load_layers<T>(
        &self,
        prepare: impl FnOnce(&Settings, &mut Problems) -> Option<T>,
    ) -> Result<(Layers, Settings, T), InvalidSettings> {
        let mut problems = Problems::default();
        let layers = Layers::gather(self, &mut problems);
        if self.file.is_some() && layers.file.is_none() {
            // Without the file, everything that it sets would be a problem too.
            return Err(InvalidSettings {
                problems: problems.into_lines(Some(&layers)),
            });
        }
        let loaded =
            reading::settings(&layers, &self.registry, &mut problems).and_then(|mut settings| {
                settings.check(&mut problems);
                if let Some(file) = &layers.file {
                    safety::check_file(&settings, file, &mut problems);
                }
                settings.derive_defaults();
                settings.files = layers.files.clone();
                let prepared = prepare(&settings, &mut problems)?;
                Some((settings, prepared))
            });
        match loaded {
            Some((settings, prepared)) if problems.is_empty() => Ok((layers, settings, prepared)),
            _ => Err(InvalidSettings {
                problems: problems.into_lines(Some(&layers)),
            }),
        }
    }
}

fn read(path: &Path) -> Result<FileText, String> {
    let read = || {
        let mut file = File::open(path)?;
        let mode = files::mode(&file.metadata()?);
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let text = text.into();
        Ok(FileText { mode, text })
    };
    read().map_err(|error: io::Error| format!("cannot be read: {}", files::reason(&error)))
}

/// The files that the settings name, and a digest of them from before they were read.
#[derive(Debug, Clone, Default)]
pub struct NamedFiles {
    paths: Vec<PathBuf>,
    digest: Vec<u8>,
}

impl NamedFiles {
    pub(super) fn new(paths: Vec<PathBuf>) -> Self {
        let digest = digest(&paths);
        Self { paths, digest }
    }

    /// The paths.
    #[must_use]
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// The same files as they are now.
    #[must_use]
    pub fn again(&self) -> Self {
        Self::new(self.paths.clone())
    }

    /// Whether these are the same files with the same contents and permissions.
    #[must_use]
    pub fn are_as(&self, other: &Self) -> bool {
        (&self.paths, &self.digest) == (&other.paths, &other.digest)
    }
}

/// Over the permissions and the content of each file, or the reason why it cannot be read.
fn digest(paths: &[PathBuf]) -> Vec<u8> {
    let mut digest = Context::new(&SHA256);
    for path in paths {
        let read = File::open(path).and_then(|mut file| {
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
            assert_eq!(!now.are_as(&before), expected, "{what}");
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
