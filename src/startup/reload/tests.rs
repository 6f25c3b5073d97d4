use std::fs;

use iam_adapters::registry::Registry;
use iam_adapters::{
    ClientContext, Credentials, IamAdapter, IamError, Misconfiguration, UpstreamSession,
};
use secrecy::ExposeSecret as _;
use tempfile::NamedTempFile;
use test_support::ManualClock;
use test_support::keys::TestKeys;
use test_support::log::capture_lines;
use test_support::scripted_upstream::kratos::{KRATOS, failed_login};
use test_support::scripted_upstream::oauth2::DJANGO_OAUTH_TOOLKIT;
use test_support::scripted_upstream::{PROTOCOLS, ScriptedUpstream, WireProtocol};

use super::*;
use crate::http::AppState;
use crate::startup::connect;

/// A time at which the tokens of every protocol are valid.
const NOW: Duration = Duration::from_secs(4_000_000_000);

/// An IAM at which every login succeeds, and what reads the files of a gateway in front of it.
struct ReloadFixture {
    upstream: ScriptedUpstream,
    poller: FilePoller,
}

impl ReloadFixture {
    async fn new(protocol: &WireProtocol) -> Self {
        Self::with_settings(protocol, &[]).await
    }

    /// The same with further settings.
    async fn with_settings(protocol: &WireProtocol, further: &[(&str, &str)]) -> Self {
        let upstream = ScriptedUpstream::of(protocol).await;
        let settings = (protocol.settings)(&upstream.url(), "a client secret of a test");
        let further = further
            .iter()
            .map(|(key, value)| (*key, (*value).to_owned()));
        let variables = settings.into_iter().chain(further).map(|(key, value)| {
            let name = key.replace('.', "__").to_uppercase();
            (format!("AUTH_GATEWAY__{name}"), value)
        });
        let (variables, registry) = (variables.collect(), Registry::default());
        let clock = Arc::new(ManualClock::at(NOW));
        let loaded = ServiceDependencies::load(None, &variables, &registry, clock);
        let (settings, parts) = loaded.unwrap();
        let AppState {
            gateway, health, ..
        } = connect(&settings, &parts);
        Self {
            upstream,
            poller: FilePoller::new(&settings, &parts, &gateway, &health),
        }
    }

    /// The adapter in use.
    fn iam(&self) -> Arc<dyn IamAdapter> {
        Arc::clone(&**self.poller.parts.iams[0].load())
    }

    async fn log_in(&self) -> Result<UpstreamSession, IamError> {
        let credentials = Credentials::new("alice@example.test".to_owned(), "a password".into());
        let client = ClientContext {
            address: None,
            request_id: "request-1".to_owned(),
        };
        let iam = self.iam();
        let login = iam.authenticate(&credentials.unwrap(), &client).await?;
        Ok(login.session)
    }

    /// The bearer token of operators in use.
    fn operator_token(&self) -> String {
        let token = self.poller.parts.operator_token.as_ref().unwrap().load();
        token.expose_secret().to_owned()
    }

    /// Replaces the adapters.
    fn reload(&mut self) {
        let before = self.iam();
        self.poller.reload_files(true).unwrap().unwrap();
        assert!(!Arc::ptr_eq(&before, &self.iam()));
    }
}

#[tokio::test]
async fn introspection_that_reported_a_new_session_as_inactive_is_not_believed_after_a_reload() {
    for protocol in &PROTOCOLS {
        let mut fixture = ReloadFixture::new(protocol).await;
        let session = fixture.log_in().await.unwrap();
        let inactive = (protocol.inactive)();
        fixture.upstream.on(protocol.introspection, inactive);
        let login = fixture.log_in().await.map(drop);
        fixture.reload();
        let iam = fixture.iam();
        let probed = iam.probe().await;
        let introspected = iam.introspect(&session).await.map(drop);
        for result in [login, probed, introspected] {
            assert!(
                matches!(
                    result,
                    Err(IamError::Misconfigured {
                        what: Misconfiguration::Introspection,
                        ..
                    })
                ),
                "{}: {result:?}",
                protocol.name
            );
        }
    }
}

#[tokio::test]
async fn response_of_unknown_meaning_may_be_a_refusal_if_a_login_succeeded_before_a_reload() {
    let mut fixture = ReloadFixture::new(&KRATOS).await;
    fixture.log_in().await.unwrap();
    fixture.reload();
    let unknown = failed_login(&[4_999_999]);
    fixture.upstream.on(KRATOS.token, unknown);
    let login = fixture.log_in().await.map(drop);
    assert!(
        matches!(login, Err(IamError::PossibleRefusal(_))),
        "{login:?}"
    );
}

#[tokio::test]
async fn secret_that_changed_while_a_key_folder_could_not_be_listed_is_used_when_it_can_be() {
    let (keys, secret) = (TestKeys::new(), NamedTempFile::new().unwrap());
    fs::write(&secret, "before").unwrap();
    let path = secret.path().to_str().unwrap();
    let settings = [&keys.settings()[..], &[("management.token_file", path)]].concat();
    let mut fixture = ReloadFixture::with_settings(&KRATOS, &settings).await;
    assert!(fixture.poller.reload_files(false).is_none());
    let folder = keys.folder("signing");
    let moved = folder.with_extension("moved");
    fs::rename(&folder, &moved).unwrap();
    fs::write(&secret, "after").unwrap();
    let (lines, _guard) = capture_lines();
    for _ in 0..2 {
        fixture.poller.poll(false);
    }
    let warnings = lines.text().matches("in use are those from before").count();
    assert_eq!(warnings, 1, "{}", lines.text());
    assert_eq!(fixture.operator_token(), "before");
    fs::rename(&moved, &folder).unwrap();
    fixture.poller.reload_files(false).unwrap().unwrap();
    assert_eq!(fixture.operator_token(), "after");
    assert!(fixture.poller.reload_files(false).is_none());
}

/// Reloads can be repeated every few seconds.
#[tokio::test]
async fn warning_about_the_subject_claim_is_logged_at_the_start_alone() {
    let (lines, _guard) = capture_lines();
    let mut fixture = ReloadFixture::new(&DJANGO_OAUTH_TOOLKIT).await;
    fixture.reload();
    let warnings = lines
        .text()
        .matches("subjects are not taken from sub")
        .count();
    assert_eq!(warnings, 1, "{}", lines.text());
}
