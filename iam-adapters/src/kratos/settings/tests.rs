use serde_json::{Value, json};
use test_support::json::with;

use super::*;

fn settings(changes: &Value) -> KratosSettings {
    let settings = json!({"url": "https://kratos.example.test/public/"});
    serde_json::from_value(with(settings, changes)).expect("settings")
}

#[test]
fn valid_settings_have_no_problem_in_production() {
    for changes in [
        json!({}),
        json!({"permissions_member": "/app/scopes", "groups_member": "groups"}),
        json!({"claims": {"email": {"member": "/traits/email"}}}),
    ] {
        assert_eq!(settings(&changes).problems("iam.kratos", true), [""; 0]);
    }
}

#[test]
fn problem_names_its_key_without_its_value() {
    let url = json!({"url": "https://canary@kratos.test"});
    let permissions = json!({"permissions_member": ""});
    let file = ".ca_file: /nonexistent/file: no such file or directory";
    let claims = json!({"claims": {"sub": {"member": "/traits/canary"}}});
    for (changes, expected) in [
        (url, ".url: must hold no credentials"),
        (permissions, ".permissions_member: must not be empty"),
        (
            json!({"groups_member": ""}),
            ".groups_member: must not be empty",
        ),
        (json!({"ca_file": "/nonexistent/file"}), file),
        (claims, ".claims: `sub` is a claim of the gateway"),
    ] {
        let settings = settings(&changes);
        assert_eq!(
            settings.problems("iam.kratos", false),
            [format!("iam.kratos{expected}")]
        );
        assert!(!format!("{settings:?}").contains("canary@"), "{changes}");
    }
    let plain = settings(&json!({"url": "http://kratos.test"}));
    assert_eq!(plain.problems("iam.kratos", false), [""; 0]);
    let problem = "iam.kratos.url: must be https in production";
    assert_eq!(plain.problems("iam.kratos", true), [problem]);
}

#[test]
fn groups_need_their_member_and_permissions_have_a_default() {
    let default = settings(&json!({}));
    assert_eq!(default.missing_for_groups(), Some("groups_member"));
    assert_eq!(
        default.derived(),
        json!({"permissions_member": "permissions"})
    );
    let set = settings(&json!({"permissions_member": "scopes", "groups_member": "teams"}));
    assert_eq!(set.missing_for_groups(), None);
    assert_eq!(set.derived(), json!({"permissions_member": "scopes"}));
}
