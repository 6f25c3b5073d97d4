//! Accounts that failed logins lock out.

use super::*;

const WRONG: Option<Refusal> = Some(Refusal::InvalidCredentials);
const LOCKED: Option<Refusal> = Some(Refusal::Locked);

/// Three failures lock an account out for a minute.
fn fixture() -> Fixture {
    let fixture = Fixture::new();
    let lockout = serde_json::from_value(json!({"failures": 3, "wait": "1m"}));
    fixture.iam().set_lockout(Some(lockout.expect("valid")));
    fixture
}

impl Fixture {
    async fn refusals<const N: usize>(&self, passwords: [&str; N]) -> Vec<Option<Refusal>> {
        let mut refusals = Vec::new();
        for password in passwords {
            refusals.push(refused(&self.log_in(ALICE, password).await));
        }
        refusals
    }
}

#[tokio::test]
async fn three_failures_lock_an_account_out_and_each_further_one_after_the_wait() {
    let fixture = fixture();
    let session = fixture.alice().await;
    let refusals = fixture.refusals(["x", "x", "x", "x", "alice-pass"]).await;
    assert_eq!(refusals, [WRONG, WRONG, WRONG, LOCKED, LOCKED]);
    assert!(fixture.is_active(&session).await, "its sessions stay");
    fixture.clock.advance(Duration::from_secs(60));
    let refusals = fixture.refusals(["x", "alice-pass"]).await;
    assert_eq!(refusals, [WRONG, LOCKED]);
    fixture.clock.advance(Duration::from_secs(60));
    let refusals = fixture
        .refusals(["alice-pass", "x", "x", "alice-pass"])
        .await;
    assert_eq!(refusals, [None, WRONG, WRONG, None], "a success forgets");
    let bob = fixture.log_in(BOB, "bob-pass").await;
    assert_eq!(refused(&bob), None, "another account");
}

#[tokio::test]
async fn no_account_is_locked_out_where_accounts_are_not() {
    let fixture = fixture();
    fixture.refusals(["x", "x", "x"]).await;
    fixture.iam().set_lockout(None);
    assert_eq!(fixture.refusals(["alice-pass"]).await, [None]);
}

#[tokio::test]
async fn a_lockout_shows_as_the_state_and_a_set_state_ends_it() {
    let fixture = fixture();
    fixture.refusals(["x", "x", "x"]).await;
    let state = || {
        let (alice, _) = fixture.iam().user_with_sessions(ALICE).expect("alice");
        alice.state_at(fixture.iam().now())
    };
    assert_eq!(state(), AccountState::Locked);
    let set = fixture.iam().set_state(ALICE, AccountState::Active);
    set.expect("alice");
    assert_eq!(state(), AccountState::Active);
    assert_eq!(fixture.refusals(["alice-pass"]).await, [None]);
}

#[tokio::test]
async fn failures_are_forgotten_after_twelve_hours_and_those_of_a_disabled_account_do_not_count() {
    let fixture = fixture();
    fixture.refusals(["x", "x"]).await;
    fixture.clock.advance(Duration::from_secs(12 * 60 * 60 + 1));
    let refusals = fixture.refusals(["x", "x", "alice-pass"]).await;
    assert_eq!(refusals, [WRONG, WRONG, None]);
    let set = |state| fixture.iam().set_state(ALICE, state).expect("alice");
    set(AccountState::Disabled);
    let refusals = fixture.refusals(["x", "x", "x", "alice-pass"]).await;
    assert_eq!(refusals, [WRONG, WRONG, WRONG, Some(Refusal::Disabled)]);
}
