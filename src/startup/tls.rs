//! The certificate and the key of the public listener.

use std::path::Path;
use std::sync::Arc;

use iam_adapters::{Moment, Replaceable, files, secret_file};
use openssl::asn1::{Asn1Time, Asn1TimeRef, TimeDiff};
use openssl::x509::X509;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::{Error as PemError, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use secrecy::ExposeSecret as _;

use crate::config::{ConfigErrors, Settings};
use crate::health::Validity;

/// The certificate of a listener, which can be replaced. Open connections keep theirs.
#[derive(Debug)]
pub struct ServerCertificate(Replaceable<CertifiedKey>);

impl ServerCertificate {
    /// Uses the certificate of another one for new connections.
    pub(super) fn replace(&self, other: &Self) {
        self.0.replace(other.0.get());
    }

    /// Why clients refuse the certificate now.
    pub(crate) fn problem(&self, now: Moment) -> Option<String> {
        self.validity()?.problem(now)
    }

    /// When all certificates of the chain are valid; `None` if OpenSSL cannot read one of them.
    pub(super) fn validity(&self) -> Option<Validity> {
        let certified = self.0.get();
        let chain: Option<Vec<_>> = certified.cert.iter().map(validity).collect();
        let chain = chain?;
        Some(Validity {
            not_before: chain.iter().map(|one| one.not_before).max()?,
            not_after: chain.iter().map(|one| one.not_after).min()?,
        })
    }
}

impl ResolvesServerCert for ServerCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.get())
    }
}

/// The certificate of the settings; `None` if TLS is off, or there is a problem.
pub(super) fn configured(
    settings: &Settings,
    problems: &mut ConfigErrors,
) -> Option<Arc<ServerCertificate>> {
    let tls = &settings.http.tls;
    let mut add = |key: &str, problem: String| problems.add(key, problem);
    let chain = tls.certificate_file.as_deref().map(chain);
    let chain = chain.map(|read| read.map_err(|problem| add("http.tls.certificate_file", problem)));
    let key = tls.key_file.as_deref().map(key);
    let key = key.map(|read| read.map_err(|problem| add("http.tls.key_file", problem)));
    let certified = CertifiedKey::from_der(chain?.ok()?, key?.ok()?, &default_provider());
    let certified = certified.map_err(|error| {
        let mismatch = "the certificate and the key do not belong together";
        add("http.tls", format!("{mismatch}: {error}"));
    });
    let current = Replaceable::new(Arc::new(certified.ok()?));
    Some(Arc::new(ServerCertificate(current)))
}

fn validity(certificate: &CertificateDer<'_>) -> Option<Validity> {
    let certificate = X509::from_der(certificate).ok()?;
    Some(Validity {
        not_before: unix_time(certificate.not_before())?,
        not_after: unix_time(certificate.not_after())?,
    })
}

fn unix_time(time: &Asn1TimeRef) -> Option<i64> {
    let TimeDiff { days, secs } = Asn1Time::from_unix(0).ok()?.diff(time).ok()?;
    Some(i64::from(days) * 86_400 + i64::from(secs))
}

/// Reads a PEM certificate chain.
fn chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let reason = match read {
        Ok(certificates) if certificates.is_empty() => "not a PEM certificate chain".to_owned(),
        Ok(certificates) => return Ok(certificates),
        Err(PemError::Io(error)) => files::reason(&error),
        Err(_) => "not a PEM certificate chain".to_owned(),
    };
    Err(format!("{}: {reason}", path.display()))
}

/// Reads a PEM private key from a file that other users may not read.
fn key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let pem = secret_file::read(path).map_err(|error| error.to_string())?;
    PrivateKeyDer::from_pem_slice(pem.expose_secret().as_bytes())
        .map_err(|_| format!("{}: not a PEM private key", path.display()))
}
