use iam_adapters::error::Refusal;
use serde_json::json;

use super::*;

const ALICE: Option<&str> = Some("alice@example.test");

fn rule(json: serde_json::Value) -> Result<Rule, String> {
    serde_json::from_value(json).map_err(|error| error.to_string())
}

/// The rule, for logins if it names no operation.
fn with_operation(mut rule: Value) -> Value {
    let members = rule.as_object_mut().expect("an object");
    members.entry("operation").or_insert(json!("login"));
    rule
}

fn placed(rules: &[serde_json::Value]) -> Faults {
    let faults = Faults::default();
    for each in rules {
        let rule = rule(each.clone()).expect("a rule");
        faults.add(rule).expect("a fair rule");
    }
    faults
}

fn answers(faults: &Faults, operation: Operation, calls: usize) -> Vec<Option<&'static str>> {
    let answer = |_| Some(faults.next(operation, ALICE)?.answer?.name());
    (0..calls).map(answer).collect()
}

#[test]
fn rules_are_evaluated_in_order_and_used_up() {
    let faults = placed(&[
        json!({"operation": "introspection", "times": 2, "answer": "server_error"}),
        json!({"operation": "introspection", "times": 1, "answer": "inactive"}),
        json!({"operation": "login", "answer": "timeout"}),
    ]);
    let applied = answers(&faults, Operation::Introspection, 4);
    let failed = Some("server_error");
    assert_eq!(applied, [failed, failed, Some("inactive"), None]);
    assert_eq!(answers(&faults, Operation::Login, 3), [Some("timeout"); 3]);
    assert_eq!(answers(&faults, Operation::Logout, 1), [None]);
    let left = faults.list();
    assert_eq!(left.len(), 1);
    assert_eq!(
        (left[0].id, left[0].applied, left[0].remaining),
        (3, 3, None)
    );
}

#[test]
fn rule_for_one_user_applies_to_no_other_user() {
    let faults =
        placed(&[json!({"operation": "login", "user": "Alice@Example.test", "answer": "refused"})]);
    assert_eq!(
        faults.next(Operation::Login, Some("bob@example.test")),
        None
    );
    assert_eq!(faults.next(Operation::Login, None), None);
    let met = faults.next(Operation::Login, ALICE).expect("is met");
    let refused = Answer::Refused(Refusal::InvalidCredentials);
    assert_eq!(met.answer, Some(refused));
}

#[test]
fn share_selects_calls_by_the_random_number() {
    let (low, high): (Rng, Rng) = (|| 0.299, || 0.3);
    for (rng, met) in [(low, true), (high, false)] {
        let faults = Faults::new(false, rng);
        let input = json!({"operation": "login", "share": 0.3, "times": 1, "answer": "timeout"});
        faults.add(rule(input).expect("a rule")).expect("fair");
        assert_eq!(faults.next(Operation::Login, None).is_some(), met);
        assert_eq!(faults.is_empty(), met, "who is not met uses nothing up");
    }
}

#[test]
fn removed_rule_applies_no_more_and_its_id_is_not_reused() {
    let faults = placed(&[
        json!({"operation": "probe", "answer": "timeout"}),
        json!({"operation": "probe", "answer": "unreadable"}),
    ]);
    assert!(faults.remove(1) && !faults.remove(1));
    assert_eq!(answers(&faults, Operation::Probe, 1), [Some("unreadable")]);
    let kept = faults.list();
    faults.clear();
    assert_eq!(answers(&faults, Operation::Probe, 1), [None]);
    faults.restore(kept);
    assert_eq!(answers(&faults, Operation::Probe, 1), [Some("unreadable")]);
    let next = rule(json!({"operation": "probe", "answer": "timeout"})).expect("a rule");
    assert_eq!(faults.add(next).expect("fair").id, 3);
}

