use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use auth_gateway_core::TokenType;
use iam_adapters::keycloak::KeycloakSettings;
use secrecy::ExposeSecret;
use tempfile::NamedTempFile;

use super::sample::{SampleSettings, of_kind, registry};
use super::*;

pub(super) fn environment(variables: &[(&str, &str)]) -> BTreeMap<String, String> {
    variables
        .iter()
        .map(|(key, value)| (format!("AUTH_GATEWAY__{key}"), (*value).to_owned()))
        .collect()
}

pub(super) fn load_text(
    file: &str,
    variables: &[(&str, &str)],
) -> Result<Settings, InvalidSettings> {
    let path = NamedTempFile::new().expect("a file");
    fs::write(path.path(), file).expect("written");
    load(Some(path.path()), &environment(variables), &registry()).map_err(|invalid| {
        let path = path.path().display().to_string();
        let problems = invalid.problems.into_iter();
        InvalidSettings {
            problems: problems.map(|line| line.replace(&path, "FILE")).collect(),
        }
    })
}

pub(super) fn problems(file: &str, variables: &[(&str, &str)]) -> Vec<String> {
    load_text(file, variables).map_or_else(|invalid| invalid.problems, |_| Vec::new())
}

const KEYCLOAK: &str = r#"
    [iam.keycloak]
    url = "https://iam.example.test"
    realm = "shop"
    client_id = "auth-gateway"
"#;

#[test]
fn defaults_are_development_mode_on_loopback() {
    let settings = load(None, &BTreeMap::new(), &registry()).expect("defaults");
    assert_eq!(settings.environment, Environment::Development);
    assert_eq!(settings.http.listen, "127.0.0.1:8080".parse().unwrap());
    assert_eq!(
        settings.management.listen,
        "127.0.0.1:9090".parse().unwrap()
    );
    assert_eq!(settings.http.public_url.issuer(), "http://localhost:8080");
    assert_eq!(settings.token.audience, ["http://localhost:8080"]);
    let sample = of_kind::<SampleSettings>(&settings.iams[0].adapter);
    assert!(sample.is_some_and(|sample| sample.users_file.is_none()));
}

#[test]
fn file_overrides_defaults_and_environment_overrides_the_file() {
    let file = "[session]\nfreshness = '10s'\nmax_lifetime = '2h'\n[http]\nworkers = 3";
    let settings = load_text(file, &[("SESSION__FRESHNESS", "20s")]).expect("valid");
    assert_eq!(settings.session.freshness, Duration::from_secs(20));
    assert_eq!(settings.session.max_lifetime, Duration::from_secs(7200));
    assert_eq!(settings.http.workers, 3);
    assert_eq!(settings.permissions.ttl, Duration::from_secs(60));
}

#[test]
fn every_type_of_value_can_be_set_in_the_environment() {
    let settings = load_text(
        "",
        &[
            ("ENVIRONMENT", "development"),
            ("STALE_IF_ERROR", "1m"),
            ("HTTP__WORKERS", "2"),
            ("HTTP__PRECISE_BACKEND_STATUS", "true"),
            ("HTTP__LISTEN", "[::1]:0"),
            ("HTTP__TRUSTED_PROXIES", "10.0.0.0/8, 192.0.2.1"),
            ("HTTP__PUBLIC_URL", "https://auth.example.test/"),
            ("TOKEN__AUDIENCE", "shop,billing"),
            ("TOKEN__DEFAULT_SCOPE", "a b"),
            ("CACHE__MAX_BYTES", "2000000"),
            ("LOG__FORMAT", "json"),
        ],
    )
    .expect("valid");
    assert_eq!(settings.stale_if_error, Duration::from_secs(60));
    assert_eq!(settings.http.workers, 2);
    assert!(settings.http.precise_backend_status);
    assert_eq!(settings.http.listen, "[::1]:0".parse().unwrap());
    assert_eq!(settings.http.trusted_proxies.len(), 2);
    assert_eq!(settings.token.audience, ["shop", "billing"]);
    assert_eq!(settings.token.default_scope, "a b");
    assert_eq!(settings.cache.max_bytes, 2_000_000);
    assert_eq!(settings.log.format, LogFormat::Json);
}

