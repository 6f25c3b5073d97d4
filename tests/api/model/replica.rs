//! One gateway: only its operations, or the whole service on a port.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use auth_gateway::startup::{ServiceDependencies, connect};
use auth_gateway_core::Gateway;
use auth_gateway_core::error::GatewayError;
use auth_gateway_core::replica_state::Replicas;
use auth_gateway_core::request::RequestContext;
use auth_gateway_core::revoked_sessions::RevokedSessions;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use iam_adapters::{Credentials, Scope};
use jiff::Timestamp;
use mock_iam::Mock;
use secrecy::ExposeSecret as _;
use serde_json::Value;
use test_support::ManualClock;
use test_support::client::{Client, Response, Session};
use test_support::gateway::{TestGateway, prepare};
use test_support::suite::verifier::Verifier;
use test_support::wrapper::wrapped;

use super::names::Names;
use super::recording_iam::RecordingIam;

/// Which part of a gateway runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// The operations with a guarded adapter. Only the clocks of the scenario advance.
    Operations,
    /// The whole service on a port, with an HTTP client.
    Service,
}

impl Extent {
    /// The shortest lifetime of cached data, in seconds. The caches also drop entries by the
    /// machine's clock, and a `Service` scenario runs in real time: an entry must outlive several
    /// steps on a busy machine.
    pub(super) const fn cached_at_least(self) -> u64 {
        match self {
            Self::Operations => 0,
            Self::Service => 30,
        }
    }
}

/// A gateway with its own clocks and its own connection to the IAM.
pub(super) struct Replica {
    pub(super) clock: Arc<ManualClock>,
    pub(super) iam: Arc<RecordingIam>,
    pub(super) api: Api,
    /// When an outage of the IAM last ended.
    pub(super) silent_until: Option<Duration>,
    _running: Option<TestGateway>,
}

/// Access to the operations.
#[derive(Clone)]
pub(super) enum Api {
    Operations(Arc<Gateway>),
    Service(Client, Arc<Verifier>),
}

/// The result of an operation.
pub(super) type Answer<T> = Result<T, Failure>;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The credentials, the session or the pair are invalid.
    Refused,
    /// A fault.
    Fault(String),
    /// A result that is never allowed.
    Unexpected(String),
}

/// The result of an exchange.
#[derive(Debug)]
pub(super) struct Granted {
    pub(super) names: Names,
    pub(super) claims: Value,
}

/// The session as a client stores it.
#[derive(Debug, Clone)]
pub(super) struct Pair {
    pub(super) id: String,
    pub(super) token: String,
    /// Both in seconds since 1970.
    pub(super) verified_at: u64,
    pub(super) expires_at: u64,
}

impl Replica {
    pub(super) async fn start(
        extent: Extent,
        mock: Mock,
        clock: ManualClock,
        overrides: &[(&str, &str)],
        replicas: Replicas,
    ) -> Self {
        let clock = Arc::new(clock);
        let iam = Arc::new(RecordingIam::new(mock, Arc::clone(&clock)));
        let time = Arc::<ManualClock>::clone(&clock);
        let (settings, prepared) = prepare(None, overrides, time);
        let parts = ServiceDependencies {
            iams: vec![Arc::new(ArcSwap::from_pointee(wrapped(&iam)))],
            replicas,
            ..prepared
        };
        let (api, running) = match extent {
            Extent::Operations => (Api::Operations(connect(&settings, &parts).gateway), None),
            Extent::Service => {
                let app = TestGateway::from_parts(settings, parts);
                let verifier = Arc::new(Verifier::discover(&app).await);
                (Api::Service(app.clone(), verifier), Some(app))
            }
        };
        Self {
            clock,
            iam,
            api,
            silent_until: None,
            _running: running,
        }
    }
}

impl Api {
    pub(super) async fn log_in(&self, email: &str, password: &str) -> Answer<Pair> {
        match self {
            Self::Operations(gateway) => {
                let credentials = Credentials::new(email.to_owned(), password.into());
                let credentials = credentials.expect("an address");
                let session = gateway
                    .log_in(&RequestContext::default(), &credentials)
                    .await;
                let session = session.map_err(Failure::from)?;
                Ok(Pair {
                    id: session.session_id.to_string(),
                    token: session.session_token.expose_secret().to_owned(),
                    verified_at: session.verified_at,
                    expires_at: session.expires_at,
                })
            }
            Self::Service(client, _) => {
                let answer = client.log_in(email, &password.into()).await;
                let session = success(&answer, (401, "invalid_grant"))?.session();
                Ok(Pair {
                    verified_at: seconds(&session.verified_at),
                    expires_at: seconds(&session.expires_at),
                    id: session.session_id,
                    token: session.session_token,
                })
            }
        }
    }

