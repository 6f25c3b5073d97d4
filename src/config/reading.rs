//! Parses the values into the types of the settings. It continues after an error to find all of them.

use std::collections::{BTreeMap, BTreeSet};

use ::config::{Config, ConfigError, Value, ValueKind};
use iam_adapters::registry::Registry;
use serde::Deserialize as _;

use super::known::{KnownSettings, join};
use super::layers::{Layers, PLACEHOLDER};
use super::problems::Problems;
use super::{IamOptions, IamSection, Settings};

/// The settings, with defaults for values that cannot be read; `None` if that is not possible. Each
/// value that is not used is a problem.
pub(super) fn settings(
    layers: &Layers,
    registry: &Registry,
    problems: &mut Problems,
) -> Option<Settings> {
    let mut settings: Settings = read(
        &layers.values,
        "",
        |_| true,
        Settings::deserialize,
        problems,
    )?;
    for (name, kind) in &layers.iams {
        let section = join("iam", name);
        let inside = join(&section, "");
        let mut keys = layers.values.keys();
        if !keys.any(|key| *key == section || key.starts_with(&inside)) {
            continue;
        }
        let is_option = |name: &str| KnownSettings::iam_options().contains(&name);
        let options = read(
            &layers.values,
            &section,
            is_option,
            IamOptions::deserialize,
            problems,
        );
        let adapter = |values| kind.read(values);
        let is_own = |name: &str| !is_option(name);
        settings.iams.push(IamSection {
            name: name.clone(),
            options: options?,
            adapter: read(&layers.values, &section, is_own, adapter, problems)?,
        });
    }
    if settings.iams.is_empty() {
        let adapter = registry.default_settings();
        settings.iams.push(IamSection {
            name: adapter.name().to_owned(),
            options: IamOptions::default(),
            adapter,
        });
    }
    Some(settings)
}

/// Reads the values of a section whose names are chosen, repeatedly, each time without the value that
/// was refused.
fn read<T>(
    values: &BTreeMap<String, Value>,
    section: &str,
    is_chosen: impl Fn(&str) -> bool,
    as_type: impl Fn(Value) -> Result<T, ConfigError>,
    problems: &mut Problems,
) -> Option<T> {
    let prefix = if section.is_empty() {
        String::new()
    } else {
        join(section, "")
    };
    let below = |(key, value): (&String, &Value)| {
        let key = key.strip_prefix(&prefix)?;
        is_chosen(key).then(|| (key.to_owned(), value.clone()))
    };
    let mut values: BTreeMap<_, _> = values.iter().filter_map(below).collect();
    let mut replaced = BTreeSet::new();
    loop {
        let error = match nested(&values).and_then(|config| as_type(config.cache)) {
            Ok(read) => return Some(read),
            Err(error) => error,
        };
        let (key, refusal) = explain(error);
        let name = key.split('[').next().unwrap_or_default();
        let key = match name {
            "" => section.to_owned(),
            name => join(section, name),
        };
        if let Some(message) = refusal {
            let refused = values.remove(name);
            problems.add_unread(&key, without_secret(message, &key, refused.as_ref()));
            refused?;
        } else {
            problems.add_unread(&key, "is missing");
            values.insert(name.to_owned(), Value::new(None, PLACEHOLDER));
            if !replaced.insert(key) {
                return None;
            }
        }
    }
}

fn nested(values: &BTreeMap<String, Value>) -> Result<Config, ConfigError> {
    let mut config = Config::builder();
    for (key, value) in values {
        config = config.set_override(key, value.clone())?;
    }
    config.build()
}

/// The key of an error, and why its value is refused; `None` if the value is missing.
fn explain(error: ConfigError) -> (String, Option<String>) {
    let (key, message) = match error {
        ConfigError::NotFound(key) => return (key, None),
        ConfigError::Type {
            key,
            unexpected,
            expected,
            ..
        } => (key, format!("{unexpected} is not {expected}")),
        ConfigError::At { error, key, .. } => (key, error.to_string()),
        other => (None, other.to_string()),
    };
    let duration = "expected a duration";
    let message = message.replace(duration, &format!("{duration} such as \"30s\" or \"1h\""));
    (key.unwrap_or_default(), Some(message))
}

/// Removes the refused value from a message about the IAM or Redis: it may be a secret, or an address
/// with one. Libraries quote the values that they refuse.
fn without_secret(message: String, key: &str, refused: Option<&Value>) -> String {
    let Some(ValueKind::String(value)) = refused.map(|value| &value.kind) else {
        return message;
    };
    if !key.starts_with("iam.") && !key.starts_with("redis") {
        return message;
    }
    let message = message.replace(&format!("{value:?}"), "the value");
    if message.contains(value.as_str()) {
        return "cannot be read".to_owned();
    }
    message
}
