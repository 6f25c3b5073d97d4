use std::time::Duration;

use iam_adapters::keycloak::KeycloakSettings;

use super::super::load_tests::{load_text, problems};
use super::*;
use crate::config::sample::{SampleSettings, of_kind};

/// A section of a Keycloak with this name, and further settings.
fn keycloak(name: &str, more: &str) -> String {
    format!(
        "[iam.{name}]\ntype = 'keycloak'\nurl = 'https://{name}.test'\nrealm = 'r'\n\
         client_id = 'c'\nclient_secret = 's'\n{more}\n"
    )
}

/// Two Keycloaks that fit together, with further settings of the second one.
fn two(more: &str) -> String {
    let one = keycloak("one", "default = true");
    one + &keycloak("two", &format!("subject_prefix = 'two-'\n{more}"))
}

#[test]
fn sections_have_names_of_their_own_and_the_type_selects_the_adapter() {
    let file = two("domains = ['two.test']") + "[iam.sample]\nlogin = false\nsubject_prefix = 'a'";
    let settings = load_text(&file, &[]).expect("valid");
    let iams = settings.iams.iter();
    let iams: Vec<_> = iams.map(|iam| (&*iam.name, iam.adapter.name())).collect();
    let expected = [
        ("one", "keycloak"),
        ("sample", "sample"),
        ("two", "keycloak"),
    ];
    assert_eq!(iams, expected);
    let one = of_kind::<KeycloakSettings>(&settings.iams[0].adapter);
    assert_eq!(one.expect("Keycloak's").url.as_str(), "https://one.test/");
    assert!(of_kind::<SampleSettings>(&settings.iams[1].adapter).is_some());
}

#[test]
fn section_with_the_name_of_an_adapter_can_have_another_type() {
    let file = "[iam.keycloak]\ntype = 'sample'\nusers_file = 'users.toml'";
    let settings = load_text(file, &[]).expect("valid");
    assert_eq!(settings.iams[0].name, "keycloak");
    assert_eq!(settings.iams[0].adapter.name(), "sample");
}

#[test]
fn section_can_be_set_in_the_environment_alone() {
    let settings = load_text(
        &keycloak("one", "default = true"),
        &[
            ("IAM__TWO__TYPE", "keycloak"),
            ("IAM__TWO__URL", "https://two.test"),
            ("IAM__TWO__REALM", "r"),
            ("IAM__TWO__CLIENT_ID", "c"),
            ("IAM__TWO__CLIENT_SECRET", "0123"),
            ("IAM__TWO__DOMAINS", "two.test, Three.Test, BÜRO.test"),
            ("IAM__TWO__SUBJECT_PREFIX", "two-"),
            ("IAM__TWO__ALLOWED_SCOPES", "read,urn:a:*"),
            ("IAM__TWO__LOGIN_CONCURRENCY", "3"),
        ],
    )
    .expect("valid");
    let two = &settings.iams[1];
    assert_eq!((&*two.name, two.adapter.name()), ("two", "keycloak"));
    let policy = two.policy(&settings);
    assert_eq!(policy.domains, ["two.test", "three.test", "büro.test"]);
    assert_eq!(policy.subject_prefix, "two-");
    let allowed = policy.allowed_scopes.expect("a bound");
    assert!(allowed.contains("urn:a:b") && !allowed.contains("write"));
    assert_eq!(two.upstream.login_concurrency, 3);
}

#[test]
fn common_settings_are_the_defaults_of_each_iam() {
    let common = "[session]\nfreshness = '40s'\nmax_lifetime = '2h'\n[permissions]\nttl = '50s'\n\
                  [upstream]\nlogin_deadline = '7s'\nprobe_interval = '3s'\n\
                  [login_limits]\nrate = 5\n";
    let own = "domains = ['two.test']\nfreshness = '10s'\nmax_lifetime = '1h'\n\
               login_deadline = '9s'\nlogins_per_second = 0";
    let settings = load_text(&format!("{common}{}", two(own)), &[]).expect("valid");
    let seconds = Duration::from_secs;
    for (iam, freshness, lifetime, rate, deadline) in
        [(0, 40, 7200, NonZeroU32::new(5), 7), (1, 10, 3600, None, 9)]
    {
        let iam = &settings.iams[iam];
        let policy = iam.policy(&settings);
        assert_eq!(policy.freshness.liveness, seconds(freshness));
        assert_eq!(policy.freshness.permissions, seconds(50));
        assert_eq!(policy.session_max_lifetime, seconds(lifetime));
        assert_eq!(policy.logins_per_second, rate);
        assert_eq!(iam.upstream.login_deadline, seconds(deadline));
        assert_eq!(iam.upstream.probe_interval, seconds(3));
    }
}

#[test]
fn one_iam_is_the_default_and_one_of_several_only_if_it_is_set() {
    let is_default = |file: &str| {
        let settings = load_text(file, &[]).expect("valid");
        let iams = settings.iams.iter();
        let policies: Vec<_> = iams.map(|iam| iam.policy(&settings).is_default).collect();
        policies
    };
    assert_eq!(is_default(&keycloak("one", "")), [true]);
    assert_eq!(is_default(""), [true]);
    assert_eq!(is_default(&two("domains = ['two.test']")), [true, false]);
}

