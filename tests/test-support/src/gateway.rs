//! The whole application, on free ports, in a thread of its own.

use std::collections::BTreeMap;
use std::future::pending;
use std::ops::Deref;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use actix_web::rt::System;
use arc_swap::ArcSwap;
use auth_gateway::config::Settings;
use auth_gateway::startup::{Addresses, Application, ServiceDependencies};
use auth_gateway_server::ConnectionTimeouts;
use iam_adapters::clock::SystemClock;
use iam_adapters::{Clock, IamAdapter};
use mock_iam::ManualClock;
use tokio::sync::oneshot;

use crate::client::Client;
use crate::log::show_warnings;
use crate::metrics;
use crate::scripted_upstream::keycloak::{CLIENT, CLIENT_SECRET, PERMISSIONS_CLIENT, REALM};

/// The issuer of every gateway under test. It names no port: a client resolves the host to the
/// address at which the gateway listens.
pub const PUBLIC_URL: &str = "http://gateway.test";

/// The application, and a client of it. It stops when it is dropped.
#[derive(Debug)]
pub struct TestGateway {
    client: Client,
    addresses: Addresses,
    _running: Running,
}

/// A server in a thread of its own. It stops when this is dropped.
#[derive(Debug)]
pub struct Running {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    /// Starts a server. `build` is called in its thread, with the signal to stop. It returns what the test needs, and
    /// the future that serves.
    pub fn start<T, F>(
        build: impl FnOnce(oneshot::Receiver<()>) -> (T, F) + Send + 'static,
    ) -> (T, Self)
    where
        T: Send + 'static,
        F: Future<Output = anyhow::Result<()>> + 'static,
    {
        let (sender, receiver) = mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        let thread = thread::spawn(move || {
            System::new().block_on(async move {
                let (needed, serving) = build(stopped);
                sender.send(needed).expect("the test waits for it");
                serving.await.expect("listeners");
            });
        });
        let needed = receiver.recv().expect("the server started");
        let running = Self {
            stop: Some(stop),
            thread: Some(thread),
        };
        (needed, running)
    }
}

impl TestGateway {
    /// In front of the IAM of the settings, by default the mock with its demo users, by the
    /// machine's clock.
    pub fn start(overrides: &[(&str, &str)]) -> Self {
        Self::start_with_clock(Arc::new(SystemClock::default()), overrides)
    }

    /// In front of the IAM of the settings.
    pub fn start_with_clock(clock: Arc<dyn Clock>, overrides: &[(&str, &str)]) -> Self {
        let (settings, parts) = prepare(None, overrides, clock);
        Self::with_namespaces(settings, parts)
    }

    /// In front of this adapter.
    pub fn with_adapter(
        iam: Arc<dyn IamAdapter>,
        clock: Arc<dyn Clock>,
        overrides: &[(&str, &str)],
    ) -> Self {
        let (settings, prepared) = prepare(None, overrides, clock);
        Self::from_parts(
            settings,
            ServiceDependencies {
                iams: vec![Arc::new(ArcSwap::from_pointee(iam))],
                ..prepared
            },
        )
    }

    /// From prepared parts, with the namespaces of the mock if the settings choose it.
    pub fn with_namespaces(settings: Settings, parts: ServiceDependencies) -> Self {
        Self::build(settings, parts, auth_gateway_dev::build)
    }

    /// From prepared parts: one gateway in front of the adapter in `parts`.
    pub fn from_parts(settings: Settings, parts: ServiceDependencies) -> Self {
        Self::build(settings, parts, Application::build)
    }

    /// From prepared parts, as `build` makes the application. It can already send to the listeners: they accept
    /// connections once it has returned.
    pub fn build(
        settings: Settings,
        parts: ServiceDependencies,
        build: impl FnOnce(&Settings, ServiceDependencies) -> anyhow::Result<Application>
        + Send
        + 'static,
    ) -> Self {
        show_warnings();
        let (addresses, running) = Running::start(move |stopped| {
            let app = build(&settings, parts).expect("two free ports");
            let addresses = app.addresses();
            // Without a graceful shutdown: what is dropped here ends at once.
            let serving = async move {
                tokio::select! {
                    ran = app.run_until_stopped(pending()) => ran,
                    _ = stopped => Ok(()),
                }
            };
            (addresses, serving)
        });
        Self {
            client: Client::new(addresses.public, addresses.management),
            addresses,
            _running: running,
        }
    }

