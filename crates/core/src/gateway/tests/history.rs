//! Random histories of two replicas with one IAM, checked against the guarantees.

use std::time::Duration;

use iam_adapters::{IamError, Moment};
use proptest::prelude::*;

use super::test_gateway::{LIVENESS, PERMISSIONS, Session, TestGateway, policy};
use test_support::scripted_iam::ScriptedIam;

#[derive(Debug, Clone)]
enum Event {
    /// Advances the clock by milliseconds.
    Time(u64),
    LogIn(Replica),
    Exchange(Replica, Which),
    LogOut(Replica, Which),
    EndAtIam(Which),
    PermitWrite,
    RemoveWrite,
    BreakIam,
    RepairIam,
    ClockBack(u64),
}

type Replica = prop::sample::Index;
type Which = prop::sample::Index;

fn event() -> impl Strategy<Value = Event> {
    let any = any::<prop::sample::Index>;
    prop_oneof![
        6 => (1_u64..40_000).prop_map(Event::Time),
        2 => any().prop_map(Event::LogIn),
        12 => (any(), any()).prop_map(|(on, which)| Event::Exchange(on, which)),
        1 => (any(), any()).prop_map(|(on, which)| Event::LogOut(on, which)),
        1 => any().prop_map(Event::EndAtIam),
        1 => Just(Event::PermitWrite),
        2 => Just(Event::RemoveWrite),
        1 => Just(Event::BreakIam),
        2 => Just(Event::RepairIam),
        1 => (1_u64..100_000).prop_map(Event::ClockBack),
    ]
}

struct SessionHistory {
    session: Session,
    ended_at: Option<Moment>,
    logged_out_on: [bool; 2],
}

/// The time since `then` on the monotonic clock.
fn elapsed(now: Moment, then: Moment) -> Duration {
    now.monotonic.saturating_sub(then.monotonic)
}

async fn run(events: Vec<Event>) {
    let iam = ScriptedIam {
        expires_in: Some(Duration::from_secs(400)),
        ..ScriptedIam::default()
    };
    let one = TestGateway::with(iam, policy());
    let replicas = [one.clone(), one.replica()];
    let mut sessions: Vec<SessionHistory> = Vec::new();
    let mut write_removed_at: Option<Moment> = None;
    let mut iam_works = true;
    for event in events {
        let now = one.inner.now();
        match event {
            Event::Time(millis) => one.clock.advance(Duration::from_millis(millis)),
            Event::ClockBack(millis) => {
                one.set_wall_clock_back(Duration::from_millis(millis));
            }
            Event::LogIn(on) => {
                let gateway = on.get(&replicas);
                if let Ok(session) = gateway.try_log_in("alice@example.test", "right").await {
                    sessions.push(SessionHistory {
                        session,
                        ended_at: None,
                        logged_out_on: [false; 2],
                    });
                }
            }
            Event::EndAtIam(which) if !sessions.is_empty() => {
                let number = which.index(sessions.len());
                one.iam.end(&format!("secret-{}", number + 1));
                sessions[number].ended_at.get_or_insert(now);
            }
            Event::LogOut(on, which) if !sessions.is_empty() => {
                let index = which.index(sessions.len());
                let history = &mut sessions[index];
                let on = on.index(2);
                let done = replicas[on].log_out(&history.session).await;
                if now.unix_seconds() < history.session.expires_at {
                    history.logged_out_on[on] = true;
                    if done.is_ok() {
                        history.ended_at.get_or_insert(now);
                    }
                }
            }
            Event::PermitWrite => {
                one.iam.permit("alice", "read write");
                write_removed_at = None;
            }
            Event::RemoveWrite => {
                one.iam.permit("alice", "read");
                write_removed_at.get_or_insert(now);
            }
            Event::BreakIam | Event::RepairIam => {
                iam_works = matches!(event, Event::RepairIam);
                let outage = (!iam_works).then(|| IamError::Failed("502".to_owned()));
                one.iam.set_outage(outage);
                // No fault is held any more.
                one.clock.advance(Duration::from_secs(1));
            }
            Event::Exchange(on, which) if !sessions.is_empty() => {
                let history = which.get(&sessions);
                let on = on.index(2);
                let exchanged = replicas[on].granted(&history.session).await;
                let expired = now.unix_seconds() >= history.session.expires_at;
                let ended_for = history
                    .ended_at
                    .map(|at| elapsed(now, at))
                    .unwrap_or_default();
                let write_ended_for = write_removed_at.map(|at| elapsed(now, at));
                if let Ok(granted) = &exchanged {
                    assert!(!expired);
                    assert!(!history.logged_out_on[on]);
                    assert!(ended_for < LIVENESS, "{ended_for:?}");
                    assert!(
                        !granted.contains("write")
                            || write_ended_for.unwrap_or_default() < PERMISSIONS
                    );
                } else {
                    let is_valid = !expired
                        && iam_works
                        && history.ended_at.is_none()
                        && history.logged_out_on == [false; 2];
                    assert!(!is_valid, "{exchanged:?}");
                }
            }
            Event::EndAtIam(_) | Event::LogOut(..) | Event::Exchange(..) => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn random_histories_break_no_guarantee_and_refuse_no_session_without_a_reason(
        events in prop::collection::vec(event(), 1..120),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(run(events));
    }
}
