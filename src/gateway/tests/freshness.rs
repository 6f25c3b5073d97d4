use std::time::Duration;

use iam_adapters::resilient::Operation;

use super::house::{
    House, LIVENESS, MOMENT, PERMISSIONS, START, active, just_before, surely_fresh, the_rest,
};
use super::login::faults;
use super::scripted::Reply;
use crate::gateway::error::InvalidSession;
use crate::gateway::knowledge::Source;

#[tokio::test]
async fn liveness_is_asked_for_again_before_it_is_too_old_and_not_much_before() {
    let house = House::new();
    let session = house.log_in("alice").await;
    for questions in 0..4 {
        house.clock.advance(surely_fresh(LIVENESS));
        let exchanged = house.exchange(&session, "read").await.unwrap();
        assert_eq!(exchanged.source, Source::Hit);
        assert_eq!(house.introspections(), questions);
        house.clock.advance(the_rest(LIVENESS));
        let exchanged = house.exchange(&session, "read").await.unwrap();
        assert_eq!(exchanged.source, Source::Miss);
        assert_eq!(house.introspections(), questions + 1);
    }
}

#[tokio::test]
async fn permissions_are_asked_for_again_before_they_are_too_old_and_not_much_before() {
    let house = House::new();
    house.log_in("alice").await;
    house.clock.advance(surely_fresh(PERMISSIONS));
    // A login that tells no permissions makes liveness fresh, and leaves the permissions old.
    let quiet = house.gateway.knowledge.fingerprint("a token", "alice");
    let now = house.gateway.now();
    house.gateway.knowledge.learn(&quiet, now, None);
    assert!(house.gateway.knowledge.fresh(&quiet, now).is_some());
    house.clock.advance(the_rest(PERMISSIONS));
    let now = house.gateway.now();
    assert!(house.gateway.knowledge.fresh(&quiet, now).is_none());
}

#[tokio::test]
async fn two_sessions_of_one_user_share_the_permissions_and_not_the_liveness() {
    let house = House::new();
    let (one, other) = (house.log_in("alice").await, house.log_in("alice").await);
    house.clock.advance(LIVENESS);
    house.iam.permit("alice", "write");
    assert_eq!(house.granted(&one).await.unwrap(), "write");
    assert_eq!(house.introspections(), 1);
    let exchanged = house.exchange(&other, "read write").await.unwrap();
    assert_eq!(exchanged.source, Source::Miss);
    house.iam.permit("alice", "");
    house.clock.advance(surely_fresh(LIVENESS));
    // What was learned for the one is known for the other.
    for session in [&one, &other] {
        let exchanged = house.exchange(session, "read write").await.unwrap();
        assert_eq!(exchanged.source, Source::Hit);
        assert_eq!(exchanged.scope, "write");
    }
    house.iam.end("secret-1");
    house.clock.advance(the_rest(LIVENESS));
    let ended = house.granted(&one).await;
    assert_eq!(ended, Err(InvalidSession::Ended.into()));
    assert_eq!(house.granted(&other).await.unwrap(), "");
}

#[tokio::test]
async fn an_older_answer_that_comes_late_does_not_bring_back_what_was_taken_away() {
    let house = House::new();
    let (one, other) = (house.log_in("alice").await, house.log_in("alice").await);
    house.clock.advance(LIVENESS);
    let mut calls = house.iam.hold(Operation::Introspection);
    let early = house.begin_exchange(&one);
    let early_call = calls.next().await;
    house.clock.advance(MOMENT);
    let late = house.begin_exchange(&other);
    let late_call = calls.next().await;
    late_call.reply(active("alice", "read"));
    assert_eq!(late.await.unwrap().unwrap().scope, "read");
    early_call.reply(active("alice", "read write"));
    early.await.unwrap().unwrap();
    for session in [&one, &other] {
        let exchanged = house.exchange(session, "read write").await.unwrap();
        assert_eq!(exchanged.source, Source::Hit);
        assert_eq!(exchanged.scope, "read");
    }
}

#[tokio::test]
async fn a_wall_clock_set_back_by_more_than_a_minute_makes_all_knowledge_stale() {
    for (back, source) in [
        (Duration::from_secs(60), Source::Hit),
        (Duration::from_secs(60) + MOMENT, Source::Miss),
        (Duration::from_secs(86_400), Source::Miss),
    ] {
        let house = House::new();
        let session = house.log_in("alice").await;
        house.set_back(back);
        let exchanged = house.exchange(&session, "read").await.unwrap();
        assert_eq!(exchanged.source, source, "{back:?}");
    }
}

