//! Checks of the logout tokens that an IAM sends (OpenID Connect Back-Channel Logout 1.0). They do
//! nothing if the IAM sends none or the fixture cannot receive them.

use std::sync::Arc;

use iam_adapters::clock::SystemClock;
use iam_adapters::logout_token::{Ended, LogoutNotice, LogoutTokenError, LogoutTokens};
use iam_adapters::types::UpstreamSession;

use super::adapter_under_test::{AdapterUnderTest, ensure, failure};
use super::{Account, CheckFailure, CheckResult, Fixture};

/// The token, verified with the adapter's keys, is about the session that ended.
///
/// # Errors
///
/// [`CheckFailure`] if the adapter violates the rule.
pub async fn logout_token_identifies_the_ended_session_only(fixture: &dyn Fixture) -> CheckResult {
    if !fixture.adapter().capabilities().back_channel_logout {
        return Ok(());
    }
    let adapter = AdapterUnderTest::of(fixture);
    let user = Account::create(fixture, &[]).await?;
    let (ended, kept) = (adapter.log_in(&user).await?, adapter.log_in(&user).await?);
    let tokens = fixture.end_session(&user, &ended).await;
    if tokens.is_empty() {
        return Ok(());
    }
    let notices = notices(fixture, &tokens).await?;
    ensure(
        identified(&notices, &user, &ended),
        "no logout token identifies a session that ended",
    )?;
    ensure(
        !identified(&notices, &user, &kept),
        "a logout token identifies an active session",
    )
}

/// The tokens, verified with the adapter's keys, are about all sessions that ended.
///
/// # Errors
///
/// [`CheckFailure`] if the adapter violates the rule.
pub async fn logout_tokens_identify_every_ended_session_of_a_user(
    fixture: &dyn Fixture,
) -> CheckResult {
    if !fixture.adapter().capabilities().back_channel_logout {
        return Ok(());
    }
    let adapter = AdapterUnderTest::of(fixture);
    let user = Account::create(fixture, &[]).await?;
    let other_user = Account::create(fixture, &[]).await?;
    let ended = [adapter.log_in(&user).await?, adapter.log_in(&user).await?];
    let kept = adapter.log_in(&other_user).await?;
    let tokens = fixture.end_sessions_of(&user).await;
    if tokens.is_empty() {
        return Ok(());
    }
    let notices = notices(fixture, &tokens).await?;
    for session in &ended {
        ensure(
            identified(&notices, &user, session),
            "no logout token identifies one of the sessions that ended",
        )?;
    }
    ensure(
        !identified(&notices, &other_user, &kept),
        "a logout token identifies the session of another user",
    )
}

/// An altered token is invalid, and not a fault.
///
/// # Errors
///
/// [`CheckFailure`] if the adapter violates the rule.
pub async fn altered_logout_token_is_refused(fixture: &dyn Fixture) -> CheckResult {
    if !fixture.adapter().capabilities().back_channel_logout {
        return Ok(());
    }
    let adapter = AdapterUnderTest::of(fixture);
    let mut tokens = Vec::new();
    for _ in 0..2 {
        let user = Account::create(fixture, &[]).await?;
        let session = adapter.log_in(&user).await?;
        tokens.extend(fixture.end_session(&user, &session).await);
    }
    let [one, other] = &tokens[..] else {
        return ensure(
            tokens.is_empty(),
            "the IAM sends more than one logout token for one session",
        );
    };
    let verifier = verifier(fixture)?;
    // The claims of one token with the signature of the other.
    let mixed = one.rsplit_once('.').zip(other.rsplit_once('.'));
    let mixed = mixed.map(|((claims, _), (_, signature))| format!("{claims}.{signature}"));
    let unsigned = one.rsplit_once('.').map(|(claims, _)| format!("{claims}."));
    for altered in [mixed, unsigned].into_iter().flatten() {
        match verifier.verify(&altered).await {
            Err(LogoutTokenError::Invalid(_)) => {}
            Err(error) => return Err(failure(format!("an altered token caused a fault: {error}"))),
            Ok(_) => return Err(failure("an altered token is accepted")),
        }
    }
    Ok(())
}

fn verifier(fixture: &dyn Fixture) -> Result<LogoutTokens, CheckFailure> {
    LogoutTokens::of(fixture.adapter(), Arc::new(SystemClock::default())).ok_or_else(|| {
        failure("the IAM sends logout tokens, but the adapter has no audience for them")
    })
}

async fn notices(
    fixture: &dyn Fixture,
    tokens: &[String],
) -> Result<Vec<LogoutNotice>, CheckFailure> {
    let verifier = verifier(fixture)?;
    let mut notices = Vec::new();
    for token in tokens {
        let notice = verifier.verify(token).await;
        let why = |error| failure(format!("a valid logout token is refused: {error}"));
        notices.push(notice.map_err(why)?);
    }
    Ok(notices)
}

fn identified(notices: &[LogoutNotice], user: &Account, session: &UpstreamSession) -> bool {
    notices.iter().any(|notice| match &notice.ended {
        Ended::Session(id) => *id == session.id,
        Ended::AllOf(subject) => *subject == user.subject,
    })
}
