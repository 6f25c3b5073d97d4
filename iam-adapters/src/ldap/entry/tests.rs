use serde_json::json;

use super::*;
use crate::claims::ClaimSources;

const NOW: Duration = Duration::from_secs(1_800_000_000);

fn entry(attributes: &[(&str, &[&str])]) -> Entry {
    let attributes = attributes.iter().map(|(name, values)| {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        ((*name).to_owned(), values)
    });
    Entry::from(SearchEntry {
        dn: "uid=alice".to_owned(),
        attrs: attributes.collect(),
        bin_attrs: HashMap::new(),
    })
}

#[test]
fn refusal_is_that_of_the_flavour_and_a_temporary_lock_is_none() {
    use Flavour::{ActiveDirectory, DirectoryServer389, OpenLdap};
    let (active, disabled) = (None, Some(Refusal::Disabled));
    let incomplete = Some(Refusal::Incomplete);
    let (time, never) = ("20261124120000Z", "9223372036854775807");
    let expired = "passwordExpirationTime";
    let filetime = |seconds: u64| ((seconds + FILETIME_EPOCH) * FILETIME_PER_SECOND).to_string();
    let (past, future) = (filetime(1_799_999_999), filetime(1_800_000_001));
    for (flavour, attribute, value, expected) in [
        (OpenLdap, "pwdAccountLockedTime", "000001010000Z", disabled),
        (OpenLdap, "pwdAccountLockedTime", time, active),
        (OpenLdap, "pwdReset", "TRUE", incomplete),
        (OpenLdap, "pwdreset", "FALSE", active),
        (OpenLdap, "nsAccountLock", "TRUE", active),
        (DirectoryServer389, "nsAccountLock", "true", disabled),
        (DirectoryServer389, "accountUnlockTime", time, active),
        (DirectoryServer389, expired, "19700101000000Z", incomplete),
        (ActiveDirectory, "userAccountControl", "514", disabled),
        (ActiveDirectory, "userAccountControl", "512", active),
        (ActiveDirectory, "lockoutTime", "134000000000000000", active),
        (ActiveDirectory, "pwdLastSet", "0", incomplete),
        (ActiveDirectory, "accountExpires", "0", active),
        (ActiveDirectory, "accountExpires", never, active),
        (ActiveDirectory, "accountExpires", &past, disabled),
        (ActiveDirectory, "accountExpires", &future, active),
    ] {
        // The later value of an attribute replaces the earlier one.
        let entry = entry(&[
            ("userAccountControl", &["512"]),
            ("pwdLastSet", &["134087654321234567"]),
            (attribute, &[value]),
        ]);
        let refusal = entry.refusal(flavour, NOW);
        assert_eq!(refusal, Ok(expected), "{attribute}: {value}");
    }
}

#[test]
fn active_directory_entry_without_its_state_is_unreadable() {
    let [control, changed] = [("userAccountControl", "512"), ("pwdLastSet", "1")];
    for attributes in [
        vec![control],
        vec![changed],
        vec![control, ("pwdLastSet", "")],
    ] {
        let values: Vec<_> = attributes.iter().map(|(_, value)| [*value]).collect();
        let named = attributes.iter().zip(&values);
        let named: Vec<_> = named
            .map(|((name, _), value)| (*name, &value[..]))
            .collect();
        let refusal = entry(&named).refusal(Flavour::ActiveDirectory, NOW);
        let unreadable = refusal.map_err(|error| error.kind());
        assert_eq!(unreadable, Err("unreadable"), "{attributes:?}");
    }
}

#[test]
fn change_of_the_password_is_compared_as_a_time_and_none_is_before_the_first() {
    use Ordering::{Equal, Greater, Less};
    let time = Some("20261124120000Z");
    for (of_entry, of_session, expected) in [
        (None, None, Equal),
        (time, time, Equal),
        (time, None, Greater),
        (None, time, Less),
        (Some("20261124120001Z"), time, Greater),
        (Some("20261124115959Z"), time, Less),
        (Some("20261124120000.5Z"), time, Greater),
        (
            Some("134087654321234567"),
            Some("99999999999999999"),
            Greater,
        ),
        (Some("0"), Some("134087654321234567"), Less),
    ] {
        assert_eq!(
            compare(of_entry, of_session),
            expected,
            "{of_entry:?} {of_session:?}"
        );
    }
}

