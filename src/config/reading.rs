//! Parses the values into the types of the settings. It continues after an error to find all of them.

use std::collections::{BTreeMap, BTreeSet};

use ::config::{Config, ConfigError, Value, ValueKind};
use iam_adapters::registry::{IamSettings, Registry};
use serde::{Deserialize as _, Serialize};

use super::errors::ConfigErrors;
use super::known::{join, object};
use super::layers::{Layers, PLACEHOLDER};
use super::{IamOptions, IamSection, SessionSettings, Settings, UpstreamSettings};

/// The settings, with defaults for values that cannot be read; `None` if that is not possible. Each
/// value that is not used is a problem.
pub(super) fn settings(
    layers: &Layers,
    registry: &Registry,
    problems: &mut ConfigErrors,
) -> Option<Settings> {
    let mut root = Reading::of("", problems);
    let mut settings: Settings = root.read(layers.below(""), &(), Settings::deserialize)?;
    for (name, kind) in &layers.iams {
        let section = join("iam", name);
        let own = layers.below(&section);
        if own.is_empty() && !layers.values.contains_key(&section) {
            continue;
        }
        let mut reading = Reading::of(&section, problems);
        let mut of_adapter = own.clone();
        of_adapter.retain(|name, _| kind.fields().contains(&name.as_str()));
        let adapter = reading.read(of_adapter, &(), |values| kind.read(values));
        let iam = reading.iam(name, own, &settings, adapter)?;
        settings.iams.push(iam);
    }
    if settings.iams.is_empty()
        && let Some(adapter) = registry.default.clone()
    {
        let (name, mut reading) = (adapter.name(), Reading::of("", problems));
        let iam = reading.iam(name, BTreeMap::new(), &settings, Some(adapter))?;
        settings.iams.push(iam);
    }
    Some(settings)
}

/// The problem of a setting that is not set.
const MISSING: &str = "is missing";

struct Reading<'a> {
    section: &'a str,
    problems: &'a mut ConfigErrors,
}

impl<'a> Reading<'a> {
    fn of(section: &'a str, problems: &'a mut ConfigErrors) -> Self {
        Self { section, problems }
    }

    /// The section of an IAM, with its own values in place of the common ones.
    fn iam(
        &mut self,
        name: &str,
        own: BTreeMap<String, Value>,
        common: &Settings,
        adapter: Option<IamSettings>,
    ) -> Option<IamSection> {
        let options = self.read(own.clone(), &(), IamOptions::deserialize);
        let session = self.read(own.clone(), &common.session, SessionSettings::deserialize);
        let upstream = self.read(own.clone(), &common.upstream, UpstreamSettings::deserialize);
        let (session, upstream) = (session?, upstream?);
        let common_names = [object(&session), object(&upstream)];
        let is_common = |name: &String| common_names.iter().any(|names| names.contains_key(name));
        Some(IamSection {
            name: name.to_owned(),
            replaced: own.into_keys().filter(is_common).collect(),
            options: options?,
            session,
            upstream,
            adapter: adapter?,
        })
    }

    /// Reads values repeatedly, each time without the one that was refused. A value that is not set is
    /// that of `common`.
    fn read<T: Serialize>(
        &mut self,
        mut values: BTreeMap<String, Value>,
        common: &impl Serialize,
        as_type: impl Fn(Value) -> Result<T, ConfigError>,
    ) -> Option<T> {
        let common = serde_json::from_value(object(common).into()).unwrap_or_default();
        let mut replaced = BTreeSet::new();
        loop {
            let read = nested(&common, &values).and_then(|config| as_type(config.cache));
            let (key, refusal) = match read {
                Ok(read) => match converted_number(&read, &values) {
                    None => return Some(read),
                    Some((key, refusal)) => (key, Some(refusal)),
                },
                Err(error) => explain(error),
            };
            let set = values
                .iter()
                .filter(|(set, value)| contains(set, value, &key));
            let set = set.map(|(set, _)| set.clone()).max_by_key(String::len);
            let name = set.as_ref().unwrap_or(&key);
            let full_key = match &**name {
                "" => self.section.to_owned(),
                name => join(self.section, name),
            };
            if refusal.is_some() || set.is_some() {
                let refused = values.remove(name);
                let message = refusal.unwrap_or_else(|| MISSING.to_owned());
                let message = without_secret(message, &full_key, refused.as_ref());
                let message = within(key.get(name.len()..).unwrap_or_default(), message);
                self.problems.add_unread(&full_key, message);
                refused?;
            } else {
                self.problems.add_unread(&full_key, MISSING);
                values.insert(key, Value::new(None, PLACEHOLDER));
                if !replaced.insert(full_key) {
                    return None;
                }
            }
        }
    }
}

