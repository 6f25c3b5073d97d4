//! The searches and logins that the adapter for directories makes, without a gateway.
//!
//! Reads a [`Load`] as JSON from standard input, and prints an [`Outcome`] as JSON.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ldap3::controls::{PagedResults, RawControl};
use ldap3::{Ldap, LdapConnAsync, LdapConnSettings, Scope, SearchEntry, StdStream};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use serde::{Deserialize, Serialize};
use tokio::net::TcpStream;

type Failure = Box<dyn Error + Send + Sync>;

/// The password policy control, which the adapter sends with each bind.
const PASSWORD_POLICY: &str = "1.3.6.1.4.1.42.2.27.8.5.1";

/// The page size of the adapter's searches.
const PAGE: i32 = 500;

/// What to send.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Load {
    /// `ldaps`, a host and a port.
    url: String,
    ca_file: PathBuf,
    /// The account of the searches.
    bind_dn: String,
    bind_password: String,
    base: String,
    /// Must match one entry.
    filter: String,
    attributes: Vec<String>,
    /// The connections of the searches.
    connections: usize,
    /// How many searches each connection has at once.
    at_once: usize,
    /// The number of all searches.
    count: usize,
    /// If it is set, each search is followed by a bind as the found entry, on a connection of its own.
    password: Option<String>,
}

/// The result of a load without an error.
#[derive(Serialize)]
struct Outcome {
    /// From the first request to the last response.
    seconds: f64,
    p50_ms: f64,
}

/// Sends the searches of a load.
struct Sender {
    load: Load,
    settings: LdapConnSettings,
    left: AtomicUsize,
}

impl Sender {
    async fn connect(&self) -> Result<Ldap, Failure> {
        let (_, address) = self.load.url.split_once("://").ok_or("no URL")?;
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let stream = StdStream::Tcp(stream.into_std()?);
        let settings = self.settings.clone().set_std_stream(stream);
        let (driver, ldap) = LdapConnAsync::with_settings(settings, &self.load.url).await?;
        tokio::spawn(driver.drive());
        Ok(ldap)
    }

    async fn bind(ldap: &mut Ldap, dn: &str, password: &str) -> Result<(), Failure> {
        ldap.with_controls(RawControl {
            ctype: PASSWORD_POLICY.to_owned(),
            crit: false,
            val: None,
        });
        ldap.simple_bind(dn, password).await?.success()?;
        Ok(())
    }

    /// A search, and the login if there is a password.
    async fn one(&self, shared: &mut Ldap) -> Result<(), Failure> {
        let load = &self.load;
        shared.with_controls(PagedResults {
            size: PAGE,
            cookie: Vec::new(),
        });
        let found = shared.search(&load.base, Scope::Subtree, &load.filter, &load.attributes);
        let (mut entries, _) = found.await?.success()?;
        let (Some(entry), true) = (entries.pop(), entries.is_empty()) else {
            return Err("the filter does not match one entry".into());
        };
        let entry = SearchEntry::construct(entry);
        if let Some(password) = &load.password {
            let mut own = self.connect().await?;
            Self::bind(&mut own, &entry.dn, password).await?;
            own.unbind().await?;
        }
        Ok(())
    }

    /// Sends one after another until none is left; returns how long each took.
    async fn send(self: Arc<Self>, mut shared: Ldap) -> Result<Vec<Duration>, Failure> {
        let mut took = Vec::new();
        let next = |left: usize| left.checked_sub(1);
        while self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next)
            .is_ok()
        {
            let began = Instant::now();
            self.one(&mut shared).await?;
            took.push(began.elapsed());
        }
        Ok(took)
    }
}

fn trusting(ca_file: &PathBuf) -> Result<LdapConnSettings, Failure> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(ca_file)? {
        roots.add(certificate?)?;
    }
    let tls = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(LdapConnSettings::new().set_config(Arc::new(tls)))
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "the outcome is the output")]
async fn main() -> Result<(), Failure> {
    let load: Load = serde_json::from_reader(std::io::stdin())?;
    let sender = Arc::new(Sender {
        settings: trusting(&load.ca_file)?,
        left: load.count.into(),
        load,
    });
    let load = &sender.load;
    let mut connections = Vec::new();
    for _ in 0..load.connections {
        let mut shared = sender.connect().await?;
        Sender::bind(&mut shared, &load.bind_dn, &load.bind_password).await?;
        connections.push(shared);
    }
    let began = Instant::now();
    let sending: Vec<_> = connections
        .iter()
        .flat_map(|shared| std::iter::repeat_n(shared, load.at_once))
        .map(|shared| tokio::spawn(Arc::clone(&sender).send(shared.clone())))
        .collect();
    let mut took = Vec::new();
    for sent in sending {
        took.extend(sent.await??);
    }
    let seconds = began.elapsed().as_secs_f64();
    took.sort_unstable();
    let median = took.get(took.len() / 2).ok_or("nothing was sent")?;
    let outcome = Outcome {
        seconds,
        p50_ms: median.as_secs_f64() * 1e3,
    };
    println!("{}", serde_json::to_string(&outcome)?);
    Ok(())
}