#[test]
fn object_guid_is_the_text_of_windows_and_its_filter_has_the_stored_bytes() {
    let stored: Vec<u8> = (0..16).collect();
    let mut entry = entry(&[]);
    entry
        .attributes
        .insert("objectguid".to_owned(), vec![stored]);
    let subject = entry
        .subject("objectGUID", Flavour::ActiveDirectory)
        .unwrap();
    assert_eq!(subject.as_str(), "03020100-0504-0706-0809-0a0b0c0d0e0f");
    assert_eq!(
        guid_filter(subject.as_str()).as_deref(),
        Some(r"\00\01\02\03\04\05\06\07\08\09\0a\0b\0c\0d\0e\0f")
    );
    for text in [
        "",
        "03020100",
        "*",
        "03020100-0504-0706-0809-0a0b0c0d0e0g",
        "é3020100-0504-0706-0809-0a0b0c0d0e0",
    ] {
        assert_eq!(guid_filter(text), None, "{text}");
    }
    assert_eq!(guid_text(&[0; 15]), None);
    assert_eq!(guid_text(&[0; 17]), None);
}

#[test]
fn entry_without_a_single_subject_is_unreadable() {
    for values in [&[][..], &[""], &["a", "b"]] {
        let subject = entry(&[("entryUUID", values)]).subject("entryUUID", Flavour::OpenLdap);
        assert_eq!(
            subject.map_err(|error| error.kind()),
            Err("unreadable"),
            "{values:?}"
        );
    }
}

#[test]
fn more_groups_than_the_bound_or_a_part_of_them_are_unreadable() {
    let names: Vec<_> = (0..=GROUPS_MAX).map(|n| format!("cn={n}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let groups = |attributes: &[(&str, &[&str])]| {
        let groups = entry(attributes).member_of();
        groups
            .map(|groups| groups.len())
            .map_err(|error| error.kind())
    };
    assert_eq!(groups(&[]), Ok(0));
    assert_eq!(groups(&[("memberOf", &names[1..])]), Ok(GROUPS_MAX));
    assert_eq!(groups(&[("memberOf", &names[..])]), Err("unreadable"));
    let part = [
        ("memberOf", &[][..]),
        ("memberOf;range=0-1499", &names[1..]),
    ];
    assert_eq!(groups(&part), Err("unreadable"));
}

fn read(entry: &Entry, claims: Value) -> Result<Value, IamError> {
    let claims: ClaimSources = serde_json::from_value(claims).unwrap();
    let claims = claims.read_with(|source| entry.claim(source))?;
    Ok(Value::Object(claims.to_json()))
}

#[test]
fn attributes_become_claims_of_their_types_and_other_texts_are_refused() {
    let entry = entry(&[
        ("employeeNumber", &["4711"]),
        ("isManager", &["TRUE"]),
        ("departmentNumber", &["a", "b"]),
        ("displayName", &["Alice"]),
    ]);
    let all = json!({
        "number": {"member": "employeenumber", "type": "integer"},
        "manager": {"member": "isManager", "type": "boolean"},
        "departments": {"member": "departmentNumber", "type": "list_of_texts"},
        "name": {"member": "displayName"},
        "none": {"member": "missing", "type": "list_of_texts"},
    });
    assert_eq!(
        read(&entry, all).unwrap(),
        json!({"number": 4711, "manager": true, "departments": ["a", "b"], "name": "Alice"})
    );
    let wrong = json!({"number": {"member": "displayName", "type": "integer"}});
    let refused = read(&entry, wrong).unwrap_err();
    assert!(format!("{refused:#}").contains("`number`"), "{refused:#}");
}

#[test]
fn claims_of_one_attribute_have_their_own_types() {
    let entry = entry(&[("employeeNumber", &["4711", "12"])]);
    let claims = json!({
        "all": {"member": "employeeNumber", "type": "list_of_texts"},
        "number": {"member": "employeeNumber", "type": "integer"},
        "text": {"member": "employeeNumber"},
    });
    assert_eq!(
        read(&entry, claims).unwrap(),
        json!({"all": ["12", "4711"], "number": 4711, "text": "4711"})
    );
}

#[test]
fn attribute_is_defined_by_its_first_name_which_entries_have() {
    let one = "( 1.3.6.1.4.1.42.2.27.8.1.16 NAME 'pwdChangedTime' DESC 'The time of the last change' SINGLE-VALUE )";
    let several = "( 2.5.4.3 NAME ( 'cn' 'commonName' ) SUP name )";
    for (definition, attribute, expected) in [
        (one, "pwdChangedTime", true),
        (one, "PWDCHANGEDTIME", true),
        (one, "1.3.6.1.4.1.42.2.27.8.1.16", false),
        (one, "pwdChangedTimes", false),
        (one, "time", false),
        (several, "commonName", false),
        (several, "cn;lang-en", true),
        (several, "name", false),
    ] {
        assert_eq!(defines(definition, attribute), expected, "{attribute}");
    }
}
