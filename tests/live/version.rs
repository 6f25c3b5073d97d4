//! How the supported versions of Keycloak differ, as far as a test sees it. docs/keycloak.md has the
//! effects.

use crate::keycloak::environment;

/// A supported version of Keycloak.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Version {
    number: &'static str,
    /// The status of a grant with a wrong password.
    pub(crate) wrong_password: u16,
    pub(crate) logout_tokens: LogoutTokens,
    pub(crate) sessions_survive_restart: bool,
}

/// The logout tokens that the gateway accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogoutTokens {
    /// One for each session that ends.
    ForEachSession,
    /// The same, but only one if an administrator logs out a user with several sessions.
    OneForUser,
    /// None, because they do not have the type `logout+jwt`.
    Untyped,
}

const VERSIONS: [Version; 4] = [
    Version {
        number: "26.7.4",
        wrong_password: 400,
        logout_tokens: LogoutTokens::ForEachSession,
        sessions_survive_restart: true,
    },
    Version {
        number: "26.0.8",
        wrong_password: 401,
        logout_tokens: LogoutTokens::OneForUser,
        sessions_survive_restart: true,
    },
    Version {
        number: "25.0.6",
        wrong_password: 401,
        logout_tokens: LogoutTokens::OneForUser,
        sessions_survive_restart: false,
    },
    Version {
        number: "24.0.5",
        wrong_password: 401,
        logout_tokens: LogoutTokens::Untyped,
        sessions_survive_restart: false,
    },
];

impl Version {
    /// The version that the tests run with.
    pub(crate) fn of_environment() -> Self {
        let number = environment("KEYCLOAK_VERSION");
        let mut versions = VERSIONS.into_iter();
        let version = versions.find(|version| version.number == number);
        version.unwrap_or_else(|| panic!("{number} is not a supported version"))
    }
}

impl LogoutTokens {
    /// How many sessions of a user end at once, if they end one by one.
    pub(crate) fn for_sessions(self, sessions: usize) -> usize {
        match self {
            Self::ForEachSession | Self::OneForUser => sessions,
            Self::Untyped => 0,
        }
    }

    /// How many sessions of a user end at once, if an administrator logs out the user.
    pub(crate) fn for_logout_of_user(self, sessions: usize) -> usize {
        match self {
            Self::OneForUser => 1,
            Self::ForEachSession | Self::Untyped => self.for_sessions(sessions),
        }
    }
}
