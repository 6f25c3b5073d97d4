//! Checks of introspection and logout.

use iam_adapters::types::{Introspection, UpstreamSession};
use secrecy::{ExposeSecret, SecretString};
use tokio::task::JoinSet;

use super::adapter_under_test::{AdapterUnderTest, READ, WRITE, ensure, failure, has_sessions};
use super::{Account, CheckResult, Fixture};

/// Repeated introspection returns the same result and keeps the session active.
///
/// # Errors
///
/// [`CheckFailure`] if the adapter violates the rule.
pub async fn introspection_does_not_change_the_session(fixture: &dyn Fixture) -> CheckResult {
    let adapter = AdapterUnderTest::of(fixture);
    let user = Account::create(fixture, &[READ, WRITE]).await?;
    let session = adapter.log_in(&user).await?;
    for _ in 0..50 {
        adapter.is_active(&session, &user, &[READ, WRITE]).await?;
    }
    adapter.end(&session).await?;
    if has_sessions(fixture) {
        for _ in 0..50 {
            adapter.is_inactive(&session).await?;
        }
    }
    Ok(())
}

/// A session that was ended is inactive.
///
/// # Errors
///
/// [`CheckFailure`] if the adapter violates the rule.
pub async fn ended_session_is_inactive(fixture: &dyn Fixture) -> CheckResult {
    let adapter = AdapterUnderTest::of(fixture);
    let user = Account::create(fixture, &[READ]).await?;
    let session = adapter.log_in(&user).await?;
    adapter.is_active(&session, &user, &[READ]).await?;
    adapter.end(&session).await?;
    if has_sessions(fixture) {
        adapter.is_inactive(&session).await?;
    }
    Ok(())
}

/// A session can be ended again, because the response to the first call may be lost.
///
/// # Errors
///
/// [`CheckFailure`] if the adapter violates the rule.
pub async fn ending_a_session_twice_succeeds(fixture: &dyn Fixture) -> CheckResult {
    let adapter = AdapterUnderTest::of(fixture);
    let user = Account::create(fixture, &[]).await?;
    let session = adapter.log_in(&user).await?;
    adapter.end(&session).await?;
    adapter.end(&session).await?;
    if has_sessions(fixture) {
        adapter.is_inactive(&session).await?;
    }
    Ok(())
}

/// Ending one session does not end the user's other sessions.
///
/// # Errors
///
/// [`CheckFailure`] if the adapter violates the rule.
pub async fn ending_one_session_keeps_the_others(fixture: &dyn Fixture) -> CheckResult {
    let adapter = AdapterUnderTest::of(fixture);
    let user = Account::create(fixture, &[READ]).await?;
    let other_user = Account::create(fixture, &[WRITE]).await?;
    let (ended, kept) = (adapter.log_in(&user).await?, adapter.log_in(&user).await?);
    let other_session = adapter.log_in(&other_user).await?;
    adapter.end(&ended).await?;
    if has_sessions(fixture) {
        adapter.is_inactive(&ended).await?;
    }
    adapter.is_active(&kept, &user, &[READ]).await?;
    adapter
        .is_active(&other_session, &other_user, &[WRITE])
        .await
}

/// A session is active only with its own, complete secret. A fault is also accepted. If sessions exist
/// in the session token only, its encryption authenticates them.
///
/// # Errors
///
/// [`CheckFailure`] if the adapter violates the rule.
pub async fn session_with_a_tampered_secret_is_never_active(fixture: &dyn Fixture) -> CheckResult {
    if !has_sessions(fixture) {
        return Ok(());
    }
    let adapter = AdapterUnderTest::of(fixture);
    let user = Account::create(fixture, &[READ]).await?;
    let (session, other) = (adapter.log_in(&user).await?, adapter.log_in(&user).await?);
    for forged in tampered(&session, other) {
        let answer = adapter.0.introspect(&forged).await;
        ensure(
            !matches!(answer, Ok(Introspection::Active { .. })),
            "a session is active with a wrong secret",
        )?;
    }
    adapter.is_active(&session, &user, &[READ]).await
}

/// A session cannot be ended without its secret. A fault is also accepted.
///
/// # Errors
///
/// [`CheckFailure`] if the adapter violates the rule.
pub async fn session_is_not_ended_with_a_tampered_secret(fixture: &dyn Fixture) -> CheckResult {
    let adapter = AdapterUnderTest::of(fixture);
    let user = Account::create(fixture, &[READ]).await?;
    let (session, other) = (adapter.log_in(&user).await?, adapter.log_in(&user).await?);
    for forged in tampered(&session, other) {
        // Only the state of the session matters, not the result of the call.
        drop(adapter.0.end_session(&forged).await);
        adapter.is_active(&session, &user, &[READ]).await?;
    }
    Ok(())
}

/// The session with altered secrets, and with that of another session. The last character is not altered, because in
/// base64 several last characters encode the same bits.
fn tampered(session: &UpstreamSession, other: UpstreamSession) -> Vec<UpstreamSession> {
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
        .map(SecretString::from)
        .chain([other.secret])
        .map(|secret| UpstreamSession {
            secret,
            ..session.clone()
        })
        .collect()
}

/// Concurrent calls of several users return the data of the right user.
///
/// # Errors
///
/// [`CheckFailure`] if the adapter violates the rule.
pub async fn concurrent_logins_and_introspections_are_not_mixed_up(
    fixture: &dyn Fixture,
) -> CheckResult {
    let users = [
        (Account::create(fixture, &[READ]).await?, &[READ][..]),
        (Account::create(fixture, &[WRITE]).await?, &[WRITE]),
        (Account::create(fixture, &[]).await?, &[]),
    ];
    let has_sessions = has_sessions(fixture);
    let mut tasks = JoinSet::<CheckResult>::new();
    for (user, names) in users.iter().cycle().take(12) {
        let (adapter, user, names) = (AdapterUnderTest::of(fixture), user.clone(), *names);
        tasks.spawn(async move {
            let session = adapter.log_in(&user).await?;
            for _ in 0..8 {
                adapter.is_active(&session, &user, names).await?;
            }
            adapter.end(&session).await?;
            if has_sessions {
                adapter.is_inactive(&session).await?;
            }
            Ok(())
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.map_err(|error| failure(format!("a task failed: {error}")))??;
    }
    Ok(())
}
