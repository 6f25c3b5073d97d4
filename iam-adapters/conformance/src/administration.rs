//! Checks of what an administrator changes at the IAM during sessions.

use iam_adapters::PermissionAge;
use secrecy::SecretString;

use super::adapter_under_test::{
    AdapterUnderTest, READ, WRITE, has_sessions, permissions, unique_text,
};
use super::{Account, AccountState, CheckResult, Fixture};

/// Changed permissions are in the next introspection; if permissions are those of the login, only in
/// sessions of later logins.
///
/// # Errors
///
/// [`CheckFailure`] if the adapter violates the rule.
pub async fn permissions_have_the_stated_age(fixture: &dyn Fixture) -> CheckResult {
    let adapter = AdapterUnderTest::of(fixture);
    let user = Account::create(fixture, &[READ]).await?;
    let session = adapter.log_in(&user).await?;
    adapter.is_active(&session, &user, &[READ]).await?;
    let age = fixture.adapter().capabilities().permissions;
    for names in [&[READ, WRITE][..], &[WRITE], &[], &[READ]] {
        fixture.set_permissions(&user, &permissions(names)).await;
        match age {
            PermissionAge::Current => adapter.is_active(&session, &user, names).await?,
            PermissionAge::Login => {
                adapter.is_active(&session, &user, &[READ]).await?;
                let next = adapter.log_in(&user).await?;
                adapter.is_active(&next, &user, names).await?;
            }
        }
    }
    Ok(())
}

/// A session that the administrator ended is inactive and can be ended again. Others stay active.
///
/// # Errors
///
/// [`CheckFailure`] if the adapter violates the rule.
pub async fn session_ended_by_the_administrator_is_inactive(fixture: &dyn Fixture) -> CheckResult {
    if !has_sessions(fixture) {
        return Ok(());
    }
    let adapter = AdapterUnderTest::of(fixture);
    let user = Account::create(fixture, &[READ]).await?;
    let (ended, kept) = (adapter.log_in(&user).await?, adapter.log_in(&user).await?);
    adapter.is_active(&ended, &user, &[READ]).await?;
    fixture.end_session(&user, &ended).await;
    adapter.is_inactive(&ended).await?;
    adapter.is_active(&kept, &user, &[READ]).await?;
    adapter.end(&ended).await
}

/// All sessions of the user are inactive, those of another user stay active, and a new login succeeds.
///
/// # Errors
///
/// [`CheckFailure`] if the adapter violates the rule.
pub async fn all_sessions_of_a_user_ended_by_the_administrator_are_inactive(
    fixture: &dyn Fixture,
) -> CheckResult {
    if !has_sessions(fixture) {
        return Ok(());
    }
    let adapter = AdapterUnderTest::of(fixture);
    let user = Account::create(fixture, &[READ]).await?;
    let other_user = Account::create(fixture, &[WRITE]).await?;
    let ended = [adapter.log_in(&user).await?, adapter.log_in(&user).await?];
    let kept = adapter.log_in(&other_user).await?;
    for session in &ended {
        adapter.is_active(session, &user, &[READ]).await?;
    }
    fixture.end_sessions_of(&user).await;
    for session in &ended {
        adapter.is_inactive(session).await?;
    }
    adapter.is_active(&kept, &other_user, &[WRITE]).await?;
    let again = adapter.log_in(&user).await?;
    adapter.is_active(&again, &user, &[READ]).await
}

/// A disabled user cannot log in. The session is inactive if the adapter states `detects_disabled`.
///
/// # Errors
///
/// [`CheckFailure`] if the adapter violates the rule.
pub async fn disabled_user_is_refused_and_the_session_is_inactive(
    fixture: &dyn Fixture,
) -> CheckResult {
    if !fixture.account_states().contains(&AccountState::Disabled) {
        return Ok(());
    }
    let adapter = AdapterUnderTest::of(fixture);
    let user = Account::create(fixture, &[READ]).await?;
    let session = adapter.log_in(&user).await?;
    adapter.is_active(&session, &user, &[READ]).await?;
    fixture.set_state(&user, AccountState::Disabled).await;
    if fixture.adapter().capabilities().detects_disabled {
        adapter.is_inactive(&session).await?;
    }
    adapter.is_refused(&user.email, &user.password).await?;
    Ok(())
}

/// A deleted user cannot log in, and logout succeeds. The session is inactive if the adapter states
/// `detects_deleted`.
///
/// # Errors
///
/// [`CheckFailure`] if the adapter violates the rule.
pub async fn deleted_user_is_refused_and_the_session_is_inactive(
    fixture: &dyn Fixture,
) -> CheckResult {
    let adapter = AdapterUnderTest::of(fixture);
    let user = Account::create(fixture, &[READ]).await?;
    let session = adapter.log_in(&user).await?;
    adapter.is_active(&session, &user, &[READ]).await?;
    fixture.delete_user(&user).await;
    if fixture.adapter().capabilities().detects_deleted {
        adapter.is_inactive(&session).await?;
    }
    adapter.is_refused(&user.email, &user.password).await?;
    adapter.end(&session).await
}

/// After a change the new password is accepted and the old one refused.
///
/// # Errors
///
/// [`CheckFailure`] if the adapter violates the rule.
pub async fn old_password_is_refused_after_a_change(fixture: &dyn Fixture) -> CheckResult {
    let adapter = AdapterUnderTest::of(fixture);
    let old = Account::create(fixture, &[READ]).await?;
    adapter.log_in(&old).await?;
    let password = SecretString::from(format!("Aa1!{}", unique_text()?));
    fixture.set_password(&old, &password).await;
    let new = Account {
        password,
        ..old.clone()
    };
    adapter.is_refused(&old.email, &old.password).await?;
    let session = adapter.log_in(&new).await?;
    adapter.is_active(&session, &new, &[READ]).await
}