#[test]
fn delays_are_in_the_range_of_the_rule() {
    let delay = |text: serde_json::Value| serde_json::from_value::<Delay>(text).expect("a delay");
    let seconds = |delay: Delay, rng: Rng| delay.draw(rng).as_secs_f64();
    let fixed = delay(json!({"fixed": "200ms"}));
    assert!((seconds(fixed, || 0.5) - 0.2).abs() < 1e-9);
    let uniform = delay(json!({"uniform": ["1s", "3s"]}));
    assert!((seconds(uniform, || 0.0) - 1.0).abs() < 1e-9);
    assert!((seconds(uniform, || 0.5) - 2.0).abs() < 1e-9);
    let lognormal = delay(json!({"lognormal": {"median": "80ms", "sigma": 0.8}}));
    // A radius of zero is the median itself.
    assert!((seconds(lognormal, || 0.0) - 0.08).abs() < 1e-9);
    let wild = delay(json!({"lognormal": {"median": "10m", "sigma": 10.0}}));
    assert!((0..1000).all(|_| wild.draw(random_fraction) <= Duration::from_secs(600)));
    let mut drawn: Vec<_> = (0..1001).map(|_| lognormal.draw(random_fraction)).collect();
    drawn.sort();
    let median = drawn[500].as_secs_f64();
    assert!((0.06..0.11).contains(&median), "{median}");
}

#[test]
fn invalid_rule_is_refused_with_the_reason() {
    for (input, word) in [
        (json!({}), "needs a `delay`, an `answer`"),
        (json!({"times": 0, "answer": "timeout"}), "`times`"),
        (json!({"share": 0.0, "answer": "timeout"}), "`share`"),
        (json!({"share": 1.1, "answer": "timeout"}), "`share`"),
        (json!({"delay": {"fixed": "11m"}}), "`delay`"),
        (json!({"delay": {"uniform": ["2s", "1s"]}}), "`delay`"),
        (
            json!({"delay": {"lognormal": {"median": "1s", "sigma": -1.0}}}),
            "`delay`",
        ),
        (
            json!({"operation": "probe", "user": "a@b", "answer": "timeout"}),
            "`user`",
        ),
        (
            json!({"answer": "inactive"}),
            "\"inactive\" does not go with",
        ),
        (
            json!({"operation": "logout", "answer": "another_session"}),
            "does not go with",
        ),
        (
            json!({"operation": "probe", "answer": {"refused": "locked"}}),
            "\"refused\" does not",
        ),
        (json!({"answer": "reset"}), "over the wire"),
    ] {
        let rule = rule(with_operation(input.clone())).expect("the grammar of a rule");
        let refused = Faults::default().add(rule).expect_err("unfair").to_string();
        assert!(refused.contains(word), "{input}: {refused}");
    }
    let wired = rule(json!({"operation": "login", "answer": "reset"})).expect("a rule");
    assert!(Faults::over_the_wire().add(wired).is_ok());
}

#[test]
fn unreadable_rule_is_refused_with_the_expected_values() {
    for (input, word) in [
        (json!({"operation": "log-in"}), "log-in"),
        (json!({"answer": "slow"}), "slow"),
        (json!({"anwser": "timeout"}), "anwser"),
        (json!({"answer": {"refused": "gone"}}), "gone"),
        (json!({"answer": {"throttled": {"after": "1s"}}}), "after"),
        (json!({"delay": {"fixed": 200}}), "200"),
    ] {
        let refused = rule(with_operation(input.clone())).expect_err("no rule");
        assert!(refused.contains(word), "{input}: {refused}");
    }
    let refused = rule(json!({"answer": "timeout"})).expect_err("no rule");
    assert!(refused.contains("operation"), "{refused}");
}

#[test]
fn answer_is_serialized_as_it_was_parsed() {
    for (input, expected) in [
        (json!("server_error"), json!("server_error")),
        (json!("refused"), json!({"refused": "invalid_credentials"})),
        (json!({"refused": "locked"}), json!({"refused": "locked"})),
        (json!("throttled"), json!({"throttled": {}})),
        (
            json!({"throttled": {"retry_after": "3s"}}),
            json!({"throttled": {"retry_after": "3s"}}),
        ),
    ] {
        let answer: Answer = serde_json::from_value(input.clone()).expect("an answer");
        let written = serde_json::to_value(answer).expect("JSON");
        assert_eq!(written, expected);
        let again: Answer = serde_json::from_value(written).expect("an answer");
        assert_eq!(again, answer);
    }
}
