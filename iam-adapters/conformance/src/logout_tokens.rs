//! Promises about the logout tokens that an IAM sends (OpenID Connect Back-Channel Logout 1.0).
//! Where the IAM sends none, or the fixture has none to give, nothing is judged.

use std::sync::Arc;

use iam_adapters::clock::SystemClock;
use iam_adapters::logout_token::{Ended, LogoutNotice, LogoutTokenError, LogoutTokens};
use iam_adapters::types::UpstreamSession;

use super::expect::{Asked, breach, hold};
use super::{Account, Breach, Fixture, Verdict};

/// Verified with the keys that the adapter gives, the token is about the session that ended.
///
/// # Errors
///
/// How the promise is broken.
pub async fn a_logout_token_names_the_session_that_ended_and_no_other(
    fixture: &dyn Fixture,
) -> Verdict {
    if !fixture.adapter().capabilities().back_channel_logout {
        return Ok(());
    }
    let asked = Asked::of(fixture);
    let user = Account::create(fixture, &[]).await?;
    let (ended, kept) = (asked.log_in(&user).await?, asked.log_in(&user).await?);
    let tokens = fixture.end_session(&user, &ended).await;
    if tokens.is_empty() {
        return Ok(());
    }
    let notices = notices(fixture, &tokens).await?;
    hold(
        named(&notices, &user, &ended),
        "a session ended, and no logout token names it",
    )?;
    hold(
        !named(&notices, &user, &kept),
        "a logout token names a session that lives",
    )
}

/// Verified with the keys that the adapter gives, the tokens are about all that ended.
///
/// # Errors
///
/// How the promise is broken.
pub async fn logout_tokens_name_every_session_of_a_user_logged_out_everywhere(
    fixture: &dyn Fixture,
) -> Verdict {
    if !fixture.adapter().capabilities().back_channel_logout {
        return Ok(());
    }
    let asked = Asked::of(fixture);
    let user = Account::create(fixture, &[]).await?;
    let neighbour = Account::create(fixture, &[]).await?;
    let ended = [asked.log_in(&user).await?, asked.log_in(&user).await?];
    let kept = asked.log_in(&neighbour).await?;
    let tokens = fixture.end_sessions_of(&user).await;
    if tokens.is_empty() {
        return Ok(());
    }
    let notices = notices(fixture, &tokens).await?;
    for session in &ended {
        hold(
            named(&notices, &user, session),
            "a session ended with all others, and no logout token names it",
        )?;
    }
    hold(
        !named(&notices, &neighbour, &kept),
        "a logout token names the session of another user",
    )
}

/// A token that is not as the IAM signed it is called invalid, and nothing else is.
///
/// # Errors
///
/// How the promise is broken.
pub async fn an_altered_logout_token_is_refused(fixture: &dyn Fixture) -> Verdict {
    if !fixture.adapter().capabilities().back_channel_logout {
        return Ok(());
    }
    let asked = Asked::of(fixture);
    let mut tokens = Vec::new();
    for _ in 0..2 {
        let user = Account::create(fixture, &[]).await?;
        let session = asked.log_in(&user).await?;
        tokens.extend(fixture.end_session(&user, &session).await);
    }
    let [one, other] = &tokens[..] else {
        return hold(
            tokens.is_empty(),
            "the end of one session is told by more logout tokens than one",
        );
    };
    let verifier = verifier(fixture)?;
    // The claims of the one with the signature of the other.
    let mixed = one.rsplit_once('.').zip(other.rsplit_once('.'));
    let mixed = mixed.map(|((claims, _), (_, signature))| format!("{claims}.{signature}"));
    let unsigned = one.rsplit_once('.').map(|(claims, _)| format!("{claims}."));
    for altered in [mixed, unsigned].into_iter().flatten() {
        match verifier.verify(&altered).await {
            Err(LogoutTokenError::Invalid(_)) => {}
            Err(error) => return Err(breach(format!("an altered token met a fault: {error}"))),
            Ok(_) => return Err(breach("an altered token is accepted")),
        }
    }
    Ok(())
}

fn verifier(fixture: &dyn Fixture) -> Result<LogoutTokens, Breach> {
    LogoutTokens::of(fixture.adapter(), Arc::new(SystemClock::default()))
        .ok_or_else(|| breach("the IAM sends logout tokens, and the adapter says that it does not"))
}

async fn notices(fixture: &dyn Fixture, tokens: &[String]) -> Result<Vec<LogoutNotice>, Breach> {
    let verifier = verifier(fixture)?;
    let mut notices = Vec::new();
    for token in tokens {
        let notice = verifier.verify(token).await;
        let why = |error| breach(format!("a genuine logout token is not accepted: {error}"));
        notices.push(notice.map_err(why)?);
    }
    Ok(notices)
}

fn named(notices: &[LogoutNotice], user: &Account, session: &UpstreamSession) -> bool {
    notices.iter().any(|notice| match &notice.ended {
        Ended::Session(id) => *id == session.id,
        Ended::AllOf(subject) => *subject == user.subject,
    })
}
