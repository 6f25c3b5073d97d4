//! The command `mock-iam`: the mock IAM in Keycloak's protocol, in place of the Keycloak of a
//! configuration.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use auth_gateway::cli::{Exit, UserError, stop_signal};
use auth_gateway::config::{Environment, Settings};
use auth_gateway::telemetry;
use auth_gateway::telemetry::metrics::Metrics;
use clap::Args;
use iam_adapters::clock::SystemClock;
use iam_adapters::files;
use iam_adapters::keycloak::KeycloakSettings;
use iam_adapters::name::Name as _;
use mock_iam::wire::ServerSettings;
use mock_iam::{HostName, MockSettings};
use secrecy::SecretString;
use serde::Deserialize;
use url::{Host, Url};

use crate::{MockIam, MockIamSettings};

/// The emulated Keycloak if the settings have none.
const DEFAULT_URL: &str = "http://127.0.0.1:8180";
const DEFAULT_REALM: &str = "shop";
const DEFAULT_CLIENT: &str = "auth-gateway";
/// Printed on the welcome screen, and refused in production.
const DEFAULT_SECRET: &str = "mock-iam-development-secret";

/// Overrides `environment` of the file.
const ENVIRONMENT_VARIABLE: &str = "AUTH_GATEWAY__ENVIRONMENT";

/// The gateway's endpoint for logout tokens.
const BACKCHANNEL_LOGOUT: &str = "/api/v1/auth/backchannel-logout";

/// The arguments of `mock-iam` in addition to `--config`.
#[derive(Debug, PartialEq, Eq, Args)]
pub struct MockIamOptions {
    /// Address to listen on; default: the port of `iam.keycloak.url`, on this machine only
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,
    /// The users, TOML, JSON or YAML; default: the demo users
    #[arg(long, value_name = "FILE")]
    pub users_file: Option<PathBuf>,
    /// Where to send logout tokens, or `none`; default: the gateway at `http.public_url`
    #[arg(long, value_name = "URL")]
    pub backchannel_logout_url: Option<LogoutTokenReceiver>,
    /// Host names, in addition to those of the configuration, by which it may be addressed
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = HostName::parse)]
    pub allowed_hosts: Vec<HostName>,
}

/// Where the mock sends logout tokens; `None`: it sends none, like a client of Keycloak without a
/// back-channel logout URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogoutTokenReceiver(Option<Url>);

impl FromStr for LogoutTokenReceiver {
    type Err = url::ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(match text {
            "none" => None,
            url => Some(url.parse()?),
        }))
    }
}

/// Runs until a stop signal.
pub(super) fn serve(
    config: Option<&Path>,
    options: &MockIamOptions,
    environment: &BTreeMap<String, String>,
    err: &mut dyn Write,
) -> anyhow::Result<Exit> {
    let settings = crate::settings(config, environment);
    let for_production = match &settings {
        Ok(settings) => settings.environment == Environment::Production,
        Err(_) => is_for_production(config, environment),
    };
    if for_production {
        return Err(UserError::Request(
            "mock-iam is for development: everyone in its users file can log in. \
             environment = \"production\" refuses it"
                .to_owned(),
        )
        .into());
    }
    let settings = settings.map_err(UserError::from)?;
    let mock_settings = mock_settings(&settings, options)?;
    let _flusher = telemetry::install(&settings.log, &Arc::new(Metrics::new(&[])))
        .map_err(|error| anyhow::anyhow!("logs: {error}"))?;
    actix_web::rt::System::new().block_on(async {
        // Before the screen, after which a script may send the signal.
        let stop = stop_signal()?;
        let screen = screen(&settings, config, options, &mock_settings);
        let mock = MockIam::build(mock_settings)?;
        writeln!(err, "{}", screen(mock.address()))?;
        mock.run_until_stopped(stop).await
    })?;
    Ok(Exit::Ok)
}

/// Whether settings that have problems are for production. A production configuration usually has problems where a mock
/// is run, and this is the one that matters.
fn is_for_production(file: Option<&Path>, environment: &BTreeMap<String, String>) -> bool {
    #[derive(Deserialize)]
    struct Head {
        environment: Option<String>,
    }
    let of_file = || {
        // No pipe: all that it had was read with the settings.
        let text = io::read_to_string(files::open(file?).ok()?).ok()?;
        toml::from_str::<Head>(&text).ok()?.environment
    };
    let of_variable = environment.get(ENVIRONMENT_VARIABLE).cloned();
    of_variable.or_else(of_file).as_deref() == Some(Environment::Production.name())
}

