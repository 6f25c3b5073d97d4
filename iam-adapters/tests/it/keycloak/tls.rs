//! Certificates are always verified.

use std::fs::Permissions;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::{Arc, mpsc};
use std::thread;

use iam_adapters::Misconfiguration;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};

use super::{adapter_with, is_misconfigured, kind, log_in};

/// A server that responds to one request with an empty discovery document, and records the request.
struct TlsServer {
    port: u16,
    certificate: String,
    received: mpsc::Receiver<String>,
}

impl TlsServer {
    fn start(name: &str, versions: &[&'static rustls::SupportedProtocolVersion]) -> Self {
        Self::start_for(name, versions, None)
    }

    /// With this authority of clients, it requires their certificates.
    fn start_for(
        name: &str,
        versions: &[&'static rustls::SupportedProtocolVersion],
        clients: Option<&CertificateDer<'static>>,
    ) -> Self {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(vec![name.to_owned()]).expect("a certificate");
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = clients.map(|authority| {
            let mut roots = RootCertStore::empty();
            roots.add(authority.clone()).expect("an authority");
            let roots = Arc::new(roots);
            let verifier =
                WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider));
            verifier.build().expect("a verifier")
        });
        let verifier = verifier.unwrap_or_else(WebPkiClientVerifier::no_client_auth);
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .expect("versions")
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![cert.der().clone()], key)
            .expect("a server");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let (sender, received) = mpsc::channel();
        thread::spawn(move || {
            let (stream, _) = listener.accept().expect("a client");
            let connection = ServerConnection::new(Arc::new(config)).expect("a connection");
            let mut stream = StreamOwned::new(connection, stream);
            let mut buffer = [0; 4096];
            // A client that refuses the certificate disconnects here.
            let Ok(length) = stream.read(&mut buffer) else {
                // Until the client disconnects: closing earlier would reset the connection.
                let _ = stream.sock.read_to_end(&mut Vec::new());
                return;
            };
            let _ = sender.send(String::from_utf8_lossy(&buffer[..length]).into_owned());
            let _ = stream
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}");
        });
        Self {
            port,
            certificate: cert.pem(),
            received,
        }
    }

    fn url(&self) -> String {
        format!("https://localhost:{}", self.port)
    }

    /// Settings that trust the server's certificate.
    fn trusted(&self) -> (tempfile::NamedTempFile, Value) {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(self.certificate.as_bytes())
            .expect("written");
        let setting = json!({"ca_file": file.path()});
        (file, setting)
    }
}

#[tokio::test]
async fn no_request_is_sent_to_a_server_with_an_untrusted_certificate() {
    let server = TlsServer::start("localhost", rustls::ALL_VERSIONS);
    let keycloak = adapter_with(&server.url(), &json!({}));
    let answer = log_in(&keycloak).await;
    is_misconfigured(&answer, Misconfiguration::Tls);
    assert!(server.received.recv().is_err(), "a request was sent");
}

#[tokio::test]
async fn no_request_is_sent_to_a_server_with_a_certificate_for_another_name() {
    let server = TlsServer::start("elsewhere.test", rustls::ALL_VERSIONS);
    let (_file, trusted) = server.trusted();
    let keycloak = adapter_with(&server.url(), &trusted);
    let answer = log_in(&keycloak).await;
    let text = answer
        .as_ref()
        .map_or_else(ToString::to_string, |_| String::new());
    assert!(
        text.contains("another host name") && !text.contains("elsewhere"),
        "{text}"
    );
    is_misconfigured(&answer, Misconfiguration::Tls);
    assert!(server.received.recv().is_err(), "a request was sent");
}

#[tokio::test]
async fn certificate_of_the_ca_file_is_trusted_over_tls_1_2_and_1_3() {
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let server = TlsServer::start("localhost", &[version]);
        let (_file, trusted) = server.trusted();
        // The document is empty, so the response is unreadable.
        let answer = adapter_with(&server.url(), &trusted).probe().await;
        assert_eq!(kind(&answer), "unreadable");
        let request = server.received.recv().expect("a request");
        assert!(
            request.starts_with("GET /realms/shop/.well-known/"),
            "{request}"
        );
    }
}

#[tokio::test]
async fn port_without_tls_is_a_tls_misconfiguration() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        // Until the client disconnects: closing earlier would reset the connection.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let url = format!("https://localhost:{port}");
    let answer = adapter_with(&url, &json!({})).probe().await;
    is_misconfigured(&answer, Misconfiguration::Tls);
}

#[tokio::test]
async fn certificate_of_the_client_is_presented_and_a_refused_one_is_named() {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(vec!["client".to_owned()]).expect("a certificate");
    let other = generate_simple_self_signed(vec!["client".to_owned()]).expect("a certificate");
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, pem: &str| {
        let file = folder.path().join(name);
        std::fs::write(&file, pem).expect("written");
        std::fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("a mode");
        file
    };
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        for (trusted, is_accepted) in [(&cert, true), (&other.cert, false)] {
            let server = TlsServer::start_for("localhost", &[version], Some(trusted.der()));
            let (_file, mut changes) = server.trusted();
            changes["client_auth_method"] = json!("tls_client_auth");
            changes["client_secret"] = json!(null);
            changes["client_certificate_file"] = json!(write("certificate", &cert.pem()));
            changes["client_key_file"] = json!(write("key", &signing_key.serialize_pem()));
            let answer = adapter_with(&server.url(), &changes).probe().await;
            if is_accepted {
                assert_eq!(kind(&answer), "unreadable");
                assert!(server.received.recv().is_ok(), "no request");
            } else {
                is_misconfigured(&answer, Misconfiguration::Tls);
                let text = answer.expect_err("refused").to_string();
                assert!(text.contains("refused the client certificate"), "{text}");
                assert!(server.received.recv().is_err(), "a request was read");
            }
        }
    }
}
