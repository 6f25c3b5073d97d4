//! The settings that exist, taken from the types that hold them, and the nearest to a misspelt one.

use std::collections::{BTreeMap, BTreeSet};

use iam_adapters::registry::{AdapterKind, Registry};
use serde::Serialize;
use serde_aux::serde_introspection::serde_introspect;
use serde_json::{Map, Value};
use strsim::osa_distance;

use super::{
    IamOptions, RedisSettings, SentinelSettings, SessionSettings, Settings, UpstreamSettings,
};

/// The prefix of every environment variable that sets something. Two underscores, because
/// Kubernetes makes variables with one (`AUTH_GATEWAY_SERVICE_HOST` for a service called
/// `auth-gateway`).
pub(super) const PREFIX: &str = "AUTH_GATEWAY__";

/// The prefix of variables that Kubernetes makes, and of settings that lack an underscore.
const SHORT_PREFIX: &str = "AUTH_GATEWAY_";

/// Whether an environment variable may be meant as a setting, also if it is misspelt.
pub(crate) fn is_own_variable(name: &str) -> bool {
    name.to_ascii_uppercase().starts_with(SHORT_PREFIX)
}

/// The full keys of all settings (`http.listen`) and sections (`http`).
#[derive(Default)]
pub(super) struct KnownSettings {
    pub(super) keys: BTreeSet<String>,
    pub(super) sections: BTreeSet<String>,
}

impl KnownSettings {
    /// With a section of each kind of IAM, and the sections in `iams`, which have names of their own.
    pub(super) fn new(registry: &Registry, iams: &BTreeMap<String, AdapterKind>) -> Self {
        let mut known = Self::default();
        known.add("", &object(&Settings::default()));
        // Those of sections that are not there by default.
        known.add_section("redis", serde_introspect::<RedisSettings>());
        known.add_section("redis.sentinel", serde_introspect::<SentinelSettings>());
        known.add_section("iam", &[]);
        let kinds = registry.kinds.iter().map(|kind| (kind.name, kind));
        let named = iams.iter().map(|(name, kind)| (name.as_str(), kind));
        for (name, kind) in kinds.chain(named).collect::<BTreeMap<_, _>>() {
            let section = join("iam", name);
            known.add_section(&section, &Self::iam_options());
            known.add_section(&section, &kind.fields());
        }
        let Self { keys, sections } = &mut known;
        keys.retain(|key| !sections.contains(key.as_str()));
        known
    }

    /// Adds values, and sections among them.
    fn add(&mut self, section: &str, values: &Map<String, Value>) {
        self.sections.insert(section.to_owned());
        for (name, value) in values {
            let key = join(section, name);
            match value {
                Value::Object(values) => self.add(&key, values),
                _ => drop(self.keys.insert(key)),
            }
        }
    }

    fn add_section(&mut self, section: &str, names: &[&str]) {
        self.sections.insert(section.to_owned());
        self.keys
            .extend(names.iter().map(|name| join(section, name)));
    }

    /// The names of the settings that all IAMs have.
    pub(super) fn iam_options() -> Vec<&'static str> {
        [
            serde_introspect::<IamOptions>(),
            serde_introspect::<SessionSettings>(),
            serde_introspect::<UpstreamSettings>(),
        ]
        .concat()
    }

    pub(super) fn is_section(&self, key: &str) -> bool {
        self.sections.contains(key)
    }

    /// The keys of secrets: those that can also be read from a file (`…_file`).
    pub(super) fn secrets(&self) -> impl Iterator<Item = &str> {
        let keys = self.keys.iter().map(String::as_str);
        keys.filter(|key| self.keys.contains(&format!("{key}_file")))
    }

    /// The key that an environment variable sets.
    pub(super) fn key_of(&self, variable: &str) -> Option<&str> {
        let mut keys = self.keys.iter().map(String::as_str);
        keys.find(|key| variable_of(key) == variable)
    }

    /// Whether an environment variable is meant as a setting, also if there is no such setting:
    /// `AUTH_GATEWAY__…`, or `AUTH_GATEWAY_` with a section and two underscores, in upper or lower
    /// case. Other names with `AUTH_GATEWAY_` come from Kubernetes or from other programs.
    pub(super) fn means_setting(&self, variable: &str) -> bool {
        let variable = variable.to_ascii_lowercase();
        let Some(rest) = variable.strip_prefix(&SHORT_PREFIX.to_ascii_lowercase()) else {
            return false;
        };
        let section = rest.split_once("__").map(|(section, _)| section);
        rest.starts_with('_') || section.is_some_and(|section| self.is_section(section))
    }

    /// The variable nearest to one that sets nothing.
    pub(super) fn nearest_variable(&self, variable: &str) -> String {
        let name = variable.to_ascii_lowercase();
        let name = name.get(SHORT_PREFIX.len()..).unwrap_or_default();
        let written = name.trim_start_matches('_').replace("__", ".");
        let keys = self.keys.iter().map(String::as_str);
        nearest(&written, keys).map(variable_of).unwrap_or_default()
    }

    /// The key or section nearest to a key that does not exist. The sections that contain that key are
    /// spelt correctly.
    pub(super) fn nearest_key(&self, written: &str) -> &str {
        let names = self.keys.iter().map(String::as_str);
        let candidates = names
            .chain(self.sections.iter().map(String::as_str))
            .filter(|name| {
                let rest = written.strip_prefix(name);
                !name.is_empty() && !rest.is_some_and(|rest| rest.starts_with('.'))
            });
        nearest(written, candidates).unwrap_or_default()
    }

    /// The names in a section, in alphabetical order.
    pub(super) fn names_in(&self, section: &str) -> String {
        let prefix = join(section, "");
        let inside = self.keys.iter().filter_map(|key| key.strip_prefix(&prefix));
        let names: BTreeSet<_> = inside.filter_map(|rest| rest.split('.').next()).collect();
        Vec::from_iter(names).join(", ")
    }
}

/// The environment variable that sets a key.
fn variable_of(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('.', "__").to_ascii_uppercase())
}

/// The full key of a name in a section; the root is the empty section.
pub(super) fn join(section: &str, name: &str) -> String {
    if section.is_empty() {
        name.to_owned()
    } else {
        format!("{section}.{name}")
    }
}

/// The known name with the fewest edits to `written`. The sections before a dot of a known name may be
/// omitted, which counts as one edit. `None` if no name is known.
fn nearest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let edits = |name: &str| {
        let tails = name.match_indices('.').map(|(dot, _)| &name[dot + 1..]);
        let tails = tails.map(|tail| osa_distance(written, tail) + 1);
        tails.fold(osa_distance(written, name), usize::min)
    };
    known.into_iter().min_by_key(|name| edits(name))
}

/// The values by their names; none if it has no names.
pub(super) fn object(values: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(values) {
        Ok(Value::Object(values)) => values,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_name_has_the_fewest_edits_and_may_omit_its_sections() {
        let known = [
            "http.listen",
            "iam.keycloak.url",
            "redis.url",
            "token.lifetime",
            "token",
        ];
        for (written, nearest_name) in [
            ("http.listn", "http.listen"),
            ("http_listen", "http.listen"),
            ("listen", "http.listen"),
            ("keycloak.url", "iam.keycloak.url"),
            ("tokn", "token"),
            ("token.lifetmie", "token.lifetime"),
        ] {
            assert_eq!(nearest(written, known), Some(nearest_name), "{written}");
        }
        assert_eq!(nearest("a", []), None);
    }
}
