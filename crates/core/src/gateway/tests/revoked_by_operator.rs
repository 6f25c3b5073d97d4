//! Sessions that an operator revokes.

use std::sync::Arc;
use std::time::Duration;

use iam_adapters::Subject;
use iam_adapters::resilient::Operation;
use test_support::ManualClock;

use super::replicas::{RecordingReplicas, measure, serving};
use super::test_gateway::{LIVENESS, START, Session, TestGateway};
use crate::error::{GatewayError, InvalidSession};
use crate::revoked_sessions::{NotRevocable, RevokedSessions};
use crate::session_id::SessionId;
use crate::session_revoker::Propagation;

const REVOKED: GatewayError = GatewayError::InvalidSession(InvalidSession::Revoked);
const ENDED: GatewayError = GatewayError::InvalidSession(InvalidSession::Ended);

fn one(session: &Session) -> RevokedSessions {
    RevokedSessions::One(SessionId::parse(&session.id).unwrap())
}

fn of_subject(subject: &str, begun_until: u64) -> RevokedSessions {
    RevokedSessions::OfSubject {
        subject: Subject::new(subject).unwrap(),
        begun_until: Some(begun_until),
    }
}

fn of_iam(iam: Option<&str>, begun_until: u64) -> RevokedSessions {
    RevokedSessions::OfIam {
        iam: iam.map(str::to_owned),
        begun_until: Some(begun_until),
    }
}

async fn revoke(gateway: &TestGateway, sessions: &RevokedSessions) -> Propagation {
    let revoked = gateway.inner.session_revoker.revoke(sessions);
    revoked.unwrap().await
}

#[tokio::test]
async fn one_session_is_revoked_by_its_id_at_a_replica_without_requests_of_it() {
    let here = TestGateway::new();
    let there = here.replica();
    let (revoked, other) = (here.log_in("alice").await, here.log_in("alice").await);
    assert_eq!(revoke(&there, &one(&revoked)).await, Propagation::Off);
    assert_eq!(there.granted(&revoked).await, Err(REVOKED));
    assert!(there.granted(&other).await.is_ok());
    assert_eq!(there.introspections(), 1);
    // Nothing was sent to the other replica or to the IAM.
    here.clock.advance(LIVENESS);
    assert!(here.granted(&revoked).await.is_ok());
}

#[tokio::test]
async fn sessions_of_a_subject_are_revoked_up_to_the_given_time_and_no_others() {
    let gateway = TestGateway::new();
    let before = gateway.log_in("alice").await;
    gateway.clock.advance(Duration::from_secs(1));
    let (at, bob) = (gateway.log_in("alice").await, gateway.log_in("bob").await);
    gateway.clock.advance(Duration::from_secs(1));
    let after = gateway.log_in("alice").await;
    revoke(&gateway, &of_subject("alice", START)).await;
    assert_eq!(gateway.granted(&before).await, Err(ENDED));
    assert!(gateway.granted(&at).await.is_ok());
    revoke(&gateway, &of_subject("alice", START + 1)).await;
    assert_eq!(gateway.granted(&at).await, Err(ENDED));
    for accepted in [&after, &bob] {
        assert!(gateway.granted(accepted).await.is_ok());
    }
}

#[tokio::test]
async fn all_sessions_of_the_iam_are_revoked_up_to_the_given_time() {
    for iam in [None, Some("scripted")] {
        let gateway = TestGateway::new();
        let before = [gateway.log_in("alice").await, gateway.log_in("bob").await];
        gateway.clock.advance(Duration::from_secs(1));
        let after = gateway.log_in("alice").await;
        revoke(&gateway, &of_iam(iam, START)).await;
        for session in &before {
            assert_eq!(gateway.granted(session).await, Err(REVOKED));
        }
        assert!(gateway.granted(&after).await.is_ok());
    }
}

