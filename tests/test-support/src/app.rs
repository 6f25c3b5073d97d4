//! The whole application, on free ports, in a thread of its own.

use std::collections::BTreeMap;
use std::future::pending;
use std::ops::Deref;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use actix_web::rt::System;
use auth_gateway::config::Settings;
use auth_gateway::server::ConnectionTimeouts;
use auth_gateway::startup::{Addresses, Application, Parts};
use iam_adapters::{Clock, IamAdapter};
use tokio::sync::oneshot;

use crate::client::Client;

/// The issuer of every gateway under test. It names no port, so that one who can resolve the host
/// finds the gateway wherever it listens.
pub const PUBLIC_URL: &str = "http://gateway.test";

/// The application, and a client of it. It ends when it is dropped.
#[derive(Debug)]
pub struct TestApp {
    client: Client,
    addresses: Addresses,
    _running: Running,
}

#[derive(Debug)]
struct Running {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl TestApp {
    /// In front of the IAM that the settings name.
    pub fn spawn(clock: Arc<dyn Clock>, overrides: &[(&str, &str)]) -> Self {
        let settings = settings(overrides);
        let parts = prepare(&settings, clock);
        Self::run(settings, parts)
    }

    /// In front of this adapter, whatever the settings name.
    pub fn in_front_of(
        iam: Arc<dyn IamAdapter>,
        clock: Arc<dyn Clock>,
        overrides: &[(&str, &str)],
    ) -> Self {
        let settings = settings(overrides);
        let prepared = prepare(&settings, clock);
        Self::run_one(settings, Parts { iam, ..prepared })
    }

    /// With all that was prepared, changed at will, and the namespaces of the mock where the settings
    /// name it.
    pub fn run(settings: Settings, parts: Parts) -> Self {
        Self::build(settings, parts, mock_iam::build)
    }

    /// With all that was prepared, changed at will: one gateway before the adapter in `parts`.
    pub fn run_one(settings: Settings, parts: Parts) -> Self {
        Self::build(settings, parts, Application::build)
    }

    fn build(
        settings: Settings,
        parts: Parts,
        build: fn(&Settings, Parts) -> anyhow::Result<Application>,
    ) -> Self {
        let (bound, addresses) = mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        let thread = thread::spawn(move || {
            System::new().block_on(async move {
                let app = build(&settings, parts).expect("two free ports");
                bound.send(app.addresses()).expect("somebody waits");
                // A test waits for nobody's connections: what is dropped here ends at once.
                tokio::select! {
                    ran = app.run_until_stopped(pending()) => ran.expect("listeners"),
                    _ = stopped => {}
                }
            });
        });
        let addresses = addresses.recv().expect("the application started");
        Self {
            client: Client::new(addresses.public, addresses.management),
            addresses,
            _running: Running {
                stop: Some(stop),
                thread: Some(thread),
            },
        }
    }

    /// Where the listeners are.
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }
}

impl Deref for TestApp {
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

/// The parts of a gateway whose deadlines for clients do not expire because the machine is busy with
/// other tests.
pub fn prepare(settings: &Settings, clock: Arc<dyn Clock>) -> Parts {
    let mut parts = Parts::prepare(settings, clock).expect("usable settings");
    let minute = Duration::from_secs(60);
    parts.timeouts = ConnectionTimeouts {
        head: minute,
        body: minute,
        write: minute,
        idle: minute,
        queue_delay: minute,
    };
    parts
}

/// Small and on free ports; an override is a key (`session.freshness`) and its value.
pub fn settings(overrides: &[(&str, &str)]) -> Settings {
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
    mock_iam::settings(None, &variables).unwrap_or_else(|invalid| panic!("{invalid}"))
}
