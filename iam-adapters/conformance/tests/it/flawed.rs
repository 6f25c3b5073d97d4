//! Adapters with one plausible defect each.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use iam_adapters::adapter::{Capabilities, IamAdapter};
use iam_adapters::error::{IamError, Refusal};
use iam_adapters::jwk::VerificationKeys;
use iam_adapters::types::{
    Authenticated, ClientContext, Credentials, Introspection, Subject, UpstreamSession,
};
use mock_iam::Mock;
use secrecy::{ExposeSecret, SecretString};
use test_support::wrapper::Wrapper;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flaw {
    AnswersForAnother,
    ReportsRefusalsAsFaults,
    RevealsUnknownUsers,
    TrimsPasswords,
    TruncatesPasswords,
    FoldsPasswords,
    ReusesSessions,
    CachesPasswords,
    LosesOtp,
    RefusesOtp,
    EndsSessionsAfterUse,
    EndsNothing,
    EndsOnlyActiveSessions,
    EndsEverything,
    EndsByIdAlone,
    IgnoresSecrets,
    MixesUpSessions,
    CachesPermissions,
    CachesLiveness,
    HasNoKeys,
    NamesAnotherAudience,
    ProbesBadly,
    RenamesItself,
    ShowsPasswords,
    DeniesBackChannelLogout,
    LosesClaims,
    IgnoresClaimFaults,
    RefusesForClaims,
}

/// Each flaw and the checks that must fail.
pub(super) const FLAWS: &[(Flaw, &[&str])] = &[
    (Flaw::AnswersForAnother, &["session_is_active_after_login"]),
    (
        Flaw::ReportsRefusalsAsFaults,
        &[
            "wrong_password_is_refused",
            "inactive_account_is_refused_until_it_is_active",
        ],
    ),
    (
        Flaw::RevealsUnknownUsers,
        &["unknown_user_and_wrong_password_are_the_same_refusal"],
    ),
    (
        Flaw::TrimsPasswords,
        &["passwords_are_compared_byte_for_byte"],
    ),
    (
        Flaw::TruncatesPasswords,
        &["passwords_are_compared_byte_for_byte"],
    ),
    (
        Flaw::FoldsPasswords,
        &["passwords_are_compared_byte_for_byte"],
    ),
    (Flaw::ReusesSessions, &["every_login_is_a_new_session"]),
    (
        Flaw::CachesPasswords,
        &[
            "old_password_is_refused_after_a_change",
            "disabled_user_is_refused_and_the_session_is_inactive",
            "deleted_user_is_refused_and_the_session_is_inactive",
        ],
    ),
    (
        Flaw::LosesOtp,
        &["one_time_password_is_required_and_accepted_once"],
    ),
    (
        Flaw::RefusesOtp,
        &["one_time_password_of_a_user_without_one_is_ignored"],
    ),
    (
        Flaw::EndsSessionsAfterUse,
        &["introspection_does_not_change_the_session"],
    ),
    (Flaw::EndsNothing, &["ended_session_is_inactive"]),
    (
        Flaw::EndsOnlyActiveSessions,
        &[
            "ending_a_session_twice_succeeds",
            "session_ended_by_the_administrator_is_inactive",
            "deleted_user_is_refused_and_the_session_is_inactive",
        ],
    ),
    (
        Flaw::EndsEverything,
        &["ending_one_session_keeps_the_others"],
    ),
    (
        Flaw::EndsByIdAlone,
        &["session_is_not_ended_with_a_tampered_secret"],
    ),
    (
        Flaw::IgnoresSecrets,
        &["session_with_a_tampered_secret_is_never_active"],
    ),
    (
        Flaw::MixesUpSessions,
        &["concurrent_logins_and_introspections_are_not_mixed_up"],
    ),
    (
        Flaw::CachesPermissions,
        &[
            "permissions_have_the_stated_age",
            "claims_have_the_age_of_permissions",
        ],
    ),
    (
        Flaw::LosesClaims,
        &["claims_have_the_values_and_types_of_the_iam"],
    ),
    (
        Flaw::IgnoresClaimFaults,
        &[
            "missing_required_claim_is_a_fault_that_names_it",
            "claim_of_another_type_is_a_fault_without_its_value",
        ],
    ),
    (
        Flaw::RefusesForClaims,
        &["missing_required_claim_is_a_fault_that_names_it"],
    ),
    (
        Flaw::CachesLiveness,
        &[
            "session_ended_by_the_administrator_is_inactive",
            "all_sessions_of_a_user_ended_by_the_administrator_are_inactive",
            "disabled_user_is_refused_and_the_session_is_inactive",
            "deleted_user_is_refused_and_the_session_is_inactive",
        ],
    ),
    (Flaw::HasNoKeys, &["altered_logout_token_is_refused"]),
    (
        Flaw::NamesAnotherAudience,
        &[
            "logout_token_identifies_the_ended_session_only",
            "logout_tokens_identify_every_ended_session_of_a_user",
        ],
    ),
    (Flaw::ProbesBadly, &["probe_succeeds"]),
    (Flaw::RenamesItself, &["name_and_issuer_do_not_change"]),
    (Flaw::ShowsPasswords, &["debug_shows_no_secret"]),
    (
        Flaw::DeniesBackChannelLogout,
        &["capabilities_agree_with_the_logout_audience"],
    ),
];

