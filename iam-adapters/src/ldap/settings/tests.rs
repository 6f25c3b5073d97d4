use super::*;

fn section(more: &[(&str, Value)]) -> LdapSettings {
    let mut section = json!({
        "urls": ["ldaps://ldap.example.test"],
        "issuer": "ldap.example.test",
        "bind_dn": "cn=gateway,dc=example,dc=test",
        "bind_password": "gateway-secret",
        "users_base": "ou=people,dc=example,dc=test",
    });
    for (key, value) in more {
        section[key] = value.clone();
    }
    serde_json::from_value(section).expect("settings")
}

#[test]
fn defaults_are_those_of_the_flavour() {
    for (flavour, email, subject, changed, needs_policy) in [
        ("openldap", "mail", "entryUUID", "pwdChangedTime", true),
        ("389ds", "mail", "nsUniqueId", "pwdUpdateTime", true),
        (
            "active-directory",
            "userPrincipalName",
            "objectGUID",
            "pwdLastSet",
            false,
        ),
    ] {
        let settings = section(&[("flavour", flavour.into())]);
        assert_eq!(settings.problems("iam.ldap", true), [""; 0]);
        let schema = settings.schema();
        assert_eq!(schema.email_attribute, email);
        assert_eq!(schema.subject_attribute, subject);
        assert_eq!(schema.password_changed_attribute, changed);
        assert_eq!(schema.password_policy, needs_policy);
    }
}

#[test]
fn each_problem_begins_with_its_key_and_has_no_value() {
    let empty = "must not be empty";
    let in_production = "must be ldaps in production, or start_tls must be true";
    let host = "with TLS a server must have a name or an IPv4 address";
    let parts = "must have a host and nothing else but a port";
    let needed = "is needed, or bind_password_file";
    let filter = "is no filter in the form of RFC 4515";
    let attribute = "is no name of an attribute";
    let changed = "password_changed_attribute";
    for (key, value, problem) in [
        ("urls", json!([]), "at least one server is needed"),
        ("urls", json!("ldap://ldap.example.test"), in_production),
        ("urls", json!("ldaps://[::1]"), host),
        (
            "urls",
            json!("https://ldap.example.test"),
            "must be ldaps, ldap or ldapi",
        ),
        ("urls", json!("ldaps://canary@ldap.example.test"), parts),
        ("urls", json!("ldaps://ldap.example.test/dc=canary"), parts),
        ("urls", json!("ldaps:canary"), parts),
        ("issuer", json!(""), empty),
        ("bind_dn", json!(""), empty),
        ("bind_password", json!(""), needed),
        ("bind_password", Value::Null, needed),
        ("bind_password", json!("Admin"), "a well-known one"),
        ("users_base", json!(""), empty),
        ("groups_base", json!(""), empty),
        ("users_filter", json!("(canary"), filter),
        ("users_filter", json!(""), filter),
        ("users_filter", json!("canary=1"), filter),
        (
            "groups_filter",
            json!("(objectClass=canary)"),
            "is used only with groups_base",
        ),
        ("email_attribute", json!("canary)(mail"), attribute),
        ("subject_attribute", json!(""), attribute),
        (changed, json!("canary="), attribute),
        (changed, json!("1.3.6.1.4.1.42.2.27.8.1.16"), attribute),
        ("subject_attribute", json!("OID.1.3.6.1.1.16.4"), attribute),
    ] {
        let problems = section(&[(key, value.clone())]).problems("iam.ldap", true);
        let [found] = &problems[..] else {
            panic!("{key} {value}: {problems:?}");
        };
        assert_eq!(found, &format!("iam.ldap.{key}: {problem}"), "{value}");
    }
    let plain = section(&[("urls", json!("ldap://a,ldapi://%2Frun%2Fslapd"))]);
    assert_eq!(plain.problems("iam.ldap", false), [""; 0]);
    let start_tls = section(&[("urls", json!("ldap://a")), ("start_tls", true.into())]);
    assert_eq!(start_tls.problems("iam.ldap", true), [""; 0]);
}

#[test]
fn problem_of_two_settings_or_of_a_claim_has_no_value() {
    let groups = [
        ("groups_base", json!("ou=groups")),
        ("groups_filter", json!("canary)")),
    ];
    assert_eq!(
        section(&groups).problems("iam.ldap", false),
        ["iam.ldap.groups_filter: is no filter in the form of RFC 4515"]
    );
    let member = json!({"name": {"member": "/canary"}});
    assert_eq!(
        section(&[("claims", member)]).problems("iam.ldap", false),
        ["iam.ldap.claims: the member of `name` is no name of an attribute"]
    );
}

#[test]
fn shown_settings_have_no_password() {
    let settings = section(&[("bind_password", "canary".into())]);
    let shown = format!("{settings:?} {}", serde_json::to_value(&settings).unwrap());
    assert!(!shown.contains("canary"), "{shown}");
    assert!(shown.contains("hidden"), "{shown}");
}
