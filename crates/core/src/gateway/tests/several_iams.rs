//! A gateway with several IAMs.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use iam_adapters::logout_token::{Ended, InvalidLogoutToken};
use iam_adapters::resilient::Operation;
use iam_adapters::{AllowedScopes, Credentials, IamError, Refusal, Subject};
use test_support::LogoutSigner;

use super::test_gateway::{LIVENESS, START, Session, TestGateway, claims, policy};
use crate::error::{GatewayError, InvalidSession, Limit};
use crate::iams::{IamParts, IamPolicy};
use crate::request::RequestContext;
use crate::results::DataSource;
use crate::results::EndedByIam;
use crate::revoked_sessions::{NotRevocable, RevokedSessions};
use crate::session_revoker::Propagation;
use test_support::scripted_iam::{CLIENT, ScriptedIam};

const ENDED: GatewayError = GatewayError::InvalidSession(InvalidSession::Ended);
const REVOKED: GatewayError = GatewayError::InvalidSession(InvalidSession::Revoked);
const REFUSED: GatewayError = GatewayError::Refused(Refusal::InvalidCredentials);
const DEFAULT: usize = 0;
const OTHER: usize = 1;
/// In the order of these numbers.
const NAMES: [&str; 2] = ["default", "other"];

/// A gateway with the IAMs `default` and `other`, which are of one kind.
struct TwoIams {
    gateway: TestGateway,
    iams: [Arc<ScriptedIam>; 2],
}

/// An IAM with these domains.
fn of_domains(domains: &[&str]) -> IamPolicy {
    IamPolicy {
        domains: domains.iter().map(|domain| (*domain).to_owned()).collect(),
        is_default: false,
        ..policy().iam
    }
}

fn prefixed(prefix: &str, domains: &[&str]) -> IamPolicy {
    IamPolicy {
        subject_prefix: prefix.to_owned(),
        ..of_domains(domains)
    }
}

impl TwoIams {
    /// Users of `example.test` and of all further domains are at the default IAM, those of
    /// `other.test` at the other one.
    fn new() -> Self {
        Self::with([policy().iam, prefixed("other-", &["other.test"])])
    }

    fn with(policies: [IamPolicy; 2]) -> Self {
        Self::with_otp(policies, [true; 2])
    }

    /// With IAMs that take one-time passwords or not.
    fn with_otp(policies: [IamPolicy; 2], takes_otp: [bool; 2]) -> Self {
        let issuers = ["https://iam.test/realm", "https://other.test/realm"];
        let mut takes_otp = takes_otp.into_iter();
        let iams = issuers.map(|issuer| {
            let iam = ScriptedIam {
                issuer,
                takes_otp: takes_otp.next().unwrap(),
                signer: LogoutSigner::generate(),
                ..ScriptedIam::default()
            };
            iam.permit("alice", "read write");
            Arc::new(iam)
        });
        let parts = NAMES.into_iter().zip(&iams).zip(policies);
        let parts = parts.map(|((name, iam), policy)| IamParts {
            name: name.into(),
            adapter: Arc::<ScriptedIam>::clone(iam),
            policy,
        });
        let parts: Vec<_> = parts.collect();
        let gateway = TestGateway::with_iams(Arc::clone(&iams[DEFAULT]), parts);
        Self { gateway, iams }
    }

    async fn log_in(&self, email: &str) -> Session {
        self.try_log_in(email).await.unwrap()
    }

    async fn try_log_in(&self, email: &str) -> Result<Session, GatewayError> {
        self.gateway.try_log_in(email, "right").await
    }

    /// The calls of an operation at each IAM.
    fn calls(&self, operation: Operation) -> [usize; 2] {
        [DEFAULT, OTHER].map(|at| self.iams[at].calls(operation))
    }

    fn total_calls(&self) -> [usize; 2] {
        [DEFAULT, OTHER].map(|at| self.iams[at].total_calls())
    }

    async fn sub(&self, session: &Session) -> String {
        let exchanged = self.gateway.exchange(session, "read").await.unwrap();
        claims(&exchanged)["sub"].as_str().unwrap().to_owned()
    }