#[test]
fn contradictions_between_two_iams_name_both() {
    let second = |settings: &str| keycloak("two", &format!("subject_prefix = 'two-'\n{settings}"));
    for (one, two, problem) in [
        (
            "default = true",
            keycloak("two", "domains = ['two.test']"),
            "iam.two.subject_prefix: [iam.one] has the same: \"\"; two IAMs can use the same id for different users",
        ),
        (
            "default = true\nsubject_prefix = 'two-b-'",
            second("domains = ['two.test']"),
            "iam.two.subject_prefix: [iam.one] has \"two-b-\": one is the beginning of the other",
        ),
        (
            "default = true\nsubject_prefix = 'tw'",
            second("domains = ['two.test']"),
            "iam.two.subject_prefix: [iam.one] has \"tw\": one is the beginning of the other",
        ),
        (
            "default = true",
            second("default = true"),
            "iam.two.default: [iam.one] is the default IAM already",
        ),
        (
            "domains = ['a.test', 'Both.test']",
            second("domains = ['both.TEST']"),
            "iam.two.domains: both.TEST: [iam.one] has this domain too, and only one of them can \
             have login = true",
        ),
        (
            "domains = ['büro.TEST']",
            second("domains = ['BÜRO.test']"),
            "iam.two.domains: BÜRO.test: [iam.one] has this domain too",
        ),
        (
            "default = true",
            second(""),
            "iam.two: no login reaches this IAM: set its domains, default = true or login = false",
        ),
    ] {
        let found = problems(&(keycloak("one", one) + &two), &[]);
        let [found] = &found[..] else {
            panic!("one problem, not {found:#?}");
        };
        assert!(found.starts_with(problem), "{found}");
    }
}

#[test]
fn domain_can_have_one_iam_with_logins_and_others_without() {
    let old = keycloak("old", "domains = ['corp.test']\nlogin = false");
    let new = keycloak("new", "domains = ['corp.test']\nsubject_prefix = 'new-'");
    assert_eq!(problems(&(old + &new), &[]), [""; 0]);
}

#[test]
fn type_must_exist_and_the_name_must_fit_into_a_variable() {
    for (file, problem) in [
        (
            "[iam.corp]\ntype = 'keyclock'\nurl = 'x'",
            "iam.corp: type: there is no such adapter; there are: keycloak,",
        ),
        (
            "[iam.corp]\ntype = 1",
            "iam.corp: type: there is no such adapter; there are: keycloak,",
        ),
        (
            "[iam.my-corp]\ntype = 'sample'",
            "iam.my-corp: the name of an IAM consists of a-z and 0-9",
        ),
        (
            "[iam.Corp]\ntype = 'sample'",
            "iam.Corp: the name of an IAM consists of a-z and 0-9",
        ),
    ] {
        let found = problems(file, &[]);
        let [found] = &found[..] else {
            panic!("one problem, not {found:#?}");
        };
        assert!(found.starts_with(problem), "{found}");
    }
}

#[test]
fn section_without_a_type_is_unknown_and_the_message_mentions_it() {
    let found = problems("[iam.staff]\nurl = 'https://iam.test'", &[]);
    let [found] = &found[..] else {
        panic!("one problem, not {found:#?}");
    };
    assert!(
        found.starts_with("iam.staff: no such setting; the nearest is iam."),
        "{found}"
    );
    assert!(
        found.contains("; a section with another name needs `type`"),
        "{found}"
    );
}

#[test]
fn misspelt_key_of_a_named_section_gets_the_nearest_one() {
    let over = [("IAM__TWO__RELM", "r")];
    let found = problems(&(two("domans = ['two.test']\nlogin = false")), &over);
    for (beginning, nearest) in [
        (
            "iam.two.domans: no such setting",
            "the nearest is iam.two.domains",
        ),
        (
            "AUTH_GATEWAY__IAM__TWO__RELM: no such setting",
            "the nearest is AUTH_GATEWAY__IAM__TWO__REALM",
        ),
    ] {
        let named = found.iter().find(|line| line.starts_with(beginning));
        assert!(
            named.is_some_and(|line| line.contains(nearest)),
            "{found:#?}"
        );
    }
    assert_eq!(found.len(), 2, "{found:#?}");
}

#[test]
fn problem_of_an_adapter_has_the_key_of_its_section() {
    let file =
        "[iam.corp]\ntype = 'keycloak'\nurl = 'ftp://corp.test'\nrealm = ''\nclient_id = 'c'";
    let mut found = problems(file, &[]);
    found.sort();
    assert_eq!(
        found,
        [
            "iam.corp.realm: must be the name of a realm (set in FILE)",
            "iam.corp.url: must be http or https (set in FILE)",
            "iam.corp: client_secret or client_secret_file is needed (set in FILE)",
        ]
    );
    let missing = problems("[iam.corp]\ntype = 'keycloak'\nclient_secret = 's'", &[]);
    assert!(
        missing.contains(&"iam.corp.url: is missing".to_owned()),
        "{missing:#?}"
    );
}

