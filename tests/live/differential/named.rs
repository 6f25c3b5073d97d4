//! Sequences that hold one rule each, beside the random ones. Each stated deviation occurs here.

use super::sequence::Step::{
    ChangePassword, Create, Delete, EndSession, EndSessionsOf, Introspect, LogIn, LogOut, Permit,
    Refresh, Revoke, SetState,
};
use super::sequence::{By, Otp, Password, Sequence, Step, Token};
use super::server::State;

/// Seconds before the parts: the second begins after a lock-out, and the third after the expiry of all sessions.
pub(super) const ADVANCES: [u64; 3] = [60, 420, 29_000];

const LOG_IN: Step = LogIn(0, Password::Right, Otp::Absent, By::Own);
const WRONG: Step = LogIn(0, Password::Wrong, Otp::Absent, By::Own);
const ACTIVE: Step = Introspect(0, Token::First, By::Own);
const REFRESH: Step = Refresh(0, Token::First, By::Own);
const LOG_OUT: Step = LogOut(0, Token::First, By::Own);

const fn with_otp(otp: Otp) -> Step {
    LogIn(1, Password::Right, otp, By::Own)
}

/// The sequences, by rule.
#[expect(clippy::too_many_lines, reason = "a table")]
pub(super) fn sequences() -> Vec<(&'static str, Sequence)> {
    let first = |steps: &[Step]| [steps.to_vec(), Vec::new(), Vec::new()];
    let calls = [ACTIVE, REFRESH, LOG_OUT];
    let after = |steps: &[Step]| first(&[&[LOG_IN], steps, &calls].concat());
    vec![
        (
            "sessions of a disabled account are active again when it is",
            first(&[
                LOG_IN,
                SetState(0, State::Disabled),
                ACTIVE,
                REFRESH,
                LOG_IN,
                WRONG,
                SetState(0, State::Active),
                ACTIVE,
            ]),
        ),
        (
            "a session of a disabled account can be logged out",
            after(&[
                SetState(0, State::Disabled),
                LOG_OUT,
                SetState(0, State::Active),
            ]),
        ),
        (
            "an incomplete account keeps its sessions and begins none",
            after(&[SetState(0, State::Incomplete), LOG_IN, WRONG]),
        ),
        (
            "an ended session stays ended",
            after(&[EndSession(0), EndSession(0)]),
        ),
        (
            "all sessions of an account end",
            after(&[LOG_IN, EndSessionsOf(0), LOG_IN]),
        ),
        (
            "sessions of a deleted account do not become those of a new one",
            after(&[Delete(0), LOG_IN, Create(0, false), LOG_IN]),
        ),
        (
            "a changed password ends no session",
            after(&[ChangePassword(0)]),
        ),
        (
            "a changed permission is in the next introspection",
            after(&[Permit(0, 0, true), ACTIVE, Permit(0, 0, false)]),
        ),
        (
            "a logout ends one session, for its own client alone",
            after(&[
                LOG_IN,
                LogOut(0, Token::First, By::Another),
                LogOut(0, Token::First, By::WrongSecret),
                LogOut(0, Token::Altered, By::Own),
                LogOut(0, Token::Access, By::Own),
                ACTIVE,
                LOG_OUT,
            ]),
        ),
        (
            "a revocation ends one session without a logout token",
            after(&[
                Revoke(0, Token::First, By::Another),
                Revoke(0, Token::Access, By::Own),
                Revoke(0, Token::First, By::Own),
                Revoke(0, Token::First, By::Own),
            ]),
        ),
        (
            "a session of another client ends without a logout token",
            first(&[
                LogIn(0, Password::Right, Otp::Absent, By::Another),
                EndSessionsOf(0),
            ]),
        ),
        (
            "three failures lock an account, and one more after the wait",
            [
                vec![
                    LOG_IN, WRONG, WRONG, LOG_IN, WRONG, WRONG, WRONG, LOG_IN, ACTIVE,
                ],
                vec![WRONG, LOG_IN],
                vec![LOG_IN, WRONG, LOG_IN],
            ],
        ),
        (
            "a one-time password is accepted once, and a wrong one counts as a failure",
            [
                vec![
                    with_otp(Otp::Current),
                    with_otp(Otp::Current),
                    with_otp(Otp::Next),
                    with_otp(Otp::Wrong),
                    with_otp(Otp::Absent),
                    with_otp(Otp::Wrong),
                    with_otp(Otp::Current),
                ],
                vec![with_otp(Otp::Current)],
                vec![SetState(1, State::Disabled), with_otp(Otp::Absent)],
            ],
        ),
        (
            "an incomplete account uses its one-time password up",
            first(&[
                SetState(1, State::Incomplete),
                with_otp(Otp::Current),
                with_otp(Otp::Current),
            ]),
        ),
        (
            "an expired session is over for every call",
            [
                vec![LOG_IN],
                vec![ACTIVE, REFRESH],
                vec![
                    ACTIVE,
                    REFRESH,
                    Refresh(0, Token::First, By::Another),
                    Revoke(0, Token::First, By::Own),
                    LOG_OUT,
                ],
            ],
        ),
    ]
}
