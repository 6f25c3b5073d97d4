//! The settings in effect and their origins, for `config show`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};

use super::Settings;
use super::known::{join, object};
use super::layers::Layers;
use super::origin::Origin;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EffectiveSetting {
    /// The value; `None`: it is a secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// Whether the value is a secret, which is not shown.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
    pub origin: Origin,
}

/// All settings in effect. A setting without a value has no entry.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct EffectiveSettings {
    /// By full key, such as `http.listen`.
    pub settings: BTreeMap<String, EffectiveSetting>,
    /// The sections, also those without a setting.
    #[serde(skip)]
    sections: BTreeSet<String>,
}

impl EffectiveSettings {
    pub(super) fn new(settings: &Settings, layers: &Layers) -> Self {
        let mut shown = Self {
            settings: BTreeMap::new(),
            sections: BTreeSet::new(),
        };
        let known = &layers.known;
        // Secrets serialize as a placeholder; a type with a secret that does not is not compiled.
        shown.add("", object(settings), layers);
        for iam in &settings.iams {
            let mut section = object(&iam.session);
            section.extend(object(&iam.upstream));
            section.retain(|name, _| iam.replaced.contains(name));
            section.extend(object(&iam.options));
            section.extend(object(iam.adapter.json()));
            section.extend(object(&iam.adapter.derived()));
            shown.add(&iam.key(), section, layers);
        }
        for key in known.secrets() {
            if shown.settings.contains_key(&format!("{key}_file")) {
                shown.settings.remove(key);
            } else if let Some(secret) = shown.settings.get_mut(key) {
                secret.value = None;
                secret.hidden = true;
            }
        }
        shown
    }

    fn add(&mut self, section: &str, values: Map<String, Value>, layers: &Layers) {
        self.sections.insert(section.to_owned());
        for (name, value) in values {
            let key = join(section, &name);
            match value {
                Value::Null => {}
                Value::Object(values) if layers.known.is_section(&key) => {
                    self.add(&key, values, layers);
                }
                value => {
                    let setting = EffectiveSetting {
                        value: Some(value),
                        hidden: false,
                        origin: layers.origin(&key).cloned().unwrap_or(Origin::Default),
                    };
                    self.settings.insert(key, setting);
                }
            }
        }
    }
}

