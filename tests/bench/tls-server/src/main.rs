//! Accepts TLS connections at a port of 127.0.0.1, and reads each until its client closes it:
//! `tls-server PORT CERTIFICATE_FILE KEY_FILE`. One thread, and the library of the gateway.

use std::env;
use std::error::Error;
use std::net::Ipv4Addr;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;
use tokio::task::{LocalSet, spawn_local};
use tokio_rustls::TlsAcceptor;

type Failure = Box<dyn Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let mut arguments = env::args().skip(1);
    let mut argument = || arguments.next().ok_or("PORT CERTIFICATE_FILE KEY_FILE");
    let port: u16 = argument()?.parse()?;
    let chain = CertificateDer::pem_file_iter(argument()?)?.collect::<Result<_, _>>()?;
    let key = PrivateKeyDer::from_pem_file(argument()?)?;
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    LocalSet::new()
        .run_until(async {
            loop {
                let (connection, _) = listener.accept().await?;
                let accepting = acceptor.accept(connection);
                spawn_local(async move {
                    let mut connection = accepting.await?;
                    let mut sink = [0; 1024];
                    while connection.read(&mut sink).await? > 0 {}
                    Ok::<_, std::io::Error>(())
                });
            }
        })
        .await
}
