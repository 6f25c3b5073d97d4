//! TLS on the public listener, by rustls: versions 1.2 and 1.3, HTTP/1.1 alone.

use std::path::Path;
use std::sync::Arc;

use iam_adapters::{files, secret_file};
use rustls::ServerConfig;
use rustls::pki_types::pem::{Error as PemError, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use secrecy::ExposeSecret as _;

use crate::config::{Problems, Settings};

/// What the settings name; none where they name nothing, or something is wrong with it.
pub(super) fn configured(settings: &Settings, problems: &mut Problems) -> Option<ServerConfig> {
    let tls = &settings.http.tls;
    let mut noted = |key: &str, problem: String| problems.add(key, problem);
    let chain = tls.certificate_file.as_deref().map(chain);
    let chain =
        chain.map(|read| read.map_err(|problem| noted("http.tls.certificate_file", problem)));
    let key = tls.key_file.as_deref().map(key);
    let key = key.map(|read| read.map_err(|problem| noted("http.tls.key_file", problem)));
    server(chain?.ok()?, key?.ok()?)
        .map_err(|error| {
            let apart = "the certificate and the key do not belong together";
            noted("http.tls", format!("{apart}: {error}"));
        })
        .ok()
}

/// Reads a certificate chain, PEM.
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

/// Reads a private key, PEM, which others may not.
fn key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let pem = secret_file::read(path).map_err(|error| error.to_string())?;
    PrivateKeyDer::from_pem_slice(pem.expose_secret().as_bytes())
        .map_err(|_| format!("{}: not a PEM private key", path.display()))
}

fn server(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<ServerConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
