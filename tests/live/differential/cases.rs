//! Every case, in the order in which both sides run it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reqwest::Method;
use secrecy::ExposeSecret;
use serde_json::Value;
use test_support::totp;

use super::calls::{PROTOCOL, RecordedResponses, login};
use super::server::{Client, RealmServer, Setting};
use super::{GATEWAY, OTHER, changes};

pub(super) const ALICE: (&str, &str) = ("alice@example.test", "alice-pass");
pub(super) const BOB: (&str, &str) = ("bob@example.test", "bob-pass");
const CAROL: (&str, &str) = ("carol@example.test", "carol-pass");
const DAVE: (&str, &str) = ("dave@example.test", "dave-pass");
const ERIN: (&str, &str) = ("erin@example.test", "erin-pass");
pub(super) const WRONG: Client<'_> = Client("auth-gateway", "not the secret");
const UNKNOWN_CLIENT: Client<'_> = Client("no-such-client", "not the secret");
const BEARER: Client<'_> = Client("shop-api", "not the secret");

pub(super) async fn run(server: &dyn RealmServer) -> Vec<(String, Value)> {
    server.set(Setting::Enabled(true)).await;
    let mut recorded = RecordedResponses::at(server);
    logins(&mut recorded).await;
    clients(&mut recorded).await;
    introspections(&mut recorded).await;
    logouts(&mut recorded).await;
    published(&mut recorded).await;
    changes::hosts(&mut recorded).await;
    changes::settings(&mut recorded).await;
    recorded.all
}

async fn logins(recorded: &mut RecordedResponses<'_>) {
    for (name, form) in [
        ("right", &login(ALICE.0, ALICE.1)[..]),
        ("in capitals", &login("ALICE@example.test", ALICE.1)),
        ("wrong password", &login(ALICE.0, "wrong")),
        ("unknown user", &login("unknown@example.test", "wrong")),
        ("a name that is no address", &login("unknown", "wrong")),
        (
            "a blank before the name",
            &login(" alice@example.test", ALICE.1),
        ),
        ("empty name", &login("", "wrong")),
        ("empty password", &login(ALICE.0, "")),
        ("disabled", &login(CAROL.0, CAROL.1)),
        ("disabled, wrong password", &login(CAROL.0, "wrong")),
        ("incomplete", &login(DAVE.0, DAVE.1)),
        ("incomplete, wrong password", &login(DAVE.0, "wrong")),
        (
            "no username",
            &[("grant_type", "password"), ("password", "x")],
        ),
        (
            "no password",
            &[("grant_type", "password"), ("username", ALICE.0)],
        ),
        ("neither", &[("grant_type", "password")]),
        ("no grant type", &[("username", ALICE.0)]),
        ("empty grant type", &[("grant_type", "")]),
        ("odd grant type", &[("grant_type", "odd")]),
        (
            "client credentials",
            &[("grant_type", "client_credentials")],
        ),
        (
            "a name twice",
            &[
                ("grant_type", "password"),
                ("username", ALICE.0),
                ("username", BOB.0),
                ("password", ALICE.1),
            ],
        ),
        ("no refresh token", &[("grant_type", "refresh_token")]),
    ] {
        recorded.token(name, GATEWAY, form).await;
    }
    one_time_passwords(recorded).await;
    let alice = login(ALICE.0, ALICE.1);
    let path = format!("{PROTOCOL}/token");
    let json = recorded.server.request(Method::POST, recorded.host, &path);
    let json = json.basic_auth(GATEWAY.0, Some(GATEWAY.1));
    let status = json.json(&alice.to_vec()).send().await.expect("an answer");
    let status = status.status().as_u16();
    recorded.all.push(("token, JSON".to_owned(), status.into()));
}

async fn one_time_passwords(recorded: &mut RecordedResponses<'_>) {
    recorded.server.create(ERIN.0, ERIN.1, true).await;
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.expect("a time after 1970");
    let step = Duration::from_secs(30);
    // All within the window, also if a step ends before the last call.
    let [before, current, later] =
        [now.saturating_sub(4 * step), now, now + 4 * step].map(totp::otp_at);
    let [before, current, later] = [&before, &current, &later].map(ExposeSecret::expose_secret);
    for (name, user, password, otp) in [
        ("no one-time password", ERIN.0, ERIN.1, None),
        ("an empty one-time password", ERIN.0, ERIN.1, Some("")),
        ("a wrong one-time password", ERIN.0, ERIN.1, Some("x")),
        ("an old one-time password", ERIN.0, ERIN.1, Some(before)),
        ("a one-time password of later", ERIN.0, ERIN.1, Some(later)),
        ("a wrong password", ERIN.0, "wrong", Some(current)),
        ("the right one-time password", ERIN.0, ERIN.1, Some(current)),
        ("the same one-time password", ERIN.0, ERIN.1, Some(current)),
        ("one too many", ALICE.0, ALICE.1, Some(current)),
        ("an empty one too many", ALICE.0, ALICE.1, Some("")),
    ] {
        let otp = otp.map(|otp| ("otp", otp));
        let form = [&login(user, password)[..], otp.as_slice()].concat();
        recorded.token(name, GATEWAY, &form).await;
    }
}