#[test]
fn fractions_and_truth_values_are_no_integers() {
    let rate = "login_limits.rate";
    let of_iam = "iam.sample.logins_per_second";
    for (key, value) in [
        (rate, "0.4"),
        (rate, "-1.0"),
        (rate, "false"),
        (rate, "'off'"),
        ("http.workers", "true"),
        (of_iam, "0.4"),
        (of_iam, "false"),
        ("iam.sample.login_concurrency", "1.5"),
    ] {
        let found = problems(&format!("{key} = {value}"), &[]);
        let expected = format!("{key}: expected an integer (set in FILE)");
        assert_eq!(found, [expected], "{value}");
    }
    let found = problems("", &[("LOGIN_LIMITS__RATE", "no")]);
    let place = "set in AUTH_GATEWAY__LOGIN_LIMITS__RATE";
    assert_eq!(found, [format!("{rate}: expected an integer ({place})")]);
    let ratio = |value: &str| problems(&format!("traces.sample_ratio = {value}"), &[]);
    let expected = "traces.sample_ratio: expected a number (set in FILE)";
    assert_eq!(ratio("true"), [expected]);
    for value in ["0.5", "1", "'0.5'"] {
        assert_eq!(ratio(value), [""; 0], "{value}");
    }
}

#[test]
fn empty_list_in_the_environment_is_an_empty_list() {
    let file = "[http]\ntrusted_proxies = ['10.0.0.0/8']\n[token]\naudience = ['shop']";
    let over = [("HTTP__TRUSTED_PROXIES", ""), ("TOKEN__AUDIENCE", "")];
    let settings = load_text(file, &over).expect("valid");
    assert!(settings.http.trusted_proxies.is_empty());
    assert_eq!(settings.token.audience, ["http://localhost:8080"]);
}

#[test]
fn secret_of_digits_keeps_leading_zeros_and_boolean_like_text_stays_text() {
    for secret in ["0012345678901234", "true", "1e5", "0x10", " a,b "] {
        let over = [("IAM__KEYCLOAK__CLIENT_SECRET", secret)];
        let settings = load_text(KEYCLOAK, &over).expect("valid");
        let keycloak = of_kind::<KeycloakSettings>(&settings.iams[0].adapter);
        let read = &keycloak.expect("Keycloak").client.client_secret;
        let read = read.as_ref().expect("a secret");
        assert_eq!(read.expose_secret(), secret);
    }
}

#[test]
fn adapter_can_be_configured_by_the_environment_alone() {
    let settings = load(
        None,
        &environment(&[
            ("IAM__KEYCLOAK__URL", "https://iam.example.test"),
            ("IAM__KEYCLOAK__REALM", "shop"),
            ("IAM__KEYCLOAK__CLIENT_ID", "auth-gateway"),
            ("IAM__KEYCLOAK__CLIENT_SECRET", "0123456789abcdef"),
        ]),
        &registry(),
    )
    .expect("valid");
    assert_eq!(settings.iams[0].adapter.name(), "keycloak");
}

#[test]
fn unknown_key_is_refused_by_name_in_the_file_and_in_the_environment() {
    let file =
        "htp = 1\n[http]\nlistn = '127.0.0.1:1'\n[iam.keyclock]\nurl = 1\n[log.format]\na = 1";
    let found = problems(
        &format!("{file}\n[session.more]\nx = 1"),
        &[
            ("HTTP__LISTN", "x"),
            ("HTTP", "x"),
            ("IAM__SAMPLE__URL", "x"),
        ],
    );
    for beginning in [
        "htp: no such setting; the nearest is http; there are: audit, cache, environment, http, iam,",
        "http.listn: no such setting; the nearest is http.listen; there are: cors, listen, max_connections,",
        "iam.keyclock: no such setting; the nearest is iam.keycloak; there are: ",
        "session.more: no such setting; the nearest is ",
        "AUTH_GATEWAY__HTTP__LISTN: no such setting",
        "AUTH_GATEWAY__HTTP: no such setting",
        "AUTH_GATEWAY__IAM__SAMPLE__URL: no such setting",
        "log.format: ",
    ] {
        let named = |line: &&String| line.starts_with(beginning);
        assert_eq!(
            found.iter().filter(named).count(),
            1,
            "{beginning}: {found:#?}"
        );
    }
    assert_eq!(found.len(), 8, "{found:#?}");
}

