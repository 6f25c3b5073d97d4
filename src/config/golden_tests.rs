//! Reads the settings of every released version, from the golden files in `tests/golden`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rcgen::generate_simple_self_signed;
use secrecy::ExposeSecret as _;
use tempfile::TempDir;

use super::known::KnownSettings;
use super::sample::registry;
use super::*;

const LAYOUT: &str = "/etc/auth-gateway";

/// The content of each secret file.
const SECRET: &str = "test-only-secret-of-the-golden-files";

/// The sections that are new since the last release, so that no golden file has them.
const NEW_SECTIONS: [&str; 3] = ["http.cors", "iam.kratos", "iam.ldap"];

fn settings_file(version: &str) -> PathBuf {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    golden.join(version).join("settings.toml")
}

/// The settings of a version. The files that they name are in a folder of their own.
fn load_version(version: &str) -> Result<Settings, InvalidSettings> {
    let folder = TempDir::new().unwrap();
    let place = folder.path().display().to_string();
    let text = fs::read_to_string(settings_file(version)).unwrap();
    let certified = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    for path in text.split('"').filter(|part| part.starts_with(LAYOUT)) {
        let path = PathBuf::from(path.replace(LAYOUT, &place));
        if path.parent().is_some_and(|parent| parent.ends_with("keys")) {
            fs::create_dir_all(path).unwrap();
        } else {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let is_certificate = path.extension().is_some_and(|end| end == "crt");
            let content = if is_certificate {
                certified.cert.pem()
            } else if path.ends_with("otlp-headers") {
                format!("x-tenant={SECRET}")
            } else {
                SECRET.to_owned()
            };
            fs::write(&path, content).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
        }
    }
    let file = folder.path().join("auth-gateway.toml");
    fs::write(&file, text.replace(LAYOUT, &place)).unwrap();
    load(Some(&file), &BTreeMap::new(), &registry())
}

