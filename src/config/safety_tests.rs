use std::collections::BTreeSet;
use std::path::PathBuf;

use tempfile::TempDir;

use super::load_tests::{environment, load_text, problems};
use super::sample::registry;
use super::*;

struct Files(TempDir);

impl Files {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(directory.path().join("signing")).expect("made");
        std::fs::create_dir(directory.path().join("sealing")).expect("made");
        let users = "[[users]]\nemail = 'carol@example.test'\npassword = 'carol-pass'\n";
        std::fs::write(directory.path().join("users.toml"), users).expect("written");
        Self(directory)
    }

    fn users(&self) -> String {
        format!("[iam.sample]\nusers_file = {:?}\n", self.path("users.toml"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn keys(&self) -> String {
        format!(
            "[keys]\nsigning_dir = {:?}\nsealing_dir = {:?}\n",
            self.path("signing"),
            self.path("sealing"),
        )
    }
}

const PRODUCTION: &str = r#"
    environment = "production"
    [http]
    listen = "0.0.0.0:8080"
    public_url = "https://auth.example.test"
    [iam.keycloak]
    url = "https://iam.example.test"
    realm = "shop"
    client_id = "auth-gateway"
    client_secret = "0123456789abcdef"
"#;

#[test]
fn production_starts_with_persistent_keys_a_real_iam_and_tls() {
    let files = Files::new();
    let settings = load_text(&format!("{PRODUCTION}{}", files.keys()), &[]).expect("valid");
    assert_eq!(settings.environment, Environment::Production);
}

#[test]
fn production_reports_all_unsafe_settings_together() {
    let found = problems(
        PRODUCTION,
        &[
            ("HTTP__PUBLIC_URL", "http://auth.example.test"),
            ("HTTP__CORS__ALLOWED_ORIGINS", "http://app.example.test"),
            ("IAM__KEYCLOAK__URL", "http://iam.example.test"),
            ("IAM__KEYCLOAK__CLIENT_SECRET", "secret"),
        ],
    );
    let keys: BTreeSet<_> = found
        .iter()
        .filter_map(|line| line.split(':').next())
        .collect();
    assert_eq!(
        keys,
        [
            "http.cors.allowed_origins",
            "http.public_url",
            "iam.keycloak.client_secret",
            "iam.keycloak.url",
            "keys.sealing_dir",
            "keys.signing_dir",
        ]
        .into(),
        "{found:#?}"
    );
}

#[test]
fn well_known_secrets_are_refused_in_production_alone() {
    let with_sentinel = [
        ("REDIS__URL", "rediss://redis.test"),
        ("REDIS__SENTINEL__ADDRESSES", "sentinel.test"),
        ("REDIS__SENTINEL__MASTER", "primary"),
    ];
    for (key, variable, secret) in [
        (
            "management.token",
            "MANAGEMENT__TOKEN",
            "keycloak-client-secret",
        ),
        ("permissions.token", "PERMISSIONS__TOKEN", "changeme"),
        (
            "keys.identifier_key",
            "KEYS__IDENTIFIER_KEY",
            "0123456789abcdef-development-secret",
        ),
        ("redis.password", "REDIS__PASSWORD", "redis"),
        (
            "redis.sentinel.password",
            "REDIS__SENTINEL__PASSWORD",
            "changeit",
        ),
    ] {
        let expected = format!("{key}: a well-known one (set in AUTH_GATEWAY__{variable})");
        let variables = [&with_sentinel[..], &[(variable, secret)]].concat();
        for (file, refused) in [(PRODUCTION, true), ("", false)] {
            let found = problems(file, &variables);
            assert_eq!(found.contains(&expected), refused, "{found:#?}");
        }
    }
}

#[test]
fn production_refuses_a_development_iam_named_or_by_default() {
    let files = Files::new();
    let bare = "environment = 'production'\nhttp.public_url = 'https://auth.example.test'\n";
    for iam in ["", &files.users()] {
        let found = problems(&format!("{bare}{iam}{}", files.keys()), &[]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("iam.sample: "), "{found:?}");
    }
}

#[test]
fn generated_keys_are_refused_on_addresses_other_than_loopback() {
    let files = Files::new();
    for (file, missing) in [
        (String::new(), "keys.signing_dir, keys.sealing_dir"),
        (files.keys(), ""),
    ] {
        for listen in [
            "0.0.0.0:8080",
            "[::]:8080",
            "192.0.2.1:0",
            "[::ffff:192.0.2.1]:0",
        ] {
            let found = problems(&file, &[("HTTP__LISTEN", listen)]);
            if missing.is_empty() {
                assert!(found.is_empty(), "{listen}: {found:?}");
            } else {
                let expected = format!("http.listen: {listen} can be reached from other machines;");
                assert!(found[0].starts_with(&expected), "{listen}: {found:?}");
                assert!(found[0].contains(missing), "{missing}: {found:?}");
                assert_eq!(found.len(), 1, "{found:?}");
            }
        }
        for listen in [
            "127.0.0.1:0",
            "127.8.8.8:1",
            "[::1]:0",
            "[::ffff:127.0.0.1]:0",
        ] {
            assert!(
                problems(&file, &[("HTTP__LISTEN", listen)]).is_empty(),
                "{listen}"
            );
        }
    }
}

#[test]
fn management_listener_may_have_any_address() {
    let found = problems("", &[("MANAGEMENT__LISTEN", "0.0.0.0:9090")]);
    assert_eq!(found, [""; 0]);
}

#[test]
fn the_two_listeners_need_different_addresses() {
    for (public, management, clash) in [
        ("127.0.0.1:80", "127.0.0.1:80", true),
        ("127.0.0.1:80", "0.0.0.0:80", true),
        ("127.0.0.1:80", "127.0.0.2:80", false),
        ("127.0.0.1:80", "127.0.0.1:81", false),
        ("127.0.0.1:0", "127.0.0.1:0", false),
    ] {
        let over = [("HTTP__LISTEN", public), ("MANAGEMENT__LISTEN", management)];
        let found = problems("", &over);
        assert_eq!(!found.is_empty(), clash, "{public} {management} {found:?}");
        assert!(
            found
                .iter()
                .all(|line| line.starts_with("management.listen: "))
        );
    }
}

#[test]
fn numbers_and_durations_are_accepted_within_their_bounds() {
    for (key, good, bad) in [
        ("HTTP__WORKERS", ["1", "1024"], ["0", "1025"]),
        ("HTTP__MAX_CONNECTIONS", ["1", "1000000"], ["0", "-1"]),
        ("HTTP__SHUTDOWN_DELAY", ["0s", "10m"], ["601s", "x"]),
        ("HTTP__SHUTDOWN_DEADLINE", ["1ms", "1h"], ["0s", "61m"]),
        ("STALE_IF_ERROR", ["0s", "15m"], ["15m 1ms", "-1s"]),
        ("SESSION__MAX_LIFETIME", ["60s", "365d"], ["59s", "366d"]),
        ("SESSION__FRESHNESS", ["2s", "24h"], ["1999ms", "25h"]),
        ("PERMISSIONS__TTL", ["2s", "24h"], ["1999ms", "25h"]),
        ("TOKEN__LIFETIME", ["1s", "24h"], ["1500ms", "86401s"]),
        ("TOKEN__CLIENT_ID", ["a", "b"], ["", ""]),
        ("TOKEN__AUDIENCE", ["a", "a,b"], ["a,", ",a"]),
        ("KEYS__JWKS_MAX_AGE", ["1s", "24h"], ["0s", "1500ms"]),
        ("UPSTREAM__CONNECT_DEADLINE", ["1ms", "60s"], ["0s", "61s"]),
        ("UPSTREAM__LOGIN_DEADLINE", ["1ms", "60s"], ["0s", "61s"]),
        (
            "UPSTREAM__INTROSPECTION_DEADLINE",
            ["1ms", "30s"],
            ["0s", "31s"],
        ),
        ("UPSTREAM__LOGOUT_DEADLINE", ["1ms", "60s"], ["0s", "61s"]),
        ("UPSTREAM__PROBE_DEADLINE", ["1ms", "60s"], ["0s", "61s"]),
        ("UPSTREAM__PROBE_INTERVAL", ["1ms", "1h"], ["0s", "61m"]),
        (
            "UPSTREAM__LOGIN_CONCURRENCY",
            ["1", "100000"],
            ["0", "100001"],
        ),
        (
            "UPSTREAM__INTROSPECTION_CONCURRENCY",
            ["1", "100000"],
            ["0", "x"],
        ),
        (
            "UPSTREAM__LOGOUT_CONCURRENCY",
            ["1", "100000"],
            ["0", "1.5"],
        ),
        (
            "CACHE__MAX_BYTES",
            ["1048576", "9999999999"],
            ["1048575", "0"],
        ),
        (
            "LOG__FILTER",
            ["debug", "auth_gateway=trace,warn"],
            ["a=b", "=info="],
        ),
        ("LOG__FILTER", ["off", " warn ,"], ["", " , "]),
        ("LOG__FORMAT", ["human", "auto"], ["HUMAN", ""]),
    ] {
        for value in good {
            assert_eq!(
                problems("", &[(key, value)]),
                Vec::<String>::new(),
                "{key}={value}"
            );
        }
        for value in bad {
            assert!(!problems("", &[(key, value)]).is_empty(), "{key}={value:?}");
        }
    }
}

#[test]
fn freshness_shorter_than_the_introspection_deadline_is_refused_with_the_reason() {
    let found = problems("upstream.introspection_deadline = '31s'", &[]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("session.freshness: must not be shorter than"));
    assert!(
        found[0].contains("the age of a response counts from its request"),
        "{found:?}"
    );
}

#[test]
fn tls_needs_both_files() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let path = file.path().to_str().expect("a name");
    let certificate = ("HTTP__TLS__CERTIFICATE_FILE", path);
    let settings = load_text("", &[certificate, ("HTTP__TLS__KEY_FILE", path)]);
    assert_eq!(
        settings.expect("valid").http.tls.files(),
        Some((file.path(), file.path()))
    );
    let alone = problems("", &[certificate]);
    assert!(alone[0].contains("requires http.tls.key_file"), "{alone:?}");
}

#[test]
fn key_directories_must_exist_and_differ() {
    let files = Files::new();
    let path = files.path("signing");
    let path = path.to_str().expect("a name");
    let same = load(
        None,
        &environment(&[("KEYS__SIGNING_DIR", path), ("KEYS__SEALING_DIR", path)]),
        &registry(),
    );
    let same = same.expect_err("one directory").problems;
    assert!(
        same[0].starts_with("keys.sealing_dir: must be another"),
        "{same:?}"
    );
    let absent = problems("", &[("KEYS__SIGNING_DIR", "no/such")]);
    assert!(
        absent[0].starts_with("keys.signing_dir: no/such: no such file or directory"),
        "{absent:?}"
    );
}

#[test]
fn production_with_a_directory_needs_redis_or_the_consent_to_local_logouts() {
    let files = Files::new();
    let directory = r#"
        environment = "production"
        [http]
        public_url = "https://auth.example.test"
        [permissions]
        source = "groups"
        groups = [{ group = "cn=staff", scopes = ["urn:shop:orders:order:read"] }]
        [iam.ldap]
        urls = "ldaps://ldap.example.test"
        issuer = "directory"
        bind_dn = "cn=gateway"
        bind_password = "0123456789abcdef"
        users_base = "dc=test"
    "#;
    let redis = "[redis]\nurl = 'rediss://redis.example.test'\n";
    let directory = format!("{directory}{}", files.keys());
    let found = problems(&directory, &[]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("iam.ldap: needs [redis]"), "{found:?}");
    assert!(found[0].contains("accept_local_logout"), "{found:?}");
    let consent = [("IAM__LDAP__ACCEPT_LOCAL_LOGOUT", "true")];
    assert_eq!(problems(&directory, &consent), [""; 0]);
    let found = problems(&format!("{directory}{redis}"), &[]);
    assert!(
        !found.iter().any(|problem| problem.starts_with("iam.ldap")),
        "{found:?}"
    );
    let found = problems(&directory, &[consent[0], ("PERMISSIONS__SOURCE", "iam")]);
    assert!(
        found.contains(
            &"permissions.source: must be groups or http: [iam.ldap] has no permissions (set in \
              AUTH_GATEWAY__PERMISSIONS__SOURCE)"
                .to_owned()
        ),
        "{found:?}"
    );
}

#[test]
fn production_with_a_server_without_revocation_needs_redis_or_the_consent_to_local_logouts() {
    let files = Files::new();
    let server = r#"
        environment = "production"
        [http]
        public_url = "https://auth.example.test"
        [iam.oauth2]
        issuer = "https://login.example.test"
        client_id = "auth-gateway"
        client_secret = "0123456789abcdef"
    "#;
    let server = format!("{server}{}", files.keys());
    assert_eq!(problems(&server, &[]), [""; 0]);
    let without_revocation = ("IAM__OAUTH2__REVOCATION_ENDPOINT", "none");
    let found = problems(&server, &[without_revocation]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].starts_with("iam.oauth2: needs [redis]"),
        "{found:?}"
    );
    assert!(found[0].contains("accept_local_logout"), "{found:?}");
    let consent = ("IAM__OAUTH2__ACCEPT_LOCAL_LOGOUT", "true");
    assert_eq!(problems(&server, &[without_revocation, consent]), [""; 0]);
}