#[test]
fn misspelt_variable_is_refused_with_the_nearest_key() {
    for (variable, nearest) in [
        ("AUTH_GATEWAY_HTTP__LISTEN", "HTTP__LISTEN"),
        ("AUTH_GATEWAY_HTTP__LISTN", "HTTP__LISTEN"),
        (
            "AUTH_GATEWAY_IAM__KEYCLOAK__CLIENT_SECRET",
            "IAM__KEYCLOAK__CLIENT_SECRET",
        ),
        ("AUTH_GATEWAY_HTTP__TLS__KEY_FILE", "HTTP__TLS__KEY_FILE"),
        ("AUTH_GATEWAY__SESION__FRESHNESS", "SESSION__FRESHNESS"),
        ("AUTH_GATEWAY__SESSION_FRESHNESS", "SESSION__FRESHNESS"),
        ("AUTH_GATEWAY__ENVIROMENT", "ENVIRONMENT"),
        ("AUTH_GATEWAY__LISTEN", "HTTP__LISTEN"),
        ("AUTH_GATEWAY__REDIS__ULR", "REDIS__URL"),
        // Names of variables are case-sensitive.
        ("auth_gateway__http__listen", "HTTP__LISTEN"),
        ("AUTH_GATEWAY_http__listen", "HTTP__LISTEN"),
        ("Auth_Gateway__Log__Format", "LOG__FORMAT"),
    ] {
        let variables = BTreeMap::from([(variable.to_owned(), "canary".to_owned())]);
        let refused = load(None, &variables, &registry()).expect_err(variable);
        let expected =
            format!("{variable}: no such setting; the nearest is AUTH_GATEWAY__{nearest}");
        let named = |line: &&String| line.starts_with(&expected);
        let found = refused.problems;
        assert_eq!(found.iter().filter(named).count(), 1, "{found:#?}");
        assert!(!format!("{found:?}").contains("canary"), "{found:?}");
    }
}

#[test]
fn variables_that_kubernetes_sets_for_a_service_of_this_name_are_ignored() {
    let variables = [
        ("AUTH_GATEWAY_SERVICE_HOST", "10.0.0.1"),
        ("AUTH_GATEWAY_PORT", "tcp://10.0.0.1:80"),
        ("AUTH_GATEWAY_PORT_8080_TCP", "tcp://10.0.0.1:8080"),
        ("AUTH_GATEWAY_PORT_8080_TCP_ADDR", "10.0.0.1"),
        // Of services with the names `auth-gateway-http` and `auth-gateway-session`.
        ("AUTH_GATEWAY_HTTP_SERVICE_HOST", "10.0.0.2"),
        ("AUTH_GATEWAY_SESSION_PORT_80_TCP", "tcp://10.0.0.3:80"),
        ("AUTH_GATEWAY_CHECK_EMAIL", "alice@example.test"),
        ("AUTH_GATEWAY_CONFIG", "gateway.toml"),
        ("PATH", "/bin"),
    ];
    let variables = variables.map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert!(load(None, &BTreeMap::from(variables), &registry()).is_ok());
}