#[tokio::test]
async fn a_wall_clock_set_forward_ages_what_is_known() {
    let house = House::new();
    let session = house.log_in("alice").await;
    house.clock.set_wall(Duration::from_secs(START) + LIVENESS);
    let exchanged = house.exchange(&session, "read").await.unwrap();
    assert_eq!(exchanged.source, Source::Miss);
}

#[tokio::test]
async fn an_outage_is_felt_once_the_knowledge_is_too_old_and_forgotten_with_it() {
    let house = House::new();
    let session = house.log_in("alice").await;
    let fault = iam_adapters::IamError::Failed("502".to_owned());
    house.iam.break_down(Some(fault));
    house.clock.advance(surely_fresh(LIVENESS));
    assert_eq!(house.granted(&session).await.unwrap(), "read write");
    house.clock.advance(the_rest(LIVENESS));
    for _ in 0..3 {
        house.granted(&session).await.unwrap_err();
    }
    assert_eq!(house.introspections(), 3);
    house.iam.break_down(None);
    assert_eq!(house.granted(&session).await.unwrap(), "read write");
}

/// It is asked for early so that not everybody asks at once, and not because it is too old.
#[tokio::test]
async fn what_was_asked_for_early_in_vain_is_good_for_as_long_as_promised() {
    for fault in faults() {
        let house = House::new();
        let session = house.log_in("alice").await;
        house.iam.break_down(Some(fault.clone()));
        house.clock.advance(just_before(LIVENESS));
        let exchanged = house.exchange(&session, "read").await.unwrap();
        assert_eq!(exchanged.source, Source::Hit, "{fault}");
        house.clock.advance(MOMENT);
        house.granted(&session).await.unwrap_err();
    }
}

#[tokio::test]
async fn a_no_to_what_was_asked_for_early_counts_at_once() {
    let house = House::new();
    // The names of sessions are random: one of these is asked for before the very last moment.
    for number in 1..=64 {
        let session = house.log_in("alice").await;
        house.iam.end(&format!("secret-{number}"));
        house.clock.advance(just_before(LIVENESS));
        let before = house.introspections();
        let exchanged = house.granted(&session).await;
        if house.introspections() > before {
            assert_eq!(exchanged, Err(InvalidSession::Ended.into()));
            return;
        }
    }
    panic!("nothing is asked for early");
}

/// The step is a prime number of milliseconds, so that the sweep meets the boundaries from every
/// side.
const STEP: Duration = Duration::from_millis(997);

#[tokio::test]
async fn an_end_at_the_iam_is_felt_within_freshness_whenever_it_comes() {
    for ends_at_step in 0..40 {
        let house = House::new();
        let session = house.log_in("alice").await;
        let mut ended_at = None;
        for step in 0..80 {
            if step == ends_at_step {
                house.iam.end("secret-1");
                ended_at = Some(house.gateway.now());
            }
            let exchanged = house.granted(&session).await;
            let since = ended_at.map(|at| house.gateway.now().since(at));
            if since.is_some_and(|since| since >= LIVENESS) {
                assert_eq!(exchanged, Err(InvalidSession::Ended.into()), "{since:?}");
            }
            house.clock.advance(STEP);
        }
    }
}

#[tokio::test]
async fn no_token_has_a_permission_that_was_gone_for_longer_than_the_permissions_live() {
    let house = House::new();
    let session = house.log_in("alice").await;
    let mut began = Vec::new();
    for step in 0..400_usize {
        // The user may do just one thing, and at every step another.
        house.iam.permit("alice", &format!("p{step}"));
        began.push(house.gateway.now());
        let from = step.saturating_sub(63);
        let names: Vec<_> = (from..=step).map(|step| format!("p{step}")).collect();
        let exchanged = house.exchange(&session, &names.join(" ")).await.unwrap();
        // Nothing is granted before the first question: the login was not told of any step.
        if let Some(known) = exchanged.scope.strip_prefix('p') {
            let gone = began.get(known.parse::<usize>().unwrap() + 1);
            let gone_for = gone.map(|gone| house.gateway.now().since(*gone));
            assert!(gone_for.unwrap_or_default() < PERMISSIONS, "{gone_for:?}");
        } else {
            assert!(house.introspections() == 0, "{step}");
        }
        house.clock.advance(STEP);
    }
    house.iam.script(Operation::Introspection, Reply::Model);
    assert!(house.introspections() >= 12);
}
