//! Turns the layers into types, and goes on after a mistake so that the next one is found too.

use std::collections::BTreeSet;

use ::config::{ConfigError, Value, ValueKind};
use serde::de::DeserializeOwned;

use super::Settings;
use super::known::{adapters, join};
use super::layers::{Layers, find, put, remove};
use super::problems::Problems;

/// Stands in for a required setting that is missing, so that the others are read too. What is made
/// of it is never used: the missing setting is a problem already.
const STAND_IN: &str = "https://missing.invalid";

/// The settings, with defaults where a value could not be read; none where not even that works.
/// Anything short of all that was written is noted as a problem.
pub(super) fn settings(layers: &Layers, problems: &mut Problems) -> Option<Settings> {
    let mut root = layers.tree();
    let iam = root.clone();
    remove(&mut root, "iam");
    let mut settings: Settings = read(root, "", "", problems)?;
    let mut named: Vec<_> = adapters()
        .iter()
        .map(|adapter| join("iam", adapter))
        .filter(|section| find(&iam, section).is_some())
        .collect();
    named.sort_unstable();
    if let [section] = &named[..] {
        settings.iam = read(iam, "iam", section, problems)?;
    } else {
        for section in &named {
            let named = named.join(", ");
            problems.add_unread(section, format!("only one adapter can be used, of {named}"));
        }
    }
    Some(settings)
}

/// Reads what stands at `root` again and again, each time without the value that was refused.
/// `section` is what the keys in the errors lack: an enum swallows the name of the variant.
fn read<T: DeserializeOwned>(
    mut tree: Value,
    root: &str,
    section: &str,
    problems: &mut Problems,
) -> Option<T> {
    let mut stood_in = BTreeSet::new();
    loop {
        let error = match T::deserialize(find(&tree, root)?.clone()) {
            Ok(read) => return Some(read),
            Err(error) => error,
        };
        let Complaint {
            key,
            message,
            missing,
        } = error.into();
        let key = match key.split('[').next() {
            None | Some("") => section.to_owned(),
            Some(key) => join(section, key),
        };
        if missing {
            problems.add_unread(&key, message);
            if !stood_in.insert(key.clone()) {
                return None;
            }
            put(&mut tree, &key, Value::new(None, STAND_IN));
        } else {
            let refused = remove(&mut tree, &key);
            problems.add_unread(&key, discreet(message, &key, refused.as_ref()));
            refused?;
        }
    }
}

/// What a deserializer complained of.
struct Complaint {
    key: String,
    message: String,
    missing: bool,
}

impl From<ConfigError> for Complaint {
    fn from(error: ConfigError) -> Self {
        let (key, message, missing) = match error {
            ConfigError::NotFound(key) => (key, "is missing".to_owned(), true),
            ConfigError::Type {
                key,
                unexpected,
                expected,
                ..
            } => {
                let message = format!("{unexpected} is not {expected}");
                (key.unwrap_or_default(), message, false)
            }
            ConfigError::At { error, key, .. } => {
                (key.unwrap_or_default(), error.to_string(), false)
            }
            other => (String::new(), other.to_string(), false),
        };
        let duration = "expected a duration";
        Self {
            key,
            message: message.replace(duration, &format!("{duration} such as \"30s\" or \"1h\"")),
            missing,
        }
    }
}

/// A library that cannot read a value likes to quote it; what belongs to an adapter or to Redis may be a
/// secret, or an address with one in it.
fn discreet(message: String, key: &str, refused: Option<&Value>) -> String {
    let Some(ValueKind::String(value)) = refused.map(|value| &value.kind) else {
        return message;
    };
    if !key.starts_with("iam.") && !key.starts_with("revocations.redis") {
        return message;
    }
    let quoted = message.replace(&format!("{value:?}"), "the value");
    if quoted.contains(value.as_str()) {
        return "cannot be read".to_owned();
    }
    quoted
}
