//! Secrets are read from the environment and never written.

use test_support::gateway::keycloak_settings;
use test_support::program::Ended;
use test_support::scripted_upstream::ScriptedUpstream;
use test_support::scripted_upstream::keycloak::{
    CLIENT, INTROSPECTION, REALM, TOKEN, inactive, refusal,
};

use crate::GATEWAY;

const SECRET: &str = "canary-of-the-client-secret";
const PASSWORD: &str = "canary-of-the-password";

fn nothing_leaked(ended: &Ended) {
    let everything = ended.everything();
    assert!(!everything.contains("canary"), "{everything}");
}

fn settings(url: &str) -> Vec<(&'static str, &str)> {
    let more = [
        ("AUTH_GATEWAY_CHECK_EMAIL", "alice@example.test"),
        ("AUTH_GATEWAY_CHECK_PASSWORD", PASSWORD),
        ("log.filter", "trace"),
        ("upstream.probe_interval", "1h"),
    ];
    [&keycloak_settings(url, REALM, CLIENT, SECRET)[..], &more].concat()
}

async fn keycloak() -> ScriptedUpstream {
    let iam = ScriptedUpstream::keycloak().await;
    // The first introspection is the probe's, of a made-up token.
    iam.once(INTROSPECTION, inactive());
    iam
}

#[tokio::test(flavor = "multi_thread")]
async fn no_command_writes_a_secret_of_its_environment() {
    let iam = keycloak().await;
    // `check --online` probes without a user, and then tries a made-up account.
    for _ in 0..2 {
        let refused = refusal(401, "invalid_grant", "Invalid user credentials");
        iam.once(TOKEN, refused);
    }
    let url = iam.url();
    let offline = [("iam.keycloak.url", "http://127.0.0.1:1")];
    for (arguments, more, code) in [
        (&["check"][..], &[][..], 0),
        (&["check", "--online"], &[], 0),
        (&["check", "--online"], &offline, 69),
        (&["check"], &[("http.workers", "0")], 64),
        (&["serve"], &[("http.workers", "0")], 64),
        (&["serve"], &[("iam.keycloak.client_secrt", SECRET)], 64),
        (&["serve"], &[("iam.keycloak", SECRET)], 64),
        (&["config", "show"], &[], 0),
        (&["config", "show", "--json"], &[], 0),
        (&["config", "show"], &[("http.workers", "0")], 64),
        (&["--help"], &[], 0),
        (&["keys", "list", "--dir", "no/such/folder"], &[], 64),
    ] {
        let ended = GATEWAY.run(arguments, &[&settings(&url)[..], more].concat());
        assert_eq!(ended.code, Some(code), "{arguments:?} {more:?}: {ended:?}");
        nothing_leaked(&ended);
    }
}

/// The control: an invalid value that is no secret is reported, and this search finds it.
#[test]
fn invalid_value_is_reported_if_it_is_no_secret() {
    let ended = GATEWAY.run(&["check"], &[("http.workers", "canary-of-the-workers")]);
    assert_eq!(ended.code, Some(64), "{ended:?}");
    assert!(ended.everything().contains("canary"), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_command_writes_the_credentials_for_redis() {
    const URL: &str = "redis.url";
    const WORD: &str = "redis.password";
    const USER: &str = "redis.username";
    let iam = keycloak().await;
    let url = iam.url();
    // This address refuses connections.
    let closed_port = (URL, "redis://127.0.0.1:1");
    for (arguments, more, code, expected) in [
        (
            &["serve"][..],
            &[(URL, "rediss://canary-user:canary@redis.test")][..],
            64,
            URL,
        ),
        (
            &["check"],
            &[closed_port, ("redis.pasword", "canary")],
            64,
            "PASWORD",
        ),
        (&["check"], &[("redis", "canary")], 64, "REDIS"),
        (
            &["check", "--online"],
            &[closed_port, (USER, "canary"), (WORD, "canary")],
            69,
            "Redis  ",
        ),
    ] {
        let ended = GATEWAY.run(arguments, &[&settings(&url)[..], more].concat());
        assert_eq!(ended.code, Some(code), "{arguments:?} {more:?}: {ended:?}");
        assert!(ended.everything().contains(expected), "{ended:?}");
        nothing_leaked(&ended);
        iam.once(INTROSPECTION, inactive());
    }
}
