//! Every case, in the order in which both sides run it.

use reqwest::Method;
use serde_json::Value;

use super::calls::{PROTOCOL, Seen, login};
use super::side::{Client, Setting, Side};
use super::{GATEWAY, OTHER, changes};

pub(super) const ALICE: (&str, &str) = ("alice@example.test", "alice-pass");
pub(super) const BOB: (&str, &str) = ("bob@example.test", "bob-pass");
const CAROL: (&str, &str) = ("carol@example.test", "carol-pass");
const DAVE: (&str, &str) = ("dave@example.test", "dave-pass");
pub(super) const WRONG: Client<'_> = Client("auth-gateway", "not the secret");
const NOBODY: Client<'_> = Client("no-such-client", "not the secret");
const BEARER: Client<'_> = Client("shop-api", "not the secret");

pub(super) async fn run(side: &dyn Side) -> Vec<(String, Value)> {
    side.set(Setting::Enabled(true)).await;
    let mut seen = Seen::at(side);
    logins(&mut seen).await;
    clients(&mut seen).await;
    introspections(&mut seen).await;
    logouts(&mut seen).await;
    published(&mut seen).await;
    changes::hosts(&mut seen).await;
    changes::administration(&mut seen).await;
    changes::settings(&mut seen).await;
    seen.all
}

async fn logins(seen: &mut Seen<'_>) {
    for (name, form) in [
        ("right", &login(ALICE.0, ALICE.1)[..]),
        ("in capitals", &login("ALICE@example.test", ALICE.1)),
        ("wrong password", &login(ALICE.0, "wrong")),
        ("unknown user", &login("nobody@example.test", "wrong")),
        ("a name that is no address", &login("nobody", "wrong")),
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
        seen.token(name, GATEWAY, form).await;
    }
    let alice = login(ALICE.0, ALICE.1);
    let path = format!("{PROTOCOL}/token");
    let json = seen.side.request(Method::POST, seen.host, &path);
    let json = json.basic_auth(GATEWAY.0, Some(GATEWAY.1));
    let status = json.json(&alice.to_vec()).send().await.expect("an answer");
    let status = status.status().as_u16();
    seen.all.push(("token, JSON".to_owned(), status.into()));
}

async fn clients(seen: &mut Seen<'_>) {
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
            ("unknown", Some(NOBODY), &[]),
            ("of the API", Some(BEARER), &[]),
            ("none", None, &[]),
            ("in the form", None, &[id, secret]),
            ("in the form, wrong secret", None, &[id, wrong]),
            ("in the form, no secret", None, &[id]),
            (
                "in the form, unknown",
                None,
                &[("client_id", NOBODY.0), secret],
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
            seen.post(&name, &path, client, &form).await;
        }
    }
}

async fn introspections(seen: &mut Seen<'_>) {
    let token = seen.log_in("to introspect", ALICE.0, ALICE.1).await;
    let hint = |hint| [("token", token.as_str()), ("token_type_hint", hint)];
    seen.introspect("alive", GATEWAY, &token).await;
    seen.introspect_by("no hint", GATEWAY, &[("token", &token)])
        .await;
    seen.introspect_by("hint at an access token", GATEWAY, &hint("access_token"))
        .await;
    seen.introspect_by("odd hint", GATEWAY, &hint("odd")).await;
    seen.introspect_by("no token", GATEWAY, &[]).await;
    seen.introspect("another client", OTHER, &token).await;
    seen.introspect("garbage", GATEWAY, "garbage").await;
    seen.introspect("empty", GATEWAY, "").await;
    seen.introspect("tampered", GATEWAY, &tampered(&token))
        .await;
    seen.refresh("alive", GATEWAY, &token).await;
    seen.refresh("another client", OTHER, &token).await;
    seen.refresh("tampered", GATEWAY, &tampered(&token)).await;
    seen.introspect("after a refresh", GATEWAY, &token).await;
    seen.side
        .permit(ALICE.0, "urn:shop:catalog:item:read")
        .await;
    seen.introspect("one permission more", GATEWAY, &token)
        .await;
    let others = seen
        .token("of another client", OTHER, &login(BOB.0, BOB.1))
        .await;
    let others = others["refresh_token"]
        .as_str()
        .expect("a login")
        .to_owned();
    seen.introspect("of another client", GATEWAY, &others).await;
    let access = seen
        .token("for its access token", GATEWAY, &login(BOB.0, BOB.1))
        .await;
    let access = access["access_token"].as_str().expect("a login").to_owned();
    seen.introspect("an access token", GATEWAY, &access).await;
    seen.refresh("an access token", GATEWAY, &access).await;
    seen.log_out("an access token", GATEWAY, &access).await;
}

async fn logouts(seen: &mut Seen<'_>) {
    let token = seen.log_in("to log out", BOB.0, BOB.1).await;
    let kept = seen.log_in("to stay", BOB.0, BOB.1).await;
    seen.log_out("garbage", GATEWAY, "garbage").await;
    seen.log_out("empty", GATEWAY, "").await;
    seen.log_out("tampered", GATEWAY, &tampered(&token)).await;
    seen.log_out("another client", OTHER, &token).await;
    seen.log_out("wrong secret", WRONG, &token).await;
    seen.introspect("not yet logged out", GATEWAY, &token).await;
    seen.log_out("alive", GATEWAY, &token).await;
    seen.introspect("logged out", GATEWAY, &token).await;
    seen.refresh("logged out", GATEWAY, &token).await;
    seen.log_out("again", GATEWAY, &token).await;
    seen.introspect("the other one", GATEWAY, &kept).await;
    let path = format!("{PROTOCOL}/logout");
    seen.post("logout, nothing", &path, Some(GATEWAY), &[])
        .await;
}

async fn published(seen: &mut Seen<'_>) {
    seen.get("discovery", "/realms/shop/.well-known/openid-configuration")
        .await;
    seen.get("keys", &format!("{PROTOCOL}/certs")).await;
    seen.get("token, GET", &format!("{PROTOCOL}/token")).await;
    seen.get(
        "introspection, GET",
        &format!("{PROTOCOL}/token/introspect"),
    )
    .await;
    seen.post("keys, POST", &format!("{PROTOCOL}/certs"), None, &[])
        .await;
    seen.get("nowhere", &format!("{PROTOCOL}/nowhere")).await;
    let unknown = "/realms/no-such-realm";
    seen.get(
        "unknown realm, discovery",
        &format!("{unknown}/.well-known/openid-configuration"),
    )
    .await;
    seen.get(
        "unknown realm, keys",
        &format!("{unknown}/protocol/openid-connect/certs"),
    )
    .await;
    for endpoint in ["token", "token/introspect", "logout"] {
        let path = format!("{unknown}/protocol/openid-connect/{endpoint}");
        let name = format!("unknown realm, {endpoint}");
        seen.post(&name, &path, Some(GATEWAY), &login(ALICE.0, ALICE.1))
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