/// As a settings file, with the origin of each value as a comment. It can be loaded again if the
/// secrets are set elsewhere.
impl fmt::Display for EffectiveSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for section in &self.sections {
            if !section.is_empty() {
                write!(f, "\n[{section}]\n")?;
            }
            for (key, setting) in &self.settings {
                let (of, name) = key.rsplit_once('.').unwrap_or(("", key));
                if of != section {
                    continue;
                }
                let origin = &setting.origin;
                let value = setting.value.as_ref();
                match value.and_then(|value| toml::Value::try_from(value).ok()) {
                    Some(value) => writeln!(f, "{name} = {value}  # {origin}")?,
                    None => writeln!(f, "# {name} is hidden: {origin}")?,
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use secrecy::ExposeSecret as _;
    use serde_json::json;
    use tempfile::NamedTempFile;

    use super::super::load_tests::{environment, load_text};
    use super::super::sample::registry;
    use super::super::{SettingsSource, load};
    use super::*;

    /// Valid as headers of traces too.
    const CANARY: &str = "canary=of-a-secret-0123456789-abcdef";

    /// A file with every section and every secret, whose values are of all types.
    const ALL: &str = r#"
        stale_if_error = "90s"
        [http]
        workers = 3
        trusted_proxies = ["10.0.0.0/8", "192.0.2.7"]
        public_url = "https://auth.example.test/login/"
        [token]
        audience = ["shop", "billing"]
        [log]
        format = "json"
        [permissions]
        source = "http"
        url = "http://127.0.0.1:8181/v1/data/gateway/scopes"
        [redis]
        url = "redis://127.0.0.1/7"
        username = "canary-of-a-name"
        [redis.sentinel]
        addresses = ["one.example.test", "two.example.test:1234"]
        master = "primary"
        [traces]
        endpoint = "http://127.0.0.1:4318"
        [iam.corp]
        type = "keycloak"
        url = "https://iam.example.test/"
        realm = "shop"
        client_id = "auth-gateway"
        domains = ["corp.example"]
        default = true
        freshness = "20s"
        [iam.other]
        type = "oauth2"
        issuer = "https://other.example.test"
        client_id = "auth-gateway"
        domains = ["other.example"]
        subject_prefix = "other:"
        allowed_scopes = ["urn:shop:*"]
    "#;

    const SECRETS: [&str; 8] = [
        "iam.corp.client_secret",
        "iam.other.client_secret",
        "keys.identifier_key",
        "management.token",
        "permissions.token",
        "redis.password",
        "redis.sentinel.password",
        "traces.headers",
    ];

    fn variables(values: &[(&str, &str)]) -> BTreeMap<String, String> {
        let variable = |key: &str| key.replace('.', "__").to_ascii_uppercase();
        let values = values.iter().map(|(key, value)| (variable(key), *value));
        let values: Vec<_> = values.collect();
        let values: Vec<_> = values.iter().map(|(key, value)| (&**key, *value)).collect();
        environment(&values)
    }

    fn shown(file: Option<&Path>, variables: &BTreeMap<String, String>) -> EffectiveSettings {
        let source = SettingsSource::new(file, variables, &registry());
        source.effective().expect("valid")
    }

    fn written(text: &str) -> NamedTempFile {
        let file = NamedTempFile::new().expect("a file");
        fs::write(&file, text).expect("written");
        fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("permissions");
        file
    }

    #[test]
    fn shown_settings_can_be_loaded_again_with_the_secrets() {
        let secrets = variables(&SECRETS.map(|key| (key, CANARY)));
        for text in [
            ALL,
            "",
            "[iam.sample]",
            "[permissions]\nsource = 'groups'\ngroups = [{ group = 'a', scopes = ['s', 't'] }]",
        ] {
            let secrets = if text == ALL {
                &secrets
            } else {
                &BTreeMap::new()
            };
            let file = written(text);
            let before = load(Some(file.path()), secrets, &registry()).expect("valid");
            let shown = shown(Some(file.path()), secrets);
            let again = written(&shown.to_string());
            let after = load(Some(again.path()), secrets, &registry()).expect("valid");
            assert_eq!(format!("{after:#?}"), format!("{before:#?}"), "{shown}");
        }
    }

    #[test]
    fn every_secret_is_hidden_and_nothing_else() {
        let secrets = variables(&SECRETS.map(|key| (key, CANARY)));
        let all = written(ALL);
        let settings = load(Some(all.path()), &secrets, &registry()).expect("valid");
        let token = settings.management.token.expect("a token");
        assert_eq!(token.expose_secret(), CANARY);
        let shown = shown(Some(all.path()), &secrets);
        let json = serde_json::to_string(&shown).expect("JSON");
        for text in [shown.to_string(), json, format!("{shown:?}")] {
            assert!(!text.contains("secret-0123"), "{text}");
            assert!(text.contains("canary-of-a-name"), "{text}");
        }
        let hidden = shown.settings.iter().filter(|(_, setting)| setting.hidden);
        assert!(hidden.map(|(key, _)| key).eq(SECRETS), "{shown}");
        let placeholder = json!(iam_adapters::secret_file::HIDDEN);
        for (key, setting) in &shown.settings {
            assert_ne!(setting.value.as_ref(), Some(&placeholder), "{key}");
        }
    }

    #[test]
    fn no_secret_exists_that_the_test_does_not_set() {
        let source = SettingsSource::new(Some(written(ALL).path()), &BTreeMap::new(), &registry());
        let layers = Layers::gather(&source, &mut super::super::ConfigErrors::default());
        let known = layers.expect("a file").known;
        // Those of sections that are not in the file are of the same types.
        let of_kinds = [
            "iam.keycloak.client_secret",
            "iam.ldap.bind_password",
            "iam.oauth2.client_secret",
        ];
        let secrets = known.secrets().filter(|key| !of_kinds.contains(key));
        assert!(secrets.eq(SECRETS));
    }

    #[test]
    fn file_of_a_secret_is_shown_and_its_content_is_not() {
        let secret = written(CANARY);
        let path = secret.path().to_str().expect("a path");
        let shown = shown(None, &variables(&[("management.token_file", path)]));
        let setting = &shown.settings["management.token_file"];
        assert_eq!(setting.value, Some(json!(path)));
        assert!(!shown.settings.contains_key("management.token"), "{shown}");
        let origin = Origin::Environment("AUTH_GATEWAY__MANAGEMENT__TOKEN_FILE".to_owned());
        assert_eq!(setting.origin, origin);
        assert!(!shown.to_string().contains(CANARY), "{shown}");
    }

    #[test]
    fn origin_is_the_default_the_file_or_the_variable_that_overrides_it() {
        let file = written("[session]\nfreshness = '10s'\nmax_lifetime = '2h'");
        let shown = shown(
            Some(file.path()),
            &variables(&[("session.freshness", "20s")]),
        );
        let path = file.path().to_str().expect("a path");
        for (key, value, origin) in [
            (
                "session.freshness",
                "20s",
                Origin::Environment("AUTH_GATEWAY__SESSION__FRESHNESS".to_owned()),
            ),
            ("session.max_lifetime", "2h", Origin::File(path.into())),
            ("token.lifetime", "1h", Origin::Default),
        ] {
            let setting = &shown.settings[key];
            assert_eq!(setting.value, Some(json!(value)), "{key}");
            assert_eq!(setting.origin, origin, "{key}");
        }
        let text = shown.to_string();
        for line in [
            "freshness = \"20s\"  # environment AUTH_GATEWAY__SESSION__FRESHNESS".to_owned(),
            format!("max_lifetime = \"2h\"  # file {path:?}"),
            "lifetime = \"1h\"  # default".to_owned(),
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line}: {text}");
        }
        let json = serde_json::to_value(&shown).expect("JSON");
        assert_eq!(
            json["session.max_lifetime"],
            json!({"value": "2h", "origin": {"file": path}})
        );
        assert_eq!(
            json["token.lifetime"],
            json!({"value": "1h", "origin": "default"})
        );
    }

    #[test]
    fn defaults_that_depend_on_other_settings_are_shown() {
        let text = "[http]\npublic_url = 'https://auth.example.test'";
        let settings = load_text(text, &[]).expect("valid");
        let shown = shown(Some(written(text).path()), &BTreeMap::new());
        for (key, value) in [
            ("token.audience", json!(settings.token.audience)),
            ("http.workers", json!(settings.http.workers)),
        ] {
            let setting = &shown.settings[key];
            assert_eq!(setting.value, Some(value), "{key}");
            assert_eq!(setting.origin, Origin::Default, "{key}");
        }
    }

    #[test]
    fn defaults_that_depend_on_the_iams_are_shown() {
        const KEYCLOAK: &str =
            "url = 'http://k'\nrealm = 'r'\nclient_id = 'c'\nclient_secret = 's'\n";
        let one = format!(
            "[redis]\nurl = 'redis://127.0.0.1'\n[http]\npublic_url = 'http://localhost:9/a'\n\
             [iam.keycloak]\n{KEYCLOAK}"
        );
        let several = format!(
            "[iam.keycloak]\n{KEYCLOAK}default = true\n[iam.sample]\nsubject_prefix = 's'\nlogin = false"
        );
        let preset = "[iam.corp]\ntype = 'oauth2'\nissuer = 'http://o/'\nclient_id = 'c'\n\
             client_secret = 's'\npreset = 'django-oauth-toolkit'"
            .to_owned();
        let discovery_url = "http://o/.well-known/oauth-authorization-server";
        for (text, expected) in [
            (
                &preset,
                &[
                    ("iam.corp.discovery_url", Some(json!(discovery_url))),
                    ("iam.corp.assertion_audience", Some(json!("issuer"))),
                    ("iam.corp.introspect", Some(json!("access_token"))),
                    ("iam.corp.subject_claim", Some(json!("username"))),
                    ("iam.corp.permissions_claim", Some(json!("scope"))),
                    ("iam.corp.deleted_account", Some(json!("inactive"))),
                    ("iam.corp.scope", None),
                ][..],
            ),
            (
                &one,
                &[
                    ("iam.keycloak.type", Some(json!("keycloak"))),
                    ("iam.keycloak.issuer", Some(json!("http://k/realms/r"))),
                    ("iam.keycloak.default", Some(json!(true))),
                    ("login_limits.account_sessions_per_minute", Some(json!(20))),
                    ("login_limits.rate", Some(json!(30))),
                    ("iam.keycloak.logins_per_second", None),
                    ("redis.prefix", Some(json!("auth-gateway:localhost:9/a"))),
                ][..],
            ),
            (
                &several,
                &[
                    ("iam.sample.default", Some(json!(false))),
                    ("login_limits.account_sessions_per_minute", Some(json!(20))),
                    ("login_limits.rate", Some(json!(30))),
                    ("iam.keycloak.logins_per_second", None),
                    ("iam.sample.logins_per_second", Some(json!(0))),
                ],
            ),
        ] {
            let shown = shown(Some(written(text).path()), &BTreeMap::new());
            for (key, value) in expected {
                let setting = shown.settings.get(*key);
                assert_eq!(
                    setting.and_then(|setting| setting.value.clone()),
                    *value,
                    "{key}"
                );
                assert!(
                    setting.is_none_or(|setting| setting.origin == Origin::Default
                        || text.contains("default = true") && *key == "iam.keycloak.default"),
                    "{key}"
                );
            }
        }
    }
}
