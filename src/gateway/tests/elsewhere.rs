//! What passes between replicas, whatever carries it.

use std::sync::{Arc, Mutex};

use iam_adapters::resilient::Operation;
use iam_adapters::{IamError, Introspection};

use super::house::{House, LIVENESS, MOMENT, active, policy};
use super::scripted::{Reply, Scripted};
use crate::gateway::Gateway;
use crate::gateway::error::{InvalidSession, NotReady};
use crate::gateway::revocations::{Delivery, Learned, Revocation, Revocations};
use crate::gateway::session_ends::{Delivered, Replicas};

/// Stores the revocations it receives, as Redis does.
#[derive(Debug)]
pub(super) struct Notebook {
    revocations: Arc<Revocations>,
    told: Mutex<Vec<Revocation>>,
}

impl Replicas for Notebook {
    fn tell(&self, _: Revocation) -> Delivered {
        for queued in self.revocations.offer(usize::MAX) {
            self.told.lock().unwrap().push(queued);
            self.revocations.settle([(queued, Delivery::Stored)]);
        }
        Box::pin(std::future::ready(()))
    }
}

impl Notebook {
    pub(super) fn of(house: &House) -> Arc<Self> {
        let notebook = Arc::new(Self {
            revocations: Arc::clone(house.gateway.session_ends().revocations()),
            told: Mutex::default(),
        });
        house
            .gateway
            .session_ends()
            .join(Arc::<Self>::clone(&notebook));
        // It holds nothing that ended before.
        house.gateway.session_ends().serve_without_catching_up();
        notebook
    }

    pub(super) fn told(&self) -> Vec<Revocation> {
        self.told.lock().unwrap().clone()
    }
}

#[tokio::test]
async fn a_logout_that_is_told_ends_the_session_at_the_other_replica_without_asking_the_iam() {
    let (here, notebook) = {
        let house = House::new();
        let notebook = Notebook::of(&house);
        (house, notebook)
    };
    let there = here.replica();
    let (session, other) = (here.log_in("alice").await, here.log_in("alice").await);
    there.granted(&session).await.unwrap();
    here.log_out(&session).await.unwrap();
    let [told] = notebook.told()[..] else {
        panic!("one end was told");
    };
    assert_eq!(there.gateway.session_ends().learn(&told), Learned::New);
    let asked = there.introspections();
    let refused = there.granted(&session).await;
    assert_eq!(refused, Err(InvalidSession::Revoked.into()));
    assert_eq!(there.introspections(), asked);
    assert!(there.granted(&other).await.is_ok());
}

#[tokio::test]
async fn a_logout_is_told_after_the_iam_was_and_also_where_that_failed() {
    let house = House::new();
    let notebook = Notebook::of(&house);
    let session = house.log_in("alice").await;
    let mut calls = house.iam.hold(Operation::Logout);
    let logout = {
        let (house, session) = (house.clone(), session.clone());
        tokio::spawn(async move { house.log_out(&session).await })
    };
    let call = calls.next().await;
    assert_eq!(notebook.told(), []);
    call.reply(Reply::Fault(IamError::Failed("502".to_owned())));
    logout.await.unwrap().unwrap_err();
    assert_eq!(notebook.told().len(), 1);
}

#[tokio::test]
async fn what_the_iam_told_in_a_notice_is_told_and_what_it_answered_is_not() {
    let house = House::new();
    let notebook = Notebook::of(&house);
    let session = house.log_in("alice").await;
    house.iam.end("secret-1");
    house.clock.advance(LIVENESS);
    house.granted(&session).await.unwrap_err();
    assert_eq!(notebook.told(), []);
    house
        .gateway
        .session_ends()
        .end_upstream_session("upstream");
    house.gateway.session_ends().end_sessions_of("alice", 0);
    assert_eq!(notebook.told().len(), 2);
}

#[tokio::test]
async fn a_logout_is_told_to_all_also_where_the_iam_had_called_the_session_inactive_already() {
    let house = House::new();
    let notebook = Notebook::of(&house);
    let session = house.log_in("alice").await;
    house.iam.end("secret-1");
    house.clock.advance(LIVENESS);
    house.granted(&session).await.unwrap_err();
    for _ in 0..3 {
        house.log_out(&session).await.unwrap();
        assert_eq!(notebook.told().len(), 1);
        assert_eq!(house.iam.calls(Operation::Logout), 1);
    }
}

#[tokio::test]
async fn an_end_is_told_once_by_all_replicas_together_however_often_the_logout_is_repeated() {
    let here = House::new();
    let there = here.replica();
    let notebooks = [Notebook::of(&here), Notebook::of(&there)];
    let session = here.log_in("alice").await;
    for _ in 0..3 {
        here.log_out(&session).await.unwrap();
    }
    let [told] = notebooks[0].told()[..] else {
        panic!("one end was told");
    };
    there.gateway.session_ends().learn(&told);
    for _ in 0..3 {
        there.log_out(&session).await.unwrap();
    }
    assert_eq!(notebooks[1].told(), []);
}

