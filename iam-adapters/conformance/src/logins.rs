//! Promises about logging in.

use std::time::Duration;

use iam_adapters::error::Refusal;
use secrecy::{ExposeSecret, SecretString};

use super::expect::{Asked, READ, WRITE, breach, hold, permissions, unheard_of};
use super::{Account, AccountState, Fixture, Verdict};

/// After a login the session is the user's and alive, and what the login told is true.
///
/// # Errors
///
/// How the promise is broken.
pub async fn a_session_is_active_after_login(fixture: &dyn Fixture) -> Verdict {
    let asked = Asked::of(fixture);
    let user = Account::create(fixture, &[READ, WRITE]).await?;
    let begun = asked
        .try_log_in(&user.email, &user.password)
        .await
        .map_err(|error| breach(format!("a rightful login failed: {error}")))?;
    hold(
        begun.session.subject == user.subject,
        "the login is another user's",
    )?;
    hold(
        begun.expires_in != Some(Duration::ZERO),
        "the session has no time to live",
    )?;
    hold(
        begun
            .permissions
            .is_none_or(|told| told == permissions(&[READ, WRITE])),
        "the login told other permissions than the user's",
    )?;
    asked.is_active(&begun.session, &user, &[READ, WRITE]).await
}

/// A wrong password is refused as such, and does not keep the right one out.
///
/// # Errors
///
/// How the promise is broken.
pub async fn a_wrong_password_is_refused(fixture: &dyn Fixture) -> Verdict {
    let asked = Asked::of(fixture);
    let user = Account::create(fixture, &[READ]).await?;
    let wrong = SecretString::from("Aa1!not-the-password");
    let refusal = asked.is_refused(&user.email, &wrong).await?;
    hold(
        refusal == Refusal::InvalidCredentials,
        "a wrong password was refused for another reason",
    )?;
    asked.log_in(&user).await.map(drop)
}

/// Nobody learns from a refusal who has an account.
///
/// # Errors
///
/// How the promise is broken.
pub async fn unknown_and_wrong_are_the_same_refusal(fixture: &dyn Fixture) -> Verdict {
    let asked = Asked::of(fixture);
    let user = Account::create(fixture, &[]).await?;
    let password = SecretString::from("Aa1!not-the-password");
    let wrong = asked.is_refused(&user.email, &password).await?;
    let stranger = format!("{}@example.test", unheard_of()?);
    let unknown = asked.is_refused(&stranger, &password).await?;
    hold(
        wrong == unknown,
        "an unknown user and a wrong password are told apart",
    )
}

/// No password is trimmed, folded, cut or mistaken for syntax on its way.
///
/// # Errors
///
/// How the promise is broken.
pub async fn passwords_are_taken_byte_for_byte(fixture: &dyn Fixture) -> Verdict {
    let asked = Asked::of(fixture);
    let long = "0123456789".repeat(10);
    let [long, cut] = [format!("{long}Aa!z"), format!("{long}Aa!")];
    for (right, near) in [
        (" Aa1! spaces at the ends ", "Aa1! spaces at the ends"),
        ("Aa1!pässwört-日本語-🔑", "Aa1!passwort-日本語-🔑"),
        ("Aa1!&b=c+d%20e;f#g?h\"i'j\\k", "Aa1!&b=c d e;f#g?h\"i'j\\k"),
        ("Aa1!Upper-And-Lower", "aA1!uPPER-aND-lOWER"),
        (&long, &cut),
    ] {
        // A user for each: an IAM may lock an account that sees many wrong passwords.
        let user = Account::with_password(fixture, right, &[]).await?;
        if let Err(fault) = asked.log_in(&user).await {
            return Err(breach(format!("with the password {right:?}: {fault}")));
        }
        if let Err(fault) = asked.is_refused(&user.email, &near.into()).await {
            return Err(breach(format!(
                "with {near:?} in place of {right:?}: {fault}"
            )));
        }
    }
    Ok(())
}

/// Two logins are two sessions, with nothing in common but the user.
///
/// # Errors
///
/// How the promise is broken.
pub async fn every_login_is_a_new_session(fixture: &dyn Fixture) -> Verdict {
    let asked = Asked::of(fixture);
    let user = Account::create(fixture, &[READ]).await?;
    let (one, other) = (asked.log_in(&user).await?, asked.log_in(&user).await?);
    hold(one.id != other.id, "two logins have one session id")?;
    hold(
        one.secret.expose_secret() != other.secret.expose_secret(),
        "two logins have one secret",
    )?;
    asked.is_active(&one, &user, &[READ]).await?;
    asked.is_active(&other, &user, &[READ]).await
}

/// An account that is disabled, locked or incomplete is refused, with its own reason or the
/// common one, and logs in again once it is active.
///
/// # Errors
///
/// How the promise is broken.
pub async fn an_account_kept_out_is_refused_until_it_is_let_in(fixture: &dyn Fixture) -> Verdict {
    let asked = Asked::of(fixture);
    for state in fixture.account_states() {
        let own = match state {
            AccountState::Active => continue,
            AccountState::Disabled => Refusal::Disabled,
            AccountState::Locked => Refusal::Locked,
            AccountState::Incomplete => Refusal::Incomplete,
        };
        let user = Account::create(fixture, &[READ]).await?;
        fixture.set_state(&user, *state).await;
        let told = asked.is_refused(&user.email, &user.password).await;
        let told = told.map_err(|fault| breach(format!("{state:?}: {fault}")))?;
        if told != own && told != Refusal::InvalidCredentials {
            return Err(breach(format!("{state:?} was told as {told:?}")));
        }
        fixture.set_state(&user, AccountState::Active).await;
        asked.log_in(&user).await?;
    }
    Ok(())
}
