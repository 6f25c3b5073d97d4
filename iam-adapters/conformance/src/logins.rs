//! Checks of login.

use std::time::Duration;

use iam_adapters::error::{IamError, Refusal};
use secrecy::{ExposeSecret, SecretString};

use super::adapter_under_test::{
    AdapterUnderTest, READ, WRITE, ensure, failure, has_sessions, permissions, unique_text,
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

/// Two logins begin two sessions; if sessions exist at the IAM, with different ids and secrets.
///
/// # Errors
///
/// [`CheckFailure`] if the adapter violates the rule.
pub async fn every_login_is_a_new_session(fixture: &dyn Fixture) -> CheckResult {
    let adapter = AdapterUnderTest::of(fixture);
    let user = Account::create(fixture, &[READ]).await?;
    let (one, other) = (adapter.log_in(&user).await?, adapter.log_in(&user).await?);
    if has_sessions(fixture) {
        ensure(one.id != other.id, "two logins have one session id")?;
        ensure(
            one.secret.expose_secret() != other.secret.expose_secret(),
            "two logins have one secret",
        )?;
    }
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

/// A user with one-time passwords needs the right one with the right password, and can use each once. All
/// refusals have one reason.
///
/// # Errors
///
/// [`CheckFailure`] if the adapter violates the rule.
pub async fn one_time_password_is_required_and_accepted_once(fixture: &dyn Fixture) -> CheckResult {
    if !fixture.adapter().capabilities().one_time_password {
        return Ok(());
    }
    let adapter = AdapterUnderTest::of(fixture);
    let email = format!("{}@example.test", unique_text()?);
    let right = SecretString::from(format!("Aa1!{}", unique_text()?));
    let subject = fixture.create_user_with_otp(&email, &right).await;
    let wrong = SecretString::from("Aa1!not-the-password");
    let otp = fixture.otp();
    let other = other_otp(&otp);
    for (why, password, otp, is_accepted) in [
        ("no one-time password", &right, None, false),
        ("a wrong one-time password", &right, Some(&other), false),
        ("a wrong password", &wrong, Some(&otp), false),
        ("the right one-time password", &right, Some(&otp), true),
        ("the same one-time password", &right, Some(&otp), false),
    ] {
        match adapter.try_log_in_with(&email, password, otp).await {
            Ok(begun) if is_accepted => ensure(
                begun.session.subject == subject,
                "the login is of another user",
            )?,
            Err(IamError::Refused(Refusal::InvalidCredentials)) if !is_accepted => {}
            Ok(_) => return Err(failure(format!("a login with {why} succeeded"))),
            Err(error) => return Err(failure(format!("a login with {why}: {error}"))),
        }
    }
    Ok(())
}

/// An application that does not know which users have one-time passwords can ask all of them.
///
/// # Errors
///
/// [`CheckFailure`] if the adapter violates the rule.
pub async fn one_time_password_of_a_user_without_one_is_ignored(
    fixture: &dyn Fixture,
) -> CheckResult {
    if !fixture.adapter().capabilities().one_time_password {
        return Ok(());
    }
    let adapter = AdapterUnderTest::of(fixture);
    let user = Account::create(fixture, &[]).await?;
    let otp = fixture.otp();
    let login = adapter.try_log_in_with(&user.email, &user.password, Some(&otp));
    let login = login.await.map(drop);
    login.map_err(|error| failure(format!("a valid login failed: {error}")))
}

/// Differs in every digit.
fn other_otp(otp: &SecretString) -> SecretString {
    let digits = otp.expose_secret().chars();
    let others = digits.map(|digit| if digit == '0' { '5' } else { '0' });
    others.collect::<String>().into()
}
