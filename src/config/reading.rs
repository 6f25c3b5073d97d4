//! Makes settings of the values, and goes on after an error so that the next one is found as well.

use std::collections::{BTreeMap, BTreeSet};

use ::config::{Config, ConfigError, Value, ValueKind};
use serde::de::DeserializeOwned;

use super::Settings;
use super::known::join;
use super::layers::{Layers, STAND_IN};
use super::problems::Problems;

/// The settings, with defaults where a value cannot be read; none where not even that is possible.
/// Each value that is not used is a problem.
pub(super) fn settings(layers: &Layers, problems: &mut Problems) -> Option<Settings> {
    let mut settings: Settings = read(&layers.values, "", "", problems)?;
    let adapters = layers.values.keys().filter_map(|key| {
        let name = key.strip_prefix("iam.")?.split('.').next()?;
        Some(join("iam", name))
    });
    let adapters = Vec::from_iter(adapters.collect::<BTreeSet<_>>());
    if let [section] = &adapters[..] {
        settings.iam = read(&layers.values, "iam.", section, problems)?;
    } else {
        for section in &adapters {
            let adapters = adapters.join(", ");
            let refused = format!("only one adapter can be used, of {adapters}");
            problems.add_unread(section, refused);
        }
    }
    Some(settings)
}

/// Reads the values below a prefix again and again, each time without the value that was refused.
/// `section` stands before the keys in errors: an enum leaves out the name of its variant.
fn read<T: DeserializeOwned>(
    values: &BTreeMap<String, Value>,
    prefix: &str,
    section: &str,
    problems: &mut Problems,
) -> Option<T> {
    let below = |(key, value): (&String, &Value)| {
        let key = key.strip_prefix(prefix)?;
        Some((key.to_owned(), value.clone()))
    };
    let mut values: BTreeMap<_, _> = values.iter().filter_map(below).collect();
    let mut stood_in = BTreeSet::new();
    loop {
        let error = match nested(&values).and_then(Config::try_deserialize) {
            Ok(read) => return Some(read),
            Err(error) => error,
        };
        let (key, refusal) = explain(error);
        let key = match key.split('[').next() {
            None | Some("") => section.to_owned(),
            Some(key) => join(section, key),
        };
        let below = key.strip_prefix(prefix).unwrap_or(&key);
        if let Some(message) = refusal {
            let refused = values.remove(below);
            problems.add_unread(&key, without_secret(message, &key, refused.as_ref()));
            refused?;
        } else {
            problems.add_unread(&key, "is missing");
            values.insert(below.to_owned(), Value::new(None, STAND_IN));
            if !stood_in.insert(key) {
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

/// The key that an error is about, and why its value is refused; none where it is missing.
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

/// Removes the refused value from a message about the IAM or Redis, where it may be a secret or an
/// address that contains one. Libraries quote the values that they refuse.
fn without_secret(message: String, key: &str, refused: Option<&Value>) -> String {
    let Some(ValueKind::String(value)) = refused.map(|value| &value.kind) else {
        return message;
    };
    if !key.starts_with("iam.") && !key.starts_with("revocations.redis") {
        return message;
    }
    let message = message.replace(&format!("{value:?}"), "the value");
    if message.contains(value.as_str()) {
        return "cannot be read".to_owned();
    }
    message
}
