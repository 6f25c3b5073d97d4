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
/// Each problem as one line, which begins with the full key of the setting or the section.
pub fn certified_key(
    section: &str,
    chain: (&str, &Path),
    key: (&str, &Path),
) -> Result<Arc<CertifiedKey>, Vec<String>> {
    let of = |name: &str, problem: String| format!("{section}.{name}: {problem}");
    let read_chain = certificates(chain.1, "not a PEM certificate chain");
    let read_chain = read_chain.map_err(|problem| of(chain.0, problem));
    let read_key = private_key(key.1).map_err(|problem| of(key.0, problem));
    let (chain, key) = match (read_chain, read_key) {
        (Ok(chain), Ok(key)) => (chain, key),
        (chain, key) => return Err(chain.err().into_iter().chain(key.err()).collect()),
    };
    let certified = CertifiedKey::from_der(chain, key, &default_provider());
    certified.map(Arc::new).map_err(|error| {
        let mismatch = "the certificate and the key do not belong together";
        vec![format!("{section}: {mismatch}: {error}")]
    })
}

/// The certificates of a PEM file, at least one. `otherwise` is the reason if it has another content.
///
/// # Errors
///
/// The problem, with the file: it cannot be read, has no certificates, or a part of it is not PEM.
pub(crate) fn certificates(
    path: &Path,
    otherwise: &str,
) -> Result<Vec<CertificateDer<'static>>, String> {
    let file = files::open(path).map_err(PemError::Io);
    let read: Result<Vec<_>, _> =
        file.and_then(|file| CertificateDer::pem_reader_iter(file).collect());
    let reason = match read {
        Ok(certificates) if !certificates.is_empty() => return Ok(certificates),
        Err(PemError::Io(error)) => files::reason(&error),
        _ => otherwise.to_owned(),
    };
    Err(format!("{}: {reason}", path.display()))
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let pem = secret_file::read(path)?;
    PrivateKeyDer::from_pem_slice(pem.expose_secret().as_bytes())
        .map_err(|_| format!("{}: not a PEM private key", path.display()))
}