#[test]
fn all_problems_are_reported_together_with_key_and_origin() {
    let file = r#"
        environment = "staging"
        stale_if_error = "16m"
        management = 9090
        [http]
        listen = 8080
        workers = 0
        public_url = "https://auth.example.test/?a"
        trusted_proxies = ["10.0.0.0/8", "proxy"]
        cors.allowed_origins = ["https://app.example.test", "*"]
        [token]
        lifetime = "25h"
        default_scope = "a  b"
        [iam.keycloak]
        url = "iam"
        [log]
        filter = "gateway=loud"
    "#;
    let over = [
        ("TOKEN__LIFETIME", "90"),
        ("UPSTREAM__LOGIN_CONCURRENCY", "many"),
    ];
    let expected = [
        "management: is a section; in it there are: listen, token, token_file (set in FILE)",
        "environment: expected `development` or `production` (set in FILE)",
        "http.listen: invalid socket address syntax (set in FILE)",
        "http.public_url: must not have a query or a fragment (set in FILE)",
        "http.trusted_proxies: item 2: not a network such as 10.0.0.0/8, nor an address (set in FILE)",
        "http.cors.allowed_origins: item 2: not an origin such as https://app.example.com or http://localhost:3000; `*` and `null` are not allowed (set in FILE)",
        r#"token.lifetime: invalid value: string "90", expected a duration such as "30s" or "1h" (set in AUTH_GATEWAY__TOKEN__LIFETIME)"#,
        r#"upstream.login_concurrency: string "many" is not an integer (set in AUTH_GATEWAY__UPSTREAM__LOGIN_CONCURRENCY)"#,
        "stale_if_error: 16m is not within 0s and 15m (set in FILE)",
        "http.workers: 0 is not within 1 and 1024 (set in FILE)",
        "token.default_scope: must be scope names with one space between them (RFC 6749 section 3.3) (set in FILE)",
        "iam.keycloak.realm: is missing",
        "iam.keycloak.client_id: is missing",
        "iam.keycloak: client_secret or client_secret_file is needed (set in FILE)",
        "iam.keycloak.url: relative URL without a base: the value (set in FILE)",
        "log.filter: error parsing level filter: expected one of \"off\", \"error\", \"warn\", \"info\", \"debug\", \"trace\", or a number 0-5 (set in FILE)",
    ];
    let mut found = problems(file, &over);
    let mut expected: Vec<_> = expected.map(str::to_owned).into();
    found.sort();
    expected.sort();
    assert_eq!(found, expected, "{found:#?}");
}

#[test]
fn unreadable_file_is_one_problem_without_its_content() {
    let missing = load(
        Some(Path::new("no/such/file.toml")),
        &BTreeMap::new(),
        &registry(),
    );
    let shown = missing.expect_err("no file").to_string();
    assert!(
        shown.contains("no/such/file.toml: cannot be read: "),
        "{shown}"
    );

    let broken = "[iam.keycloak]\nclient_secret = \"canary\n";
    let found = problems(broken, &[]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].starts_with("FILE: line 2 is not TOML: "),
        "{found:?}"
    );
    assert!(!found[0].contains("canary"), "{found:?}");
}

#[test]
fn problem_in_a_table_names_its_place_and_hides_no_other_one() {
    let workers = "http.workers: 0 is not within 1 and 1024 (set in FILE)";
    let claims =
        |lines: &str| format!("{KEYCLOAK}\nclient_secret = 'x'\n[iam.keycloak.claims]\n{lines}");
    for (file, problem) in [
        (
            "[[token.audiences]]\nscope = 'a'".to_owned(),
            "token.audiences: item 1, audience: is missing (set in FILE)",
        ),
        (
            "[token]\naudiences = [{ scope = 'a', audience = 'b' }, { audience = 'c' }]".to_owned(),
            "token.audiences: item 2, scope: is missing (set in FILE)",
        ),
        (
            claims("email = 'email'"),
            r#"iam.keycloak.claims: email: expected a table such as { member = "department" } (set in FILE)"#,
        ),
        // As at the end of a file, below the wrong section.
        (
            claims("client_secret = 'canary'"),
            r#"iam.keycloak.claims: client_secret: expected a table such as { member = "department" } (set in FILE)"#,
        ),
        (
            claims("'https://shop.test/staff' = { member = 'staff', type = 'number' }"),
            "iam.keycloak.claims: https://shop.test/staff.type: expected `text`, `integer`, `boolean` or \
             `list_of_texts` (set in FILE)",
        ),
        (
            claims("staff = { type = 'boolean' }"),
            "iam.keycloak.claims: staff.member: is missing (set in FILE)",
        ),
        (
            "[redis]\nurl = ''".to_owned(),
            "redis.url: must not be empty (set in FILE)",
        ),
        (
            "[redis]\nurl = 'redis://r'\nsentinel.master = 'm'".to_owned(),
            "redis.sentinel.addresses: must not be empty",
        ),
    ] {
        let mut found = problems(&format!("{file}\n[http]\nworkers = 0"), &[]);
        found.sort();
        let mut expected = [problem, workers];
        expected.sort_unstable();
        assert_eq!(found, expected);
    }
}

