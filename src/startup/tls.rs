//! TLS on the public listener, by rustls: versions 1.2 and 1.3, HTTP/1.1 alone.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use iam_adapters::secret_file;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use secrecy::ExposeSecret as _;

/// Reads a certificate chain and its key, both PEM.
///
/// # Errors
///
/// Where a file cannot be read, the key is open to everybody, or the two do not belong together.
pub(super) fn server(chain: &Path, key: &Path) -> anyhow::Result<ServerConfig> {
    let certificates = CertificateDer::pem_file_iter(chain)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .with_context(|| format!("{}: not a PEM certificate chain", chain.display()))?;
    let pem = secret_file::read(key).with_context(|| key.display().to_string())?;
    let key = PrivateKeyDer::from_pem_slice(pem.expose_secret().as_bytes())
        .with_context(|| format!("{}: not a PEM private key", key.display()))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .context("the certificate and the key do not belong together")?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
