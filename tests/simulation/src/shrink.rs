//! Reduces a history that violates a rule to the necessary steps.

use crate::plan::Plan;

/// Removes the steps that the violation does not need: halves first, then smaller parts, down to single steps.
pub(crate) fn minimal(mut plan: Plan, breaks: impl Fn(&Plan) -> bool) -> Plan {
    let mut part = plan.steps.len().div_ceil(2);
    while part > 0 {
        let before = plan.steps.len();
        let mut from = 0;
        while from < plan.steps.len() {
            let mut smaller = plan.clone();
            let until = (from + part).min(smaller.steps.len());
            smaller.steps.drain(from..until);
            if breaks(&smaller) {
                plan = smaller;
            } else {
                from += part;
            }
        }
        if part > 1 || plan.steps.len() == before {
            part /= 2;
        }
    }
    plan
}
