//! Checks of the adapter itself.

use secrecy::{ExposeSecret, SecretString};

use super::adapter_under_test::{AdapterUnderTest, READ, ensure, failure, unique_text};
use super::{Account, CheckResult, Fixture};

/// Repeated probes of a healthy IAM succeed.
///
/// # Errors
///
/// [`CheckFailure`] if the adapter violates the rule.
pub async fn probe_succeeds(fixture: &dyn Fixture) -> CheckResult {
    let adapter = fixture.adapter();
    for _ in 0..3 {
        let answer = adapter.probe().await;
        answer.map_err(|error| failure(format!("the probe failed: {error}")))?;
    }
    Ok(())
}

/// The name is valid as a configuration key and a metric label, and name and issuer do not change.
///
/// # Errors
///
/// [`CheckFailure`] if the adapter violates the rule.
pub async fn name_and_issuer_do_not_change(fixture: &dyn Fixture) -> CheckResult {
    let adapter = AdapterUnderTest::of(fixture);
    let name = adapter.0.name();
    let issuer = adapter.0.issuer().to_owned();
    ensure(
        !name.is_empty()
            && name
                .bytes()
                .all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_')),
        "the name is not in lower case letters, digits and underscores",
    )?;
    ensure(!issuer.is_empty(), "the issuer is empty")?;
    let user = Account::create(fixture, &[READ]).await?;
    let session = adapter.log_in(&user).await?;
    adapter.end(&session).await?;
    ensure(adapter.0.name() == name, "the name changed")?;
    ensure(adapter.0.issuer() == issuer, "the issuer changed")
}

/// `Debug` of the adapter, a login and a refusal contains no password and no secret.
///
/// # Errors
///
/// [`CheckFailure`] if the adapter violates the rule.
pub async fn debug_shows_no_secret(fixture: &dyn Fixture) -> CheckResult {
    let adapter = AdapterUnderTest::of(fixture);
    let user = Account::create(fixture, &[READ]).await?;
    let wrong = SecretString::from(unique_text()?);
    let refused = adapter.try_log_in(&user.email, &wrong).await;
    let session = adapter.log_in(&user).await?;
    let answer = adapter.introspect(&session).await?;
    let shown = format!("{:?} {refused:?} {session:?} {answer:?}", adapter.0);
    for secret in [&user.password, &wrong, &session.secret] {
        ensure(
            !shown.contains(secret.expose_secret()),
            "Debug shows a password or a secret",
        )?;
    }
    // At some IAMs the address is the user's id, which the log has.
    ensure(
        user.subject.as_str() == user.email || !shown.contains(&user.email),
        "Debug shows the address of a user",
    )
}

/// An adapter has an audience of logout tokens if and only if it states back-channel logout.
///
/// # Errors
///
/// [`CheckFailure`] if the adapter violates the rule.
pub async fn capabilities_agree_with_the_logout_audience(fixture: &dyn Fixture) -> CheckResult {
    let adapter = fixture.adapter();
    ensure(
        adapter.capabilities().back_channel_logout == adapter.logout_audience().is_some(),
        "the capabilities and the logout audience contradict each other",
    )
}
