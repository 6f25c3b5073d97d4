use std::collections::{BTreeMap, BTreeSet};

use iam_adapters::clock::ManualClock;
use iam_adapters::{IamAdapter as _, Misconfiguration, ResilientAdapter};

use super::*;
use crate::config::sample::{Sample, registry};

fn after(words: &[Result<(), IamError>]) -> Report {
    let clock = Arc::new(ManualClock::at(Duration::from_secs(1_800_000_000)));
    let health = Health::new(
        Arc::<ManualClock>::clone(&clock),
        Arc::default(),
        Lifecycle::default(),
    );
    for word in words {
        let word = word.as_ref().copied();
        health.called(Operation::Probe, word, Duration::ZERO);
    }
    health.report(clock.now())
}

fn misconfigured(what: Misconfiguration) -> Result<(), IamError> {
    Err(IamError::misconfigured(what, "detail"))
}

#[test]
fn an_outage_alone_keeps_a_replica_in_service() {
    let outage = || Err(IamError::Unreachable("refused".to_owned()));
    for words in [vec![outage()], vec![Ok(()), outage()]] {
        let report = after(&words);
        assert_eq!(report.readiness, Readiness::Degraded);
        assert_eq!(report.last_result, "unreachable");
        assert_eq!(report.reasons.len(), 1);
    }
    assert_eq!(after(&[]).last_result, "none");
    assert_eq!(after(&[outage(), Ok(())]).readiness, Readiness::Ready);
}

#[test]
fn replica_is_not_ready_before_the_first_probe_unless_it_needs_none() {
    let report = after(&[]);
    assert_eq!(report.readiness, Readiness::NotReady);
    let codes: Vec<_> = report.reasons.iter().map(|reason| reason.code).collect();
    assert_eq!(codes, [ReasonCode::IamNotProbed]);
    assert_eq!(report.age, None);
    let clock = Arc::new(ManualClock::at(Duration::from_secs(1_800_000_000)));
    let health = Health::new(
        Arc::<ManualClock>::clone(&clock),
        Arc::default(),
        Lifecycle::default(),
    );
    health.needs_no_probe();
    let report = health.report(clock.now());
    assert_eq!(report.readiness, Readiness::Ready);
    assert_eq!((report.reasons, report.last_result), (vec![], "none"));
}

/// An IAM that accepts connections and never answers.
#[tokio::test(start_paused = true)]
async fn first_probe_that_hangs_makes_the_replica_degraded_at_its_deadline() {
    let clock = Arc::new(ManualClock::at(Duration::from_secs(1_800_000_000)));
    let time: Arc<dyn Clock> = Arc::<ManualClock>::clone(&clock);
    let health = Arc::new(Health::new(
        Arc::clone(&time),
        Arc::default(),
        Lifecycle::default(),
    ));
    let settings = crate::config::load(None, &BTreeMap::new(), &registry()).unwrap();
    let limits = settings.upstream.limits();
    let observer: Arc<dyn Observer> = Arc::<Health>::clone(&health);
    let iam = Arc::new(ResilientAdapter::new(
        Arc::new(Sample),
        limits,
        &time,
        &observer,
    ));
    let probe = tokio::spawn(async move { iam.probe().await });
    let almost = settings.upstream.probe_deadline.mul_f64(0.99);
    tokio::time::sleep(almost).await;
    let report = health.report(clock.now());
    assert_eq!(report.readiness, Readiness::NotReady);
    assert!(probe.await.unwrap().is_err());
    let report = health.report(clock.now());
    assert_eq!(report.readiness, Readiness::Degraded);
    let codes: Vec<_> = report.reasons.iter().map(|reason| reason.code).collect();
    assert_eq!(codes, [ReasonCode::TimedOut]);
    assert_eq!(report.last_result, "timed_out");
}

#[test]
fn openapi_lists_every_reason_code_and_no_other() {
    let document = include_str!("../../openapi.yaml");
    let document: serde_json::Value = serde_saphyr::from_str(document).unwrap();
    let readiness = &document["components"]["schemas"]["Readiness"]["properties"];
    let code = &readiness["reasons"]["items"]["properties"]["code"];
    let listed: BTreeSet<_> = code["enum"]
        .as_array()
        .unwrap()
        .iter()
        .map(|name| name.as_str().unwrap())
        .collect();
    let known: BTreeSet<_> = ReasonCode::ALL.iter().map(|code| code.name()).collect();
    assert_eq!(listed, known);
    assert_eq!(known.len(), ReasonCode::ALL.len(), "two codes of one name");
}

#[test]
fn wrong_settings_stop_a_replica_that_was_never_served_and_no_other() {
    let wrong = || misconfigured(Misconfiguration::ClientSecret);
    assert_eq!(after(&[wrong()]).readiness, Readiness::NotReady);
    assert_eq!(after(&[Ok(()), wrong()]).readiness, Readiness::Degraded);
}