    /// A logout token of the IAM for a session.
    fn logout_token(&self, iam: usize, signer: usize, session: &str) -> String {
        let parties = (self.iams[iam].issuer, CLIENT);
        let signer = self.iams[signer].signer.as_ref().unwrap();
        signer
            .logout_token(parties, None, Some(session), START)
            .unwrap()
    }

    async fn receive(&self, logout_token: &str) -> Result<EndedByIam, GatewayError> {
        let request = RequestContext::default();
        let received = self
            .gateway
            .inner
            .receive_logout_token(&request, logout_token);
        received.await
    }

    async fn revoke(&self, sessions: &RevokedSessions) -> Propagation {
        let revoked = self.gateway.inner.session_revoker.revoke(sessions);
        revoked.unwrap().await
    }
}

fn of_subject(sub: &str) -> RevokedSessions {
    RevokedSessions::OfSubject {
        subject: Subject::new(sub).unwrap(),
        begun_until: Some(START),
    }
}

#[tokio::test]
async fn login_goes_to_the_iam_of_its_domain_or_to_the_default_one() {
    for (email, iam) in [
        ("alice@other.test", OTHER),
        ("alice@OTHER.Test", OTHER),
        ("alice@example.test", DEFAULT),
        ("alice@sub.other.test", DEFAULT),
        ("alice@another.test", DEFAULT),
        ("other.test@example.test", DEFAULT),
    ] {
        let gateway = TwoIams::new();
        gateway.log_in(email).await;
        let mut calls = [0, 0];
        calls[iam] = 1;
        assert_eq!(gateway.calls(Operation::Login), calls, "{email}");
    }
}

#[tokio::test]
async fn domain_with_letters_outside_ascii_is_found_in_upper_and_lower_case() {
    for domain in ["büro.test", "BÜRO.test", "Büro.TEST", "bÜro.test"] {
        let gateway = TwoIams::with([policy().iam, prefixed("other-", &["büro.test"])]);
        gateway.log_in(&format!("alice@{domain}")).await;
        assert_eq!(gateway.calls(Operation::Login), [0, 1], "{domain}");
    }
}

#[tokio::test]
async fn password_is_never_tried_at_a_second_iam() {
    let gateway = TwoIams::new();
    let wrong = gateway
        .gateway
        .try_log_in("alice@other.test", "wrong")
        .await;
    assert_eq!(wrong.err(), Some(REFUSED));
    let gone = IamError::Unreachable("gone".into());
    gateway.iams[OTHER].set_outage(Some(gone.clone()));
    let failed = gateway.try_log_in("alice@other.test").await;
    assert_eq!(failed.err(), Some(gone.into()));
    assert_eq!(gateway.total_calls(), [0, 2]);
}

#[tokio::test]
async fn unknown_domain_is_refused_like_a_wrong_password_without_a_call_if_there_is_no_default() {
    let gateway = TwoIams::with([of_domains(&["example.test"]), of_domains(&["other.test"])]);
    for _ in 0..10 {
        let refused = gateway.try_log_in("alice@unknown.test").await;
        assert_eq!(refused.err(), Some(REFUSED));
    }
    assert_eq!(gateway.total_calls(), [0, 0]);
    // It was counted as a failure of its account.
    let limited = gateway.try_log_in("alice@unknown.test").await.err();
    let account = Limit::Account;
    assert!(
        matches!(limited, Some(GatewayError::TooManyLogins { limit, .. }) if limit == account),
        "{limited:?}"
    );
}