fn mock_settings(
    settings: &Settings,
    options: &MockIamOptions,
) -> Result<MockIamSettings, UserError> {
    let of_mock = crate::of_kind::<MockSettings>(settings);
    let of_mock = of_mock.map_or_else(MockSettings::default, |(_, mock)| mock.clone());
    let users = mock_iam::load(users_file(settings, options).as_deref())
        .map_err(|invalid| UserError::Request(format!("--users-file: {invalid}")))?;
    let server_settings = server_settings(settings)?;
    let receiver = match &options.backchannel_logout_url {
        Some(LogoutTokenReceiver(receiver)) => receiver.clone(),
        None => Some(receiver(settings)?),
    };
    Ok(MockIamSettings {
        listen: match options.listen {
            Some(listen) => listen,
            None => loopback_address(&server_settings.url)?,
        },
        address_is_url: options.listen.is_some() && !has_keycloak(settings),
        server_settings,
        users,
        session_lifetime: of_mock.session_lifetime,
        backchannel_logout_url: receiver,
        allowed_hosts: options.allowed_hosts.clone(),
        clock: Arc::new(SystemClock::default()),
        keys: Arc::default(),
    })
}

/// Where the users are. `None`: the demo users.
fn users_file(settings: &Settings, options: &MockIamOptions) -> Option<PathBuf> {
    let of_mock = crate::of_kind::<MockSettings>(settings);
    let of_mock = || of_mock.and_then(|(_, mock)| mock.users_file.clone());
    options.users_file.clone().or_else(of_mock)
}

/// Whether the settings have a Keycloak.
fn has_keycloak(settings: &Settings) -> bool {
    crate::of_kind::<KeycloakSettings>(settings).is_some()
}

fn server_settings(settings: &Settings) -> Result<ServerSettings, UserError> {
    Ok(match crate::of_kind::<KeycloakSettings>(settings) {
        Some((name, keycloak)) => ServerSettings {
            url: keycloak.url.clone(),
            realm: keycloak.realm.clone(),
            client_id: keycloak.client.client_id.clone(),
            client_secret: (keycloak.client)
                .secret(&format!("iam.{name}"))
                .map_err(UserError::Request)?,
            permissions_client: keycloak.permissions_client.clone(),
            issuer: keycloak.issuer.clone(),
        },
        None => ServerSettings {
            url: parsed(DEFAULT_URL)?,
            realm: DEFAULT_REALM.to_owned(),
            client_id: DEFAULT_CLIENT.to_owned(),
            client_secret: SecretString::from(DEFAULT_SECRET),
            permissions_client: None,
            issuer: None,
        },
    })
}

fn receiver(settings: &Settings) -> Result<Url, UserError> {
    let base = settings.http.public_url.issuer();
    parsed(&format!("{base}{BACKCHANNEL_LOGOUT}"))
}

fn parsed(url: &str) -> Result<Url, UserError> {
    url.parse()
        .map_err(|error| UserError::Request(format!("{url}: {error}")))
}

/// The port of a URL on a loopback address.
fn loopback_address(url: &Url) -> Result<SocketAddr, UserError> {
    if url.scheme() != "http" {
        return Err(UserError::Request(
            "iam.keycloak.url begins with https, but mock-iam serves plain http: set it to an http \
             address of this machine, or run a TLS proxy in front of mock-iam and set --listen"
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

/// The welcome screen, for the bound address. Contains no secret of the settings.
fn screen(
    settings: &Settings,
    config: Option<&Path>,
    options: &MockIamOptions,
    mock_settings: &MockIamSettings,
) -> impl FnOnce(SocketAddr) -> String + use<> {
    let ServerSettings {
        url,
        realm,
        client_id,
        permissions_client,
        ..
    } = &mock_settings.server_settings;
    let (realm, client) = (realm.clone(), client_id.clone());
    let permissions = permissions_client.clone();
    let named =
        (!mock_settings.address_is_url).then(|| url.as_str().trim_end_matches('/').to_owned());
    let receiver = mock_settings.backchannel_logout_url.clone();
    let users = users_file(settings, options);
    let described = has_keycloak(settings);
    let config = config.map(Path::to_owned);
    move |address| {
        let here = format!("http://{address}");
        let named = named.unwrap_or_else(|| here.clone());
        let mut screen = format!(
            "\nauth-gateway {version}, mock-iam: emulates a Keycloak. Not for real users.\n\n\
             realm       {named}/realms/{realm}\n\
             \x20           each other namespace is a realm with its name\n\
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
        let _ = match receiver {
            Some(receiver) => writeln!(screen, "logout      tokens are sent to {receiver}"),
            None => writeln!(screen, "logout      no tokens are sent"),
        };
        if described {
            let file =
                config.map_or_else(String::new, |file| format!(" --config {}", file.display()));
            let _ = write!(
                screen,
                "\nStart the gateway with:\n\n  auth-gateway{file}\n"
            );
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
