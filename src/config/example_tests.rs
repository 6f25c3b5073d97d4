use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::known::KnownSettings;
use super::load_tests::load_text;
use super::sample::registry;
use super::*;

const EXAMPLE: &str = include_str!("../../deploy/auth-gateway.example.toml");

/// The example with all commented-out settings enabled.
fn all_enabled() -> String {
    EXAMPLE
        .lines()
        .map(|line| match line.strip_prefix('#') {
            Some(setting) if !setting.is_empty() && !setting.starts_with(' ') => setting,
            _ => line,
        })
        .collect::<Vec<_>>()
        .join("\n")
}

fn keys_in(text: &str) -> BTreeSet<String> {
    fn gather(
        table: &toml::Table,
        section: &str,
        known: &KnownSettings,
        keys: &mut BTreeSet<String>,
    ) {
        for (name, value) in table {
            let key = known::join(section, name);
            match value {
                toml::Value::Table(table) if known.is_section(&key) => {
                    gather(table, &key, known, keys);
                }
                _ => drop(keys.insert(key)),
            }
        }
    }
    let known = KnownSettings::new(&Registry::default(), &BTreeMap::new());
    let mut keys = BTreeSet::new();
    gather(&text.parse().expect("TOML"), "", &known, &mut keys);
    keys
}

/// The settings that exist. Those of every IAM are described once, in the section of Keycloak.
fn existing() -> BTreeSet<String> {
    let mut keys = KnownSettings::new(&Registry::default(), &BTreeMap::new()).keys;
    keys.retain(|key| {
        let names = key
            .strip_prefix("iam.")
            .and_then(|rest| rest.split_once('.'));
        names.is_none_or(|(iam, name)| {
            iam == "keycloak" || !KnownSettings::iam_options().contains(&name)
        })
    });
    keys
}

#[test]
fn example_names_exactly_the_existing_settings() {
    assert_eq!(keys_in(&all_enabled()), existing());
}

#[test]
fn example_is_equal_to_the_defaults() {
    let example = load_text(EXAMPLE, &[]).expect("valid");
    let defaults = load(None, &BTreeMap::new(), &registry()).expect("valid");
    assert_eq!(format!("{example:#?}"), format!("{defaults:#?}"));
}

#[test]
fn setting_is_commented_out_in_the_example_only_without_a_default() {
    let off = &keys_in(&all_enabled()) - &keys_in(EXAMPLE);
    let off: Vec<_> = off.iter().filter(|key| !key.starts_with("iam.")).collect();
    assert_eq!(
        off,
        [
            "audit.file",
            "http.tls.certificate_file",
            "http.tls.key_file",
            "http.workers",
            "keys.identifier_key",
            "keys.identifier_key_file",
            "keys.sealing_dir",
            "keys.signing_dir",
            "login_limits.account_sessions_per_minute",
            "login_limits.rate",
            "management.token",
            "management.token_file",
            "permissions.ca_file",
            "permissions.groups",
            "permissions.token",
            "permissions.token_file",
            "permissions.url",
            "redis.ca_file",
            "redis.catch_up_deadline",
            "redis.password",
            "redis.password_file",
            "redis.prefix",
            "redis.sentinel.addresses",
            "redis.sentinel.master",
            "redis.sentinel.password",
            "redis.sentinel.password_file",
            "redis.sentinel.username",
            "redis.share_knowledge",
            "redis.url",
            "redis.username",
            "token.audiences",
            "traces.ca_file",
            "traces.endpoint",
            "traces.headers",
            "traces.headers_file",
            "traces.service_instance_id",
        ]
    );
}

#[test]
fn every_setting_of_the_example_has_a_description() {
    for section in all_enabled().split("\n\n") {
        let mut lines = section.lines();
        let explained = lines.any(|line| line.starts_with("# ") && line.len() > 10);
        assert!(explained || section.is_empty(), "{section}");
    }
}

/// The names of the chart's values, each with those in it.
fn names_in_schema(schema: &Value) -> Map<String, Value> {
    let properties = schema["properties"].as_object();
    let properties = properties.into_iter().flatten();
    properties
        .map(|(name, value)| (name.clone(), names_in_schema(value).into()))
        .collect()
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "it chooses whether the file is written"
)]
fn names_in_the_chart_are_current() {
    let schema = include_str!("../../deploy/chart/values.schema.json");
    let mut names = names_in_schema(&serde_json::from_str(schema).expect("JSON"));
    let mut settings = Value::Object(Map::new());
    for key in KnownSettings::new(&Registry::default(), &BTreeMap::new()).keys {
        key.split('.').fold(&mut settings, |section, name| {
            let section = section.as_object_mut().expect("a section");
            section.entry(name).or_insert_with(|| Map::new().into())
        });
    }
    names.insert("settings".to_owned(), settings);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/chart/names.yaml");
    let header = "# Written by `WRITE_REFERENCE=1 cargo test --locked -p auth-gateway are_current` from values.schema.json and the settings.\n";
    if std::env::var_os("WRITE_REFERENCE").is_some() {
        let names = serde_json::to_string_pretty(&names).expect("JSON");
        std::fs::write(&file, format!("{header}{names}\n")).expect("written");
    }
    let written = std::fs::read_to_string(&file).expect("text");
    let written = written.strip_prefix(header).expect("the header");
    let written: Map<String, Value> = serde_json::from_str(written).expect("JSON");
    // The order depends on a feature of serde_json.
    assert_eq!(written, names, "deploy/chart/names.yaml is not current");
}