    pub(super) async fn exchange(&self, pair: &Pair, requested: Names) -> Answer<Granted> {
        let requested = requested.scope();
        let (scope, claims) = match self {
            Self::Operations(gateway) => {
                let scope = Scope::parse(&requested).expect("names of scopes");
                let exchanged = gateway
                    .exchange(&RequestContext::default(), &pair.id, &pair.token, scope)
                    .await;
                let exchanged = exchanged.map_err(Failure::from)?;
                (exchanged.scope, unverified(exchanged.token.expose()))
            }
            Self::Service(client, verifier) => {
                let answer = client.exchange(&pair.session(), &requested).await;
                let token = success(&answer, (401, "invalid_grant"))?.token();
                (token.scope, verifier.claims(&token.access_token))
            }
        };
        let names = Names::parse(&scope);
        let names = names.ok_or_else(|| Failure::Unexpected(format!("granted {scope:?}")))?;
        Ok(Granted { names, claims })
    }

    pub(super) async fn log_out(&self, pair: &Pair) -> Answer<()> {
        match self {
            Self::Operations(gateway) => {
                let request = RequestContext::default();
                Ok(gateway.log_out(&request, &pair.id, &pair.token).await?)
            }
            Self::Service(client, _) => {
                let answer = client.log_out(&pair.session()).await;
                success(&answer, (400, "invalid_request"))?;
                Ok(())
            }
        }
    }
}

impl Api {
    /// The gateway, if only its operations run.
    pub(super) fn gateway(&self) -> Option<&Arc<Gateway>> {
        match self {
            Self::Operations(gateway) => Some(gateway),
            Self::Service(..) => None,
        }
    }
}

/// The ends that the IAM reports; `false` if the replica does not receive them.
impl Api {
    pub(super) fn end_upstream_session(&self, upstream: &str) -> bool {
        match self {
            Self::Operations(gateway) => {
                for iam in gateway.iams.iter() {
                    gateway.session_revoker.end_upstream_session(iam, upstream);
                }
            }
            Self::Service(..) => return false,
        }
        true
    }

    pub(super) fn end_sessions_of(&self, subject: &str, begun_until: u64) -> bool {
        match self {
            Self::Operations(gateway) => {
                for iam in gateway.iams.iter() {
                    let ends = &gateway.session_revoker;
                    ends.end_sessions_of(iam, subject, begun_until * 1_000 + 999);
                }
            }
            Self::Service(..) => return false,
        }
        true
    }
}

impl Api {
    /// An operator revokes sessions; `false` if the replica does not receive it.
    pub(super) async fn revoke(&self, sessions: RevokedSessions) -> bool {
        match self {
            Self::Operations(gateway) => {
                let revoked = gateway.session_revoker.revoke(&sessions);
                revoked.expect("every IAM").await;
            }
            Self::Service(..) => return false,
        }
        true
    }
}

impl Pair {
    fn session(&self) -> Session {
        Session {
            session_id: self.id.clone(),
            session_token: self.token.clone(),
            verified_at: String::new(),
            expires_at: String::new(),
        }
    }
}

impl From<GatewayError> for Failure {
    fn from(error: GatewayError) -> Self {
        match error {
            GatewayError::Refused(_) | GatewayError::InvalidSession(_) => Self::Refused,
            GatewayError::NothingGranted | GatewayError::Internal(_) => {
                Self::Unexpected(error.to_string())
            }
            fault => Self::Fault(fault.to_string()),
        }
    }
}

/// Classifies a response; each endpoint has its own refusal.
fn success<'a>(answer: &'a Response, denial: (u16, &str)) -> Answer<&'a Response> {
    if answer.status == 200 {
        return Ok(answer);
    }
    let error = &answer.json()["error"];
    match (answer.status, error.as_str().unwrap_or_default()) {
        reported if reported == denial => Err(Failure::Refused),
        (429 | 500 | 503, "temporarily_unavailable" | "server_error") => {
            Err(Failure::Fault(answer.text()))
        }
        _ => Err(Failure::Unexpected(answer.text())),
    }
}

fn seconds(time: &str) -> u64 {
    let time: Timestamp = time.parse().expect("RFC 3339");
    time.as_second().try_into().expect("after 1970")
}

/// The claims of a token, without verification.
fn unverified(token: &str) -> Value {
    let claims = token.split('.').nth(1).expect("three parts");
    let claims = URL_SAFE_NO_PAD.decode(claims).expect("base64url");
    serde_json::from_slice(&claims).expect("a JSON object")
}