/// Whether the key is that of this value, or of something in it. A section of the file has an empty table.
fn contains(set: &str, value: &Value, key: &str) -> bool {
    let is_section = matches!(&value.kind, ValueKind::Table(table) if table.is_empty());
    let rest = key.strip_prefix(set);
    !is_section && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// The message with the place in the value, which the crate `config` writes as `[0].member`.
fn within(place: &str, message: String) -> String {
    let mut parts = Vec::new();
    // Not at each dot: the name of a claim can have some.
    for part in place.split('[') {
        let (index, member) = part.split_once(']').unwrap_or(("", part));
        if let Ok(index) = index.parse::<usize>() {
            parts.push(format!("item {}", index + 1));
        }
        let member = member.trim_start_matches('.');
        if !member.is_empty() {
            parts.push(member.to_owned());
        }
    }
    if parts.is_empty() {
        return message;
    }
    format!("{}: {message}", parts.join(", "))
}

fn nested(
    common: &BTreeMap<String, Value>,
    values: &BTreeMap<String, Value>,
) -> Result<Config, ConfigError> {
    let mut config = Config::builder();
    for (key, value) in common.iter().chain(values) {
        config = config.set_override(key, value.clone())?;
    }
    config.build()
}

/// The key of a value that is not the number as which it was read, and why it is refused. The crate `config` rounds
/// fractions, and reads truth values as 0 and 1. So `login_limits.rate = 0.4` would be no limit.
fn converted_number(
    read: &impl Serialize,
    values: &BTreeMap<String, Value>,
) -> Option<(String, String)> {
    let read = serde_json::Value::from(object(read));
    values.iter().find_map(|(key, value)| {
        let pointer = format!("/{}", key.replace('.', "/"));
        let number = read.pointer(&pointer)?.as_number()?;
        let is_kept = match &value.kind {
            ValueKind::I64(_) | ValueKind::I128(_) | ValueKind::U64(_) | ValueKind::U128(_) => true,
            ValueKind::Float(_) => number.is_f64(),
            ValueKind::String(text) => text.parse::<f64>().is_ok(),
            ValueKind::Nil | ValueKind::Boolean(_) | ValueKind::Table(_) | ValueKind::Array(_) => {
                false
            }
        };
        let expected = if number.is_f64() {
            "a number"
        } else {
            "an integer"
        };
        (!is_kept).then(|| (key.clone(), format!("expected {expected}")))
    })
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
    (key.unwrap_or_default(), Some(message))
}

/// Removes the refused value from a message about the IAM or Redis: it may be a secret, or an address
/// with one. Libraries quote the values that they refuse; what is expected has none.
fn without_secret(message: String, key: &str, refused: Option<&Value>) -> String {
    let is_secret = key.starts_with("iam.") || key.starts_with("redis");
    let message = match refused.map(|value| &value.kind) {
        Some(ValueKind::String(value)) if is_secret && !message.starts_with("expected ") => {
            if value.is_empty() {
                return "must not be empty".to_owned();
            }
            let message = message.replace(&format!("{value:?}"), "the value");
            if message.contains(value.as_str()) {
                return "cannot be read".to_owned();
            }
            message
        }
        // Of a member of a table, such as a secret that is below `[iam.corp.claims]` by mistake.
        Some(ValueKind::Table(_)) if is_secret && message.starts_with("invalid ") => {
            let expected = message.rsplit_once(", expected ");
            expected.map_or_else(
                || "cannot be read".to_owned(),
                |(_, expected)| format!("expected {expected}"),
            )
        }
        _ => message,
    };
    let duration = "expected a duration";
    message.replace(duration, &format!("{duration} such as \"30s\" or \"1h\""))
}
