//! The values of the settings file and of the environment, which overrides it, and their origins.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use ::config::{Value, ValueKind};
use iam_adapters::registry::{AdapterKind, Registry};
use iam_adapters::secret_file;
use secrecy::{ExposeSecret as _, SecretString};

use super::errors::ConfigErrors;
use super::known::{KnownSettings, PREFIX, join};
use super::origin::Origin;
use super::source::{NamedFiles, SettingsFile, SettingsSource};

/// Replaces a value that is missing or invalid, so that the other settings can be read. Its key has a
/// problem already, so no gateway runs with it.
pub(super) const PLACEHOLDER: &str = "https://missing.invalid";

/// The values that are set, by full key. They contain secrets, so they are not logged, and dropped
/// after loading.
///
/// The crate `config` could merge the environment and the file too. But it ignores the case of
/// variables, replaces a whole section of the file if that is not a table, and does not keep the name
/// of the variable that set a value.
#[derive(Default)]
pub(crate) struct Layers {
    /// A section of the file is an empty table here, because the section alone selects an adapter.
    pub(super) values: BTreeMap<String, Value>,
    /// The variable or the file that set each key or section.
    origins: BTreeMap<String, Origin>,
    /// The keys of the secrets that the settings file holds.
    pub(super) secrets_in_file: Vec<String>,
    pub(super) files: NamedFiles,
    /// The sections of IAMs that can be read, by name.
    pub(super) iams: BTreeMap<String, AdapterKind>,
    pub(super) known: KnownSettings,
}

impl Layers {
    /// Reads the file, the environment and the files of secrets.
    ///
    /// # Errors
    ///
    /// The settings file cannot be read.
    pub(super) fn gather(
        source: &SettingsSource,
        problems: &mut ConfigErrors,
    ) -> Result<Self, String> {
        let SettingsSource {
            file,
            environment,
            registry,
        } = source;
        let file = file.as_ref().map(Result::as_ref).transpose()?;
        let in_file = file.map(SettingsFile::values).transpose()?;
        let mut in_file = in_file.unwrap_or_default();
        let iams = iam_kinds(&mut in_file, environment, registry, problems);
        let mut layers = Self {
            known: KnownSettings::new(registry, &iams),
            iams,
            ..Self::default()
        };
        for (name, value) in in_file {
            let path = file.map_or(Path::new(""), |file| &file.path);
            layers.add_from_file(name, value, path, problems);
        }
        let secrets: Vec<_> = layers.known.secrets().map(str::to_owned).collect();
        let mut in_file = secrets.clone();
        in_file.retain(|key| layers.values.contains_key(key));
        layers.secrets_in_file = in_file;
        for (variable, text) in environment {
            if let Some(key) = layers.known.key_of(variable) {
                // A text, so that a secret of digits keeps its zeros. The types parse numbers.
                let value = Value::new(None, text.expose_secret());
                layers.values.insert(key.to_owned(), value);
                let origin = Origin::Environment(variable.clone());
                layers.origins.insert(key.to_owned(), origin);
            } else if layers.known.means_setting(variable) {
                let nearest = layers.known.nearest_variable(variable);
                problems.add(
                    variable,
                    format!("no such setting; the nearest is {nearest}"),
                );
            }
        }
        let files = layers.values.iter();
        let files = files.filter(|(key, _)| key.ends_with("_file"));
        let paths = files.filter_map(|(_, path)| path.clone().into_string().ok());
        layers.files = NamedFiles::new(paths.map(PathBuf::from).collect());
        for key in &secrets {
            layers.read_secret(key, problems);
        }
        Ok(layers)
    }

    /// The values of a section, by their names in it.
    pub(super) fn below(&self, section: &str) -> BTreeMap<String, Value> {
        let prefix = join(section, "");
        let values = self.values.iter().filter_map(|(key, value)| {
            let name = key.strip_prefix(&prefix)?;
            Some((name.to_owned(), value.clone()))
        });
        values.collect()
    }

    /// The origin of a setting, of a secret's file, or of anything in a section: an environment
    /// variable or the file.
    pub(super) fn origin(&self, key: &str) -> Option<&Origin> {
        let mut origins = self.origins.iter();
        let (_, origin) = origins.find(|(set, _)| {
            let rest = set.strip_prefix(key);
            rest.is_some_and(|rest| matches!(rest, "" | "_file") || rest.starts_with('.'))
        })?;
        Some(origin)
    }

