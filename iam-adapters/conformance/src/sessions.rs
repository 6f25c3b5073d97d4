//! Promises about asking after sessions, and ending them.

use iam_adapters::types::{Introspection, UpstreamSession};
use secrecy::{ExposeSecret, SecretString};
use tokio::task::JoinSet;

use super::expect::{Asked, READ, WRITE, breach, has_sessions, hold};
use super::{Account, Fixture, Verdict};

/// Asking again and again, the answer stays the same, and the session too.
///
/// # Errors
///
/// How the promise is broken.
pub async fn introspection_changes_nothing(fixture: &dyn Fixture) -> Verdict {
    let asked = Asked::of(fixture);
    let user = Account::create(fixture, &[READ, WRITE]).await?;
    let session = asked.log_in(&user).await?;
    for _ in 0..50 {
        asked.is_active(&session, &user, &[READ, WRITE]).await?;
    }
    asked.end(&session).await?;
    if has_sessions(fixture) {
        for _ in 0..50 {
            asked.is_inactive(&session).await?;
        }
    }
    Ok(())
}

/// Once ended, a session is over.
///
/// # Errors
///
/// How the promise is broken.
pub async fn an_ended_session_is_inactive(fixture: &dyn Fixture) -> Verdict {
    let asked = Asked::of(fixture);
    let user = Account::create(fixture, &[READ]).await?;
    let session = asked.log_in(&user).await?;
    asked.is_active(&session, &user, &[READ]).await?;
    asked.end(&session).await?;
    if has_sessions(fixture) {
        asked.is_inactive(&session).await?;
    }
    Ok(())
}

/// A session may be ended again: the answer to the first time may have been lost.
///
/// # Errors
///
/// How the promise is broken.
pub async fn ending_twice_is_a_success(fixture: &dyn Fixture) -> Verdict {
    let asked = Asked::of(fixture);
    let user = Account::create(fixture, &[]).await?;
    let session = asked.log_in(&user).await?;
    asked.end(&session).await?;
    asked.end(&session).await?;
    if has_sessions(fixture) {
        asked.is_inactive(&session).await?;
    }
    Ok(())
}

/// Logging out in one place is not logging out everywhere.
///
/// # Errors
///
/// How the promise is broken.
pub async fn ending_one_session_leaves_the_others(fixture: &dyn Fixture) -> Verdict {
    let asked = Asked::of(fixture);
    let user = Account::create(fixture, &[READ]).await?;
    let neighbour = Account::create(fixture, &[WRITE]).await?;
    let (ended, kept) = (asked.log_in(&user).await?, asked.log_in(&user).await?);
    let neighbours = asked.log_in(&neighbour).await?;
    asked.end(&ended).await?;
    if has_sessions(fixture) {
        asked.is_inactive(&ended).await?;
    }
    asked.is_active(&kept, &user, &[READ]).await?;
    asked.is_active(&neighbours, &neighbour, &[WRITE]).await
}

/// Only the whole secret, of this very session, proves it. A fault is a fair answer too. Where
/// sessions exist in the session token alone, its seal proves them.
///
/// # Errors
///
/// How the promise is broken.
pub async fn a_tampered_secret_is_never_active(fixture: &dyn Fixture) -> Verdict {
    if !has_sessions(fixture) {
        return Ok(());
    }
    let asked = Asked::of(fixture);
    let user = Account::create(fixture, &[READ]).await?;
    let (session, other) = (asked.log_in(&user).await?, asked.log_in(&user).await?);
    let mut forged = tampered(&session);
    forged.push(UpstreamSession {
        secret: other.secret,
        ..session.clone()
    });
    for forged in &forged {
        let answer = asked.0.introspect(forged).await;
        hold(
            !matches!(answer, Ok(Introspection::Active { .. })),
            "a session is active with a secret that is not its own",
        )?;
    }
    asked.is_active(&session, &user, &[READ]).await
}

/// Nobody ends a session without its secret. A fault is a fair answer too.
///
/// # Errors
///
/// How the promise is broken.
pub async fn a_tampered_secret_ends_nothing(fixture: &dyn Fixture) -> Verdict {
    let asked = Asked::of(fixture);
    let user = Account::create(fixture, &[READ]).await?;
    let session = asked.log_in(&user).await?;
    for forged in tampered(&session) {
        // Whatever the answer is, what counts is the session.
        drop(asked.0.end_session(&forged).await);
        asked.is_active(&session, &user, &[READ]).await?;
    }
    Ok(())
}

/// The session with secrets that are nearly its own. The very last character is left alone: in
/// base64 two last characters may stand for the same bits.
fn tampered(session: &UpstreamSession) -> Vec<UpstreamSession> {
    let secret: Vec<char> = session.secret.expose_secret().chars().collect();
    let with = |position: usize| {
        let other = |c: &char| if *c == 'A' { 'B' } else { 'A' };
        let turned = secret.iter().enumerate();
        turned
            .map(|(at, c)| if at == position { other(c) } else { *c })
            .collect::<String>()
    };
    let half = secret.iter().take(secret.len() / 2).collect();
    [with(0), with(secret.len() / 2), half, String::new()]
        .into_iter()
        .map(|secret| UpstreamSession {
            secret: SecretString::from(secret),
            ..session.clone()
        })
        .collect()
}

/// Many users at once each get their own answers.
///
/// # Errors
///
/// How the promise is broken.
pub async fn concurrent_logins_and_introspections_agree(fixture: &dyn Fixture) -> Verdict {
    let users = [
        (Account::create(fixture, &[READ]).await?, &[READ][..]),
        (Account::create(fixture, &[WRITE]).await?, &[WRITE]),
        (Account::create(fixture, &[]).await?, &[]),
    ];
    let has_sessions = has_sessions(fixture);
    let mut lives = JoinSet::<Verdict>::new();
    for (user, names) in users.iter().cycle().take(12) {
        let (asked, user, names) = (Asked::of(fixture), user.clone(), *names);
        lives.spawn(async move {
            let session = asked.log_in(&user).await?;
            for _ in 0..8 {
                asked.is_active(&session, &user, names).await?;
            }
            asked.end(&session).await?;
            if has_sessions {
                asked.is_inactive(&session).await?;
            }
            Ok(())
        });
    }
    while let Some(life) = lives.join_next().await {
        life.map_err(|error| breach(format!("a task failed: {error}")))??;
    }
    Ok(())
}
