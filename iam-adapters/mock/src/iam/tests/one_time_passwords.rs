//! Users with one-time passwords.

use super::*;

/// The secret of RFC 6238 appendix B.
const SECRET: &str = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ";
const STEP: Duration = Duration::from_secs(30);
const REFUSED: Option<Refusal> = Some(Refusal::InvalidCredentials);

fn verifier() -> TotpVerifier {
    TotpVerifier::new(&SECRET.into()).expect("base32")
}

impl Fixture {
    /// With a one-time password that Alice needs.
    fn with_otp() -> Self {
        let fixture = Self::new();
        let set = fixture.iam().set_totp(ALICE, Some(verifier()));
        set.expect("alice");
        fixture
    }

    /// The one-time password of this many steps from now.
    fn otp(&self, steps: i32) -> String {
        let now = self.clock.now().unix;
        let distance = STEP * steps.unsigned_abs();
        verifier().otp_at(if steps < 0 {
            now.saturating_sub(distance)
        } else {
            now + distance
        })
    }

    async fn refusal(&self, password: &str, otp: &str) -> Option<Refusal> {
        let credentials = Credentials::new(ALICE.to_owned(), password.into()).expect("shape");
        let credentials = credentials.with_otp(Some(otp.into())).expect("shape");
        let client = ClientContext::default();
        let login = self.mock.authenticate(&credentials, &client).await;
        assert!(login.is_ok() || refused(&login).is_some(), "{login:?}");
        refused(&login)
    }
}

#[test]
fn one_time_passwords_are_the_last_six_digits_of_those_in_rfc_6238() {
    // Appendix B, SHA-1.
    for (seconds, otp) in [
        (59, "287082"),
        (1_111_111_109, "081804"),
        (1_111_111_111, "050471"),
        (1_234_567_890, "005924"),
        (2_000_000_000, "279037"),
    ] {
        assert_eq!(verifier().otp_at(Duration::from_secs(seconds)), otp);
    }
}

#[test]
fn secret_is_base32_and_never_shown() {
    for secret in ["JBSWY3DPEHPK3PXP", SECRET] {
        let verifier = TotpVerifier::new(&secret.into()).expect("base32");
        let shown = format!("{verifier:?}").to_uppercase();
        assert!(
            !shown.contains("JBSWY") && !shown.contains("GEZD"),
            "{shown}"
        );
        assert!(
            !shown.contains("72, 101") && !shown.contains("49, 50"),
            "{shown}"
        );
    }
    for secret in ["", "1", "JBSWY3DPEHPK3PX1", "jbswy3dpehpk3pxp", "canary!"] {
        let invalid = TotpVerifier::new(&secret.into()).expect_err(secret);
        assert!(!invalid.to_string().contains("canary"), "{invalid}");
    }
}

#[tokio::test]
async fn one_time_password_of_the_step_before_now_or_after_is_accepted() {
    let fixture = Fixture::with_otp();
    for (steps, refusal) in [
        (-2, REFUSED),
        (-1, None),
        (0, None),
        (1, None),
        (2, REFUSED),
    ] {
        let otp = fixture.otp(steps);
        assert_eq!(
            fixture.refusal("alice-pass", &otp).await,
            refusal,
            "{steps}"
        );
    }
}

#[tokio::test]
async fn one_time_password_is_accepted_once_also_in_the_next_step() {
    let fixture = Fixture::with_otp();
    let [first, second] = [0, 1].map(|steps| fixture.otp(steps));
    for otp in [&first, &second] {
        assert_eq!(fixture.refusal("alice-pass", otp).await, None);
    }
    for _ in 0..3 {
        for otp in [&first, &second] {
            assert_eq!(fixture.refusal("alice-pass", otp).await, REFUSED);
        }
        fixture.clock.advance(STEP);
    }
    let next = fixture.otp(0);
    assert_eq!(fixture.refusal("alice-pass", &next).await, None);
}

#[tokio::test]
async fn incomplete_account_uses_its_one_time_password_up() {
    let fixture = Fixture::with_otp();
    let incomplete = fixture.iam().set_state(ALICE, AccountState::Incomplete);
    incomplete.expect("alice");
    let otp = fixture.otp(0);
    for expected in [Some(Refusal::Incomplete), REFUSED] {
        assert_eq!(fixture.refusal("alice-pass", &otp).await, expected);
    }
}

#[tokio::test]
async fn user_without_one_time_passwords_logs_in_with_any() {
    let fixture = Fixture::with_otp();
    fixture.iam().set_totp(ALICE, None).expect("alice");
    assert_eq!(fixture.refusal("alice-pass", "x").await, None);
    fixture.alice().await;
}

#[tokio::test]
async fn snapshot_restores_which_one_time_passwords_were_accepted() {
    let fixture = Fixture::with_otp();
    let [used, unused] = [0, 1].map(|steps| fixture.otp(steps));
    assert_eq!(fixture.refusal("alice-pass", &used).await, None);
    let snapshot = fixture.iam().snapshot();
    assert_eq!(fixture.refusal("alice-pass", &unused).await, None);
    fixture.iam().restore(&snapshot);
    assert_eq!(fixture.refusal("alice-pass", &used).await, REFUSED);
    assert_eq!(fixture.refusal("alice-pass", &unused).await, None);
}