#[tokio::test]
async fn domain_that_only_normalisation_maps_to_that_of_an_iam_is_refused_without_a_call() {
    let gateway = TwoIams::new();
    for domain in [
        "other.test ",
        " other.test",
        "other.test.",
        "other.test。",
        "other．test",
        "other.test\u{a0}",
        "other.te\u{200b}st",
        "\u{feff}other.test",
        "other.\u{200d}test",
        "ｏther.test",
        "Ot\u{ad}her.test\u{3000}",
    ] {
        let refused = gateway.try_log_in(&format!("alice@{domain}")).await;
        assert_eq!(refused.err(), Some(REFUSED), "{domain:?}");
        gateway.gateway.clock.advance(Duration::from_secs(30));
    }
    assert_eq!(gateway.total_calls(), [0, 0]);
    // Other domains are served by the default IAM, also those that differ by an accent.
    for domain in ["another.test", "öther.test", "other.test.example"] {
        gateway.log_in(&format!("carol@{domain}")).await;
    }
    assert_eq!(gateway.total_calls(), [3, 0]);
}

#[tokio::test]
async fn logins_of_domains_without_an_iam_fill_no_table_of_failures_in_a_row() {
    let gateway = TwoIams::with([of_domains(&["example.test"]), of_domains(&["other.test"])]);
    for _ in 0..60 {
        let refused = gateway.try_log_in("alice@unknown.test").await;
        assert_eq!(refused.err(), Some(REFUSED));
        gateway.gateway.clock.advance(Duration::from_secs(30));
    }
}

#[tokio::test]
async fn exchange_and_logout_call_the_iam_of_the_session() {
    let gateway = TwoIams::new();
    let session = gateway.log_in("alice@other.test").await;
    gateway.gateway.clock.advance(LIVENESS);
    assert_eq!(
        gateway.gateway.granted(&session).await.unwrap(),
        "read write"
    );
    assert_eq!(gateway.calls(Operation::Introspection), [0, 1]);
    gateway.gateway.log_out(&session).await.unwrap();
    assert_eq!(gateway.calls(Operation::Logout), [0, 1]);
    assert!(gateway.iams[OTHER].has_ended("secret-1"));
    assert_eq!(gateway.gateway.granted(&session).await, Err(ENDED));
}

#[tokio::test]
async fn one_iam_that_is_down_affects_no_user_of_another_one() {
    let gateway = TwoIams::new();
    let (here, there) = (
        gateway.log_in("alice@example.test").await,
        gateway.log_in("alice@other.test").await,
    );
    let gone = IamError::Unreachable("gone".into());
    gateway.iams[OTHER].set_outage(Some(gone.clone()));
    gateway.gateway.clock.advance(LIVENESS);
    assert_eq!(
        gateway.gateway.granted(&there).await,
        Err(gone.clone().into())
    );
    assert_eq!(gateway.gateway.log_out(&there).await, Err(gone.into()));
    gateway.log_in("bob@example.test").await;
    assert_eq!(gateway.gateway.granted(&here).await.unwrap(), "read write");
    gateway.gateway.log_out(&here).await.unwrap();
    let unfinished = gateway.gateway.inner.iams.iter();
    let unfinished: Vec<_> = unfinished
        .map(|iam| (iam.name(), iam.upstream_logouts.unfinished_count()))
        .collect();
    assert_eq!(unfinished, [("default", 0), ("other", 1)]);
}

#[tokio::test]
async fn cached_data_of_one_subject_at_two_iams_is_separate() {
    let gateway = TwoIams::new();
    gateway.iams[OTHER].permit("alice", "read");
    let (here, there) = (
        gateway.log_in("alice@example.test").await,
        gateway.log_in("alice@other.test").await,
    );
    assert_eq!(gateway.gateway.granted(&here).await.unwrap(), "read write");
    assert_eq!(gateway.gateway.granted(&there).await.unwrap(), "read");
    assert_eq!(gateway.calls(Operation::Introspection), [0, 0]);
}

#[tokio::test]
async fn each_iam_has_its_own_freshness_and_session_lifetime() {
    let mut other = prefixed("other-", &["other.test"]);
    other.freshness.liveness = LIVENESS / 3;
    other.session_max_lifetime = LIVENESS;
    let gateway = TwoIams::with([policy().iam, other]);
    let (here, there) = (
        gateway.log_in("alice@example.test").await,
        gateway.log_in("alice@other.test").await,
    );
    gateway.gateway.clock.advance(LIVENESS / 3);
    for (session, source) in [(&here, DataSource::Hit), (&there, DataSource::Miss)] {
        let exchanged = gateway.gateway.exchange(session, "read").await.unwrap();
        assert_eq!(exchanged.source, source);
    }
    assert_eq!(here.expires_at - here.verified_at, 86_400);
    assert_eq!(there.expires_at - there.verified_at, LIVENESS.as_secs());
}