/// The mock with one flaw.
pub(super) struct Flawed {
    mock: Mock,
    flaw: Flaw,
    calls: AtomicUsize,
    logins: Mutex<Vec<(Credentials, Authenticated)>>,
    answers: Mutex<HashMap<String, Introspection>>,
    last_session: Mutex<Option<UpstreamSession>>,
}

impl Flawed {
    pub(super) fn new(mock: Mock, flaw: Flaw) -> Arc<Self> {
        Arc::new(Self {
            mock,
            flaw,
            calls: AtomicUsize::new(0),
            logins: Mutex::default(),
            answers: Mutex::default(),
            last_session: Mutex::default(),
        })
    }

    fn is(&self, flaw: Flaw) -> bool {
        self.flaw == flaw
    }

    fn earlier(&self, found: impl Fn(&Credentials) -> bool) -> Option<Authenticated> {
        let logins = self.logins.lock().expect("not poisoned");
        let login = logins.iter().find(|(credentials, _)| found(credentials));
        login.map(|(_, begun)| begun.clone())
    }

    fn altered(&self, password: &str) -> SecretString {
        match self.flaw {
            Flaw::TrimsPasswords => password.trim().into(),
            Flaw::TruncatesPasswords => password.chars().take(72).collect::<String>().into(),
            Flaw::FoldsPasswords => password.to_lowercase().into(),
            _ => password.into(),
        }
    }
}

#[async_trait]
impl Wrapper for Flawed {
    fn inner(&self) -> &dyn IamAdapter {
        &self.mock
    }

