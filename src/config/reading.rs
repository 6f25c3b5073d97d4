//! Parses the values into the types of the settings. It continues after an error to find all of them.

use std::collections::{BTreeMap, BTreeSet};

use ::config::{Config, ConfigError, Value, ValueKind};
use iam_adapters::registry::{AdapterKind, Registry};
use serde::Deserialize as _;

use super::Settings;
use super::known::join;
use super::layers::{Layers, PLACEHOLDER};
use super::problems::Problems;

/// The settings, with defaults for values that cannot be read; `None` if that is not possible. Each
/// value that is not used is a problem.
pub(super) fn settings(
    layers: &Layers,
    registry: &Registry,
    problems: &mut Problems,
) -> Option<Settings> {
    let mut settings: Settings = read(&layers.values, "", Settings::deserialize, problems)?;
    let is_named = |kind: &&AdapterKind| {
        let section = join("iam", kind.name());
        let inside = join(&section, "");
        let mut keys = layers.values.keys();
        keys.any(|key| *key == section || key.starts_with(&inside))
    };
    let mut named: Vec<_> = registry.kinds().iter().filter(is_named).collect();
    named.sort_unstable_by_key(|kind| kind.name());
    match &named[..] {
        [] => settings.iam = registry.default_settings(),
        [kind] => {
            let section = join("iam", kind.name());
            let as_kind = |section| kind.read(section);
            settings.iam = read(&layers.values, &section, as_kind, problems)?;
        }
        several => {
            let sections = several.iter().map(|kind| join("iam", kind.name()));
            let sections: Vec<_> = sections.collect();
            let all = sections.join(", ");
            for section in sections {
                let refused = format!("only one adapter can be used, of {all}");
                problems.add_unread(&section, refused);
            }
        }
    }
    Some(settings)
}

/// Reads the values of a section repeatedly, each time without the value that was refused.
fn read<T>(
    values: &BTreeMap<String, Value>,
    section: &str,
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
        Some((key.to_owned(), value.clone()))
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
