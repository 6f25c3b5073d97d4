//! How far a bad session came before it was refused is not told by what was done for it.

use std::time::Duration;

use super::house::{House, Session, policy};
use super::scripted::Scripted;
use super::work::{self, Step};
use crate::gateway::error::InvalidSession;
use crate::gateway::revocations::Kind;
use crate::gateway::session::TOKEN_BYTES_MAX;

/// A house in which something of every kind has ended, so that a look makes every name.
async fn house() -> House {
    let iam = Scripted {
        ballast: 600,
        ..Scripted::default()
    };
    let house = House::with(iam, policy());
    something_of_every_kind_ends(&house).await;
    house
}

async fn something_of_every_kind_ends(house: &House) {
    let other = house.log_in("bob").await;
    house.log_out(&other).await.unwrap();
    house.gateway.session_ends().end_upstream_session("another");
    house.gateway.session_ends().end_sessions_of("another", 0);
}

fn altered(text: &str, at: usize) -> String {
    let other = if &text[at..=at] == "A" { "B" } else { "A" };
    with(text, at, other)
}

fn with(text: &str, at: usize, other: &str) -> String {
    format!("{}{other}{}", &text[..at], &text[at + other.len()..])
}

/// Every way in which a pair does not open here, in tokens of one length.
async fn bad_pairs(house: &House, good: &Session) -> Vec<(InvalidSession, Session)> {
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
    let ids = [house.log_in("bob").await.id, String::new()];
    let ids = ids.map(|id| {
        let good = good.clone();
        (Mismatch, Session { id, ..good })
    });
    tokens.into_iter().chain(ids).collect()
}

#[tokio::test]
async fn every_refusal_takes_the_steps_of_a_good_exchange_in_their_order() {
    let house = house().await;
    let good = house.log_in("alice").await;
    let (granted, steps) = work::of(house.granted(&good)).await;
    granted.unwrap();
    let [Step::Unsealed(bytes), ref rest @ ..] = steps[..] else {
        panic!("{steps:?}");
    };
    assert!(bytes > 600);
    let named = Kind::ALL.map(Step::LookedUp);
    assert_eq!(rest, [&[Step::Read, Step::Compared], &named[..]].concat());

    for (why, bad) in bad_pairs(&house, &good).await {
        let (refused, taken) = work::of(house.granted(&bad)).await;
        assert_eq!(refused, Err(why.into()));
        assert_eq!(taken, steps, "exchange: {why}: {}", bad.token);
        let (refused, taken) = work::of(house.log_out(&bad)).await;
        assert_eq!(refused, Err(why.into()));
        assert_eq!(taken, steps, "logout: {why}: {}", bad.token);
    }

    let elsewhere = house.before(Scripted {
        name: "elsewhere",
        ..Scripted::default()
    });
    something_of_every_kind_ends(&elsewhere).await;
    let (refused, taken) = work::of(elsewhere.granted(&good)).await;
    assert_eq!(refused, Err(InvalidSession::Foreign.into()));
    assert_eq!(taken, steps);

    let alive = house.log_in("alice").await;
    house.log_out(&good).await.unwrap();
    let (refused, taken) = work::of(house.granted(&good)).await;
    assert_eq!(refused, Err(InvalidSession::Ended.into()));
    assert_eq!(taken, steps);

    // Whether it was logged out before it expired is not told either.
    let at = Duration::from_secs(good.expires_at);
    house.clock.set_wall(at);
    for expired in [good, alive] {
        let (refused, taken) = work::of(house.granted(&expired)).await;
        assert_eq!(refused, Err(InvalidSession::Expired.into()));
        assert_eq!(taken, steps);
    }
}

#[tokio::test]
async fn a_refusal_takes_no_more_than_the_largest_session_whatever_was_sent() {
    let house = house().await;
    for length in (0..20).chain([TOKEN_BYTES_MAX, 100 * TOKEN_BYTES_MAX]) {
        for sign in [".", "A", "é"] {
            let sent = Session {
                id: sign.repeat(22),
                token: sign.repeat(length),
                verified_at: 0,
                expires_at: 0,
            };
            let (refused, steps) = work::of(house.granted(&sent)).await;
            assert_eq!(refused, Err(InvalidSession::Malformed.into()));
            let [Step::Unsealed(bytes), ref rest @ ..] = steps[..] else {
                panic!("{steps:?}");
            };
            assert!((400..=TOKEN_BYTES_MAX as u64).contains(&bytes), "{bytes}");
            assert_eq!(rest.len(), 2 + Kind::ALL.len());
        }
    }
}

#[tokio::test]
async fn where_nothing_ended_no_refusal_makes_a_name() {
    let house = House::new();
    let good = house.log_in("alice").await;
    for (why, bad) in bad_pairs(&house, &good).await {
        let (_, steps) = work::of(house.granted(&bad)).await;
        assert_eq!(steps[1..], [Step::Read, Step::Compared], "{why}");
    }
}
