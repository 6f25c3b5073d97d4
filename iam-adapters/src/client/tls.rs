//! The TLS configuration of all connections to an IAM: 1.2 or later, with verified certificates.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::CertificateDer;
use rustls::version::{TLS12, TLS13};
use rustls_platform_verifier::Verifier;

use super::ClientError;

/// Trusts the certificate authorities of the machine, and `trusted`.
pub(super) fn config(trusted: Vec<CertificateDer<'static>>) -> Result<ClientConfig, ClientError> {
    let provider = Arc::new(default_provider());
    let verifier = Verifier::new_with_extra_roots(trusted, Arc::clone(&provider))
        .map_err(|_| ClientError::Tls)?;
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13, &TLS12])
        .map_err(|_| ClientError::Tls)?
        // rustls calls a custom verifier dangerous; this one is the operating system's.
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
