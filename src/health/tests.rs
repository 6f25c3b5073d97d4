use iam_adapters::clock::ManualClock;

use super::*;

fn after(words: &[Result<(), IamError>]) -> Report {
    let clock = Arc::new(ManualClock::at(Duration::from_secs(1_800_000_000)));
    let health = Health::new(Arc::<ManualClock>::clone(&clock), Arc::default());
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
        assert_eq!(report.last_word, "unreachable");
        assert_eq!(report.reasons.len(), 1);
    }
    assert_eq!(after(&[]).last_word, "never_asked");
    assert_eq!(after(&[outage(), Ok(())]).readiness, Readiness::Ready);
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
    assert_eq!(after(&[refusal]).last_word, "ok");
    let report = after(&[Ok(()), Err(IamError::Saturated)]);
    assert_eq!(report.last_word, "ok");
}
