//! Claims of access tokens that a real Keycloak states with mappers of the gateway's client.

use iam_conformance::{Account, Fixture as _};
use serde_json::{Map, Value, json};
use test_support::gateway::TestGateway;
use test_support::suite::{READ, session_of};

use crate::fixture::LiveFixture;
use crate::misconfigured::check;
use crate::process::Process;

/// A gateway in front of the shared Keycloak, with this table of claims.
fn gateway(live: &LiveFixture, claims: &Value) -> TestGateway {
    live.gateway_with_file(&json!({"iam": {"keycloak": {"claims": claims}}}), &[])
}

async fn user_with(live: &LiveFixture, attributes: &Value) -> Account {
    let user = live.user(&[READ]).await;
    set(live, &user, attributes).await;
    user
}

async fn set(live: &LiveFixture, user: &Account, attributes: &Value) {
    let attributes = attributes.as_object().expect("attributes");
    live.administrator.set_attributes(user, attributes).await;
}

/// The members of a token's claims that have these names.
fn named(claims: &Value, names: &[&str]) -> Value {
    let found = names
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), claims.get(*name)?.clone())));
    Value::Object(found.collect::<Map<_, _>>())
}

#[tokio::test]
#[ignore = "needs a real Keycloak: tests/run starts one"]
async fn token_has_the_claims_of_the_mappers_and_a_change_after_the_freshness_or_at_the_next_login()
{
    let live = LiveFixture::new().await;
    let attributes = |department: &str, level: u32| {
        json!({
            "live_department": department, "live_level": level, "live_staff": true,
            "live_teams": ["blue team", "ümlaut"], "live_address": {"country": "PT"},
        })
    };
    let user = user_with(&live, &attributes("sales & \"R&D\"", 7)).await;
    let gateway = gateway(
        &live,
        &json!({
            "email": {"member": "email", "required": true},
            "department": {"member": "live_department"},
            "level": {"member": "live_level", "type": "integer"},
            "staff": {"member": "live_staff", "type": "boolean"},
            "teams": {"member": "live_teams", "type": "list_of_texts"},
            "country": {"member": "/live_address/country"},
            "roles": {"member": "/resource_access/shop-api/roles", "type": "list_of_texts"},
            "left_out": {"member": "live_not_mapped"},
        }),
    );
    let all = [
        "email",
        "department",
        "level",
        "staff",
        "teams",
        "country",
        "roles",
        "left_out",
    ];
    let session = session_of(&gateway, &user).await;
    let claims = async |session| gateway.exchange(session, READ).await.token().claims();
    let expected = |department: &str, level: u32| {
        json!({
            "email": user.email, "department": department, "level": level, "staff": true,
            "teams": ["blue team", "ümlaut"], "country": "PT", "roles": [READ],
        })
    };
    let before = expected("sales & \"R&D\"", 7);
    assert_eq!(named(&claims(&session).await, &all), before);

    set(&live, &user, &attributes("legal", 8)).await;
    assert_eq!(named(&claims(&session).await, &all), before, "cached");
    live.outlive_freshness();
    assert_eq!(named(&claims(&session).await, &all), expected("legal", 8));

    set(&live, &user, &attributes("works council", 9)).await;
    let next = session_of(&gateway, &user).await;
    let after = expected("works council", 9);
    assert_eq!(named(&claims(&next).await, &all), after);
    assert_eq!(named(&claims(&session).await, &all), after, "of one user");
}

/// The program, whose log has the reason.
#[tokio::test]
#[ignore = "needs a real Keycloak: tests/run starts one"]
async fn log_names_an_unreadable_claim_without_its_value_and_check_explains_the_others() {
    let live = LiveFixture::new().await;
    let user = user_with(
        &live,
        &json!({"live_department": "canary-sales", "live_level": 7}),
    )
    .await;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("auth-gateway.toml");
    let config = path.to_str().expect("text");
    let configure = |claims: &str| {
        let text = format!("[iam.keycloak.claims]\n{claims}\n");
        std::fs::write(&path, text).expect("written");
    };

    configure("department = { member = \"live_department\", type = \"integer\" }");
    let settings = live.keycloak.settings();
    let with_file = [&settings[..], &[("AUTH_GATEWAY_CONFIG", config)]].concat();
    let gateway = Process::start_and_probe(&with_file).await;
    let session = session_of(&gateway.client, &user).await;
    let answer = gateway.client.exchange(&session, READ).await;
    answer.is_error(500, "server_error");
    let ready = gateway.client.ready().await.json();
    assert_eq!(ready["status"], "ready", "{ready}");
    let log = gateway.program.stop().log();
    let of_exchange = log.iter().find(|line| line["route"] == "token");
    let error = of_exchange.expect("a line")["error"].as_str();
    let error = error.expect("a reason");
    assert!(error.contains("the claim `department`"), "{error}");
    assert!(error.contains("not of the type integer"), "{error}");
    assert!(!format!("{log:?}").contains("canary-sales"), "{log:#?}");

    configure(
        "department = { member = \"live_department\" }\n\
         level = { member = \"live_level\", type = \"integer\" }\n\
         other = { member = \"live_not_mapped\" }",
    );
    let arguments = ["--config", config, "--explain", READ];
    let (code, output) = check(&arguments, &settings, Some(&user));
    assert_eq!(code, Some(0), "{output}");
    for (claim, line) in [
        ("department", "\"canary-sales\", from live_department"),
        ("level", "7, from live_level"),
        ("other", "left out: the IAM does not state live_not_mapped"),
    ] {
        let lines = format!("  claim {claim}\n                {line}\n");
        assert!(output.contains(&lines), "{lines}{output}");
    }
}
