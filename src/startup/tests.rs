use std::collections::BTreeMap;

use test_support::ManualClock;

use super::dependencies::EARLIEST;
use super::*;
use crate::config;

#[test]
fn unset_clock_is_reported_before_a_listener_is_bound() {
    let settings = config::load(None, &BTreeMap::new(), &config::sample::registry()).unwrap();
    let at = |seconds| Arc::new(ManualClock::at(Duration::from_secs(seconds)));
    for unset in [0, EARLIEST.as_secs() - 1] {
        let refused = ServiceDependencies::prepare(&settings, at(unset)).unwrap_err();
        assert_eq!(refused.problems.len(), 1, "{refused}");
        assert!(refused.to_string().contains("clock"), "{refused}");
    }
    assert!(ServiceDependencies::prepare(&settings, at(EARLIEST.as_secs())).is_ok());
}

/// Only Redis knows which sessions of a directory were ended.
#[test]
fn tokens_are_issued_without_redis_after_a_deadline_unless_an_iam_has_no_sessions() {
    let directory = [
        ("IAM__LDAP__URLS", "ldaps://ldap.example.test"),
        ("IAM__LDAP__ISSUER", "directory"),
        ("IAM__LDAP__BIND_DN", "cn=gateway"),
        ("IAM__LDAP__BIND_PASSWORD", "0123456789abcdef"),
        ("IAM__LDAP__USERS_BASE", "dc=test"),
        ("PERMISSIONS__SOURCE", "http"),
        ("PERMISSIONS__URL", "http://127.0.0.1:8181/"),
    ];
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
    assert_eq!(deadline(&directory), None);
    let consent = [("IAM__LDAP__ACCEPT_LOCAL_LOGOUT", "true")];
    let with_consent = [&directory[..], &consent].concat();
    assert_eq!(deadline(&with_consent), Some(Duration::from_secs(10)));
}