#[tokio::test]
async fn iam_without_logins_serves_its_sessions_and_refuses_logins_of_its_domains() {
    let policies = |allows_logins| {
        let old = IamPolicy {
            allows_logins,
            ..prefixed("old-", &["moved.test", "closed.test"])
        };
        [old, prefixed("new-", &["moved.test", "example.test"])]
    };
    // Before: the first one has the domain.
    let [old, new] = policies(true);
    let before = TwoIams::with([old, prefixed("new-", &["example.test"])]);
    let session = before.log_in("alice@moved.test").await;
    let [closed, _] = policies(false);
    let gateway = TwoIams::with([closed, new]);
    let refused = gateway.try_log_in("alice@closed.test").await;
    assert_eq!(refused.err(), Some(REFUSED));
    assert_eq!(gateway.total_calls(), [0, 0]);
    // The domain belongs to the other IAM now.
    let moved = gateway.log_in("alice@moved.test").await;
    assert_eq!(gateway.calls(Operation::Login), [0, 1]);
    assert_eq!(gateway.sub(&session).await, "old-alice");
    assert_eq!(gateway.sub(&moved).await, "new-alice");
    let [old, new] = NAMES;
    let exchanges = [
        format!("exchange at {old}: miss"),
        format!("exchange at {new}: hit"),
    ];
    assert_eq!(gateway.gateway.events.take(), exchanges);
    gateway.gateway.log_out(&session).await.unwrap();
    assert_eq!(gateway.calls(Operation::Logout), [1, 0]);
}

#[tokio::test]
async fn default_iam_without_logins_refuses_unknown_domains() {
    let default = IamPolicy {
        allows_logins: false,
        ..policy().iam
    };
    let gateway = TwoIams::with([default, prefixed("other-", &["other.test"])]);
    let refused = gateway.try_log_in("alice@example.test").await;
    assert_eq!(refused.err(), Some(REFUSED));
    gateway.log_in("alice@other.test").await;
    assert_eq!(gateway.total_calls(), [0, 1]);
}

#[tokio::test]
async fn sub_is_the_prefix_and_the_subject_in_tokens_and_at_login() {
    let gateway = TwoIams::new();
    for (email, sub) in [
        ("alice@example.test", "alice"),
        ("alice@other.test", "other-alice"),
    ] {
        let session = gateway.log_in(email).await;
        assert_eq!(gateway.sub(&session).await, sub);
        gateway.gateway.clock.advance(LIVENESS);
        assert_eq!(gateway.sub(&session).await, sub);
        let credentials = Credentials::new(email.to_owned(), "right".into()).unwrap();
        let request = RequestContext::default();
        let login = gateway.gateway.inner.log_in(&request, &credentials).await;
        assert_eq!(login.unwrap().sub, sub);
    }
}

#[tokio::test]
async fn scopes_that_are_not_allowed_are_removed_from_what_the_iam_grants() {
    let allowed = AllowedScopes::parse(&["urn:a:*", "read"]).unwrap();
    let other = IamPolicy {
        allowed_scopes: Some(allowed),
        ..prefixed("other-", &["other.test"])
    };
    let gateway = TwoIams::with([policy().iam, other]);
    for iam in &gateway.iams {
        iam.permit("alice", "read write urn:a:b");
    }
    let all = "read write urn:a:b urn:a:c";
    for (email, granted) in [
        ("alice@example.test", "read write urn:a:b"),
        ("alice@other.test", "read urn:a:b"),
    ] {
        let session = gateway.log_in(email).await;
        for _ in 0..2 {
            let exchanged = gateway.gateway.exchange(&session, all).await.unwrap();
            assert_eq!(exchanged.scope, granted);
            gateway.gateway.clock.advance(LIVENESS);
        }
    }
}

