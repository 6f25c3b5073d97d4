//! Reduces a scenario that violates a rule to the necessary steps.

use super::scenario::{ModelScenario, Step};

/// Removes the steps that the violation does not need: halves first, then smaller parts, down to
/// single steps. `breaks` returns the step at which a scenario violates a rule.
pub(super) fn minimal(
    mut scenario: ModelScenario,
    breaks: impl Fn(&ModelScenario) -> Option<usize>,
) -> ModelScenario {
    let mut part = scenario.steps.len();
    while part > 0 {
        let before = scenario.steps.len();
        let mut from = 0;
        while from < scenario.steps.len() {
            let smaller = without(&scenario, from, part);
            if let Some(last) = breaks(&smaller) {
                scenario = smaller;
                scenario.steps.truncate(last + 1);
            } else {
                from += part;
            }
        }
        if part > 1 || scenario.steps.len() == before {
            part /= 2;
        }
    }
    scenario
}

fn without(scenario: &ModelScenario, from: usize, part: usize) -> ModelScenario {
    let kept = |(number, _): &(usize, &Step)| !(from..from + part).contains(number);
    let steps = scenario.steps.iter().enumerate().filter(kept);
    ModelScenario {
        setting: scenario.setting,
        steps: steps.map(|(_, step)| step.clone()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minimal_scenario_contains_only_what_the_violation_needs() {
        let needed = [Step::Restart { at: 7 }, Step::Restart { at: 8 }];
        let breaks = |scenario: &ModelScenario| {
            let mut wanted = needed.iter().peekable();
            scenario.steps.iter().position(|step| {
                wanted.next_if(|next| *next == step);
                wanted.peek().is_none()
            })
        };
        let mut scenario = ModelScenario::random(1, 200, 0);
        for (place, step) in [20, 150].into_iter().zip(&needed) {
            scenario.steps.insert(place, step.clone());
        }
        assert_eq!(minimal(scenario, breaks).steps, needed);
    }
}
