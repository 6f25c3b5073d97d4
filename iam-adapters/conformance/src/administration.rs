//! Promises about what an administrator does at the IAM while sessions live.

use iam_adapters::PermissionAge;
use secrecy::SecretString;

use super::expect::{Asked, READ, WRITE, has_sessions, permissions, unheard_of};
use super::{Account, AccountState, Fixture, Verdict};

/// What is given or taken is in the very next answer, without a new login; or, where the permissions
/// are those of the login, in the answers about the next one alone.
///
/// # Errors
///
/// How the promise is broken.
pub async fn permissions_are_those_of_now(fixture: &dyn Fixture) -> Verdict {
    let asked = Asked::of(fixture);
    let user = Account::create(fixture, &[READ]).await?;
    let session = asked.log_in(&user).await?;
    asked.is_active(&session, &user, &[READ]).await?;
    let age = fixture.adapter().capabilities().permissions;
    for names in [&[READ, WRITE][..], &[WRITE], &[], &[READ]] {
        fixture.set_permissions(&user, &permissions(names)).await;
        match age {
            PermissionAge::Current => asked.is_active(&session, &user, names).await?,
            PermissionAge::Login => {
                asked.is_active(&session, &user, &[READ]).await?;
                let next = asked.log_in(&user).await?;
                asked.is_active(&next, &user, names).await?;
            }
        }
    }
    Ok(())
}

/// A session that the administrator ended is over, may be ended again, and was the only one.
///
/// # Errors
///
/// How the promise is broken.
pub async fn an_ended_session_is_inactive_even_when_the_administrator_did_it(
    fixture: &dyn Fixture,
) -> Verdict {
    if !has_sessions(fixture) {
        return Ok(());
    }
    let asked = Asked::of(fixture);
    let user = Account::create(fixture, &[READ]).await?;
    let (ended, kept) = (asked.log_in(&user).await?, asked.log_in(&user).await?);
    asked.is_active(&ended, &user, &[READ]).await?;
    fixture.end_session(&user, &ended).await;
    asked.is_inactive(&ended).await?;
    asked.is_active(&kept, &user, &[READ]).await?;
    asked.end(&ended).await
}

/// All sessions of one user are over, those of another live on, and a new login is welcome.
///
/// # Errors
///
/// How the promise is broken.
pub async fn all_sessions_of_a_user_end_when_the_administrator_says_so(
    fixture: &dyn Fixture,
) -> Verdict {
    if !has_sessions(fixture) {
        return Ok(());
    }
    let asked = Asked::of(fixture);
    let user = Account::create(fixture, &[READ]).await?;
    let neighbour = Account::create(fixture, &[WRITE]).await?;
    let ended = [asked.log_in(&user).await?, asked.log_in(&user).await?];
    let kept = asked.log_in(&neighbour).await?;
    for session in &ended {
        asked.is_active(session, &user, &[READ]).await?;
    }
    fixture.end_sessions_of(&user).await;
    for session in &ended {
        asked.is_inactive(session).await?;
    }
    asked.is_active(&kept, &neighbour, &[WRITE]).await?;
    let again = asked.log_in(&user).await?;
    asked.is_active(&again, &user, &[READ]).await
}

/// A disabled user does not log in, and does not go on where the IAM notices it.
///
/// # Errors
///
/// How the promise is broken.
pub async fn a_disabled_user_is_refused_and_their_session_inactive(
    fixture: &dyn Fixture,
) -> Verdict {
    if !fixture.account_states().contains(&AccountState::Disabled) {
        return Ok(());
    }
    let asked = Asked::of(fixture);
    let user = Account::create(fixture, &[READ]).await?;
    let session = asked.log_in(&user).await?;
    asked.is_active(&session, &user, &[READ]).await?;
    fixture.set_state(&user, AccountState::Disabled).await;
    if fixture.adapter().capabilities().detects_disabled {
        asked.is_inactive(&session).await?;
    }
    asked.is_refused(&user.email, &user.password).await?;
    Ok(())
}

/// A deleted user neither logs in nor goes on, and still may log out.
///
/// # Errors
///
/// How the promise is broken.
pub async fn a_deleted_user_is_refused_and_their_session_inactive(
    fixture: &dyn Fixture,
) -> Verdict {
    let asked = Asked::of(fixture);
    let user = Account::create(fixture, &[READ]).await?;
    let session = asked.log_in(&user).await?;
    asked.is_active(&session, &user, &[READ]).await?;
    fixture.delete_user(&user).await;
    asked.is_inactive(&session).await?;
    asked.is_refused(&user.email, &user.password).await?;
    asked.end(&session).await
}

/// After a change the new password is right and the old one wrong.
///
/// # Errors
///
/// How the promise is broken.
pub async fn a_password_change_refuses_the_old_one(fixture: &dyn Fixture) -> Verdict {
    let asked = Asked::of(fixture);
    let old = Account::create(fixture, &[READ]).await?;
    asked.log_in(&old).await?;
    let password = SecretString::from(format!("Aa1!{}", unheard_of()?));
    fixture.set_password(&old, &password).await;
    let new = Account {
        password,
        ..old.clone()
    };
    asked.is_refused(&old.email, &old.password).await?;
    let session = asked.log_in(&new).await?;
    asked.is_active(&session, &new, &[READ]).await
}