#[test]
fn unknown_choice_and_a_duration_without_a_unit_are_answered_with_what_is_expected() {
    // A directory has no permissions.
    const LDAP: &str = "[permissions]\nsource = 'groups'\ngroups = [{ group = 'a', scopes = ['s'] }]\n\
                        [iam.ldap]\nurls = 'ldap://localhost'\nissuer = 'corp'\nbind_dn = 'cn=a'\n\
                        bind_password = 's'\nusers_base = 'dc=a'\n";
    const OAUTH2: &str =
        "[iam.oauth2]\nissuer = 'https://login.test'\nclient_id = 'c'\nclient_secret = 's'\n";
    for (section, setting, expected) in [
        (
            LDAP,
            "flavour = 'ldap'",
            "flavour: expected `openldap`, `389ds` or `active-directory`",
        ),
        (
            OAUTH2,
            "preset = 'glewlwid'",
            "preset: expected `glewlwyd` or `django-oauth-toolkit`",
        ),
        (
            OAUTH2,
            "introspect = 'access'",
            "introspect: expected `access_token` or `refresh_token`",
        ),
        (
            OAUTH2,
            "deleted_account = 'gone'",
            "deleted_account: expected `active`, `inactive` or `without_subject`",
        ),
        (
            OAUTH2,
            "client_auth_method = 'client_secret_jwt'",
            "client_auth_method: expected `client_secret_basic`, `client_secret_post`, `private_key_jwt`, \
             `client_assertion` or `tls_client_auth`",
        ),
        (
            OAUTH2,
            "assertion_audience = 'url'",
            "assertion_audience: expected `issuer` or `endpoint`",
        ),
        (
            OAUTH2,
            "freshness = '30'",
            "freshness: invalid value: string the value, expected a duration such as \"30s\" or \"1h\"",
        ),
    ] {
        let name = if section == LDAP { "ldap" } else { "oauth2" };
        let found = problems(&format!("{section}{setting}"), &[]);
        assert_eq!(found, [format!("iam.{name}.{expected} (set in FILE)")]);
    }
}

#[test]
fn values_of_an_iam_are_checked_as_the_common_ones_are() {
    for (setting, problem) in [
        (
            "login_deadline = '2m'",
            "iam.two.login_deadline: 2m is not within 1ms and 1m",
        ),
        (
            "login_concurrency = 0",
            "iam.two.login_concurrency: 0 is not within 1 and 100000",
        ),
        (
            "max_lifetime = '1s'",
            "iam.two.max_lifetime: 1s is not within 1m and ",
        ),
        (
            "freshness = '1s'",
            "iam.two.freshness: must not be shorter than ",
        ),
        (
            "introspection_deadline = '31s'",
            "iam.two.introspection_deadline: must not be longer than session.freshness",
        ),
        (
            "freshness = '60s'\nintrospection_deadline = '40s'\n[permissions]\nttl = '30s'",
            "iam.two.introspection_deadline: must not be longer than permissions.ttl",
        ),
        (
            "logins_per_second = 1000001",
            "iam.two.logins_per_second: 1000001 is not within 0 and 1000000",
        ),
        (
            "domains = ['a@b.test']",
            "iam.two.domains: must be domains such as ",
        ),
        (
            "domains = ['']",
            "iam.two.domains: must be domains such as ",
        ),
        (
            "allowed_scopes = ['a b']",
            "iam.two.allowed_scopes: must be scope names",
        ),
    ] {
        let found = problems(&two(&format!("login = false\n{setting}")), &[]);
        let [found] = &found[..] else {
            panic!("one problem, not {found:#?}");
        };
        assert!(found.starts_with(problem), "{found}");
    }
    let prefix = keycloak("one", "subject_prefix = 'a b'");
    let found = problems(&prefix, &[]);
    assert!(
        found[0].starts_with("iam.one.subject_prefix: must be at most 64"),
        "{found:#?}"
    );
}

#[test]
fn two_iams_with_one_issuer_are_a_problem_that_names_both() {
    let settings = load_text(&two("login = false"), &[]).expect("valid");
    for (issuers, expected) in [
        (["https://a.test", "https://b.test"], vec![]),
        (
            ["https://a.test", "https://a.test"],
            vec!["iam.two: [iam.one] has the same issuer, https://a.test"],
        ),
    ] {
        let mut found = ConfigErrors::default();
        settings.check_issuers(&issuers, &mut found);
        let invalid = found.into_result(Some(()), |_| None).err();
        let found = invalid.map_or_else(Vec::new, |invalid| invalid.problems);
        assert_eq!(found, expected);
    }
}

#[test]
fn no_adapter_has_a_setting_with_the_name_of_a_common_one() {
    use crate::config::known::KnownSettings;
    for kind in crate::config::sample::registry().kinds {
        for field in kind.fields() {
            assert!(
                !KnownSettings::iam_options().contains(&field),
                "{} {field}",
                kind.name
            );
        }
    }
}