async fn clients(recorded: &mut RecordedResponses<'_>) {
    let alice = login(ALICE.0, ALICE.1);
    let (id, secret) = (("client_id", GATEWAY.0), ("client_secret", GATEWAY.1));
    let wrong = ("client_secret", WRONG.1);
    for (endpoint, form) in [
        ("token", &alice[..]),
        ("token", &[("grant_type", "odd")]),
        (
            "token",
            &[("grant_type", "refresh_token"), ("refresh_token", "x")],
        ),
        (
            "token/introspect",
            &[("token", "x"), ("token_type_hint", "refresh_token")],
        ),
        ("logout", &[("refresh_token", "x")]),
    ] {
        let path = format!("{PROTOCOL}/{endpoint}");
        for (who, client, more) in [
            ("right", Some(GATEWAY), &[][..]),
            ("wrong secret", Some(WRONG), &[]),
            ("unknown", Some(UNKNOWN_CLIENT), &[]),
            ("of the API", Some(BEARER), &[]),
            ("none", None, &[]),
            ("in the form", None, &[id, secret]),
            ("in the form, wrong secret", None, &[id, wrong]),
            ("in the form, no secret", None, &[id]),
            (
                "in the form, unknown",
                None,
                &[("client_id", UNKNOWN_CLIENT.0), secret],
            ),
            ("in both", Some(GATEWAY), &[id, secret]),
            (
                "in both, differing",
                Some(GATEWAY),
                &[("client_id", OTHER.0)],
            ),
        ] {
            let name = format!("client {who} at {endpoint}, {}", form.len());
            let form = [form, more].concat();
            recorded.post(&name, &path, client, &form).await;
        }
    }
}

async fn introspections(recorded: &mut RecordedResponses<'_>) {
    let token = recorded.log_in("to introspect", ALICE.0, ALICE.1).await;
    let hint = |hint| [("token", token.as_str()), ("token_type_hint", hint)];
    recorded.introspect("active", GATEWAY, &token).await;
    recorded
        .introspect_by("no hint", GATEWAY, &[("token", &token)])
        .await;
    recorded
        .introspect_by("hint at an access token", GATEWAY, &hint("access_token"))
        .await;
    recorded
        .introspect_by("odd hint", GATEWAY, &hint("odd"))
        .await;
    recorded.introspect_by("no token", GATEWAY, &[]).await;
    recorded.introspect("another client", OTHER, &token).await;
    recorded.introspect("garbage", GATEWAY, "garbage").await;
    recorded.introspect("empty", GATEWAY, "").await;
    recorded
        .introspect("tampered", GATEWAY, &tampered(&token))
        .await;
    recorded.refresh("active", GATEWAY, &token).await;
    recorded.refresh("another client", OTHER, &token).await;
    recorded
        .refresh("tampered", GATEWAY, &tampered(&token))
        .await;
    recorded
        .introspect("after a refresh", GATEWAY, &token)
        .await;
    let others = recorded
        .token("of another client", OTHER, &login(BOB.0, BOB.1))
        .await;
    let others = others["refresh_token"]
        .as_str()
        .expect("a login")
        .to_owned();
    recorded
        .introspect("of another client", GATEWAY, &others)
        .await;
    let access = recorded
        .token("for its access token", GATEWAY, &login(BOB.0, BOB.1))
        .await;
    let access = access["access_token"].as_str().expect("a login").to_owned();
    recorded
        .introspect("an access token", GATEWAY, &access)
        .await;
    recorded.refresh("an access token", GATEWAY, &access).await;
    recorded.log_out("an access token", GATEWAY, &access).await;
}

async fn logouts(recorded: &mut RecordedResponses<'_>) {
    let token = recorded.log_in("to log out", BOB.0, BOB.1).await;
    recorded.log_out("garbage", GATEWAY, "garbage").await;
    recorded.log_out("empty", GATEWAY, "").await;
    recorded
        .log_out("tampered", GATEWAY, &tampered(&token))
        .await;
    let path = format!("{PROTOCOL}/logout");
    recorded
        .post("logout, nothing", &path, Some(GATEWAY), &[])
        .await;
}

async fn published(recorded: &mut RecordedResponses<'_>) {
    recorded
        .get("discovery", "/realms/shop/.well-known/openid-configuration")
        .await;
    recorded.get("keys", &format!("{PROTOCOL}/certs")).await;
    recorded
        .get("token, GET", &format!("{PROTOCOL}/token"))
        .await;
    recorded
        .get(
            "introspection, GET",
            &format!("{PROTOCOL}/token/introspect"),
        )
        .await;
    recorded
        .post("keys, POST", &format!("{PROTOCOL}/certs"), None, &[])
        .await;
    recorded
        .get("nowhere", &format!("{PROTOCOL}/nowhere"))
        .await;
    let unknown = "/realms/no-such-realm";
    recorded
        .get(
            "unknown realm, discovery",
            &format!("{unknown}/.well-known/openid-configuration"),
        )
        .await;
    recorded
        .get(
            "unknown realm, keys",
            &format!("{unknown}/protocol/openid-connect/certs"),
        )
        .await;
    for endpoint in ["token", "token/introspect", "logout"] {
        let path = format!("{unknown}/protocol/openid-connect/{endpoint}");
        let name = format!("unknown realm, {endpoint}");
        recorded
            .post(&name, &path, Some(GATEWAY), &login(ALICE.0, ALICE.1))
            .await;
    }
}

/// A token with one changed character. The last character may have bits without meaning, so it
/// stays.
fn tampered(token: &str) -> String {
    let (head, tail) = token.split_at(token.len() - 9);
    let turned = tail.chars().map(|c| if c == 'A' { 'B' } else { 'A' });
    head.chars().chain(turned).collect()
}