    /// The sum of the series of a metric whose labels contain this text (see [`metrics::sum`]).
    pub async fn metric(&self, name: &str, label: &str) -> u64 {
        metrics::sum(self.addresses.management, name, label).await
    }

    /// The addresses of the listeners.
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }
}

impl Deref for TestGateway {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && let Err(panic) = thread.join()
            && !thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

/// A clock that starts at the time of day and runs only when a test advances it.
pub fn manual_clock() -> Arc<ManualClock> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    Arc::new(ManualClock::at(now.expect("a time after 1970")))
}

/// The settings and the parts of a gateway with one worker and free ports. An override is a key
/// (`session.freshness`) and its value; the settings file is for what a variable cannot express. The deadlines for
/// clients do not expire on a busy machine. No file is read again: that would replace an adapter of a test.
pub fn prepare(
    file: Option<&Path>,
    overrides: &[(&str, &str)],
    clock: Arc<dyn Clock>,
) -> (Settings, ServiceDependencies) {
    let small = [
        ("http.listen", "127.0.0.1:0"),
        ("management.listen", "127.0.0.1:0"),
        ("http.workers", "1"),
        ("http.public_url", PUBLIC_URL),
    ];
    let variables: BTreeMap<_, _> = small
        .iter()
        .chain(overrides)
        .map(|(key, value)| {
            let name = key.to_uppercase().replace('.', "__");
            (format!("AUTH_GATEWAY__{name}"), (*value).to_owned())
        })
        .collect();
    let loaded = ServiceDependencies::load(file, &variables, &auth_gateway_dev::registry(), clock);
    let (settings, mut parts) = loaded.unwrap_or_else(|invalid| panic!("{invalid}"));
    parts.source = None;
    let minute = Duration::from_secs(60);
    parts.timeouts = ConnectionTimeouts {
        head: minute,
        body: minute,
        write: minute,
        idle: minute,
        queue_delay: minute,
    };
    (settings, parts)
}

/// The settings of a gateway in front of a Keycloak, real or scripted.
pub const fn keycloak_settings<'a>(
    url: &'a str,
    realm: &'a str,
    client_id: &'a str,
    client_secret: &'a str,
) -> [(&'static str, &'a str); 5] {
    [
        ("iam.keycloak.url", url),
        ("iam.keycloak.realm", realm),
        ("iam.keycloak.client_id", client_id),
        ("iam.keycloak.client_secret", client_secret),
        ("iam.keycloak.permissions_client", PERMISSIONS_CLIENT),
    ]
}

/// The settings of a gateway in front of a scripted Keycloak at this address.
pub const fn scripted_keycloak_settings(url: &str) -> [(&'static str, &str); 5] {
    keycloak_settings(url, REALM, CLIENT, CLIENT_SECRET)
}

/// The settings of a gateway in front of two scripted Keycloaks: `one`, which is the default, and `other`
/// with the domain `other.test`.
pub const fn two_scripted_keycloaks_settings<'a>(
    one_url: &'a str,
    other_url: &'a str,
) -> [(&'static str, &'a str); 15] {
    [
        ("iam.one.type", "keycloak"),
        ("iam.one.url", one_url),
        ("iam.one.realm", REALM),
        ("iam.one.client_id", CLIENT),
        ("iam.one.client_secret", CLIENT_SECRET),
        ("iam.one.permissions_client", PERMISSIONS_CLIENT),
        ("iam.one.default", "true"),
        ("iam.other.type", "keycloak"),
        ("iam.other.url", other_url),
        ("iam.other.realm", REALM),
        ("iam.other.client_id", CLIENT),
        ("iam.other.client_secret", CLIENT_SECRET),
        ("iam.other.permissions_client", PERMISSIONS_CLIENT),
        ("iam.other.domains", "other.test"),
        ("iam.other.subject_prefix", "other-"),
    ]
}
