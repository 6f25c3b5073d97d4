//! Certificates and private keys in PEM files.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::{Error as PemError, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use secrecy::ExposeSecret as _;

use crate::{files, secret_file};

/// Reads a certificate chain, and its private key from a file that other users may not read. Each file is
/// with the name of its setting in the section.
///
/// # Errors
///
/// Each problem, with the full key of the setting or the section.
pub fn certified_key(
    section: &str,
    chain: (&str, &Path),
    key: (&str, &Path),
) -> Result<Arc<CertifiedKey>, Vec<(String, String)>> {
    let of = |name: &str, problem| (format!("{section}.{name}"), problem);
    let read_chain = certificates(chain.1).map_err(|problem| of(chain.0, problem));
    let read_key = private_key(key.1).map_err(|problem| of(key.0, problem));
    let (chain, key) = match (read_chain, read_key) {
        (Ok(chain), Ok(key)) => (chain, key),
        (chain, key) => return Err(chain.err().into_iter().chain(key.err()).collect()),
    };
    let certified = CertifiedKey::from_der(chain, key, &default_provider());
    certified.map(Arc::new).map_err(|error| {
        let mismatch = "the certificate and the key do not belong together";
        vec![(section.to_owned(), format!("{mismatch}: {error}"))]
    })
}

/// The certificates of a PEM file.
///
/// # Errors
///
/// The file cannot be read, or a part of it is not PEM.
pub(crate) fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, PemError> {
    let file = files::open(path).map_err(PemError::Io)?;
    CertificateDer::pem_reader_iter(file).collect()
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let reason = match read_certificates(path) {
        Ok(certificates) if certificates.is_empty() => "not a PEM certificate chain".to_owned(),
        Ok(certificates) => return Ok(certificates),
        Err(PemError::Io(error)) => files::reason(&error),
        Err(_) => "not a PEM certificate chain".to_owned(),
    };
    Err(format!("{}: {reason}", path.display()))
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let pem = secret_file::read(path).map_err(|error| error.to_string())?;
    PrivateKeyDer::from_pem_slice(pem.expose_secret().as_bytes())
        .map_err(|_| format!("{}: not a PEM private key", path.display()))
}