#[tokio::test]
async fn unknown_iam_is_refused_and_no_session_is_revoked() {
    let gateway = TestGateway::new();
    let session_revoker = &gateway.inner.session_revoker;
    for name in ["", "other", "Scripted"] {
        let refused = session_revoker.revoke(&of_iam(Some(name), START)).err();
        assert_eq!(refused, Some(NotRevocable::UnknownIam), "{name}");
    }
    assert_eq!(gateway.inner.replica.revocations.count(), 0);
}

#[tokio::test]
async fn logout_of_a_revoked_session_ends_it_at_the_iam_with_one_call() {
    for kind in 0..3 {
        let (gateway, session) = TestGateway::with_session().await;
        let sessions = [
            one(&session),
            of_subject("alice", START),
            of_iam(None, START),
        ];
        revoke(&gateway, &sessions[kind]).await;
        assert_eq!(gateway.iam.calls(Operation::Logout), 0);
        for _ in 0..3 {
            gateway.log_out(&session).await.unwrap();
            assert_eq!(gateway.iam.calls(Operation::Logout), 1);
        }
        assert!(gateway.iam.has_ended("secret-1"));
        // The confirmation of the IAM is final.
        revoke(&gateway, &sessions[kind]).await;
        assert_eq!(gateway.granted(&session).await, Err(ENDED));
    }
}

#[tokio::test]
async fn login_in_progress_during_a_revocation_gets_a_revoked_session() {
    let gateway = TestGateway::new();
    let (login, call) = gateway.login_in_flight().await;
    revoke(&gateway, &of_iam(None, START)).await;
    gateway.clock.advance(Duration::from_secs(2));
    call.reply(test_support::scripted_iam::Reply::Model);
    let session = login.await.unwrap();
    assert_eq!(gateway.granted(&session).await, Err(REVOKED));
}

#[tokio::test]
async fn revocations_of_an_operator_reach_the_other_replicas() {
    for kind in 0..3 {
        let (here, replicas) = RecordingReplicas::of(&TestGateway::new());
        let there = here.replica();
        let session = there.log_in("alice").await;
        let sessions = [
            one(&session),
            of_subject("alice", START),
            of_iam(None, START),
        ];
        for _ in 0..2 {
            let propagation = revoke(&here, &sessions[kind]).await;
            assert_eq!(propagation, Propagation::Delivered);
        }
        let [sent] = replicas.sent()[..] else {
            panic!("not exactly one revocation");
        };
        there.apply_remote(&sent);
        let expected = if kind == 1 { ENDED } else { REVOKED };
        assert_eq!(there.granted(&session).await, Err(expected));
        there.log_out(&session).await.unwrap();
        assert_eq!(there.iam.calls(Operation::Logout), 1);
    }
}

#[tokio::test]
async fn sessions_are_revoked_before_the_delivery_is_awaited() {
    let gateway = TestGateway::new();
    let session = gateway.log_in("alice").await;
    drop(
        gateway
            .inner
            .session_revoker
            .revoke(&one(&session))
            .unwrap(),
    );
    assert_eq!(gateway.granted(&session).await, Err(REVOKED));
}

#[tokio::test]
async fn revocation_that_cannot_be_sent_is_pending_and_has_an_effect_here() {
    let gateway = serving(&TestGateway::new(), RecordingReplicas::unreachable());
    let session = gateway.log_in("alice").await;
    for _ in 0..2 {
        let propagation = revoke(&gateway, &of_iam(None, START)).await;
        assert_eq!(propagation, Propagation::Pending);
    }
    assert_eq!(gateway.inner.session_revoker.pending(), 1);
    assert_eq!(gateway.granted(&session).await, Err(REVOKED));
}

#[tokio::test]
async fn session_begun_before_the_clock_was_set_back_is_revoked_without_replicas() {
    for (sessions, refused) in until_return().into_iter().zip([ENDED, REVOKED, REVOKED]) {
        let (gateway, session) = TestGateway::with_session().await;
        gateway.set_wall_clock_back(Duration::from_secs(30));
        revoke(&gateway, &sessions).await;
        assert_eq!(
            gateway.granted(&session).await,
            Err(refused),
            "{sessions:?}"
        );
    }
}

