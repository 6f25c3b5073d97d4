//! The intended deviations of the mock from Keycloak. The table in `docs/testing-with-the-mock.md` has the same.

use serde_json::json;

use super::observed::Difference;

/// A deviation. Each must be seen in every run, so that one which has disappeared is noticed.
pub(super) struct Deviation {
    /// Its id in the table.
    pub(super) id: &'static str,
    /// Whether a difference in the response to a call of this name is of this kind.
    pub(super) is: fn(&str, &Difference) -> bool,
}

/// Claims of the default scope `profile`, and the flag of the default scope `email`.
const PROFILE: [&str; 5] = [
    "name",
    "given_name",
    "family_name",
    "preferred_username",
    "email_verified",
];

pub(super) const DEVIATIONS: [Deviation; 5] = [
    Deviation {
        id: "profile-claims",
        is: |_, difference| {
            let name = difference.path.rsplit('/').next().unwrap_or_default();
            difference.mock.is_null()
                && (PROFILE.contains(&name)
                    || difference.path.ends_with("access_token/claims/email"))
        },
    },
    Deviation {
        id: "access-token-algorithm",
        is: |_, difference| {
            difference.path.ends_with("access_token/header/alg")
                && (&difference.keycloak, &difference.mock) == (&json!("RS256"), &json!("ES256"))
        },
    },
    Deviation {
        id: "not-before-policy",
        is: |_, difference| difference.path == "/body/not-before-policy" && difference.mock == 0,
    },
    Deviation {
        id: "revocation-of-access-tokens",
        is: |name, _| name.starts_with("revoke: ") && name.contains(", Access, "),
    },
    Deviation {
        id: "sessions-of-other-clients",
        is: |name, difference| {
            name.starts_with("logout tokens: EndSession")
                && difference.path.ends_with("of other-gateway")
                && difference.keycloak.is_null()
        },
    },
];
