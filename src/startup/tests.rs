use std::collections::BTreeMap;
use std::io;

use iam_adapters::Clock as _;
use test_support::ManualClock;

use super::dependencies::EARLIEST;
use super::*;
use crate::{cli, config};

#[test]
fn unset_clock_is_reported_before_a_listener_is_bound() {
    let load_at = |seconds| {
        let clock = Arc::new(ManualClock::at(Duration::from_secs(seconds)));
        let registry = config::sample::registry();
        ServiceDependencies::load(None, &BTreeMap::new(), &registry, clock)
    };
    for unset in [0, EARLIEST.as_secs() - 1] {
        let refused = load_at(unset).unwrap_err();
        assert_eq!(refused.problems.len(), 1, "{refused}");
        assert!(refused.to_string().contains("clock"), "{refused}");
    }
    assert!(load_at(EARLIEST.as_secs()).is_ok());
}

/// The service manager does not start a gateway again that ends by an error that its user has to correct.
#[test]
fn unset_clock_at_the_start_is_no_error_of_the_user_because_it_can_become_right() {
    let check_at = |seconds| check_clock(ManualClock::at(Duration::from_secs(seconds)).now());
    let refused = check_at(EARLIEST.as_secs() - 1).unwrap_err();
    let ended = cli::report(Err(refused.into()), &mut io::sink());
    assert_eq!(ended.unwrap_err().to_string(), refused.to_string());
    assert_eq!(check_at(EARLIEST.as_secs()), Ok(()));
}

/// Only Redis knows which sessions were ended that a directory or a server without revocation cannot end.
#[test]
fn tokens_are_issued_without_redis_after_a_deadline_unless_an_iam_can_end_no_session() {
    let directory = [
        ("IAM__LDAP__URLS", "ldaps://ldap.example.test"),
        ("IAM__LDAP__ISSUER", "directory"),
        ("IAM__LDAP__BIND_DN", "cn=gateway"),
        ("IAM__LDAP__BIND_PASSWORD", "0123456789abcdef"),
        ("IAM__LDAP__USERS_BASE", "dc=test"),
        ("PERMISSIONS__SOURCE", "http"),
        ("PERMISSIONS__URL", "http://127.0.0.1:8181/"),
    ];
    let oauth2 = [
        ("IAM__OAUTH2__ISSUER", "https://login.example.test"),
        ("IAM__OAUTH2__CLIENT_ID", "auth-gateway"),
        ("IAM__OAUTH2__CLIENT_SECRET", "0123456789abcdef"),
    ];
    let without_revocation =
        [&oauth2[..], &[("IAM__OAUTH2__REVOCATION_ENDPOINT", "none")]].concat();
    let deadline = |variables: &[(&str, &str)]| {
        let variables = variables
            .iter()
            .chain(&[("REDIS__URL", "redis://127.0.0.1")]);
        let variables = variables
            .map(|(key, value)| (format!("AUTH_GATEWAY__{key}"), (*value).to_owned()))
            .collect();
        let settings = config::load(None, &variables, &config::sample::registry()).unwrap();
        replication::catch_up_deadline(&settings)
    };
    assert_eq!(deadline(&[]), Some(Duration::from_secs(10)));
    assert_eq!(deadline(&oauth2), Some(Duration::from_secs(10)));
    for (iam, consent) in [
        (&directory[..], "IAM__LDAP__ACCEPT_LOCAL_LOGOUT"),
        (&without_revocation[..], "IAM__OAUTH2__ACCEPT_LOCAL_LOGOUT"),
    ] {
        assert_eq!(deadline(iam), None, "{consent}");
        let with_consent = [iam, &[(consent, "true")]].concat();
        let expected = Some(Duration::from_secs(10));
        assert_eq!(deadline(&with_consent), expected, "{consent}");
    }
}
