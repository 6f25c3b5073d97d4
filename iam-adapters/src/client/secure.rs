//! The TLS of every connection to an IAM: 1.2 or later, and verified, always.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::CertificateDer;
use rustls::version::{TLS12, TLS13};
use rustls_platform_verifier::Verifier;

use super::ClientError;

/// Trusts whom the machine trusts, and these.
pub(super) fn settings(trusted: Vec<CertificateDer<'static>>) -> Result<ClientConfig, ClientError> {
    let provider = Arc::new(default_provider());
    let verifier = Verifier::new_with_extra_roots(trusted, Arc::clone(&provider))
        .map_err(|_| ClientError::Tls)?;
    let mut settings = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13, &TLS12])
        .map_err(|_| ClientError::Tls)?
        // The type that takes a verifier of its own is called so; this is the machine's.
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    settings.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(settings)
}