#[tokio::test]
async fn logout_tokens_of_one_iam_use_up_no_rate_of_another_one() {
    let gateway = TwoIams::new();
    let receive = async |iam: usize, session: &str| {
        let token = gateway.logout_token(iam, iam, session);
        gateway.receive(&token).await.is_ok()
    };
    let mut number = 0;
    while receive(OTHER, &format!("made-up-{number}")).await {
        number += 1;
    }
    assert!(receive(DEFAULT, "upstream-1").await);
}

#[tokio::test]
async fn logout_token_is_verified_with_the_keys_of_its_issuer_only() {
    let gateway = TwoIams::new();
    let (here, there) = (
        gateway.log_in("alice@example.test").await,
        gateway.log_in("alice@other.test").await,
    );
    let events = || gateway.gateway.events.take();
    // Signed by the other IAM.
    for (issuer, signer) in [(DEFAULT, OTHER), (OTHER, DEFAULT)] {
        let forged = gateway.logout_token(issuer, signer, "upstream-1");
        let unknown = InvalidLogoutToken::UnknownKey;
        let error = GatewayError::InvalidLogoutToken(unknown);
        assert_eq!(gateway.receive(&forged).await, Err(error));
        let named = format!("logout token of {:?}", Some(NAMES[issuer]));
        assert_eq!(events(), [named]);
    }
    let keys = gateway.calls(Operation::Keys);
    // Both IAMs have a session of this id.
    let token = gateway.logout_token(OTHER, OTHER, "upstream-1");
    let ended = EndedByIam {
        sub: None,
        ended: Ended::Session("upstream-1".to_owned()),
    };
    assert_eq!(gateway.receive(&token).await, Ok(ended));
    assert_eq!(events(), ["logout token of Some(\"other\")"]);
    assert_eq!(gateway.calls(Operation::Keys), keys, "they are cached");
    assert_eq!(gateway.gateway.granted(&there).await, Err(ENDED));
    assert!(gateway.gateway.granted(&here).await.is_ok());
}

#[tokio::test]
async fn logout_token_of_an_unknown_issuer_is_invalid_without_a_call() {
    let gateway = TwoIams::new();
    let signer = gateway.iams[DEFAULT].signer.as_ref().unwrap();
    for issuer in ["https://iam.test", "https://iam.test/realm/", ""] {
        let token = signer.logout_token((issuer, CLIENT), None, Some("upstream-1"), START);
        let refused = gateway.receive(&token.unwrap()).await;
        let why = InvalidLogoutToken::Issuer;
        assert_eq!(refused, Err(GatewayError::InvalidLogoutToken(why)));
        assert_eq!(gateway.gateway.events.take(), ["logout token of None"]);
    }
    assert_eq!(gateway.total_calls(), [0, 0]);
}

#[tokio::test]
async fn operator_revokes_the_subject_after_the_prefix_at_its_iam() {
    let gateway = TwoIams::new();
    let (here, there) = (
        gateway.log_in("alice@example.test").await,
        gateway.log_in("alice@other.test").await,
    );
    gateway.revoke(&of_subject("other-alice")).await;
    assert_eq!(gateway.gateway.granted(&there).await, Err(ENDED));
    assert!(gateway.gateway.granted(&here).await.is_ok());
    gateway.revoke(&of_subject("alice")).await;
    assert_eq!(gateway.gateway.granted(&here).await, Err(ENDED));
}

#[tokio::test]
async fn subject_with_the_prefix_of_no_iam_is_not_revocable() {
    let gateway = TwoIams::with([prefixed("a-", &["a.test"]), prefixed("b-", &["b.test"])]);
    let ends = &gateway.gateway.inner.session_revoker;
    for sub in ["alice", "a", "a-", "B-alice"] {
        let refused = ends.revoke(&of_subject(sub)).err();
        assert_eq!(refused, Some(NotRevocable::UnknownPrefix), "{sub}");
    }
    assert_eq!(gateway.gateway.inner.replica.revocations.count(), 0);
}

