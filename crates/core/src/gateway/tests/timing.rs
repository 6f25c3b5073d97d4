//! The steps of a refusal do not depend on its reason.

use std::time::Duration;

use super::steps::{self, Step};
use super::test_gateway::{Session, TestGateway, policy};
use crate::error::InvalidSession;
use crate::revocations::RevocationKind;
use crate::revoked_sessions::RevokedSessions;
use crate::session::TOKEN_BYTES_MAX;
use test_support::scripted_iam::ScriptedIam;

/// A gateway with a revocation of every kind, so that a look-up derives every id.
async fn gateway_with_revocations() -> TestGateway {
    let iam = ScriptedIam {
        secret_padding: 600,
        ..ScriptedIam::default()
    };
    let gateway = TestGateway::with(iam, policy());
    add_a_revocation_of_every_kind(&gateway).await;
    gateway
}

async fn add_a_revocation_of_every_kind(gateway: &TestGateway) {
    let other = gateway.log_in("bob").await;
    gateway.log_out(&other).await.unwrap();
    gateway.end_upstream_session("another");
    gateway.end_sessions_of("another", 0);
    let all_before = RevokedSessions::OfIam {
        iam: None,
        begun_until: Some(0),
    };
    gateway
        .inner
        .session_revoker
        .revoke(&all_before)
        .unwrap()
        .await;
}

fn altered(text: &str, at: usize) -> String {
    let other = if &text[at..=at] == "A" { "B" } else { "A" };
    with(text, at, other)
}

fn with(text: &str, at: usize, other: &str) -> String {
    format!("{}{other}{}", &text[..at], &text[at + other.len()..])
}

/// Invalid pairs of id and token for every reason, with tokens of one length.
async fn invalid_pairs(gateway: &TestGateway, good: &Session) -> Vec<(InvalidSession, Session)> {
    use InvalidSession::{Malformed, Mismatch, Tampered, UnknownKey};
    let token = &good.token;
    let dots: Vec<_> = token.match_indices('.').map(|(at, _)| at).collect();
    let [_, nonce, text, tag] = dots[..] else {
        panic!("not four dots");
    };
    let tokens = [
        (Malformed, "x".repeat(token.len())),
        (Malformed, token.replace('.', "_")),
        (Malformed, with(token, token.len() - 1, ".")),
        (Malformed, with(token, nonce + 1, "*")),
        (Malformed, with(token, text + 9, "*")),
        (Malformed, with(token, tag + 1, "=")),
        (UnknownKey, altered(token, 20)),
        (Tampered, altered(token, nonce + 1)),
        (Tampered, altered(token, text + 1)),
        (Tampered, altered(token, tag + 1)),
    ];
    let tokens = tokens.map(|(why, token)| {
        let good = good.clone();
        (why, Session { token, ..good })
    });
    let ids = [gateway.log_in("bob").await.id, String::new()];
    let ids = ids.map(|id| {
        let good = good.clone();
        (Mismatch, Session { id, ..good })
    });
    tokens.into_iter().chain(ids).collect()
}

#[tokio::test]
async fn refusal_takes_the_same_steps_as_a_successful_exchange() {
    let gateway = gateway_with_revocations().await;
    let good = gateway.log_in("alice").await;
    let (granted, steps) = steps::record(gateway.granted(&good)).await;
    granted.unwrap();
    let [Step::Unsealed(bytes), ref rest @ ..] = steps[..] else {
        panic!("{steps:?}");
    };
    assert!(bytes > 600);
    let named = RevocationKind::ALL.map(Step::LookedUp);
    assert_eq!(rest, [&[Step::Read, Step::Compared], &named[..]].concat());

    for (why, bad) in invalid_pairs(&gateway, &good).await {
        let (refused, taken) = steps::record(gateway.granted(&bad)).await;
        assert_eq!(refused, Err(why.into()));
        assert_eq!(taken, steps, "exchange: {why}: {}", bad.token);
        let (refused, taken) = steps::record(gateway.log_out(&bad)).await;
        assert_eq!(refused, Err(why.into()));
        assert_eq!(taken, steps, "logout: {why}: {}", bad.token);
    }

    let elsewhere = gateway.with_other_iam(ScriptedIam {
        name: "elsewhere",
        ..ScriptedIam::default()
    });
    add_a_revocation_of_every_kind(&elsewhere).await;
    let (refused, taken) = steps::record(elsewhere.granted(&good)).await;
    assert_eq!(refused, Err(InvalidSession::Foreign.into()));
    assert_eq!(taken, steps);

    let active = gateway.log_in("alice").await;
    gateway.log_out(&good).await.unwrap();
    let (refused, taken) = steps::record(gateway.granted(&good)).await;
    assert_eq!(refused, Err(InvalidSession::Ended.into()));
    assert_eq!(taken, steps);

    // The same steps for a session that was logged out before it expired.
    let at = Duration::from_secs(good.expires_at);
    gateway.clock.set_wall(at);
    for expired in [good, active] {
        let (refused, taken) = steps::record(gateway.granted(&expired)).await;
        assert_eq!(refused, Err(InvalidSession::Expired.into()));
        assert_eq!(taken, steps);
    }
}

#[tokio::test]
async fn refusal_of_any_input_takes_no_more_than_the_largest_session() {
    let gateway = gateway_with_revocations().await;
    // Lengths of every remainder modulo four, which base64url has and has not.
    let lengths = (0..20).chain(2_000..2_008);
    for length in lengths.chain([TOKEN_BYTES_MAX, 100 * TOKEN_BYTES_MAX]) {
        for sign in [".", "A", "é"] {
            let sent = Session {
                id: sign.repeat(22),
                token: sign.repeat(length),
                verified_at: 0,
                expires_at: 0,
            };
            let (refused, steps) = steps::record(gateway.granted(&sent)).await;
            // Of dots alone, each part can have its length.
            let reasons = [InvalidSession::Malformed, InvalidSession::UnknownKey];
            let reasons = reasons.map(|reason| Err(reason.into()));
            assert!(reasons.contains(&refused), "{refused:?}");
            let [Step::Unsealed(bytes), ref rest @ ..] = steps[..] else {
                panic!("{steps:?}");
            };
            assert!((400..=TOKEN_BYTES_MAX as u64).contains(&bytes), "{bytes}");
            assert_eq!(rest.len(), 2 + RevocationKind::ALL.len());
        }
    }
}

#[tokio::test]
async fn refusal_derives_no_revocation_name_while_the_table_is_empty() {
    let gateway = TestGateway::new();
    let good = gateway.log_in("alice").await;
    for (why, bad) in invalid_pairs(&gateway, &good).await {
        let (_, steps) = steps::record(gateway.granted(&bad)).await;
        assert_eq!(steps[1..], [Step::Read, Step::Compared], "{why}");
    }
}

#[tokio::test]
async fn refusal_derives_only_revocation_names_of_recorded_kinds() {
    let gateway = TestGateway::new();
    let good = gateway.log_in("alice").await;
    gateway.end_sessions_of("another", 0);
    let subject = [
        Step::Read,
        Step::Compared,
        Step::LookedUp(RevocationKind::Subject),
    ];
    let (granted, steps) = steps::record(gateway.granted(&good)).await;
    granted.unwrap();
    assert_eq!(steps[1..], subject);
    for (why, bad) in invalid_pairs(&gateway, &good).await {
        let (_, steps) = steps::record(gateway.granted(&bad)).await;
        assert_eq!(steps[1..], subject, "{why}");
    }
}
