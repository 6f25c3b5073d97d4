//! Parses the values into the types of the settings. It continues after an error to find all of them.

use std::collections::{BTreeMap, BTreeSet};

use ::config::{Config, ConfigError, Value, ValueKind};
use iam_adapters::registry::Registry;
use serde::{Deserialize as _, Serialize};
use serde_aux::serde_introspection::serde_introspect;

use super::effective::object;
use super::known::join;
use super::layers::{Layers, PLACEHOLDER};
use super::problems::Problems;
use super::{IamOptions, IamSection, SessionSettings, Settings, UpstreamSettings};

/// The settings, with defaults for values that cannot be read; `None` if that is not possible. Each
/// value that is not used is a problem.
pub(super) fn settings(
    layers: &Layers,
    registry: &Registry,
    problems: &mut Problems,
) -> Option<Settings> {
    let mut root = Reading {
        section: "",
        problems,
    };
    let mut settings: Settings = root.read(layers.below(""), &(), Settings::deserialize)?;
    for (name, kind) in &layers.iams {
        let section = join("iam", name);
        let mut values = layers.below(&section);
        if values.is_empty() && !layers.values.contains_key(&section) {
            continue;
        }
        let mut chosen = |names: &[&str]| {
            let chosen = values.extract_if(.., |name, _| names.contains(&name.as_str()));
            chosen.collect::<BTreeMap<_, _>>()
        };
        let options = chosen(serde_introspect::<IamOptions>());
        let session = chosen(serde_introspect::<SessionSettings>());
        let upstream = chosen(serde_introspect::<UpstreamSettings>());
        let replaced = session.keys().chain(upstream.keys()).cloned().collect();
        let mut reading = Reading {
            section: &section,
            problems,
        };
        let options = reading.read(options, &(), IamOptions::deserialize);
        let session = reading.read(session, &settings.session, SessionSettings::deserialize);
        let upstream = reading.read(upstream, &settings.upstream, UpstreamSettings::deserialize);
        let adapter = reading.read(values, &(), |values| kind.read(values));
        settings.iams.push(IamSection {
            name: name.clone(),
            replaced,
            options: options?,
            session: session?,
            upstream: upstream?,
            adapter: adapter?,
        });
    }
    if settings.iams.is_empty() {
        let adapter = registry.default.clone();
        settings.iams.push(IamSection {
            name: adapter.name().to_owned(),
            replaced: BTreeSet::new(),
            options: IamOptions::default(),
            session: settings.session.clone(),
            upstream: settings.upstream.clone(),
            adapter,
        });
    }
    Some(settings)
}

/// The reading of a section.
struct Reading<'a> {
    section: &'a str,
    problems: &'a mut Problems,
}

impl Reading<'_> {
    /// Reads values repeatedly, each time without the one that was refused. A value that is not set is
    /// that of `common`.
    fn read<T>(
        &mut self,
        mut values: BTreeMap<String, Value>,
        common: &impl Serialize,
        as_type: impl Fn(Value) -> Result<T, ConfigError>,
    ) -> Option<T> {
        let common = serde_json::from_value(object(common).into()).unwrap_or_default();
        let mut replaced = BTreeSet::new();
        loop {
            let error = match nested(&common, &values).and_then(|config| as_type(config.cache)) {
                Ok(read) => return Some(read),
                Err(error) => error,
            };
            let (key, refusal) = explain(error);
            let name = key.split('[').next().unwrap_or_default();
            let key = match name {
                "" => self.section.to_owned(),
                name => join(self.section, name),
            };
            if let Some(message) = refusal {
                let refused = values.remove(name);
                let message = without_secret(message, &key, refused.as_ref());
                self.problems.add_unread(&key, message);
                refused?;
            } else {
                self.problems.add_unread(&key, "is missing");
                values.insert(name.to_owned(), Value::new(None, PLACEHOLDER));
                if !replaced.insert(key) {
                    return None;
                }
            }
        }
    }
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
