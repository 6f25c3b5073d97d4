//! Changes by an administrator or an operator, and other host names of the server.

use super::GATEWAY;
use super::calls::{PROTOCOL, RecordedResponses, login};
use super::cases::{ALICE, BOB, WRONG};
use super::server::Setting;

pub(super) async fn hosts(recorded: &mut RecordedResponses<'_>) {
    let token = recorded.log_in("by one name", ALICE.0, ALICE.1).await;
    recorded.host = "127.0.0.1";
    recorded
        .get(
            "discovery by another name",
            "/realms/shop/.well-known/openid-configuration",
        )
        .await;
    recorded
        .introspect("by another name", GATEWAY, &token)
        .await;
    recorded.refresh("by another name", GATEWAY, &token).await;
    recorded.log_out("by another name", GATEWAY, &token).await;
    recorded.log_in("by another name", ALICE.0, ALICE.1).await;
    recorded.host = "localhost";
    recorded
        .introspect("by its own name again", GATEWAY, &token)
        .await;
}

pub(super) async fn settings(recorded: &mut RecordedResponses<'_>) {
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
        let token = recorded
            .log_in(&format!("before {name}"), BOB.0, BOB.1)
            .await;
        recorded.server.set(off).await;
        recorded
            .get(
                &format!("{name}, discovery"),
                "/realms/shop/.well-known/openid-configuration",
            )
            .await;
        recorded
            .get(&format!("{name}, keys"), &format!("{PROTOCOL}/certs"))
            .await;
        recorded.token(name, GATEWAY, &login(BOB.0, BOB.1)).await;
        recorded
            .token(
                &format!("{name}, wrong password"),
                GATEWAY,
                &login(BOB.0, "wrong"),
            )
            .await;
        recorded
            .token(
                &format!("{name}, no user"),
                GATEWAY,
                &[("grant_type", "password")],
            )
            .await;
        recorded
            .token(
                &format!("{name}, odd grant"),
                GATEWAY,
                &[("grant_type", "odd")],
            )
            .await;
        recorded
            .token(
                &format!("{name}, wrong secret"),
                WRONG,
                &login(BOB.0, BOB.1),
            )
            .await;
        recorded.introspect(name, GATEWAY, &token).await;
        recorded
            .introspect(&format!("{name}, wrong secret"), WRONG, &token)
            .await;
        recorded.refresh(name, GATEWAY, &token).await;
        recorded
            .log_out(&format!("{name}, garbage"), GATEWAY, "garbage")
            .await;
        recorded.log_out(name, GATEWAY, &token).await;
        recorded.server.set(on).await;
        recorded
            .introspect(&format!("after {name}"), GATEWAY, &token)
            .await;
    }
}