#[test]
fn number_that_is_too_large_is_not_shown() {
    for value in [
        "0xdeadbeefdeadbeef",
        "16045690984503098046",
        "300000000000000000000000000000000000000",
    ] {
        let found = problems(&format!("{KEYCLOAK}\nclient_secret = {value}"), &[]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("FILE: line "), "{found:?}");
        let digits = ["16045690984503098", "deadbeef", "300000000"];
        assert!(
            !digits.iter().any(|digits| found[0].contains(digits)),
            "{found:?}"
        );
    }
}

#[test]
fn debug_output_and_problems_contain_no_secret() {
    let over = [("IAM__KEYCLOAK__CLIENT_SECRET", "canary-canary-canary")];
    let settings = load_text(KEYCLOAK, &over).expect("valid");
    let shown = format!("{settings:?} {settings:#?}");
    assert!(shown.contains("iam.example.test"), "{shown}");
    assert!(!shown.contains("canary"), "{shown}");

    for (key, value) in [
        ("IAM__KEYCLOAK__URL", "https://gateway:canary@[iam"),
        ("IAM__KEYCLOAK__URL", "canary"),
        ("IAM__KEYCLOAK__CLIENT_SECRT", "canary"),
        ("IAM", "canary"),
    ] {
        let found = problems(KEYCLOAK, &[(key, value)]);
        assert!(!found.is_empty(), "{key}={value}");
        assert!(!format!("{found:?}").contains("canary"), "{found:?}");
    }
    let found = problems(
        "[iam.keycloak.client_secret]\ncanary = 'canary-canary'",
        &[],
    );
    assert!(!format!("{found:?}").contains("canary"), "{found:?}");
}

#[test]
fn address_that_cannot_be_read_is_refused_without_its_password() {
    let redis = |addresses: &str| {
        format!(
            "[redis]\nurl = 'redis://r'\nsentinel.master = 'm'\nsentinel.addresses = {addresses}"
        )
    };
    for (section, problem) in [
        (
            "[permissions]\nurl = 'http://u:canary@policy:99999/x'".to_owned(),
            "permissions.url: invalid port number",
        ),
        (
            "[traces]\nendpoint = 'https://u:canary@otel.test:port/'".to_owned(),
            "traces.endpoint: invalid port number",
        ),
        (
            redis("['s1', 'u:canary@s2:26379']"),
            "redis.sentinel.addresses: item 2: expected host or host:port",
        ),
        (
            redis("'s1, u:canary@s2:26379'"),
            "redis.sentinel.addresses: item 2: expected host or host:port",
        ),
        (
            "[http]\ntrusted_proxies = ['u:canary@proxy.test']".to_owned(),
            "http.trusted_proxies: item 1: not a network",
        ),
        (
            "[http.cors]\nallowed_origins = ['https://u:canary@app.test']".to_owned(),
            "http.cors.allowed_origins: item 1: must be written",
        ),
    ] {
        let found = problems(&section, &[]);
        let is_named = found.iter().any(|line| line.starts_with(problem));
        assert!(is_named, "{problem}: {found:?}");
        assert!(!format!("{found:?}").contains("canary"), "{found:?}");
    }
}

#[test]
fn invalid_log_level_is_refused() {
    let found = problems("[log]\nfilter = 'loud, actix_http=off'", &[]);
    let expected =
        r#"log.filter: "loud" is not a level (off, error, warn, info, debug, trace) (set in FILE)"#;
    assert_eq!(found, [expected]);
    assert_eq!(
        problems("[log]\nfilter = 'WARN,actix_http=off'", &[]),
        [""; 0]
    );
}