#[test]
fn settings_of_version_0_1_0_have_the_same_effect() {
    let settings = load_version("0.1.0").expect("valid");
    let seconds = Duration::from_secs;
    assert_eq!(settings.environment, Environment::Production);
    assert_eq!(settings.stale_if_error, seconds(300));
    assert_eq!(settings.http.listen, "0.0.0.0:8081".parse().unwrap());
    assert_eq!(settings.http.workers, 4);
    assert_eq!(settings.http.max_connections, 5_000);
    let issuer = settings.http.public_url.issuer();
    assert_eq!(issuer, "https://auth.example.test/shop");
    assert_eq!(settings.http.trusted_proxies.len(), 2);
    assert!(settings.http.precise_backend_status);
    assert_eq!(settings.http.shutdown_deadline, seconds(20));
    assert_eq!(settings.http.shutdown_delay, seconds(3));
    assert!(settings.http.tls.certificate_file.is_some());
    let token = settings.management.token.unwrap();
    assert_eq!(
        token.expose_secret(),
        "test-only-secret-of-the-golden-files"
    );
    assert_eq!(settings.session.freshness, seconds(20));
    assert_eq!(settings.session.max_lifetime, seconds(12 * 3600));
    let limits = &settings.login_limits;
    assert_eq!((limits.account_failures, limits.address_failures), (8, 80));
    assert_eq!(limits.account_window, seconds(240));
    assert_eq!(limits.account_failures_in_a_row, 40);
    assert_eq!(limits.account_slow_interval, seconds(600));
    assert_eq!(limits.account_sessions_per_minute, Some(15));
    assert_eq!(limits.rate, Some(25));
    let redis = settings.redis.unwrap();
    assert_eq!(redis.prefix.as_deref(), Some("auth-gateway:golden"));
    assert_eq!(redis.catch_up_deadline, seconds(8));
    assert!(!redis.share_knowledge && redis.password.is_some());
    let sentinel = redis.address(None).sentinels.unwrap();
    let ports: Vec<_> = sentinel.addresses.iter().map(|(_, port)| *port).collect();
    assert_eq!(ports, [26_379, 26_380]);
    assert_eq!(settings.permissions.source, PermissionSourceKind::Http);
    assert_eq!(settings.permissions.ttl, seconds(50));
    assert_eq!(settings.permissions.deadline, Duration::from_millis(400));
    assert_eq!(settings.token.lifetime, seconds(600));
    assert_eq!(settings.token.audience.len(), 2);
    assert!(settings.token.refuse_empty_scope);
    assert_eq!(settings.keys.jwks_max_age, seconds(240));
    assert_eq!(settings.keys.reload_interval, seconds(2));
    let identifier_key = settings.keys.identifier_key.unwrap();
    assert_eq!(identifier_key.expose_secret(), SECRET);
    assert_eq!(
        settings.upstream.connect_deadline,
        Duration::from_millis(900)
    );
    assert_eq!(settings.upstream.introspection_concurrency, 100);
    assert_eq!(settings.upstream.probe_interval, seconds(15));
    assert_eq!(settings.cache.max_bytes, 33_554_432);
    assert_eq!(settings.log.filter, "info,auth_gateway=debug");
    let audit = settings.audit;
    assert_eq!(audit.destination, AuditDestination::File);
    assert_eq!(
        audit.file.as_deref(),
        Some(Path::new("/var/log/auth-gateway/audit.log"))
    );
    assert!(audit.fail_closed && audit.client_addresses && audit.email_addresses);
    let traces = settings.traces;
    assert_eq!(
        traces.url().unwrap().as_str(),
        "https://otlp.example.test:4318/gateway/v1/traces"
    );
    assert!((traces.sample_ratio - 0.05).abs() < f64::EPSILON);
    let headers = traces.header_list().unwrap();
    let headers = headers
        .iter()
        .map(|(name, value)| (&**name, value.expose_secret()));
    assert!(headers.eq([("x-tenant", SECRET)]));
    assert!(
        traces
            .ca_file
            .is_some_and(|path| path.ends_with("tls/otlp-ca.crt"))
    );
    assert_eq!(traces.timeout, seconds(7));
    assert_eq!(traces.service_name, "golden-gateway");
    assert_eq!(traces.service_instance_id.as_deref(), Some("golden-1"));
    let [corp, partner] = &settings.iams[..] else {
        panic!("{} IAMs", settings.iams.len());
    };
    assert_eq!((&*corp.name, &*partner.name), ("corp", "partner"));
    assert!(corp.options.default && corp.options.login && !partner.options.login);
    assert_eq!(corp.options.subject_prefix, "corp-");
    assert_eq!(corp.session.freshness, seconds(25));
    assert_eq!(corp.options.logins_per_second, Some(12));
    assert_eq!(partner.options.domains, ["partner.example.test"]);
}

/// The sections that the golden settings of this version lack.
fn missing_sections() -> Vec<String> {
    let text = fs::read_to_string(settings_file(env!("CARGO_PKG_VERSION"))).unwrap();
    let known = KnownSettings::new(&Registry::default(), &BTreeMap::new());
    let kinds: Vec<_> = Registry::default()
        .kinds
        .iter()
        .map(|kind| kind.name)
        .collect();
    let has = |section: &str| {
        let adapter = section
            .strip_prefix("iam.")
            .filter(|name| kinds.contains(name));
        match adapter {
            Some(kind) => text.contains(&format!("type = \"{kind}\"")),
            None => {
                section.is_empty() || section == "iam" || text.contains(&format!("[{section}]"))
            }
        }
    };
    let sections = known.sections.into_iter();
    sections.filter(|section| !has(section)).collect()
}

#[test]
fn golden_settings_lack_only_the_sections_that_are_new_since_the_release() {
    assert_eq!(missing_sections(), NEW_SECTIONS, "see docs/upgrades.md");
}

/// For the release of a version. `docs/upgrades.md` has the command.
#[test]
#[ignore = "checks the golden files of a new version"]
fn golden_settings_of_this_version_have_every_section() {
    assert_eq!(missing_sections(), [""; 0], "see docs/upgrades.md");
}
