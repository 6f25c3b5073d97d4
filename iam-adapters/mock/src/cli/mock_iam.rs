//! `mock-iam`: the mock IAM over the wire, in the place of the Keycloak that a configuration names.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use auth_gateway::cli::{Exit, Wrong, stop_signal};
use auth_gateway::config::{Environment, Settings};
use auth_gateway::telemetry;
use auth_gateway::telemetry::metrics::Metrics;
use clap::Args;
use iam_adapters::clock::SystemClock;
use iam_adapters::keycloak::KeycloakSettings;
use secrecy::SecretString;
use serde::Deserialize;
use url::{Host, Url};

use crate::iam::{self, MockSettings};
use crate::wire::Portrait;
use crate::{MockIam, Plan};

/// The Keycloak that is stood in for where the settings name none.
const DEFAULT_URL: &str = "http://127.0.0.1:8180";
const DEFAULT_REALM: &str = "shop";
const DEFAULT_CLIENT: &str = "auth-gateway";
/// Printed on the first screen, and refused in production.
const DEFAULT_SECRET: &str = "mock-iam-development-secret";

/// Stands above the file.
const ENVIRONMENT_VARIABLE: &str = "AUTH_GATEWAY__ENVIRONMENT";

/// Where the gateway takes logout tokens.
const BACKCHANNEL_LOGOUT: &str = "/api/v1/auth/backchannel-logout";

/// What is asked for beside the configuration.
#[derive(Debug, Args)]
pub(super) struct Wishes {
    /// Address to listen on; default: the port of `iam.keycloak.url`, on this machine only
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// The users, TOML, JSON or YAML; default: the demo users
    #[arg(long, value_name = "FILE")]
    users_file: Option<PathBuf>,
    /// Where to send logout tokens; default: the gateway at `http.public_url`
    #[arg(long, value_name = "URL")]
    backchannel_logout_url: Option<Url>,
}

impl Wishes {
    pub(super) fn command(self, config: Option<PathBuf>) -> StandIn {
        StandIn {
            config,
            listen: self.listen,
            users_file: self.users_file,
            backchannel_logout_url: self.backchannel_logout_url,
        }
    }
}

/// What `mock-iam` is asked to do.
#[derive(Debug, PartialEq, Eq)]
pub struct StandIn {
    /// The configuration file.
    pub config: Option<PathBuf>,
    /// Where to listen.
    pub listen: Option<SocketAddr>,
    /// The users.
    pub users_file: Option<PathBuf>,
    /// Who is told of logouts.
    pub backchannel_logout_url: Option<Url>,
}

/// Runs until it is told to stop.
pub(super) fn serve(
    stand_in: &StandIn,
    environment: &BTreeMap<String, String>,
    err: &mut dyn Write,
) -> anyhow::Result<Exit> {
    if is_for_production(stand_in.config.as_deref(), environment) {
        return Err(Wrong::Request(
            "mock-iam is for development: everyone in its users file can log in. \
             environment = \"production\" refuses it"
                .to_owned(),
        )
        .into());
    }
    let settings = crate::settings(stand_in.config.as_deref(), environment).map_err(Wrong::from)?;
    let plan = plan(&settings, stand_in)?;
    let _flusher = telemetry::install(&settings.log, &Arc::<Metrics>::default())
        .map_err(|error| anyhow::anyhow!("logs: {error}"))?;
    actix_web::rt::System::new().block_on(async {
        // Before anybody is told that it runs, and may end it.
        let stop = stop_signal()?;
        let told = screen(&settings, stand_in, &plan);
        let mock = MockIam::build(plan)?;
        writeln!(err, "{}", told(mock.address()))?;
        mock.run_until_stopped(stop).await
    })?;
    Ok(Exit::Ok)
}

/// Whether the configuration says so, before anything else of it is looked at: a production's
/// configuration as a rule has more that is not right where a mock is run.
fn is_for_production(file: Option<&Path>, environment: &BTreeMap<String, String>) -> bool {
    #[derive(Deserialize)]
    struct Head {
        environment: Option<String>,
    }
    let of_file = || {
        let text = std::fs::read_to_string(file?).ok()?;
        toml::from_str::<Head>(&text).ok()?.environment
    };
    let said = environment.get(ENVIRONMENT_VARIABLE).cloned();
    said.or_else(of_file).as_deref() == Some(Environment::Production.name())
}

fn plan(settings: &Settings, stand_in: &StandIn) -> Result<Plan, Wrong> {
    let of_mock = settings.iam.downcast_ref::<MockSettings>().cloned();
    let of_mock = of_mock.unwrap_or_default();
    let users_file = stand_in.users_file.as_ref().or(of_mock.users_file.as_ref());
    let users = iam::load(users_file.map(PathBuf::as_path))
        .map_err(|invalid| Wrong::Request(format!("--users-file: {invalid}")))?;
    let portrait = portrait(settings)?;
    let receiver = match &stand_in.backchannel_logout_url {
        Some(url) => url.clone(),
        None => receiver(settings)?,
    };
    Ok(Plan {
        listen: match stand_in.listen {
            Some(listen) => listen,
            None => beside(&portrait.url)?,
        },
        address_is_url: stand_in.listen.is_some() && !is_described(settings),
        portrait,
        users,
        session_lifetime: of_mock.session_lifetime,
        backchannel_logout_url: Some(receiver),
        allowed_hosts: settings.management.allowed_hosts.clone(),
        clock: Arc::new(SystemClock::default()),
        keys: Arc::default(),
    })
}

