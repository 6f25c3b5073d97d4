//! What the settings of every kind of IAM have in common.

use std::any::Any;
use std::fmt::{self, Display};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use url::Url;

use crate::adapter::{IamAdapter, SetupError};
use crate::claims::ClaimSources;
use crate::client::{address_problems, certificates};
use crate::clock::Clock;

/// The settings of one IAM: a section `[iam.<name>]`.
pub trait AdapterSettings: Any + fmt::Debug + Send + Sync {
    /// The adapter's name, as in the configuration, the logs and the metrics.
    fn name(&self) -> &'static str;

    /// All problems of the settings in this section, such as `iam.corp`, each as one line that begins with
    /// the key and a colon. There are more rules in production. Reads the files that the settings name.
    fn problems(&self, section: &str, production: bool) -> Vec<String>;

    /// Fails if the settings have problems.
    ///
    /// # Errors
    ///
    /// [`SetupError`] with all of them.
    fn check(&self, section: &str) -> Result<(), SetupError> {
        match self.problems(section, false) {
            none if none.is_empty() => Ok(()),
            problems => Err(SetupError(problems)),
        }
    }

    /// Creates the adapter of the settings in this section without connecting; `connect_deadline` is that of
    /// each connection to the IAM. `before` is the adapter that it replaces after a file has changed, if there
    /// is one, for what that has proven about the IAM and no probe finds again.
    ///
    /// # Errors
    ///
    /// [`SetupError`] if the settings cannot be used.
    fn connect(
        &self,
        section: &str,
        clock: Arc<dyn Clock>,
        connect_deadline: Duration,
        before: Option<&Arc<dyn IamAdapter>>,
    ) -> Result<Arc<dyn IamAdapter>, SetupError>;

    /// Whether the rate of logins and the new sessions of an account are limited by default. For tests they are
    /// not.
    fn limits_logins(&self) -> bool {
        true
    }

    /// The setting that is missing for the IAM to state the groups of its users; `None`: it states them.
    fn missing_for_groups(&self) -> Option<&'static str> {
        None
    }

    /// Whether the IAM states permissions. Otherwise they need a source of their own.
    fn has_permissions(&self) -> bool {
        true
    }

    /// Whether production needs Redis: the IAM can end no session, so that a logout has an effect at one replica only
    /// without it, and the settings do not accept that.
    fn needs_redis(&self) -> bool {
        false
    }

    /// The claims of access tokens that the IAM states.
    fn claims(&self) -> &ClaimSources {
        const { &ClaimSources::NONE }
    }

    /// The settings whose defaults depend on other ones, by name, with the values in effect.
    fn derived(&self) -> serde_json::Value {
        serde_json::Value::Null
    }
}

/// Secrets of examples, in lower case.
const WELL_KNOWN_SECRETS: [&str; 14] = [
    "admin",
    "change-me",
    "change-me-in-production",
    "changeme",
    "changeit",
    "client-secret",
    "client_secret",
    "keycloak",
    "keycloak-client-secret",
    "password",
    "redis",
    "replace-me-with-a-secret",
    "secret",
    "your-client-secret",
];

/// The suffix of secrets that are built into development tools, in lower case.
const DEVELOPMENT_SECRET: &str = "-development-secret";

/// The problem of a secret that [is well-known](is_well_known).
pub const WELL_KNOWN: &str = "a well-known one";

/// Whether a secret is one of examples or of development tools.
#[must_use]
pub fn is_well_known(secret: &SecretString) -> bool {
    let lower = secret.expose_secret().to_lowercase();
    WELL_KNOWN_SECRETS.contains(&lower.as_str()) || lower.ends_with(DEVELOPMENT_SECRET)
}

/// Collects the problems of a section, each with its key and without its value.
pub(crate) struct SectionProblems {
    /// The section, such as `iam.corp`.
    pub(crate) section: String,
    pub(crate) production: bool,
    /// The setting with which addresses must be https, also outside production.
    pub(crate) https_for: Option<&'static str>,
    pub(crate) found: Vec<String>,
}

impl SectionProblems {
    /// None yet.
    pub(crate) fn new(section: &str, production: bool) -> Self {
        Self {
            section: section.to_owned(),
            production,
            https_for: None,
            found: Vec::new(),
        }
    }

    /// Adds a problem, which begins with its key.
    pub(crate) fn add(&mut self, problem: impl Display) {
        self.found.push(format!("{}.{problem}", self.section));
    }

    /// Checks an address, if it is set.
    pub(crate) fn address(&mut self, key: &str, url: Option<&Url>) {
        if let Some(url) = url {
            let key = format!("{}.{key}", self.section);
            self.found
                .extend(address_problems(&key, url, self.production));
            if let (false, "http", Some(setting)) = (self.production, url.scheme(), self.https_for)
            {
                self.found
                    .push(format!("{key}: must be https with {setting}"));
            }
        }
    }

    /// Checks a text, if it is set.
    pub(crate) fn not_empty(&mut self, key: &str, text: Option<&String>) {
        if text.is_some_and(String::is_empty) {
            self.add(format_args!("{key}: must not be empty"));
        }
    }

    /// Checks the settings that every section has. Reads the file.
    pub(crate) fn common(&mut self, ca_file: Option<&Path>, claims: &ClaimSources) {
        if let Err(problem) = certificates(ca_file) {
            self.add(problem);
        }
        for problem in claims.problems() {
            self.add(format_args!("claims: {problem}"));
        }
    }
}
