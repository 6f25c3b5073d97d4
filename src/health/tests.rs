use std::collections::{BTreeMap, BTreeSet};

use arc_swap::ArcSwap;
use iam_adapters::resilient::{CallEvent, Observer, Operation};
use iam_adapters::{IamAdapter, Misconfiguration, ResilientAdapter};
use strum::{VariantArray as _, VariantNames as _};
use test_support::ManualClock;
use test_support::log;
use test_support::scripted_iam::ScriptedIam;

use super::*;
use crate::config::sample::registry;
use crate::telemetry::metrics::Metrics;
use auth_gateway_core::event::{Replicated, Subscribers};
use auth_gateway_core::request::RequestContext;

/// The health of a replica with these IAMs.
fn replica(clock: &Arc<ManualClock>, iams: &[&str]) -> Arc<Health> {
    let clock = Arc::<ManualClock>::clone(clock);
    Arc::new(Health::new(clock, iams, Lifecycle::default()))
}

/// Hands what an adapter observes to the health of its replica.
fn observer(health: &Arc<Health>, iam: &str) -> Observer {
    let health: Arc<dyn Subscriber> = Arc::<Health>::clone(health);
    Subscribers::new([health]).of_iam(iam.into())
}

/// The health of a replica with one IAM, and the observer of that IAM.
fn one_iam(clock: &Arc<ManualClock>) -> (Arc<Health>, Observer) {
    let health = replica(clock, &["iam"]);
    let observer = observer(&health, "iam");
    (health, observer)
}

/// A call to the IAM has ended.
fn called(iam: &Observer, operation: Operation, result: Result<(), &IamError>) {
    let took = Duration::ZERO;
    iam(&CallEvent::Called {
        operation,
        result,
        took,
    });
}

/// The circuit of an operation has changed.
fn circuit_changed(iam: &Observer, operation: Operation, circuit: Circuit) {
    iam(&CallEvent::Circuit { operation, circuit });
}

/// The state of the log of revocations.
fn replicate(
    health: &Health,
    received: Result<(), &str>,
    stored: Result<(), &str>,
    is_catching_up: bool,
) {
    health.on_event(&Event::Replication {
        of: Replicated::Revocations,
        received,
        stored,
        is_catching_up,
    });
}

/// An access token is issued with stale data of this IAM.
fn serve_stale(health: &Health, iam: &str) {
    health.on_event(&Event::Exchange {
        request: &RequestContext::default(),
        iam: Some(&iam.into()),
        result: Ok(DataSource::Stale),
    });
}

fn after(results: &[Result<(), IamError>]) -> Report {
    let clock = Arc::new(ManualClock::at(Duration::from_secs(1_800_000_000)));
    let (health, iam) = one_iam(&clock);
    for result in results {
        let result = result.as_ref().copied();
        called(&iam, Operation::Probe, result);
    }
    health.report(clock.now())
}

fn misconfigured(what: Misconfiguration) -> Result<(), IamError> {
    Err(IamError::misconfigured(what, "detail"))
}

#[test]
fn outage_of_the_iam_alone_keeps_a_replica_in_service() {
    let outage = || Err(IamError::Unreachable("refused".into()));
    for results in [vec![outage()], vec![Ok(()), outage()]] {
        let report = after(&results);
        assert_eq!(report.readiness, Readiness::Degraded);
        assert_eq!(report.iams[0].result, "unreachable");
        assert_eq!(report.reasons.len(), 1);
    }
    assert_eq!(after(&[]).iams[0].result, "none");
    assert_eq!(after(&[outage(), Ok(())]).readiness, Readiness::Ready);
}

#[test]
fn replica_is_not_ready_before_the_first_probe() {
    let report = after(&[]);
    assert_eq!(report.readiness, Readiness::NotReady);
    let codes: Vec<_> = report.reasons.iter().map(|reason| reason.code).collect();
    assert_eq!(codes, [ReasonCode::IamNotProbed]);
    assert_eq!(report.iams[0].age, None);
}