    fn add_from_file(
        &mut self,
        key: String,
        value: Value,
        path: &Path,
        problems: &mut ConfigErrors,
    ) {
        let known = &self.known;
        self.origins
            .insert(key.clone(), Origin::File(path.to_owned()));
        match value.kind {
            ValueKind::Table(table) if known.is_section(&key) => {
                for (name, value) in BTreeMap::from_iter(table) {
                    self.add_from_file(join(&key, &name), value, path, problems);
                }
                self.values
                    .insert(key, HashMap::<String, Value>::new().into());
            }
            _ if known.keys.contains(&key) => drop(self.values.insert(key, value)),
            _ if known.is_section(&key) => {
                let names = known.names_in(&key);
                problems.add(&key, format!("is a section; in it there are: {names}"));
            }
            _ => {
                let nearest = known.nearest_key(&key);
                let section = key.rsplit_once('.').map_or("", |(section, _)| section);
                let names = known.names_in(section);
                let hint = match section {
                    "iam" => "; a section with another name needs `type`",
                    _ => "",
                };
                problems.add(
                    &key,
                    format!("no such setting; the nearest is {nearest}; there are: {names}{hint}"),
                );
            }
        }
    }

    /// Reads a secret (`password`) from its file (`password_file`), so that it is read once and the rest of
    /// the program knows one setting. One of the two may be set.
    fn read_secret(&mut self, key: &str, problems: &mut ConfigErrors) {
        let file_key = format!("{key}_file");
        let (problem_key, problem) = match (self.values.get(key), self.values.get(&file_key)) {
            (None, None) => return,
            (Some(inline), None) => match &inline.kind {
                ValueKind::String(secret) if secret.is_empty() => {
                    (key, "must not be empty".to_owned())
                }
                _ => return,
            },
            (None, Some(file)) => match read_secret_file(file.clone()) {
                Ok(secret) => {
                    self.values.insert(key.to_owned(), secret);
                    return;
                }
                Err(problem) => (file_key.as_str(), problem),
            },
            (Some(_), Some(_)) => {
                let (section, name) = key.rsplit_once('.').unwrap_or(("", key));
                let problem = format!("{name} and {name}_file exclude each other");
                (section, problem)
            }
        };
        problems.add(problem_key, problem);
        problems.mark_unread(key);
        self.values.remove(&file_key);
        let placeholder = Value::new(None, PLACEHOLDER);
        self.values.insert(key.to_owned(), placeholder);
    }
}

/// The kinds of the IAMs by the names of their sections: those that `type` selects, in the file or in
/// the environment, and one of each kind's own name. Removes sections without a usable kind from the
/// file's values.
fn iam_kinds(
    in_file: &mut BTreeMap<String, Value>,
    environment: &BTreeMap<String, SecretString>,
    registry: &Registry,
    problems: &mut ConfigErrors,
) -> BTreeMap<String, AdapterKind> {
    let kinds = registry.kinds.iter();
    let mut iams: BTreeMap<_, _> = kinds.map(|kind| (kind.name.to_owned(), *kind)).collect();
    let in_file = in_file.get_mut("iam").map(|iams| &mut iams.kind);
    let mut sections = match in_file {
        Some(ValueKind::Table(sections)) => Some(sections),
        _ => None,
    };
    let mut types: BTreeMap<String, String> = BTreeMap::new();
    for (name, section) in sections.iter().flat_map(|sections| sections.iter()) {
        if let ValueKind::Table(values) = &section.kind
            && let Some(kind) = values.get("type")
        {
            types.insert(name.clone(), kind.clone().into_string().unwrap_or_default());
        }
    }
    let prefix = format!("{PREFIX}IAM__");
    for (variable, kind) in environment {
        let name = variable.strip_prefix(&prefix);
        if let Some(name) = name.and_then(|name| name.strip_suffix("__TYPE")) {
            types.insert(name.to_ascii_lowercase(), kind.expose_secret().to_owned());
        }
    }
    for (name, kind) in types {
        let key = join("iam", &name);
        let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let problem = match registry.kind(&kind) {
            Some(kind) if !name.is_empty() && name.bytes().all(is_name) => {
                iams.insert(name, *kind);
                continue;
            }
            Some(_) => {
                "the name of an IAM consists of a-z and 0-9, as environment variables need it"
                    .to_owned()
            }
            None => {
                let kinds: Vec<_> = registry.kinds.iter().map(|kind| kind.name).collect();
                format!(
                    "type: there is no such adapter; there are: {}",
                    kinds.join(", ")
                )
            }
        };
        problems.add(&key, problem);
        // Otherwise "no IAM is configured" would be said of it too.
        problems.mark_unread("iam");
        if let Some(sections) = &mut sections {
            sections.remove(&name);
        }
    }
    iams
}

fn read_secret_file(path: Value) -> Result<Value, String> {
    let path = path.into_string().map_err(|_| "is not a path")?;
    let secret = secret_file::read(Path::new(&path))?;
    match secret.expose_secret() {
        "" => Err("must not be empty".to_owned()),
        secret => Ok(Value::new(None, secret)),
    }
}