    fn name(&self) -> &'static str {
        let renamed = self.is(Flaw::RenamesItself) && self.calls.load(Ordering::Relaxed) % 2 == 1;
        if renamed { "another" } else { "flawed" }
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            back_channel_logout: !self.is(Flaw::DeniesBackChannelLogout),
            ..self.mock.capabilities()
        }
    }

    async fn authenticate(
        &self,
        credentials: &Credentials,
        client: &ClientContext,
    ) -> Result<Authenticated, IamError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let email = credentials.email();
        let password = credentials.password().expose_secret();
        let mut known = self.mock.directory().users().into_iter();
        let unknown = !known.any(|user| user.email() == email);
        if self.is(Flaw::RevealsUnknownUsers) && unknown {
            return Err(IamError::Refused(Refusal::Disabled));
        }
        let again = match self.flaw {
            Flaw::ReusesSessions => self.earlier(|c| c.email() == email),
            Flaw::CachesPasswords => {
                self.earlier(|c| c.email() == email && c.password().expose_secret() == password)
            }
            _ => None,
        };
        if let Some(begun) = again {
            return Ok(begun);
        }
        if self.is(Flaw::RefusesOtp) && credentials.otp().is_some() {
            return Err(IamError::Refused(Refusal::InvalidCredentials));
        }
        let altered = Credentials::new(email.to_owned(), self.altered(password)).expect("shape");
        let otp = credentials.otp().filter(|_| !self.is(Flaw::LosesOtp));
        let altered = altered.with_otp(otp.cloned()).expect("shape");
        match self.mock.authenticate(&altered, client).await {
            Ok(begun) if self.is(Flaw::RefusesForClaims) && begun.permissions.is_none() => {
                Err(IamError::Refused(Refusal::Incomplete))
            }
            Ok(begun) => {
                let login = (credentials.clone(), begun.clone());
                self.logins.lock().expect("not poisoned").push(login);
                Ok(begun)
            }
            Err(_) if self.is(Flaw::ReportsRefusalsAsFaults) => {
                Err(IamError::Unreadable("400".into()))
            }
            Err(error) => Err(error),
        }
    }

    async fn introspect(&self, session: &UpstreamSession) -> Result<Introspection, IamError> {
        let calls = self.calls.fetch_add(1, Ordering::Relaxed);
        let mut session = session.clone();
        if self.is(Flaw::IgnoresSecrets) {
            let logins = self.logins.lock().expect("not poisoned");
            let mut begun = logins.iter().map(|(_, begun)| &begun.session);
            let own = begun.find(|begun| begun.id == session.id);
            session = own.unwrap_or(&session).clone();
        }
        if self.is(Flaw::EndsSessionsAfterUse) && calls % 20 == 19 {
            self.mock.end_session(&session).await?;
        }
        if self.is(Flaw::MixesUpSessions) {
            *self.last_session.lock().expect("not poisoned") = Some(session.clone());
            tokio::task::yield_now().await;
            let last = self.last_session.lock().expect("not poisoned").clone();
            session = last.expect("set above");
        }
        let now = match self.mock.introspect(&session).await {
            Err(IamError::UnreadableSession(_)) if self.is(Flaw::IgnoresClaimFaults) => {
                self.mock.directory().introspect(&session)
            }
            stated => stated?,
        };
        let mut answers = self.answers.lock().expect("not poisoned");
        let first = answers.entry(session.id).or_insert_with(|| now.clone());
        Ok(match (self.flaw, first, now) {
            (Flaw::CachesLiveness, first, Introspection::Inactive)
            | (Flaw::CachesPermissions, first, Introspection::Active { .. }) => first.clone(),
            (Flaw::AnswersForAnother, _, Introspection::Active { permissions, .. }) => {
                Introspection::Active {
                    subject: Subject::new("another").expect("not empty"),
                    permissions,
                    groups: None,
                    claims: iam_adapters::Claims::default(),
                }
            }
            (
                Flaw::LosesClaims,
                _,
                Introspection::Active {
                    subject,
                    permissions,
                    groups,
                    ..
                },
            ) => Introspection::Active {
                subject,
                permissions,
                groups,
                claims: iam_adapters::Claims::default(),
            },
            (_, _, now) => now,
        })
    }

    async fn end_session(&self, session: &UpstreamSession) -> Result<(), IamError> {
        let directory = self.mock.directory();
        let active = directory.introspect(session) != Introspection::Inactive;
        match self.flaw {
            Flaw::EndsNothing => {}
            Flaw::EndsOnlyActiveSessions if !active => {
                return Err(IamError::Unreadable("404".into()));
            }
            Flaw::EndsEverything => {
                for user in directory.users() {
                    directory.end_sessions_of(user.email()).expect("known");
                }
            }
            Flaw::EndsByIdAlone => {
                directory.end_session_by_id(&session.id);
            }
            _ => self.mock.end_session(session).await?,
        }
        Ok(())
    }

    fn logout_audience(&self) -> Option<&str> {
        let another = self.is(Flaw::NamesAnotherAudience).then_some("another");
        another.or(self.mock.logout_audience())
    }

    async fn verification_keys(&self) -> Result<VerificationKeys, IamError> {
        if self.is(Flaw::HasNoKeys) {
            return Err(IamError::Failed("503".to_owned()));
        }
        self.mock.verification_keys().await
    }

    async fn probe(&self) -> Result<(), IamError> {
        if self.is(Flaw::ProbesBadly) {
            return Err(IamError::Failed("503".to_owned()));
        }
        self.mock.probe().await
    }
}

impl fmt::Debug for Flawed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is(Flaw::ShowsPasswords) {
            for (credentials, _) in self.logins.lock().expect("not poisoned").iter() {
                f.write_str(credentials.password().expose_secret())?;
            }
        }
        write!(f, "Flawed({:?})", self.flaw)
    }
}
