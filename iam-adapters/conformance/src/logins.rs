//! Checks of login.

use std::time::Duration;

use iam_adapters::error::Refusal;
use secrecy::{ExposeSecret, SecretString};

use super::adapter_under_test::{
    AdapterUnderTest, READ, WRITE, ensure, failure, permissions, unique_text,
};
use super::{Account, AccountState, CheckResult, Fixture};

/// After a login the session is active and of the user, and the data of the login is right.
///
/// # Errors
///
/// [`CheckFailure`] if the adapter violates the rule.
pub async fn session_is_active_after_login(fixture: &dyn Fixture) -> CheckResult {
    let adapter = AdapterUnderTest::of(fixture);
    let user = Account::create(fixture, &[READ, WRITE]).await?;
    let begun = adapter
        .try_log_in(&user.email, &user.password)
        .await
        .map_err(|error| failure(format!("a valid login failed: {error}")))?;
    ensure(
        begun.session.subject == user.subject,
        "the login is of another user",
    )?;
    ensure(
        begun.expires_in != Some(Duration::ZERO),
        "the session has no lifetime",
    )?;
    ensure(
        begun
            .permissions
            .is_none_or(|reported| reported == permissions(&[READ, WRITE])),
        "the login returned other permissions than the user's",
    )?;
    adapter
        .is_active(&begun.session, &user, &[READ, WRITE])
        .await
}

/// A wrong password is refused, and the right one is still accepted.
///
/// # Errors
///
/// [`CheckFailure`] if the adapter violates the rule.
pub async fn wrong_password_is_refused(fixture: &dyn Fixture) -> CheckResult {
    let adapter = AdapterUnderTest::of(fixture);
    let user = Account::create(fixture, &[READ]).await?;
    let wrong = SecretString::from("Aa1!not-the-password");
    let refusal = adapter.is_refused(&user.email, &wrong).await?;
    ensure(
        refusal == Refusal::InvalidCredentials,
        "a wrong password was refused for another reason",
    )?;
    adapter.log_in(&user).await.map(drop)
}

/// A refusal does not reveal whether an account exists.
///
/// # Errors
///
/// [`CheckFailure`] if the adapter violates the rule.
pub async fn unknown_user_and_wrong_password_are_the_same_refusal(
    fixture: &dyn Fixture,
) -> CheckResult {
    let adapter = AdapterUnderTest::of(fixture);
    let user = Account::create(fixture, &[]).await?;
    let password = SecretString::from("Aa1!not-the-password");
    let wrong = adapter.is_refused(&user.email, &password).await?;
    let unknown = format!("{}@example.test", unique_text()?);
    let unknown = adapter.is_refused(&unknown, &password).await?;
    ensure(
        wrong == unknown,
        "an unknown user and a wrong password are distinguishable",
    )
}

/// A password is neither trimmed, case-folded, truncated nor parsed.
///
/// # Errors
///
/// [`CheckFailure`] if the adapter violates the rule.
pub async fn passwords_are_compared_byte_for_byte(fixture: &dyn Fixture) -> CheckResult {
    let adapter = AdapterUnderTest::of(fixture);
    let long = "0123456789".repeat(10);
    let [long, cut] = [format!("{long}Aa!z"), format!("{long}Aa!")];
    for (right, near) in [
        (" Aa1! spaces at the ends ", "Aa1! spaces at the ends"),
        ("Aa1!pässwört-日本語-🔑", "Aa1!passwort-日本語-🔑"),
        ("Aa1!&b=c+d%20e;f#g?h\"i'j\\k", "Aa1!&b=c d e;f#g?h\"i'j\\k"),
        ("Aa1!Upper-And-Lower", "aA1!uPPER-aND-lOWER"),
        (&long, &cut),
    ] {
        // One user each: an IAM may lock an account after many wrong passwords.
        let user = Account::with_password(fixture, right, &[]).await?;
        if let Err(fault) = adapter.log_in(&user).await {
            return Err(failure(format!("with the password {right:?}: {fault}")));
        }
        if let Err(fault) = adapter.is_refused(&user.email, &near.into()).await {
            return Err(failure(format!(
                "with {near:?} in place of {right:?}: {fault}"
            )));
        }
    }
    Ok(())
}

/// Two logins begin two sessions with different ids and secrets.
///
/// # Errors
///
/// [`CheckFailure`] if the adapter violates the rule.
pub async fn every_login_is_a_new_session(fixture: &dyn Fixture) -> CheckResult {
    let adapter = AdapterUnderTest::of(fixture);
    let user = Account::create(fixture, &[READ]).await?;
    let (one, other) = (adapter.log_in(&user).await?, adapter.log_in(&user).await?);
    ensure(one.id != other.id, "two logins have one session id")?;
    ensure(
        one.secret.expose_secret() != other.secret.expose_secret(),
        "two logins have one secret",
    )?;
    adapter.is_active(&one, &user, &[READ]).await?;
    adapter.is_active(&other, &user, &[READ]).await
}

/// A disabled, locked or incomplete account is refused, with its own reason or that of a wrong password,
/// and can log in again when it is active.
///
/// # Errors
///
/// [`CheckFailure`] if the adapter violates the rule.
pub async fn inactive_account_is_refused_until_it_is_active(fixture: &dyn Fixture) -> CheckResult {
    let adapter = AdapterUnderTest::of(fixture);
    for state in fixture.account_states() {
        let own = match state {
            AccountState::Active => continue,
            AccountState::Disabled => Refusal::Disabled,
            AccountState::Locked => Refusal::Locked,
            AccountState::Incomplete => Refusal::Incomplete,
        };
        let user = Account::create(fixture, &[READ]).await?;
        fixture.set_state(&user, *state).await;
        let reason = adapter.is_refused(&user.email, &user.password).await;
        let reason = reason.map_err(|fault| failure(format!("{state:?}: {fault}")))?;
        if reason != own && reason != Refusal::InvalidCredentials {
            return Err(failure(format!("{state:?} was reported as {reason:?}")));
        }
        fixture.set_state(&user, AccountState::Active).await;
        adapter.log_in(&user).await?;
    }
    Ok(())
}