/// An IAM that accepts connections and never responds.
#[tokio::test(start_paused = true)]
async fn first_probe_that_hangs_makes_the_replica_degraded_at_its_deadline() {
    let clock = Arc::new(ManualClock::at(Duration::from_secs(1_800_000_000)));
    let time: Arc<dyn Clock> = Arc::<ManualClock>::clone(&clock);
    let (health, observer) = one_iam(&clock);
    let settings = crate::config::load(None, &BTreeMap::new(), &registry()).unwrap();
    let limits = settings.upstream.limits();
    let hanging = ScriptedIam::default();
    let _calls = hanging.hold(Operation::Probe);
    let hanging: Arc<dyn IamAdapter> = Arc::new(hanging);
    let iam = Arc::new(ResilientAdapter::new(
        &"iam".into(),
        Arc::new(ArcSwap::from_pointee(hanging)),
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
    assert_eq!(report.iams[0].result, "timed_out");
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
    let names = ReasonCode::VARIANTS.iter().copied();
    let names = names.filter(|name| *name != "misconfigured");
    let of_misconfigurations = Misconfiguration::VARIANTS.iter().map(|what| {
        let fault = IamError::misconfigured(*what, "detail");
        ReasonCode::of_fault(&fault).unwrap()
    });
    // It is the code of all faults of that source.
    let of_misconfigurations =
        of_misconfigurations.filter(|code| *code != ReasonCode::PermissionSource);
    let names: Vec<_> = names.chain(of_misconfigurations.map(Name::name)).collect();
    let known: BTreeSet<_> = names.iter().copied().collect();
    assert_eq!(listed, known);
    assert_eq!(known.len(), names.len(), "two codes with one name");
}

#[test]
fn misconfiguration_makes_a_replica_not_ready_only_before_its_first_success() {
    let wrong = || misconfigured(Misconfiguration::ClientSecret);
    assert_eq!(after(&[wrong()]).readiness, Readiness::NotReady);
    assert_eq!(after(&[Ok(()), wrong()]).readiness, Readiness::Degraded);
}

#[test]
fn misconfiguration_whose_repair_no_probe_detects_keeps_the_replica_in_service() {
    let wrong = misconfigured(Misconfiguration::Introspection);
    assert_eq!(after(&[wrong]).readiness, Readiness::Degraded);
}

#[test]
fn refusal_counts_as_a_response_of_the_iam_and_saturation_and_a_fault_of_one_session_do_not() {
    let refusal = Err(IamError::Refused(iam_adapters::Refusal::Disabled));
    assert_eq!(after(&[refusal]).iams[0].result, "ok");
    let of_one_session = IamError::UnreadableSession("no subject".into());
    for not_counted in [IamError::Saturated, of_one_session] {
        let report = after(&[Ok(()), Err(not_counted)]);
        assert_eq!(report.iams[0].result, "ok");
        assert_eq!(report.readiness, Readiness::Ready);
    }
}

#[test]
fn refusal_does_not_end_a_fault_that_only_the_right_password_meets() {
    let refused = || Err(IamError::Refused(iam_adapters::Refusal::InvalidCredentials));
    for (fault, stays) in [
        (misconfigured(Misconfiguration::Other), true),
        (misconfigured(Misconfiguration::Introspection), true),
        (Err(IamError::Unreadable("no subject".into())), true),
        // The IAM has accepted the client, and responded.
        (misconfigured(Misconfiguration::ClientSecret), false),
        (Err(IamError::Failed("500".to_owned())), false),
    ] {
        let report = after(&[Ok(()), fault.clone(), refused()]);
        assert_eq!(report.reasons.len(), usize::from(stays), "{fault:?}");
        let report = after(&[Ok(()), fault.clone(), refused(), Ok(())]);
        assert_eq!(report.readiness, Readiness::Ready, "{fault:?}");
    }
}

#[test]
fn open_circuit_is_a_reason_and_a_half_open_one_is_not() {
    let clock = Arc::new(ManualClock::at(Duration::from_secs(1_800_000_000)));
    let (health, iam) = one_iam(&clock);
    called(&iam, Operation::Probe, Ok(()));
    for operation in [Operation::Login, Operation::Introspection] {
        circuit_changed(&iam, operation, Circuit::Open);
    }
    let refused = Err(&IamError::CircuitOpen);
    called(&iam, Operation::Login, refused);
    let report = health.report(clock.now());
    assert_eq!(report.readiness, Readiness::Degraded);
    assert_eq!(report.iams[0].result, "ok", "not a result of the IAM");
    let [reason] = &report.reasons[..] else {
        panic!("one reason, not {:?}", report.reasons);
    };
    assert_eq!(reason.code, ReasonCode::CircuitOpen);
    assert!(reason.message.ends_with(": introspection, login"));
    for circuit in [Circuit::HalfOpen, Circuit::Closed] {
        for operation in [Operation::Login, Operation::Introspection] {
            circuit_changed(&iam, operation, circuit);
        }
        assert_eq!(health.report(clock.now()).readiness, Readiness::Ready);
    }
}

#[test]
fn open_circuit_of_the_permission_source_is_not_one_of_the_iam() {
    let clock = Arc::new(ManualClock::at(Duration::from_secs(1_800_000_000)));
    let (health, iam) = one_iam(&clock);
    called(&iam, Operation::Probe, Ok(()));
    let lines = logged(|| circuit_changed(&iam, Operation::Permissions, Circuit::Open));
    assert!(
        lines
            .concat()
            .contains("no call goes to the permission source"),
        "{lines:?}"
    );
    circuit_changed(&iam, Operation::Login, Circuit::Open);
    let report = health.report(clock.now());
    let messages: Vec<_> = report
        .reasons
        .iter()
        .map(|reason| &*reason.message)
        .collect();
    assert_eq!(
        messages,
        [
            "the IAM is not called, because too many calls have failed: login",
            "the permission source is not called, because too many calls have failed: permissions",
        ]
    );
}

#[test]
fn another_problem_does_not_change_not_ready() {
    let clock = Arc::new(ManualClock::at(Duration::from_secs(1_800_000_000)));
    let (health, iam) = one_iam(&clock);
    let wrong = misconfigured(Misconfiguration::ClientSecret);
    called(&iam, Operation::Probe, wrong.as_ref().copied());
    circuit_changed(&iam, Operation::Login, Circuit::Open);
    serve_stale(&health, "iam");
    let report = health.report(clock.now());
    assert_eq!(report.readiness, Readiness::NotReady);
    assert_eq!(report.reasons.len(), 3);
}

#[test]
fn clock_that_differs_by_more_than_30_seconds_is_a_reason_that_names_the_peer_until_it_agrees() {
    let clock = Arc::new(ManualClock::at(Duration::from_secs(1_800_000_000)));
    let metrics = Arc::new(Metrics::new(&["corp"]));
    let health = replica(&clock, &["corp"]);
    let subscribers: [Arc<dyn Subscriber>; 2] = [
        Arc::<Health>::clone(&health),
        Arc::<Metrics>::clone(&metrics),
    ];
    let iam = Subscribers::new(subscribers).of_iam("corp".into());
    called(&iam, Operation::Probe, Ok(()));
    replicate(&health, Ok(()), Ok(()), false);
    let of_iam = "of this replica is 40 s behind the clock of the IAM corp";
    let of_redis = "of this replica is 301 s ahead of the clock of Redis";
    for (iam_offset, redis_offset, expected) in [
        (0.0, -30.0, vec![]),
        (40.4, 0.0, vec![of_iam]),
        (40.4, -301.0, vec![of_iam, of_redis]),
        (30.0, -301.0, vec![of_redis]),
        (30.0, 0.0, vec![]),
    ] {
        iam(&CallEvent::Clock { offset: iam_offset });
        health.on_event(&Event::Clock {
            offset: redis_offset,
        });
        let report = health.report(clock.now());
        let degraded = report.readiness == Readiness::Degraded;
        assert_eq!(degraded, !expected.is_empty());
        let reasons = report.reasons.iter();
        let messages = reasons.map(|reason| reason.message.trim_start_matches("the clock "));
        assert_eq!(messages.collect::<Vec<_>>(), expected);
        let gauge = "auth_gateway_clock_offset_seconds{peer=\"iam\",iam=\"corp\"}";
        let gauge = format!("{gauge} {iam_offset:?}\n");
        assert!(metrics.encode().contains(&gauge), "{gauge}");
    }
}

#[test]
fn replica_without_the_revocations_of_the_others_is_not_ready_before_the_deadline_and_then_degraded()
 {
    use Readiness::{Degraded, NotReady, Ready};
    use ReasonCode::{
        ClockWrong, RevocationsCatchingUp, RevocationsRefused, RevocationsUnreachable,
    };
    let clock = Arc::new(ManualClock::at(Duration::from_secs(1_800_000_000)));
    let (health, iam) = one_iam(&clock);
    called(&iam, Operation::Probe, Ok(()));
    health.on_event(&Event::Clock { offset: 40.0 });
    let (away, full) = (Err("does not answer in time"), Err("refuses: OOM"));
    for (received, stored, is_catching_up, expected, effect) in [
        (
            away,
            Ok(()),
            true,
            (NotReady, vec![RevocationsCatchingUp]),
            "or until redis.catch_up_deadline, which does not apply with",
        ),
        (
            away,
            Ok(()),
            false,
            (Degraded, vec![RevocationsUnreachable]),
            "logouts at other replicas take effect here within session.freshness if the IAM",
        ),
        (
            Ok(()),
            full,
            false,
            (Degraded, vec![RevocationsRefused, ClockWrong]),
            "logouts here take effect at other replicas within session.freshness if the IAM",
        ),
        (
            Ok(()),
            Ok(()),
            false,
            (Degraded, vec![ClockWrong]),
            "the clock of Redis",
        ),
    ] {
        replicate(&health, received, stored, is_catching_up);
        let report = health.report(clock.now());
        let codes: Vec<_> = report.reasons.iter().map(|reason| reason.code).collect();
        assert_eq!((report.readiness, codes), expected);
        let message = &report.reasons[0].message;
        assert!(message.contains(effect), "{message}");
    }
    health.on_event(&Event::Clock { offset: 0.0 });
    assert_eq!(health.report(clock.now()).readiness, Ready);
}

/// The lines that `action` logs.
fn logged(action: impl FnOnce()) -> Vec<String> {
    let (lines, captured) = log::capture_lines();
    action();
    drop(captured);
    lines.text().lines().map(str::to_owned).collect()
}

#[test]
fn outage_is_logged_once_at_its_start_and_once_at_its_end() {
    let clock = Arc::new(ManualClock::at(Duration::from_secs(1_800_000_000)));
    let (health, iam) = one_iam(&clock);
    let lines = logged(|| {
        circuit_changed(&iam, Operation::Introspection, Circuit::Open);
        for _ in 0..1_000 {
            serve_stale(&health, "iam");
            clock.advance(Duration::from_secs(3));
            // A single success does not end it.
            called(&iam, Operation::Introspection, Ok(()));
            circuit_changed(&iam, Operation::Introspection, Circuit::HalfOpen);
            circuit_changed(&iam, Operation::Introspection, Circuit::Open);
        }
        clock.advance(Duration::from_secs(7));
        called(&iam, Operation::Probe, Ok(()));
        circuit_changed(&iam, Operation::Introspection, Circuit::Closed);
        called(&iam, Operation::Probe, Ok(()));
    });
    let [open, begins, ends, closed] = &lines[..] else {
        panic!("four lines, not {lines:#?}");
    };
    assert!(open.contains("WARN") && open.contains("the circuit is open"));
    assert!(begins.contains("WARN") && begins.contains("stale data"));
    assert!(
        ends.contains("INFO") && ends.contains("tokens=1000 duration_s=2997"),
        "{ends}"
    );
    assert!(closed.contains("INFO") && closed.contains("the circuit is closed"));
}

#[test]
fn faults_of_the_permission_source_are_a_reason_of_their_own_and_logged_like_those_of_the_iam() {
    let gone = IamError::Unreachable("gone".into());
    let calls = [Ok(()), Err(&gone), Err(&gone), Ok(()), Ok(())];
    for (operation, code, callee) in [
        (Operation::Probe, ReasonCode::Unreachable, "IAM"),
        (
            Operation::Permissions,
            ReasonCode::PermissionSource,
            "permission source",
        ),
    ] {
        let clock = Arc::new(ManualClock::at(Duration::from_secs(1_800_000_000)));
        let (health, iam) = one_iam(&clock);
        called(&iam, Operation::Probe, Ok(()));
        let lines = logged(|| {
            for result in calls {
                called(&iam, operation, result);
                let report = health.report(clock.now());
                let codes: Vec<_> = report.reasons.iter().map(|reason| reason.code).collect();
                assert_eq!(codes, result.err().map(|_| code).as_slice());
                let of_iam = result.is_ok() || operation == Operation::Permissions;
                let last = if of_iam { "ok" } else { "unreachable" };
                assert_eq!(report.iams[0].result, last);
            }
        });
        let [begins, ends] = &lines[..] else {
            panic!("two lines, not {lines:#?}");
        };
        let (failed, succeed) = (format!("calls to the {callee} fail"), "succeed again");
        assert!(
            begins.contains("WARN") && begins.contains(&failed),
            "{begins}"
        );
        assert!(ends.contains("INFO") && ends.contains(succeed), "{ends}");
        assert!(ends.contains(callee), "{ends}");
    }
}

#[test]
fn replica_is_not_ready_only_if_no_iam_is_and_each_reason_names_its_iam() {
    let wrong = || misconfigured(Misconfiguration::ClientSecret);
    let gone = || Err(IamError::Unreachable("gone".into()));
    for (one, other, readiness, reasons) in [
        (Some(Ok(())), Some(Ok(())), Readiness::Ready, vec![]),
        (
            Some(Ok(())),
            Some(wrong()),
            Readiness::Degraded,
            vec!["other"],
        ),
        (Some(Ok(())), None, Readiness::Degraded, vec!["other"]),
        (Some(gone()), Some(Ok(())), Readiness::Degraded, vec!["one"]),
        (
            Some(gone()),
            Some(wrong()),
            Readiness::Degraded,
            vec!["one", "other"],
        ),
        (
            Some(wrong()),
            Some(wrong()),
            Readiness::NotReady,
            vec!["one", "other"],
        ),
        (
            None,
            Some(wrong()),
            Readiness::NotReady,
            vec!["one", "other"],
        ),
    ] {
        let clock = Arc::new(ManualClock::at(Duration::from_secs(1_800_000_000)));
        let health = replica(&clock, &["one", "other"]);
        for (iam, result) in ["one", "other"].into_iter().zip([one, other]) {
            if let Some(result) = &result {
                let result = result.as_ref().copied();
                called(&observer(&health, iam), Operation::Probe, result);
            }
        }
        let report = health.report(clock.now());
        assert_eq!(report.readiness, readiness, "{report:?}");
        let named = report.reasons.iter().map(|reason| reason.iam.as_deref());
        let named: Vec<_> = named.map(Option::unwrap_or_default).collect();
        assert_eq!(named, reasons);
    }
}

#[test]
fn stale_data_is_a_reason_of_its_iam_alone() {
    let clock = Arc::new(ManualClock::at(Duration::from_secs(1_800_000_000)));
    let health = replica(&clock, &["one", "other"]);
    for iam in ["one", "other"] {
        called(&observer(&health, iam), Operation::Probe, Ok(()));
    }
    serve_stale(&health, "other");
    let report = health.report(clock.now());
    let [reason] = &report.reasons[..] else {
        panic!("one reason, not {:?}", report.reasons);
    };
    assert_eq!(reason.code, ReasonCode::ServingStale);
    assert_eq!(reason.iam.as_deref(), Some("other"));
}