#[tokio::test]
async fn a_later_logout_token_of_a_subject_is_told_again_and_one_of_the_same_time_is_not() {
    let house = House::new();
    let notebook = Notebook::of(&house);
    for (until, told) in [(0, 1), (0, 1), (1, 2), (0, 2)] {
        house.gateway.session_ends().end_sessions_of("alice", until);
        assert_eq!(notebook.told().len(), told);
    }
}

#[tokio::test]
async fn an_end_that_is_told_while_the_iam_is_asked_wins() {
    let here = House::new();
    let (there, notebook) = (here.replica(), Notebook::of(&here));
    let session = here.log_in("alice").await;
    let mut calls = here.iam.hold(Operation::Introspection);
    let exchange = there.begin_exchange(&session);
    let call = calls.next().await;
    here.log_out(&session).await.unwrap();
    for told in notebook.told() {
        there.gateway.session_ends().learn(&told);
    }
    call.reply(active("alice", "read write"));
    let refused = exchange.await.unwrap().err();
    assert_eq!(refused, Some(InvalidSession::Revoked.into()));
}

/// The gap ends while a question is under way: its answer may be older than an end that was missed.
#[tokio::test]
async fn what_was_asked_in_a_gap_is_asked_again_after_it() {
    let house = House::new();
    let session = house.log_in("alice").await;
    house.clock.advance(LIVENESS);
    let mut calls = house.iam.hold(Operation::Introspection);
    let exchange = house.begin_exchange(&session);
    let first = calls.next().await;
    house.clock.advance(MOMENT);
    house.gateway.in_step_again();
    house.clock.advance(MOMENT);
    first.reply(active("alice", "read"));
    calls
        .next()
        .await
        .reply(Reply::Say(Introspection::Inactive));
    let refused = exchange.await.unwrap().err();
    assert_eq!(refused, Some(InvalidSession::Ended.into()));
}

#[tokio::test]
async fn after_a_gap_the_iam_is_asked_again_however_fresh_its_last_word_is() {
    let house = House::new();
    let session = house.log_in("alice").await;
    house.granted(&session).await.unwrap();
    assert_eq!(house.introspections(), 0);
    house.clock.advance(MOMENT);
    house.gateway.in_step_again();
    house.clock.advance(MOMENT);
    for _ in 0..2 {
        house.granted(&session).await.unwrap();
        assert_eq!(house.introspections(), 1);
    }
}

#[tokio::test]
async fn after_a_gap_silence_of_the_iam_does_not_bring_its_old_word_back() {
    let mut policy = policy();
    policy.freshness.stale_if_error = LIVENESS;
    let house = House::with(Scripted::default(), policy);
    let session = house.log_in("alice").await;
    let silence = || Reply::Fault(IamError::Unreachable("refused".to_owned()));
    house.clock.advance(LIVENESS);
    house.iam.script(Operation::Introspection, silence());
    house.granted(&session).await.unwrap();
    house.gateway.in_step_again();
    house.iam.script(Operation::Introspection, silence());
    house.granted(&session).await.unwrap_err();
}

#[tokio::test]
async fn after_a_gap_no_question_from_before_it_is_joined() {
    let house = House::new();
    let session = house.log_in("alice").await;
    house.clock.advance(LIVENESS);
    let mut calls = house.iam.hold(Operation::Introspection);
    let early = house.begin_exchange(&session);
    let early_call = calls.next().await;
    house.gateway.in_step_again();
    house.clock.advance(MOMENT);
    let late = house.begin_exchange(&session);
    let late_call = calls.next().await;
    for call in [early_call, late_call] {
        call.reply(active("alice", "read"));
    }
    early.await.unwrap().unwrap();
    late.await.unwrap().unwrap();
}

#[tokio::test]
async fn until_it_has_caught_up_a_replica_logs_in_and_out_and_issues_no_token() {
    for catch_up in [Gateway::in_step_again, |gateway: &Gateway| {
        gateway.session_ends().serve_without_catching_up();
    }] {
        let house = House::new();
        let before = house.log_in("alice").await;
        let notebook = Arc::new(Notebook {
            revocations: Arc::clone(house.gateway.session_ends().revocations()),
            told: Mutex::default(),
        });
        house.gateway.session_ends().join(notebook);
        let [session, ended] = [house.log_in("alice").await, house.log_in("alice").await];
        house.log_out(&ended).await.unwrap();
        for session in [&before, &session, &ended] {
            let refused = house.granted(session).await;
            assert_eq!(refused, Err(NotReady::CatchingUp.into()));
        }
        assert_eq!(house.introspections(), 0);
        catch_up(&house.gateway);
        house.clock.advance(MOMENT);
        for session in [&before, &session] {
            assert!(house.granted(session).await.is_ok());
        }
        let refused = house.granted(&ended).await;
        assert_eq!(refused, Err(InvalidSession::Ended.into()));
    }
}
