//! The certificate and the key of the public listener.

use std::sync::Arc;

use arc_swap::ArcSwap;
use iam_adapters::{Moment, pem};
use openssl::asn1::{Asn1Time, Asn1TimeRef, TimeDiff};
use openssl::x509::X509;
use rustls::pki_types::CertificateDer;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::config::{ConfigErrors, Settings};
use crate::health::Validity;

/// The certificate of a listener, which can be replaced. Open connections keep theirs.
#[derive(Debug)]
pub struct ServerCertificate(ArcSwap<CertifiedKey>);

impl ServerCertificate {
    /// Uses the certificate of another one for new connections.
    pub(super) fn replace(&self, other: &Self) {
        self.0.store(other.0.load_full());
    }

    /// Why clients refuse the certificate now.
    pub(crate) fn problem(&self, now: Moment) -> Option<String> {
        self.validity()?.problem(now)
    }

    /// When all certificates of the chain are valid; `None` if OpenSSL cannot read one of them.
    pub(super) fn validity(&self) -> Option<Validity> {
        let certified = self.0.load();
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
        Some(self.0.load_full())
    }
}

/// The certificate of the settings; `None` if TLS is off, or there is a problem.
pub(super) fn configured(
    settings: &Settings,
    problems: &mut ConfigErrors,
) -> Option<Arc<ServerCertificate>> {
    let (certificate, key) = settings.http.tls.files()?;
    match pem::certified_key(
        "http.tls",
        ("certificate_file", certificate),
        ("key_file", key),
    ) {
        Ok(certified) => Some(Arc::new(ServerCertificate(ArcSwap::new(certified)))),
        Err(found) => {
            for lines in &found {
                problems.add_lines(lines);
            }
            None
        }
    }
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
