//! Promises about the adapter itself.

use secrecy::{ExposeSecret, SecretString};

use super::expect::{Asked, READ, breach, hold, unheard_of};
use super::{Account, Fixture, Verdict};

/// A healthy IAM is told as healthy, as often as one asks.
///
/// # Errors
///
/// How the promise is broken.
pub async fn probe_succeeds(fixture: &dyn Fixture) -> Verdict {
    let adapter = fixture.adapter();
    for _ in 0..3 {
        let answer = adapter.probe().await;
        answer.map_err(|error| breach(format!("the probe failed: {error}")))?;
    }
    Ok(())
}

/// The name is one that a configuration key and a metric can bear, and neither it nor the issuer
/// changes.
///
/// # Errors
///
/// How the promise is broken.
pub async fn names_do_not_change(fixture: &dyn Fixture) -> Verdict {
    let asked = Asked::of(fixture);
    let name = asked.0.name();
    let issuer = asked.0.issuer().to_owned();
    hold(
        !name.is_empty()
            && name
                .bytes()
                .all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_')),
        "the name is not in lower case letters, digits and underscores",
    )?;
    hold(!issuer.is_empty(), "the issuer is empty")?;
    let user = Account::create(fixture, &[READ]).await?;
    let session = asked.log_in(&user).await?;
    asked.end(&session).await?;
    hold(asked.0.name() == name, "the name changed")?;
    hold(asked.0.issuer() == issuer, "the issuer changed")
}

/// What an adapter shows of itself, of a login and of a refusal holds no password and no secret.
///
/// # Errors
///
/// How the promise is broken.
pub async fn debug_shows_no_secret(fixture: &dyn Fixture) -> Verdict {
    let asked = Asked::of(fixture);
    let user = Account::create(fixture, &[READ]).await?;
    let wrong = SecretString::from(unheard_of()?);
    let refused = asked.try_log_in(&user.email, &wrong).await;
    let session = asked.log_in(&user).await?;
    let answer = asked.introspect(&session).await?;
    let shown = format!("{:?} {refused:?} {session:?} {answer:?}", asked.0);
    for secret in [&user.password, &wrong, &session.secret] {
        hold(
            !shown.contains(secret.expose_secret()),
            "Debug shows a password or a secret",
        )?;
    }
    hold(
        !shown.contains(&user.email),
        "Debug shows the address of a user",
    )
}

/// An adapter that states back-channel logout names the audience of logout tokens, and no other does.
///
/// # Errors
///
/// How the promise is broken.
pub async fn capabilities_agree_with_the_logout_audience(fixture: &dyn Fixture) -> Verdict {
    let adapter = fixture.adapter();
    hold(
        adapter.capabilities().back_channel_logout == adapter.logout_audience().is_some(),
        "the capabilities and the logout audience contradict each other",
    )
}