#[test]
fn what_only_traffic_can_find_mended_does_not_stop_traffic() {
    let lie = misconfigured(Misconfiguration::Introspection);
    assert_eq!(after(&[lie]).readiness, Readiness::Degraded);
}

#[test]
fn a_refusal_is_the_word_of_an_iam_that_works_and_saturation_none_of_its_words() {
    let refusal = Err(IamError::Refused(iam_adapters::Refusal::Disabled));
    assert_eq!(after(&[refusal]).last_result, "ok");
    let report = after(&[Ok(()), Err(IamError::Saturated)]);
    assert_eq!(report.last_result, "ok");
}

#[test]
fn an_open_circuit_is_a_reason_and_one_that_is_tried_is_none() {
    let clock = Arc::new(ManualClock::at(Duration::from_secs(1_800_000_000)));
    let health = Health::new(
        Arc::<ManualClock>::clone(&clock),
        Arc::default(),
        Lifecycle::default(),
    );
    health.called(Operation::Probe, Ok(()), Duration::ZERO);
    for operation in [Operation::Login, Operation::Introspection] {
        health.circuit(operation, Circuit::Open);
    }
    let refused = Err(&IamError::CircuitOpen);
    health.called(Operation::Login, refused, Duration::ZERO);
    let report = health.report(clock.now());
    assert_eq!(report.readiness, Readiness::Degraded);
    assert_eq!(report.last_result, "ok", "the IAM did not say that");
    let [reason] = &report.reasons[..] else {
        panic!("one reason, not {:?}", report.reasons);
    };
    assert_eq!(reason.code, ReasonCode::CircuitOpen);
    assert!(reason.message.ends_with(": introspection, login"));
    for circuit in [Circuit::HalfOpen, Circuit::Closed] {
        for operation in [Operation::Login, Operation::Introspection] {
            health.circuit(operation, circuit);
        }
        assert_eq!(health.report(clock.now()).readiness, Readiness::Ready);
    }
}

#[test]
fn a_replica_that_is_not_ready_is_not_made_ready_by_another_trouble() {
    let clock = Arc::new(ManualClock::at(Duration::from_secs(1_800_000_000)));
    let health = Health::new(
        Arc::<ManualClock>::clone(&clock),
        Arc::default(),
        Lifecycle::default(),
    );
    let wrong = misconfigured(Misconfiguration::ClientSecret);
    health.called(Operation::Probe, wrong.as_ref().copied(), Duration::ZERO);
    health.circuit(Operation::Login, Circuit::Open);
    health.served_stale();
    let report = health.report(clock.now());
    assert_eq!(report.readiness, Readiness::NotReady);
    assert_eq!(report.reasons.len(), 3);
}

/// What is logged meanwhile, a line for each event.
fn logged(happens: impl FnOnce()) -> Vec<String> {
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);
    impl std::io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(move || writer.clone())
        .with_ansi(false)
        .finish();
    tracing::subscriber::with_default(subscriber, happens);
    let written = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    written.lines().map(str::to_owned).collect()
}

#[test]
fn an_outage_is_logged_at_its_beginning_and_at_its_end_however_many_feel_it() {
    let clock = Arc::new(ManualClock::at(Duration::from_secs(1_800_000_000)));
    let health = Health::new(
        Arc::<ManualClock>::clone(&clock),
        Arc::default(),
        Lifecycle::default(),
    );
    let lines = logged(|| {
        health.circuit(Operation::Introspection, Circuit::Open);
        for _ in 0..1_000 {
            health.served_stale();
            clock.advance(Duration::from_secs(3));
            // One that answers now and then does not end it.
            health.called(Operation::Introspection, Ok(()), Duration::ZERO);
            health.circuit(Operation::Introspection, Circuit::HalfOpen);
            health.circuit(Operation::Introspection, Circuit::Open);
        }
        clock.advance(Duration::from_secs(7));
        health.called(Operation::Probe, Ok(()), Duration::ZERO);
        health.circuit(Operation::Introspection, Circuit::Closed);
        health.called(Operation::Probe, Ok(()), Duration::ZERO);
    });
    let [open, begins, ends, closed] = &lines[..] else {
        panic!("four lines, not {lines:#?}");
    };
    assert!(open.contains("WARN") && open.contains("the circuit is open"));
    assert!(begins.contains("WARN") && begins.contains("stale knowledge"));
    assert!(
        ends.contains("INFO") && ends.contains("tokens=1000 duration_s=2997"),
        "{ends}"
    );
    assert!(closed.contains("INFO") && closed.contains("the circuit is closed"));
}
