//! Changes by an administrator or an operator, and other host names of the server.

use super::GATEWAY;
use super::calls::{PROTOCOL, Seen, login};
use super::cases::{ALICE, BOB, WRONG};
use super::side::Setting;

pub(super) async fn hosts(seen: &mut Seen<'_>) {
    let token = seen.log_in("by one name", ALICE.0, ALICE.1).await;
    seen.host = "127.0.0.1";
    seen.get(
        "discovery by another name",
        "/realms/shop/.well-known/openid-configuration",
    )
    .await;
    seen.introspect("by another name", GATEWAY, &token).await;
    seen.refresh("by another name", GATEWAY, &token).await;
    seen.log_out("by another name", GATEWAY, &token).await;
    seen.log_in("by another name", ALICE.0, ALICE.1).await;
    seen.host = "localhost";
    seen.introspect("by its own name again", GATEWAY, &token)
        .await;
}

pub(super) async fn administration(seen: &mut Seen<'_>) {
    let token = seen.log_in("to be disabled", ALICE.0, ALICE.1).await;
    seen.side.disable(ALICE.0, true).await;
    seen.introspect("user disabled", GATEWAY, &token).await;
    seen.refresh("user disabled", GATEWAY, &token).await;
    seen.log_out("user disabled", GATEWAY, &token).await;
    seen.side.disable(ALICE.0, false).await;
    seen.introspect("user enabled again", GATEWAY, &token).await;
    let token = seen.log_in("to be ended", ALICE.0, ALICE.1).await;
    seen.side.end_sessions_of(ALICE.0).await;
    seen.introspect("ended by the administrator", GATEWAY, &token)
        .await;
    seen.refresh("ended by the administrator", GATEWAY, &token)
        .await;
    seen.log_out("ended by the administrator", GATEWAY, &token)
        .await;
    let token = seen.log_in("to be deleted", ALICE.0, ALICE.1).await;
    seen.side.delete(ALICE.0).await;
    seen.introspect("user deleted", GATEWAY, &token).await;
    seen.refresh("user deleted", GATEWAY, &token).await;
    seen.log_out("user deleted", GATEWAY, &token).await;
    seen.token("user deleted", GATEWAY, &login(ALICE.0, ALICE.1))
        .await;
}

pub(super) async fn settings(seen: &mut Seen<'_>) {
    for (name, off, on) in [
        (
            "direct grants off",
            Setting::DirectGrants(false),
            Setting::DirectGrants(true),
        ),
        (
            "realm disabled",
            Setting::Enabled(false),
            Setting::Enabled(true),
        ),
        (
            "TLS required",
            Setting::SslRequired(true),
            Setting::SslRequired(false),
        ),
    ] {
        let token = seen.log_in(&format!("before {name}"), BOB.0, BOB.1).await;
        seen.side.set(off).await;
        seen.get(
            &format!("{name}, discovery"),
            "/realms/shop/.well-known/openid-configuration",
        )
        .await;
        seen.get(&format!("{name}, keys"), &format!("{PROTOCOL}/certs"))
            .await;
        seen.token(name, GATEWAY, &login(BOB.0, BOB.1)).await;
        seen.token(
            &format!("{name}, wrong password"),
            GATEWAY,
            &login(BOB.0, "wrong"),
        )
        .await;
        seen.token(
            &format!("{name}, no user"),
            GATEWAY,
            &[("grant_type", "password")],
        )
        .await;
        seen.token(
            &format!("{name}, odd grant"),
            GATEWAY,
            &[("grant_type", "odd")],
        )
        .await;
        seen.token(
            &format!("{name}, wrong secret"),
            WRONG,
            &login(BOB.0, BOB.1),
        )
        .await;
        seen.introspect(name, GATEWAY, &token).await;
        seen.introspect(&format!("{name}, wrong secret"), WRONG, &token)
            .await;
        seen.refresh(name, GATEWAY, &token).await;
        seen.log_out(&format!("{name}, garbage"), GATEWAY, "garbage")
            .await;
        seen.log_out(name, GATEWAY, &token).await;
        seen.side.set(on).await;
        seen.introspect(&format!("after {name}"), GATEWAY, &token)
            .await;
    }
}