#[tokio::test]
async fn operator_revokes_all_sessions_of_the_iam_with_the_configured_name_or_of_all_iams() {
    for (name, granted) in [
        (Some("default"), [false, true]),
        (Some("other"), [true, false]),
        (None, [false, false]),
    ] {
        let gateway = TwoIams::new();
        let sessions = [
            gateway.log_in("alice@example.test").await,
            gateway.log_in("alice@other.test").await,
        ];
        let all = RevokedSessions::OfIam {
            iam: name.map(str::to_owned),
            begun_until: Some(START),
        };
        gateway.revoke(&all).await;
        for (session, granted) in sessions.iter().zip(granted) {
            let exchanged = gateway.gateway.granted(session).await;
            let expected = granted.then(|| "read write".to_owned()).ok_or(REVOKED);
            assert_eq!(exchanged, expected, "{name:?}");
        }
    }
    let gateway = TwoIams::new();
    let kind = RevokedSessions::OfIam {
        iam: Some("scripted".to_owned()),
        begun_until: Some(START),
    };
    let refused = gateway.gateway.inner.session_revoker.revoke(&kind).err();
    assert_eq!(
        refused,
        Some(NotRevocable::UnknownIam),
        "the adapter's name"
    );
}

#[tokio::test]
async fn rate_of_logins_is_that_of_each_iam() {
    let limited = |policy| IamPolicy {
        logins_per_second: NonZeroU32::new(1),
        ..policy
    };
    let gateway = TwoIams::with([
        limited(policy().iam),
        limited(prefixed("other-", &["other.test"])),
    ]);
    let inner = &gateway.gateway.inner;
    let is_limited = |result: Result<Session, GatewayError>| match result {
        Ok(_) => false,
        Err(GatewayError::TooManyLogins { limit, .. }) => limit == Limit::Replica,
        Err(other) => panic!("{other}"),
    };
    assert!(!is_limited(gateway.try_log_in("alice@other.test").await));
    assert!(is_limited(gateway.try_log_in("bob@other.test").await));
    assert!(!is_limited(gateway.try_log_in("alice@example.test").await));
    let request = RequestContext::default();
    assert_eq!(inner.admit_login(&request, None), Ok(()), "the reserves");
    gateway.gateway.clock.advance(Duration::from_secs(1));
    assert!(!is_limited(gateway.try_log_in("bob@other.test").await));
}

#[tokio::test]
async fn revocations_that_may_be_missed_make_cached_data_of_every_iam_useless() {
    let gateway = TwoIams::new();
    let sessions = [
        gateway.log_in("alice@example.test").await,
        gateway.log_in("alice@other.test").await,
    ];
    // At the time zero of the clock nothing can have been missed, and a call of that very moment is
    // repeated.
    gateway.gateway.clock.advance(Duration::from_secs(1));
    gateway.gateway.initial_sync_done();
    gateway.gateway.clock.advance(Duration::from_secs(1));
    for session in &sessions {
        let exchanged = gateway.gateway.exchange(session, "read").await.unwrap();
        assert_eq!(exchanged.source, DataSource::Miss);
    }
    assert_eq!(gateway.calls(Operation::Introspection), [1, 1]);
}

#[test]
fn one_time_password_is_for_the_iam_of_the_domain_and_unknown_domains_are_like_one_that_takes_it() {
    let closed = IamPolicy {
        allows_logins: false,
        ..of_domains(&["closed.test"])
    };
    let open = || of_domains(&["default.test"]);
    let other = || prefixed("other-", &["other.test"]);
    for (policies, takes_otp, expected) in [
        ([open(), other()], [true, true], [true, true, true]),
        ([open(), other()], [true, false], [true, false, true]),
        ([open(), other()], [false, false], [false, false, false]),
        // An IAM without logins takes nothing.
        ([open(), closed], [false, true], [false, false, false]),
    ] {
        let iams = TwoIams::with_otp(policies, takes_otp);
        let emails = ["a@default.test", "a@other.test", "a@unknown.test"];
        let taken = emails.map(|email| iams.gateway.inner.iams.take_otp(email));
        assert_eq!(taken, expected, "{takes_otp:?}");
    }
}
