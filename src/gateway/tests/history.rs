//! Random histories of two replicas before one IAM, held against the promises.

use std::time::Duration;

use iam_adapters::{IamError, Moment};
use proptest::prelude::*;

use super::house::{House, LIVENESS, PERMISSIONS, Session, policy};
use super::scripted::Scripted;

#[derive(Debug, Clone)]
enum Event {
    /// Milliseconds go by.
    Time(u64),
    LogIn(Replica),
    Exchange(Replica, Which),
    LogOut(Replica, Which),
    EndAtIam(Which),
    GiveWrite,
    TakeWrite,
    BreakIam,
    MendIam,
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
        1 => Just(Event::GiveWrite),
        2 => Just(Event::TakeWrite),
        1 => Just(Event::BreakIam),
        2 => Just(Event::MendIam),
        1 => (1_u64..100_000).prop_map(Event::ClockBack),
    ]
}

struct Life {
    session: Session,
    ended_at: Option<Moment>,
    logged_out_on: [bool; 2],
}

/// How long ago, by the clock that nobody sets.
fn ago(now: Moment, then: Moment) -> Duration {
    now.monotonic.saturating_sub(then.monotonic)
}

async fn live_through(events: Vec<Event>) {
    let iam = Scripted {
        expires_in: Some(Duration::from_secs(400)),
        ..Scripted::default()
    };
    let one = House::with(iam, policy());
    let replicas = [one.clone(), one.replica()];
    let mut lives: Vec<Life> = Vec::new();
    let mut write_taken_at: Option<Moment> = None;
    let mut iam_works = true;
    for event in events {
        let now = one.gateway.now();
        match event {
            Event::Time(millis) => one.clock.advance(Duration::from_millis(millis)),
            Event::ClockBack(millis) => {
                one.set_back(Duration::from_millis(millis));
            }
            Event::LogIn(on) => {
                let house = on.get(&replicas);
                if let Ok(session) = house.try_log_in("alice@example.test", "right").await {
                    lives.push(Life {
                        session,
                        ended_at: None,
                        logged_out_on: [false; 2],
                    });
                }
            }
            Event::EndAtIam(which) if !lives.is_empty() => {
                let number = which.index(lives.len());
                one.iam.end(&format!("secret-{}", number + 1));
                lives[number].ended_at.get_or_insert(now);
            }
            Event::LogOut(on, which) if !lives.is_empty() => {
                let life = which.index(lives.len());
                let life = &mut lives[life];
                let on = on.index(2);
                let done = replicas[on].log_out(&life.session).await;
                if now.unix_seconds() < life.session.expires_at {
                    life.logged_out_on[on] = true;
                    if done.is_ok() {
                        life.ended_at.get_or_insert(now);
                    }
                }
            }
            Event::GiveWrite => {
                one.iam.permit("alice", "read write");
                write_taken_at = None;
            }
            Event::TakeWrite => {
                one.iam.permit("alice", "read");
                write_taken_at.get_or_insert(now);
            }
            Event::BreakIam | Event::MendIam => {
                iam_works = matches!(event, Event::MendIam);
                let outage = (!iam_works).then(|| IamError::Failed("502".to_owned()));
                one.iam.break_down(outage);
            }
            Event::Exchange(on, which) if !lives.is_empty() => {
                let life = which.get(&lives);
                let on = on.index(2);
                let exchanged = replicas[on].granted(&life.session).await;
                let expired = now.unix_seconds() >= life.session.expires_at;
                let gone_for = life.ended_at.map(|at| ago(now, at)).unwrap_or_default();
                let write_gone_for = write_taken_at.map(|at| ago(now, at));
                if let Ok(granted) = &exchanged {
                    assert!(!expired);
                    assert!(!life.logged_out_on[on]);
                    assert!(gone_for < LIVENESS, "{gone_for:?}");
                    assert!(
                        !granted.contains("write")
                            || write_gone_for.unwrap_or_default() < PERMISSIONS
                    );
                } else {
                    let blameless = !expired
                        && iam_works
                        && life.ended_at.is_none()
                        && life.logged_out_on == [false; 2];
                    assert!(!blameless, "{exchanged:?}");
                }
            }
            Event::EndAtIam(_) | Event::LogOut(..) | Event::Exchange(..) => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn whatever_happens_no_promise_is_broken_and_nobody_is_refused_without_a_reason(
        events in prop::collection::vec(event(), 1..120),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(live_through(events));
    }
}
