//! Invalid requests.

use secrecy::ExposeSecret;
use serde_json::{Value, json};

use super::{IamFixture, READ, session_of, unique_name};
use crate::client::Response;
use crate::endpoints::{LOGIN, LOGOUT, TOKEN};
use crate::json::without;

/// A valid request to each endpoint; none ends a session that another one needs.
async fn good(
    fixture: &IamFixture,
    gateway: &crate::gateway::TestGateway,
) -> [(&'static str, Value); 3] {
    let user = fixture.user(&[READ]).await;
    let mut exchange = session_of(gateway, &user).await.pair();
    exchange["grant_type"] = json!("session");
    exchange["scope"] = json!(READ);
    let logout = session_of(gateway, &user).await.pair();
    let password = user.password.expose_secret();
    [
        (LOGIN, json!({ "email": user.email, "password": password })),
        (TOKEN, exchange),
        (LOGOUT, logout),
    ]
}

/// Panics unless this is a 400 with this description.
#[track_caller]
fn describes(answer: &Response, description: &str) {
    answer.is_error(400, "invalid_request");
    assert_eq!(answer.json()["error_description"], description);
}

pub async fn missing_or_mistyped_member_is_refused(fixture: &IamFixture) {
    let gateway = fixture.gateway();
    for (path, good) in good(fixture, &gateway).await {
        let members = good.as_object().expect("an object").keys();
        for member in members {
            if member != "scope" {
                let missing = without(good.clone(), member);
                let answer = gateway.post_json(path, &missing).await;
                describes(&answer, &format!("The member `{member}` is missing."));
            }
            let own = good[member].clone();
            for other in [json!(null), json!(1), json!(true), json!([own]), json!({})] {
                let mut odd = good.clone();
                odd[member] = other;
                let answer = gateway.post_json(path, &odd).await;
                describes(&answer, &format!("The member `{member}` must be a string."));
            }
            // Duplicate members are ambiguous.
            let twice = good.to_string();
            let twice = format!("{{{:?}:\"x\",{}", member, &twice[1..]);
            let answer = gateway.post(path, &[], twice).await;
            let description = format!("The member `{member}` appears more than once.");
            describes(&answer, &description);
        }
        assert_eq!(gateway.post_json(path, &good).await.status, 200, "{path}");
    }
}

pub async fn body_that_is_not_a_json_object_is_refused(fixture: &IamFixture) {
    let gateway = fixture.gateway();
    for (path, good) in good(fixture, &gateway).await {
        let text = good.to_string();
        let values: Value = good
            .as_object()
            .expect("an object")
            .values()
            .cloned()
            .collect();
        let latin = [text.as_bytes(), b"\xe9"].concat();
        let inside = text.replacen(":\"", ":\"\u{1}", 1);
        for bad in [
            b"".as_slice(),
            b" ",
            b"{",
            b"null",
            b"true",
            b"1",
            b"\"{}\"",
            b"[]",
            b"{}",
            values.to_string().as_bytes(),
            json!([good]).to_string().as_bytes(),
            format!("\u{feff}{text}").as_bytes(),
            format!("{text}{text}").as_bytes(),
            format!("{text},").as_bytes(),
            &text.as_bytes()[..text.len() - 1],
            text.replace('"', "'").as_bytes(),
            inside.as_bytes(),
            &latin,
            b"email=a%40b&password=c",
        ] {
            let answer = gateway.post(path, &[], bad).await;
            answer.is_error(400, "invalid_request");
        }
        let spaced = format!(" \r\n\t{text}\n");
        assert_eq!(gateway.post(path, &[], spaced).await.status, 200, "{path}");
    }
}

pub async fn unknown_members_are_ignored(fixture: &IamFixture) {
    let gateway = fixture.gateway();
    for (path, mut good) in good(fixture, &gateway).await {
        good["remember_me"] = json!({ "for": ["ever", 1, null] });
        good["client_id"] = json!(null);
        assert_eq!(gateway.post_json(path, &good).await.status, 200, "{path}");
    }
}

pub async fn query_is_refused(fixture: &IamFixture) {
    let gateway = fixture.gateway();
    for (path, good) in good(fixture, &gateway).await {
        for query in ["?session_token=x", "?a"] {
            let path = format!("{path}{query}");
            let answer = gateway.post_json(&path, &good).await;
            describes(&answer, "A query is not allowed here.");
        }
        assert_eq!(gateway.post_json(path, &good).await.status, 200, "{path}");
    }
}

pub async fn too_long_value_is_refused_and_never_truncated(fixture: &IamFixture) {
    let gateway = fixture.gateway();
    let [(_, login), (_, exchange), (_, logout)] = good(fixture, &gateway).await;
    let longest = format!("{}@example.test", unique_name());
    let longest = format!("{}{longest}", "a".repeat(320 - longest.len()));
    let wide = format!("{}@example.test", unique_name());
    let room = 320 - wide.len();
    let wide = format!("{}{}{wide}", "a".repeat(room % 2), "é".repeat(room / 2));
    for (path, good, member, longest, status) in [
        (LOGIN, &login, "email", longest, 401),
        (LOGIN, &login, "password", "p".repeat(1024), 401),
        // The limit counts bytes: `x` before it is one too many, with fewer characters than a
        // schema allows.
        (LOGIN, &login, "email", wide, 401),
        (LOGIN, &login, "password", "é".repeat(512), 401),
        (TOKEN, &exchange, "session_token", "t".repeat(8192), 401),
        (TOKEN, &exchange, "session_id", "i".repeat(64), 401),
        (LOGOUT, &logout, "session_token", "t".repeat(8192), 400),
        (LOGOUT, &logout, "session_id", "i".repeat(64), 400),
    ] {
        let mut body = good.clone();
        body[member] = json!(longest);
        let answer = gateway.post_json(path, &body).await;
        assert_eq!(answer.status, status, "{member}");
        body[member] = json!(format!("x{longest}"));
        let answer = gateway.post_json(path, &body).await;
        let description = format!(
            "The member `{member}` is longer than {} bytes.",
            longest.len()
        );
        describes(&answer, &description);
    }
    // A password of the maximum length is used completely: its last character counts.
    let password = format!("Aa1!{}", "é".repeat(510));
    let user = fixture.user_with_password(&password, &[]).await;
    session_of(&gateway, &user).await;
    let near = format!("{}e!", &password[..password.len() - 2]);
    let answer = gateway.log_in(&user.email, &near.into()).await;
    answer.is_error(401, "invalid_grant");
}

pub async fn other_grant_type_is_refused(fixture: &IamFixture) {
    let (gateway, user) = (fixture.gateway(), fixture.user(&[READ]).await);
    let mut body = session_of(&gateway, &user).await.pair();
    for grant_type in ["", "Session", "session ", "password", "refresh_token"] {
        body["grant_type"] = json!(grant_type);
        let answer = gateway.post_json(TOKEN, &body).await;
        answer.is_error(400, "unsupported_grant_type");
    }
}
