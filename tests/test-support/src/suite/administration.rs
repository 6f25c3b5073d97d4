//! Changes by an administrator at the IAM while sessions are active. What an exchange detects of them
//! is what the adapter states in its capabilities.

use iam_adapters::PermissionAge;
use iam_conformance::AccountState;
use secrecy::SecretString;

use super::{IamFixture, READ, WRITE, permissions, session_of, unique_name};

/// The freshness of these gateways, in seconds.
const FRESHNESS: u64 = 30;
const SETTINGS: [(&str, &str); 2] = [("session.freshness", "30s"), ("permissions.ttl", "30s")];

pub async fn changed_permission_takes_effect_within_its_ttl_or_at_the_next_login(
    fixture: &IamFixture,
) {
    let apart = [("session.freshness", "1h"), ("permissions.ttl", "30s")];
    let gateway = fixture.gateway_with(&apart);
    let user = fixture.user(&[READ]).await;
    let session = session_of(&gateway, &user).await;
    let requested = format!("{READ} {WRITE}");
    assert_eq!(
        gateway.exchange(&session, &requested).await.token().scope,
        READ
    );
    for (now, granted) in [
        (&[READ, WRITE][..], requested.as_str()),
        (&[WRITE], WRITE),
        (&[], ""),
        (&[READ], READ),
    ] {
        let administrator = &fixture.administrator;
        administrator
            .set_permissions(&user, &permissions(now))
            .await;
        fixture.advance(FRESHNESS);
        let current = match administrator.adapter().capabilities().permissions {
            PermissionAge::Current => session.clone(),
            PermissionAge::Login => {
                let token = gateway.exchange(&session, &requested).await.token();
                assert_eq!(token.scope, READ);
                session_of(&gateway, &user).await
            }
        };
        // Also after another introspection.
        for _ in 0..2 {
            let token = gateway.exchange(&current, &requested).await.token();
            assert_eq!(token.scope, granted);
            fixture.advance(FRESHNESS);
        }
    }
}

pub async fn session_ended_by_the_administrator_is_refused_within_the_freshness(
    fixture: &IamFixture,
) {
    let apart = [("session.freshness", "30s"), ("permissions.ttl", "1h")];
    let gateway = fixture.gateway_with(&apart);
    let (user, neighbour) = (fixture.user(&[READ]).await, fixture.user(&[READ]).await);
    let session = session_of(&gateway, &user).await;
    let neighbours = session_of(&gateway, &neighbour).await;
    assert_eq!(gateway.exchange(&session, READ).await.status, 200);
    fixture.administrator.end_sessions_of(&user).await;
    fixture.advance(FRESHNESS);
    let answer = gateway.exchange(&session, READ).await;
    answer.is_error(401, "invalid_grant");
    assert_eq!(gateway.exchange(&neighbours, READ).await.status, 200);
    // Logout of an ended session succeeds, and the user can log in again.
    assert_eq!(gateway.log_out(&session).await.status, 200);
    let again = session_of(&gateway, &user).await;
    assert_eq!(gateway.exchange(&again, READ).await.token().scope, READ);
}

pub async fn disabled_user_is_refused_within_the_freshness_if_the_iam_reports_it(
    fixture: &IamFixture,
) {
    let administrator = &fixture.administrator;
    let off = AccountState::Disabled;
    assert!(administrator.account_states().contains(&off));
    let (gateway, user) = (fixture.gateway_with(&SETTINGS), fixture.user(&[READ]).await);
    let session = session_of(&gateway, &user).await;
    administrator.set_state(&user, off).await;
    let answer = gateway.log_in(&user.email, &user.password).await;
    answer.is_error(401, "invalid_grant");
    fixture.advance(FRESHNESS);
    let answer = gateway.exchange(&session, READ).await;
    if administrator.adapter().capabilities().detects_disabled {
        answer.is_error(401, "invalid_grant");
    } else {
        assert_eq!(answer.token().scope, READ);
    }
}

pub async fn deleted_user_is_refused_within_the_freshness_if_the_iam_reports_it(
    fixture: &IamFixture,
) {
    let (gateway, user) = (fixture.gateway_with(&SETTINGS), fixture.user(&[READ]).await);
    let session = session_of(&gateway, &user).await;
    fixture.administrator.delete_user(&user).await;
    let answer = gateway.log_in(&user.email, &user.password).await;
    answer.is_error(401, "invalid_grant");
    fixture.advance(FRESHNESS);
    let answer = gateway.exchange(&session, READ).await;
    if fixture
        .administrator
        .adapter()
        .capabilities()
        .detects_deleted
    {
        answer.is_error(401, "invalid_grant");
    } else {
        assert_eq!(answer.token().scope, READ);
    }
    assert_eq!(gateway.log_out(&session).await.status, 200);
}

pub async fn changed_password_replaces_the_old_one(fixture: &IamFixture) {
    let (gateway, user) = (fixture.gateway(), fixture.user(&[READ]).await);
    session_of(&gateway, &user).await;
    let new = SecretString::from(format!("Aa1!{}", unique_name()));
    fixture.administrator.set_password(&user, &new).await;
    let answer = gateway.log_in(&user.email, &user.password).await;
    answer.is_error(401, "invalid_grant");
    gateway.log_in(&user.email, &new).await.session();
}
