//! Lays the environment over the file, refuses what is no setting, and remembers where each came
//! from.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use ::config::{Config, ConfigError, File, FileFormat, Value, ValueKind};
use iam_adapters::files;

use super::known::{Known, PREFIX, join, variable_of};
use super::problems::Problems;

/// The settings as they were written, secrets included: neither shown nor kept.
pub(super) struct Layers {
    tree: Value,
    file: Option<SettingsFile>,
    variables: Vec<String>,
}

/// The file that was read.
pub(super) struct SettingsFile {
    pub(super) path: PathBuf,
    /// Its permission bits.
    pub(super) mode: u32,
    pub(super) tree: Value,
}

impl Layers {
    pub(super) fn gather(
        file: Option<&Path>,
        environment: &BTreeMap<String, String>,
        known: &Known,
        problems: &mut Problems,
    ) -> Self {
        let file = file.map(|path| {
            read_file(path).unwrap_or_else(|problem| {
                problems.add(&path.display().to_string(), problem);
                SettingsFile {
                    path: path.to_owned(),
                    mode: 0,
                    tree: empty(),
                }
            })
        });
        let mut below = file.as_ref().map_or_else(empty, |file| file.tree.clone());
        for stranger in refuse_strangers(&below, "", known, problems) {
            remove(&mut below, &stranger);
        }
        let variables = variables(environment, known, problems);
        let names = variables.keys().cloned().collect();
        Self {
            tree: lay_over(below, variables),
            file,
            variables: names,
        }
    }

    /// The file, where one is given.
    pub(super) fn file(&self) -> Option<&SettingsFile> {
        self.file.as_ref()
    }

    /// Everything that was set, but for what is no setting.
    pub(super) fn tree(&self) -> Value {
        self.tree.clone()
    }

    /// Where a setting, or something in a section, was set: an environment variable or the file;
    /// none where it was not.
    pub(super) fn origin(&self, key: &str) -> Option<String> {
        let variable = variable_of(key);
        if self.variables.contains(&variable) {
            return Some(variable);
        }
        if let Some(file) = &self.file
            && find(&file.tree, key).is_some()
        {
            return Some(file.path.display().to_string());
        }
        let section = format!("{variable}__");
        let mut variables = self.variables.iter();
        variables.find(|name| name.starts_with(&section)).cloned()
    }
}

fn empty() -> Value {
    Value::new(None, HashMap::<String, Value>::new())
}

/// What stands at a key; at the empty key, everything.
pub(super) fn find<'a>(tree: &'a Value, key: &str) -> Option<&'a Value> {
    let mut names = key.split('.').filter(|name| !name.is_empty());
    names.try_fold(tree, |value, name| {
        let ValueKind::Table(table) = &value.kind else {
            return None;
        };
        table.get(name)
    })
}

/// Takes out what stands at a key.
pub(super) fn remove(tree: &mut Value, key: &str) -> Option<Value> {
    let ValueKind::Table(table) = &mut tree.kind else {
        return None;
    };
    match key.split_once('.') {
        Some((section, rest)) => remove(table.get_mut(section)?, rest),
        None => table.remove(key),
    }
}

/// Puts a value at a key of a section that is there.
pub(super) fn put(tree: &mut Value, key: &str, value: Value) {
    let ValueKind::Table(table) = &mut tree.kind else {
        return;
    };
    match key.split_once('.') {
        Some((section, rest)) => {
            if let Some(tree) = table.get_mut(section) {
                put(tree, rest, value);
            }
        }
        None => {
            table.insert(key.to_owned(), value);
        }
    }
}

/// Tells what cannot be read, and never shows a line of the file: it may hold a secret.
fn read_file(path: &Path) -> Result<SettingsFile, String> {
    let read = || {
        let mut file = fs::File::open(path)?;
        let mode = files::mode(&file.metadata()?);
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        Ok((mode, text))
    };
    let (mode, text) =
        read().map_err(|error: io::Error| format!("cannot be read: {}", files::reason(&error)))?;
    Ok(SettingsFile {
        path: path.to_owned(),
        mode,
        tree: parse(&text)?,
    })
}

fn parse(text: &str) -> Result<Value, String> {
    let source = File::from_str(text, FileFormat::Toml);
    match Config::builder().add_source(source).build() {
        Ok(config) => Ok(config.cache),
        Err(ConfigError::FileParse { cause, .. }) => {
            match cause.downcast_ref::<toml::de::Error>() {
                Some(error) => {
                    let before = error.span().and_then(|span| text.get(..span.start));
                    let line = before.unwrap_or_default().matches('\n').count() + 1;
                    Err(format!("line {line} is not TOML: {}", error.message()))
                }
                None => Err("is not TOML".to_owned()),
            }
        }
        Err(_) => Err("is not TOML".to_owned()),
    }
}

/// The keys in the file that are no settings, each a problem.
fn refuse_strangers(
    tree: &Value,
    section: &str,
    known: &Known,
    problems: &mut Problems,
) -> Vec<String> {
    let ValueKind::Table(table) = &tree.kind else {
        return Vec::new();
    };
    let mut strangers = Vec::new();
    for (name, value) in BTreeMap::from_iter(table) {
        let key = join(section, name);
        if known.is_key(&key) {
            continue;
        }
        if !known.is_section(&key) {
            let nearest = known.nearest_key(&key).unwrap_or_default();
            let names = known.names_in(section);
            problems.add(
                &key,
                format!("no such setting; the nearest is {nearest}; there are: {names}"),
            );
            strangers.push(key);
        } else if matches!(value.kind, ValueKind::Table(_)) {
            strangers.extend(refuse_strangers(value, &key, known, problems));
        } else {
            let names = known.names_in(&key);
            problems.add(&key, format!("is a section; in it there are: {names}"));
            strangers.push(key);
        }
    }
    strangers
}

/// The variables that set something, by name.
fn variables(
    environment: &BTreeMap<String, String>,
    known: &Known,
    problems: &mut Problems,
) -> HashMap<String, String> {
    let mut variables = HashMap::new();
    for (variable, value) in environment {
        if known.has_variable(variable) {
            variables.insert(variable.clone(), value.clone());
        } else if known.means_setting(variable) {
            let nearest = known.nearest_variable(variable).unwrap_or_default();
            problems.add(
                variable,
                format!("no such setting; the nearest is {nearest}"),
            );
        }
    }
    variables
}

/// Values from the environment stay text, so that a secret of digits keeps its zeros; the types
/// that they are read into make numbers of them.
fn lay_over(below: Value, variables: HashMap<String, String>) -> Value {
    let mut file = Config::default();
    file.cache = below;
    let environment = ::config::Environment::with_prefix(PREFIX.trim_end_matches('_'))
        .separator("__")
        .source(Some(variables));
    Config::builder()
        .add_source(file)
        .add_source(environment)
        .build()
        .map_or_else(|_| empty(), |merged| merged.cache)
}