/// The documents of the Kubernetes example.
fn manifests() -> Vec<serde_json::Value> {
    serde_saphyr::from_str_multiple(include_str!("../../deploy/kubernetes.yaml")).expect("YAML")
}

#[test]
fn settings_for_kubernetes_lack_only_the_mounted_files() {
    let manifests = manifests();
    let text = manifests[0]["data"]["auth-gateway.toml"].as_str();
    let text = text.expect("a file");
    assert!(keys_in(text).is_subset(&existing()));
    let problems = load_text(text, &[])
        .expect_err("no such files here")
        .problems;
    let about: Vec<_> = problems
        .iter()
        .filter_map(|problem| problem.split(':').next())
        .collect();
    assert_eq!(
        about,
        [
            "iam.keycloak.client_secret_file",
            "keys.signing_dir",
            "keys.sealing_dir",
        ]
    );
}

#[test]
fn every_folder_of_the_settings_for_kubernetes_is_mounted() {
    let manifests = manifests();
    let container = &manifests[1]["spec"]["template"]["spec"]["containers"][0];
    let mounts: Vec<_> = container["volumeMounts"]
        .as_array()
        .expect("mounts")
        .iter()
        .filter_map(|mount| mount["mountPath"].as_str())
        .collect();
    let text = manifests[0]["data"]["auth-gateway.toml"].as_str();
    for path in text
        .expect("a file")
        .split('"')
        .filter(|part| part.starts_with('/'))
    {
        assert!(mounts.iter().any(|mount| path.starts_with(mount)), "{path}");
    }
}

/// Where the unit, the manifest, the container recipe, the example and the documentation have the files.
const LAYOUT: [&str; 27] = [
    "/etc/auth-gateway",
    "/etc/auth-gateway/auth-gateway.toml",
    "/etc/auth-gateway/keys",
    "/etc/auth-gateway/keys/signing",
    "/etc/auth-gateway/keys/sealing",
    "/etc/auth-gateway/secrets",
    "/etc/auth-gateway/secrets/identifier-key",
    "/etc/auth-gateway/secrets/bind-password",
    "/etc/auth-gateway/secrets/client-key",
    "/etc/auth-gateway/secrets/client-secret",
    "/etc/auth-gateway/secrets/client-tls-key",
    "/etc/auth-gateway/secrets/iam-token",
    "/etc/auth-gateway/secrets/corp-client-secret",
    "/etc/auth-gateway/secrets/management-token",
    "/etc/auth-gateway/secrets/otlp-headers",
    "/etc/auth-gateway/secrets/policy-token",
    "/etc/auth-gateway/secrets/redis-password",
    "/etc/auth-gateway/secrets/sentinel-password",
    "/etc/auth-gateway/tls",
    "/etc/auth-gateway/tls/tls.crt",
    "/etc/auth-gateway/tls/tls.key",
    "/etc/auth-gateway/tls/ca.crt",
    "/etc/auth-gateway/tls/client.crt",
    "/etc/auth-gateway/tls/redis-ca.crt",
    "/etc/auth-gateway/tls/policy-ca.crt",
    "/etc/auth-gateway/users.toml",
    "/etc/auth-gateway:ro",
];

#[test]
fn every_deployment_uses_one_layout_of_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files: Vec<_> = ["deploy", "docs"]
        .into_iter()
        .flat_map(|folder| std::fs::read_dir(root.join(folder)).expect("a folder"))
        .map(|entry| entry.expect("a file").path())
        .filter(|path| path.is_file())
        .collect();
    let mut found = 0;
    for file in &files {
        let text = std::fs::read_to_string(file).expect("text");
        let of_path = |letter: char| letter.is_ascii_alphanumeric() || "/._-:".contains(letter);
        for word in text.split(|letter| !of_path(letter)) {
            let path = word.find("/etc/auth-gateway").map(|start| &word[start..]);
            // A volume names the path twice: here and in the container.
            let path = path.and_then(|path| path.strip_prefix("/etc/auth-gateway:").or(Some(path)));
            if let Some(path) = path {
                let known = LAYOUT.contains(&path.trim_end_matches(['.', ':', '/']));
                assert!(known, "{}: {path}", file.display());
                found += 1;
            }
            let other_name = word == "gateway.toml" || word.starts_with("/run/secrets");
            assert!(!other_name, "{}: {word}", file.display());
        }
    }
    assert!(found > 30, "{found} paths in {} files", files.len());
}
