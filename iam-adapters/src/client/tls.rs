//! The TLS configuration of all connections to an IAM: 1.2 or later, with verified certificates, and with a
//! certificate of the client if it has one.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::CertificateDer;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::{TLS12, TLS13};
use rustls_platform_verifier::Verifier;

use super::ClientError;

/// Trusts the certificate authorities of the machine, and `trusted`.
pub(super) fn config(
    trusted: Vec<CertificateDer<'static>>,
    identity: Option<Arc<CertifiedKey>>,
) -> Result<ClientConfig, ClientError> {
    let provider = Arc::new(default_provider());
    let verifier = Verifier::new_with_extra_roots(trusted, Arc::clone(&provider))
        .map_err(|_| ClientError::Tls)?;
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13, &TLS12])
        .map_err(|_| ClientError::Tls)?
        // rustls calls a custom verifier dangerous; this one is the operating system's.
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match identity {
        None => config.with_no_client_auth(),
        Some(identity) => {
            config.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(identity)))
        }
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
