//! The certificate and the key of the public listener.

use std::path::Path;

use iam_adapters::{files, secret_file};
use rustls::ServerConfig;
use rustls::pki_types::pem::{Error as PemError, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use secrecy::ExposeSecret as _;

use crate::config::{Problems, Settings};
use crate::server::server_config;

/// The TLS configuration of the settings; `None` if TLS is off, or there is a problem.
pub(super) fn configured(settings: &Settings, problems: &mut Problems) -> Option<ServerConfig> {
    let tls = &settings.http.tls;
    let mut add = |key: &str, problem: String| problems.add(key, problem);
    let chain = tls.certificate_file.as_deref().map(chain);
    let chain = chain.map(|read| read.map_err(|problem| add("http.tls.certificate_file", problem)));
    let key = tls.key_file.as_deref().map(key);
    let key = key.map(|read| read.map_err(|problem| add("http.tls.key_file", problem)));
    server_config(chain?.ok()?, key?.ok()?)
        .map_err(|error| {
            let mismatch = "the certificate and the key do not belong together";
            add("http.tls", format!("{mismatch}: {error}"));
        })
        .ok()
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
