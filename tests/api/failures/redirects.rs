//! A redirection, and what must not go where it points.

use test_support::scripted_upstream::keycloak::DISCOVERY;
use test_support::scripted_upstream::{Answer, ScriptedUpstream};

use super::BROKEN;
use super::wired::{PATHS, Wired};

#[tokio::test]
async fn no_credential_follows_a_redirection() {
    let scene = Wired::new(&[]).await;
    assert_eq!(scene.log_in().await.status, 200);
    let elsewhere = ScriptedUpstream::keycloak().await;
    for status in [301, 302, 303, 307, 308] {
        for path in PATHS {
            let there = format!("{}{path}", elsewhere.url());
            let response = scene.meets(path, &Answer::redirect(status, &there)).await;
            BROKEN.is_in(&response, false, &format!("{status} from {path}"));
            scene.is_ready("degraded", Some("other")).await;
        }
    }
    assert!(elsewhere.requests().is_empty());
}

#[tokio::test]
async fn an_issuer_that_points_elsewhere_gets_no_password() {
    let scene = Wired::new(&[]).await;
    let elsewhere = ScriptedUpstream::keycloak().await;
    let there = format!("{}{DISCOVERY}", elsewhere.url());
    scene.keycloak.on(DISCOVERY, Answer::redirect(302, &there));
    BROKEN.is_in(&scene.log_in().await, false, "discovery");
    assert!(elsewhere.requests().is_empty());
}
