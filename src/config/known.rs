//! Which settings exist, asked of the types that hold them, so that no list can fall behind.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use iam_adapters::spelling::nearest;
use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use super::{
    CacheSettings, HttpSettings, IamSettings, KeySettings, LogSettings, LoginLimitSettings,
    ManagementSettings, PermissionSettings, RedisSettings, RevocationSettings, SessionSettings,
    Settings, TlsSettings, TokenSettings, UpstreamSettings,
};

/// What every environment variable that sets something begins with. Two underscores, because an
/// orchestrator makes variables with one of its own accord (`AUTH_GATEWAY_SERVICE_HOST` for a
/// service called `auth-gateway`).
pub(super) const PREFIX: &str = "AUTH_GATEWAY__";

/// The prefix of variables that orchestrators set, and of settings with a missing underscore.
const ONE_UNDERSCORE: &str = "AUTH_GATEWAY_";

/// The keys that can be set, and the sections they stand in.
pub(super) struct Known {
    keys: BTreeSet<String>,
    sections: BTreeSet<String>,
}

impl Known {
    pub(super) fn new() -> Self {
        let mut sections: BTreeMap<String, &'static [&'static str]> = BTreeMap::from(
            [
                ("", fields::<Settings>(None)),
                ("http", fields::<HttpSettings>(None)),
                ("http.tls", fields::<TlsSettings>(None)),
                ("management", fields::<ManagementSettings>(None)),
                ("session", fields::<SessionSettings>(None)),
                ("login_limits", fields::<LoginLimitSettings>(None)),
                ("revocations", fields::<RevocationSettings>(None)),
                ("revocations.redis", fields::<RedisSettings>(None)),
                ("permissions", fields::<PermissionSettings>(None)),
                ("token", fields::<TokenSettings>(None)),
                ("keys", fields::<KeySettings>(None)),
                ("upstream", fields::<UpstreamSettings>(None)),
                ("cache", fields::<CacheSettings>(None)),
                ("log", fields::<LogSettings>(None)),
                ("iam", adapters()),
            ]
            .map(|(section, fields)| (section.to_owned(), fields)),
        );
        for adapter in adapters() {
            sections.insert(
                format!("iam.{adapter}"),
                fields::<IamSettings>(Some(adapter)),
            );
        }
        let keys = sections
            .iter()
            .flat_map(|(section, fields)| fields.iter().map(|field| join(section, field)))
            .filter(|key| !sections.contains_key(key))
            .collect();
        Self {
            keys,
            sections: sections.into_keys().collect(),
        }
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(String::as_str)
    }

    pub(super) fn is_key(&self, key: &str) -> bool {
        self.keys.contains(key)
    }

    pub(super) fn is_section(&self, key: &str) -> bool {
        self.sections.contains(key)
    }

    /// The keys of secrets: those that may also stand in a file of their own.
    pub(super) fn secrets(&self) -> impl Iterator<Item = &str> {
        self.keys()
            .filter(|key| self.is_key(&format!("{key}_file")))
    }

    /// Whether an environment variable sets something.
    pub(super) fn has_variable(&self, variable: &str) -> bool {
        self.keys().any(|key| variable_of(key) == variable)
    }

    /// Whether the name of an environment variable means a setting, whether or not it sets one:
    /// `AUTH_GATEWAY__…`, or `AUTH_GATEWAY_` and a section and two underscores, in upper or lower
    /// case. Kubernetes makes others, such as `AUTH_GATEWAY_SERVICE_HOST`, and so may anybody.
    pub(super) fn means_setting(&self, variable: &str) -> bool {
        let variable = variable.to_ascii_uppercase();
        let Some(rest) = variable.strip_prefix(ONE_UNDERSCORE) else {
            return false;
        };
        let section = rest.split_once("__").map(|(section, _)| section);
        rest.starts_with('_')
            || section.is_some_and(|section| self.is_section(&section.to_ascii_lowercase()))
    }

    /// The variable that was meant by one that sets nothing.
    pub(super) fn nearest_variable(&self, variable: &str) -> Option<String> {
        let variable = variable.to_ascii_lowercase();
        let written = variable.get(ONE_UNDERSCORE.len()..)?;
        let written = written.trim_start_matches('_').replace("__", ".");
        nearest(&written, self.keys()).map(variable_of)
    }

    /// The key or section that was meant by one that does not exist.
    pub(super) fn nearest_key(&self, written: &str) -> Option<&str> {
        let sections = self.sections.iter().map(String::as_str);
        let sections = sections.filter(|section| !section.is_empty());
        // A section that what was written stands in is there, and was not meant.
        let inside = |name: &str| {
            let rest = written.strip_prefix(name);
            rest.is_some_and(|rest| rest.starts_with('.'))
        };
        let names = self.keys().chain(sections).filter(|name| !inside(name));
        nearest(written, names)
    }

    /// What a section holds, for whoever wrote something else.
    pub(super) fn names_in(&self, section: &str) -> String {
        let names: BTreeSet<&str> = self
            .keys()
            .filter_map(|key| match section {
                "" => Some(key),
                _ => key.strip_prefix(section)?.strip_prefix('.'),
            })
            .filter_map(|rest| rest.split('.').next())
            .collect();
        Vec::from_iter(names).join(", ")
    }
}

/// The adapters that a section `[iam.…]` can name.
pub(super) fn adapters() -> &'static [&'static str] {
    fields::<IamSettings>(None)
}

/// The environment variable that sets a key.
pub(super) fn variable_of(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('.', "__").to_ascii_uppercase())
}

/// The full key of a setting in a section; the root is the empty section.
pub(super) fn join(section: &str, name: &str) -> String {
    if section.is_empty() {
        name.to_owned()
    } else {
        format!("{section}.{name}")
    }
}

/// The fields of a struct, the variants of an enum, or the fields of one of those variants.
fn fields<T: DeserializeOwned>(variant: Option<&str>) -> &'static [&'static str] {
    let names = Cell::new(&[] as &'static [&'static str]);
    let asked = T::deserialize(Question {
        variant,
        names: &names,
    });
    debug_assert!(asked.is_err(), "nothing can be made of a question");
    names.get()
}

/// A deserializer that holds no data and only notes which names the type asks for.
#[derive(Clone, Copy)]
struct Question<'a> {
    variant: Option<&'a str>,
    names: &'a Cell<&'static [&'static str]>,
}

impl<'de> Deserializer<'de> for Question<'_> {
    type Error = Noted;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Noted> {
        self.names.set(fields);
        Err(Noted)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Noted> {
        if self.variant.is_some() {
            return visitor.visit_enum(self);
        }
        self.names.set(variants);
        Err(Noted)
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Noted> {
        Err(Noted)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map identifier ignored_any
    }
}

impl<'de> EnumAccess<'de> for Question<'_> {
    type Error = Noted;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Noted> {
        let name = StrDeserializer::new(self.variant.unwrap_or_default());
        Ok((seed.deserialize(name)?, self))
    }
}

impl<'de> VariantAccess<'de> for Question<'_> {
    type Error = Noted;

    fn unit_variant(self) -> Result<(), Noted> {
        Err(Noted)
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Noted> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, Noted> {
        Err(Noted)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Noted> {
        self.names.set(fields);
        Err(Noted)
    }
}

/// The end of a question.
#[derive(Debug)]
struct Noted;

impl fmt::Display for Noted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the names are noted")
    }
}

impl std::error::Error for Noted {}

impl Error for Noted {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}
