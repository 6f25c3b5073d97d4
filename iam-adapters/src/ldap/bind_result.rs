//! What the response to a user's bind means.
//!
//! "The password must be changed" is a successful bind with a response control, so the control is always requested
//! (draft-behera-ldap-password-policy-11).

use ldap3::LdapResult;
use ldap3::asn1::{StructureTag, TagClass, parse_tag};
use ldap3::controls::{Control, RawControl};

use super::Flavour;
use super::fault::fault_of;
use crate::error::{IamError, Refusal};

/// The password policy control, in requests and in responses.
pub(super) const PASSWORD_POLICY: &str = "1.3.6.1.4.1.42.2.27.8.5.1";

/// The control of Netscape's servers for an expired password, also one that must be changed.
const PASSWORD_EXPIRED: &str = "2.16.840.1.113730.3.4.4";

/// Requests the control, which servers without a policy ignore.
pub(super) fn password_policy_control() -> RawControl {
    RawControl {
        ctype: PASSWORD_POLICY.to_owned(),
        crit: false,
        val: None,
    }
}

/// The error of a policy (section 6.2 of the draft).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PolicyError {
    PasswordExpired,
    AccountLocked,
    ChangeAfterReset,
    Other,
}

/// Fails unless the bind means that the user may log in. `is_disabled` is what the entry states.
///
/// # Errors
///
/// [`IamError::Refused`], or the fault if the response is not about the user.
pub(super) fn check(
    result: &LdapResult,
    flavour: Flavour,
    is_disabled: bool,
) -> Result<(), IamError> {
    let refused = |refusal| Err(IamError::Refused(refusal));
    let policy = policy_error(&result.ctrls)?;
    match (result.rc, policy) {
        (0 | 49, Some(PolicyError::PasswordExpired | PolicyError::ChangeAfterReset)) => {
            refused(Refusal::Incomplete)
        }
        // OpenLDAP responds with 49, 389 Directory Server with 19, or with 53 for a disabled account.
        (0 | 19 | 49 | 53, Some(PolicyError::AccountLocked)) => refused(if is_disabled {
            Refusal::Disabled
        } else {
            Refusal::Locked
        }),
        (0, None) => Ok(()),
        (49, None | Some(PolicyError::Other)) if flavour == Flavour::ActiveDirectory => {
            refused(active_directory(&result.text))
        }
        // The entry has no password (48), or was deleted since the search (32).
        (49 | 48 | 32, None | Some(PolicyError::Other)) => refused(Refusal::InvalidCredentials),
        (0, Some(PolicyError::Other)) => Err(unreadable("an unknown error of the password policy")),
        _ => Err(fault_of(result)),
    }
}

/// The reason in the text of Active Directory, such as `… data 52e, v4563`.
fn active_directory(text: &str) -> Refusal {
    let code = text.split(", data ").nth(1);
    let code = code.and_then(|code| code.split(',').next());
    match code {
        // Not at this time, not at this computer, disabled, expired account.
        Some("530" | "531" | "533" | "701") => Refusal::Disabled,
        Some("532" | "773") => Refusal::Incomplete,
        Some("775") => Refusal::Locked,
        _ => Refusal::InvalidCredentials,
    }
}

/// The error of the password policy in the controls of a response; `None`: there is none.
fn policy_error(controls: &[Control]) -> Result<Option<PolicyError>, IamError> {
    let raw = |oid: &str| {
        controls
            .iter()
            .map(|control| &control.1)
            .find(|raw| raw.ctype == oid)
    };
    let stated = match raw(PASSWORD_POLICY).and_then(|control| control.val.as_deref()) {
        Some(value) => error_in(value).ok_or_else(|| unreadable("the password policy control"))?,
        None => None,
    };
    let expired = raw(PASSWORD_EXPIRED).map(|_| PolicyError::PasswordExpired);
    Ok(stated.or(expired))
}

/// The error in `SEQUENCE { [0] warning OPTIONAL, [1] error OPTIONAL }`; `None` if it is something else.
#[expect(
    clippy::option_option,
    reason = "unreadable, and read without an error"
)]
fn error_in(value: &[u8]) -> Option<Option<PolicyError>> {
    const SEQUENCE: u64 = 16;
    const ERROR: u64 = 1;
    let Ok(([], sequence)) = parse_tag(value) else {
        return None;
    };
    let sequence = sequence.match_class(TagClass::Universal)?;
    let members = sequence.match_id(SEQUENCE)?.expect_constructed()?;
    let is_error = |member: &StructureTag| (member.class, member.id) == (TagClass::Context, ERROR);
    let Some(error) = members.into_iter().find(is_error) else {
        return Some(None);
    };
    Some(Some(match *error.expect_primitive()? {
        [0] => PolicyError::PasswordExpired,
        [1] => PolicyError::AccountLocked,
        [2] => PolicyError::ChangeAfterReset,
        [_] => PolicyError::Other,
        _ => return None,
    }))
}

fn unreadable(what: &'static str) -> IamError {
    IamError::Unreadable(what.into())
}

#[cfg(test)]
mod tests;