const MINUTES: Duration = Duration::from_secs(300);

/// Longer than a call takes.
const LATER: Duration = Duration::from_millis(100);

/// The selections of all sessions of Alice until the call returns.
fn until_return() -> [RevokedSessions; 3] {
    let of_iam = |iam: Option<&str>| RevokedSessions::OfIam {
        iam: iam.map(str::to_owned),
        begun_until: None,
    };
    let of_subject = RevokedSessions::OfSubject {
        subject: Subject::new("alice").unwrap(),
        begun_until: None,
    };
    [of_subject, of_iam(Some("scripted")), of_iam(None)]
}

/// A replica whose clock differs from that of Redis, and which knows that.
fn measured_replica(of: &TestGateway, now: Duration) -> (TestGateway, Arc<RecordingReplicas>) {
    let gateway = of.replica_by(Arc::new(ManualClock::at(now)));
    let (gateway, replicas) = RecordingReplicas::of(&gateway);
    measure(&gateway, Duration::ZERO);
    (gateway, replicas)
}

#[tokio::test]
async fn each_session_begun_before_the_call_returned_is_ended_and_no_later_one_whatever_the_clocks()
{
    let now = Duration::from_secs(START);
    for (here, there) in [
        (now, now + MINUTES),
        (now + MINUTES, now),
        (now.saturating_sub(MINUTES), now),
        (now, now.saturating_sub(MINUTES)),
        (now.saturating_sub(MINUTES / 2), now + MINUTES / 2),
    ] {
        for sessions in until_return() {
            let original = TestGateway::new();
            let (here, sent) = measured_replica(&original, here);
            let (there, _) = measured_replica(&original, there);
            let all = [&here, &there];
            let mut revoked = vec![here.log_in("alice").await, there.log_in("alice").await];
            let call = here.inner.session_revoker.revoke(&sessions).unwrap();
            // Also one that begins during the call.
            for gateway in all {
                gateway.clock.advance(LATER / 4);
            }
            revoked.push(there.log_in("alice").await);
            assert_eq!(call.await, Propagation::Delivered);
            for revocation in sent.sent() {
                there.apply_remote(&revocation);
            }
            for gateway in all {
                gateway.clock.advance(LATER);
                for session in &revoked {
                    assert!(gateway.granted(session).await.is_err(), "{sessions:?}");
                }
            }
            for gateway in all {
                let later = gateway.log_in("alice").await;
                for replica in all {
                    replica.granted(&later).await.unwrap();
                }
            }
        }
    }
}

#[tokio::test]
async fn session_begun_before_the_first_contact_with_redis_is_ended_by_a_later_revocation() {
    let original = TestGateway::new();
    let (here, sent) = measured_replica(&original, Duration::from_secs(START));
    let ahead = Duration::from_secs(START) + MINUTES;
    let there = original.replica_by(Arc::new(ManualClock::at(ahead)));
    let there = serving(&there, RecordingReplicas::unreachable());
    let session = there.log_in("alice").await;
    there.granted(&session).await.unwrap();
    let [_, _, all] = until_return();
    revoke(&here, &all).await;
    for revocation in sent.sent() {
        there.apply_remote(&revocation);
    }
    for gateway in [&here, &there] {
        assert_eq!(gateway.granted(&session).await, Err(REVOKED));
    }
}

#[tokio::test]
async fn revocation_that_took_long_to_send_is_sent_again_with_the_time_of_its_return() {
    let alone = TestGateway::new();
    let slow = RecordingReplicas::slow(alone.clock.clone(), 2 * LATER);
    let gateway = serving(&alone, Arc::<RecordingReplicas>::clone(&slow));
    measure(&gateway, Duration::ZERO);
    let [_, _, all] = until_return();
    assert_eq!(revoke(&gateway, &all).await, Propagation::Delivered);
    let [first, second] = slow.sent()[..] else {
        panic!("not exactly two revocations");
    };
    let returned = gateway.inner.replica.timeline.now();
    assert!(first.begun_until < returned && returned <= second.begun_until);
}