#[test]
fn client_secret_is_read_from_its_file() {
    let load_secret = |content: &[u8]| {
        let file = NamedTempFile::new().unwrap();
        fs::write(file.path(), content).unwrap();
        let text = format!("{KEYCLOAK}\nclient_secret_file = {:?}", file.path());
        load_text(&text, &[]).map(|settings| {
            let keycloak = of_kind::<KeycloakSettings>(&settings.iams[0].adapter);
            let secret = &keycloak.expect("Keycloak's").client.client_secret;
            secret
                .as_ref()
                .expect("a secret")
                .expose_secret()
                .to_owned()
        })
    };
    for (content, expected) in [
        (&b" a b \n"[..], " a b "),
        (b"a\r\n", "a"),
        (b"a", "a"),
        (b"a\nb\n", "a\nb"),
    ] {
        assert_eq!(load_secret(content).expect("settings"), expected);
    }
    for content in [&b"\n"[..], b"", b"\xff\xfe"] {
        assert_eq!(load_secret(content).unwrap_err().problems.len(), 1);
    }
}

#[test]
fn client_secret_in_a_pipe_is_refused_because_a_reload_could_not_read_it_again() {
    let (reader, mut writer) = io::pipe().expect("a pipe");
    writer.write_all(b"s3cret\n").expect("written");
    drop(writer);
    let path = format!("/dev/fd/{}", reader.as_raw_fd());
    let text = format!("{KEYCLOAK}\nclient_secret_file = '{path}'");
    assert_eq!(
        problems(&text, &[]),
        [format!(
            "iam.keycloak.client_secret_file: {path}: is not a regular file, which can be read again \
             at each reload (set in FILE)"
        )]
    );
}

#[test]
fn client_secret_and_its_file_exclude_each_other_and_a_relative_path_is_not_shown() {
    let both = format!("{KEYCLOAK}\nclient_secret = 'x'\nclient_secret_file = '/nonexistent'");
    assert_eq!(
        problems(&both, &[]),
        ["iam.keycloak: client_secret and client_secret_file exclude each other (set in FILE)"]
    );
    for (path, reason) in [
        (
            "/nonexistent/file",
            "/nonexistent/file: no such file or directory",
        ),
        (
            "canary",
            "no such file or directory (a relative path, not shown because it may be the secret \
             itself)",
        ),
    ] {
        let text = format!("{KEYCLOAK}\nclient_secret_file = '{path}'");
        assert_eq!(
            problems(&text, &[]),
            [format!(
                "iam.keycloak.client_secret_file: {reason} (set in FILE)"
            )]
        );
    }
}

#[test]
fn audience_by_scope_is_a_list_of_tables() {
    let file = r#"
        [token]
        type = "JWT"
        [[token.audiences]]
        scope = "orders:*"
        audience = "https://orders.example.test"
        [[token.audiences]]
        scope = "read"
        audience = "catalog"
    "#;
    let token = load_text(file, &[]).expect("valid").token;
    let entries = token.audiences.iter();
    let entries = entries.map(|entry| (entry.scope.as_str(), entry.audience.as_str()));
    assert_eq!(
        entries.collect::<Vec<_>>(),
        [
            ("orders:*", "https://orders.example.test"),
            ("read", "catalog")
        ]
    );
    assert_eq!(token.token_type, TokenType::Jwt);
    for (entry, problem) in [
        (
            "scope = 'a b'\naudience = 'x'",
            r#"token.audiences: "a b" must be scope names with one space between them (RFC 6749 section 3.3) (set in FILE)"#,
        ),
        (
            "scope = 'a'\naudience = ''",
            r#"token.audiences: must name the audience of "a" (set in FILE)"#,
        ),
        (
            "scope = 'a'\naudience = '*'",
            r#"token.audiences: must name the audience of "a" (set in FILE)"#,
        ),
        (
            "scope = 'a'\naudience = 'x'\nscopes = 'b'",
            "token.audiences: item 1: unknown field `scopes`, expected `scope` or `audience` (set in FILE)",
        ),
    ] {
        let file = format!("[[token.audiences]]\n{entry}");
        assert_eq!(problems(&file, &[]), [problem]);
    }
    assert_eq!(
        problems("[token]\naudience = ['orders', '*']", &[]),
        ["token.audience: must not name an empty audience or `*` (set in FILE)"]
    );
    assert_eq!(
        problems("[token]\ntype = 'jwt'", &[]),
        ["token.type: expected `at+jwt` or `JWT` (set in FILE)"]
    );
}