/// Whether the settings name a Keycloak.
fn is_described(settings: &Settings) -> bool {
    settings.iam.downcast_ref::<KeycloakSettings>().is_some()
}

fn portrait(settings: &Settings) -> Result<Portrait, Wrong> {
    Ok(match settings.iam.downcast_ref::<KeycloakSettings>() {
        Some(keycloak) => Portrait {
            url: keycloak.url.clone(),
            realm: keycloak.realm.clone(),
            client_id: keycloak.client_id.clone(),
            client_secret: keycloak.secret().map_err(Wrong::Request)?,
            permissions_client: keycloak.permissions_client.clone(),
            issuer: keycloak.issuer.clone(),
        },
        None => Portrait {
            url: parsed(DEFAULT_URL)?,
            realm: DEFAULT_REALM.to_owned(),
            client_id: DEFAULT_CLIENT.to_owned(),
            client_secret: SecretString::from(DEFAULT_SECRET),
            permissions_client: None,
            issuer: None,
        },
    })
}

fn receiver(settings: &Settings) -> Result<Url, Wrong> {
    let base = settings.http.public_url.issuer();
    parsed(&format!("{base}{BACKCHANNEL_LOGOUT}"))
}

fn parsed(url: &str) -> Result<Url, Wrong> {
    url.parse()
        .map_err(|error| Wrong::Request(format!("{url}: {error}")))
}

/// The port of an address, on this machine alone.
fn beside(url: &Url) -> Result<SocketAddr, Wrong> {
    if url.scheme() != "http" {
        return Err(Wrong::Request(
            "iam.keycloak.url begins with https, and mock-iam speaks plain http: set it to an \
             http address of this machine, or put something before mock-iam that speaks TLS and \
             say where to listen by --listen"
                .to_owned(),
        ));
    }
    let ip = match url.host() {
        Some(Host::Ipv4(ip)) if ip.is_loopback() => IpAddr::V4(ip),
        Some(Host::Ipv6(ip)) if ip.is_loopback() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        _ => IpAddr::V4(Ipv4Addr::LOCALHOST),
    };
    Ok((ip, url.port_or_known_default().unwrap_or(80)).into())
}

/// What runs where, once it is known where that is. No secret of the settings is in it.
fn screen(
    settings: &Settings,
    stand_in: &StandIn,
    plan: &Plan,
) -> impl FnOnce(SocketAddr) -> String + use<> {
    let Portrait {
        url,
        realm,
        client_id,
        permissions_client,
        ..
    } = &plan.portrait;
    let (realm, client) = (realm.clone(), client_id.clone());
    let permissions = permissions_client.clone();
    let named = (!plan.address_is_url).then(|| url.as_str().trim_end_matches('/').to_owned());
    let receiver = plan.backchannel_logout_url.clone();
    let users = stand_in.users_file.clone();
    let described = is_described(settings);
    let config = stand_in.config.clone();
    move |address| {
        let here = format!("http://{address}");
        let named = named.unwrap_or_else(|| here.clone());
        let mut screen = format!(
            "\nauth-gateway {version}, mock-iam: stands in for a Keycloak. Not for real users.\n\n\
             realm       {named}/realms/{realm}\n\
             \x20           each further namespace is a realm of its name\n\
             listens     {here}\n\
             control     {here}/mock/v1/status\n\
             console     {here}/mock/\n\
             client      {client}\n\
             roles       {roles}\n\
             users       {users}\n",
            version = env!("CARGO_PKG_VERSION"),
            roles = permissions.map_or_else(
                || "of the realm".to_owned(),
                |client| format!("of the client {client}")
            ),
            users = users.map_or_else(
                || "alice@example.test / alice-pass, bob@example.test / bob-pass".to_owned(),
                |file| file.display().to_string()
            ),
        );
        if let Some(receiver) = receiver {
            let _ = writeln!(screen, "tells       {receiver} of logouts");
        }
        if described {
            let file =
                config.map_or_else(String::new, |file| format!(" --config {}", file.display()));
            let _ = write!(screen, "\nThe gateway before it:\n\n  auth-gateway{file}\n");
        } else {
            let _ = write!(
                screen,
                "\nThe gateway's configuration:\n\n  \
                 [iam.keycloak]\n  \
                 url = \"{named}\"\n  \
                 realm = \"{realm}\"\n  \
                 client_id = \"{client}\"\n  \
                 client_secret = \"{DEFAULT_SECRET}\"\n"
            );
        }
        screen
    }
}
