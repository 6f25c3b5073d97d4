//! The TLS settings of a listener: versions 1.2 and 1.3, HTTP/1.1 only.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::server::ResolvesServerCert;

/// The TLS configuration of a listener with this certificate.
///
/// # Errors
///
/// rustls supports none of the versions.
pub fn server_config(
    certificate: Arc<dyn ResolvesServerCert>,
) -> Result<ServerConfig, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(certificate);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
