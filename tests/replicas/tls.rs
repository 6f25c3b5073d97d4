//! Redis behind TLS and a password.

use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use test_support::gateway::TestGateway;

use crate::fixture::{AT_ONCE, ReplicaFixture, log_out, refuses, works_without_redis};
use test_support::redis_server::Server;

/// A certification authority in `ca.pem`, and a server certificate of it for `name`.
fn certificates(folder: &Path, name: &str) {
    let mut authority = CertificateParams::new([]).expect("parameters");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let authority = CertifiedIssuer::self_signed(authority, key).expect("an authority");
    let key = KeyPair::generate().expect("a key");
    let server = CertificateParams::new([name.to_owned()]).expect("parameters");
    let server = server.signed_by(&key, &authority).expect("a certificate");
    for (file, text) in [
        ("ca.pem", authority.pem()),
        ("server.pem", server.pem()),
        ("server.key", key.serialize_pem()),
    ] {
        std::fs::write(folder.join(file), text).expect("written");
    }
}

const PASSWORD: &str = "the password of this Redis";

fn behind_tls(name: &str) -> Option<ReplicaFixture> {
    let folder = tempfile::tempdir().expect("a folder");
    certificates(folder.path(), name);
    let options = [
        "--port",
        "0",
        "--tls-port",
        "{port}",
        "--tls-auth-clients",
        "no",
        "--tls-ca-cert-file",
        "{folder}/ca.pem",
        "--tls-cert-file",
        "{folder}/server.pem",
        "--tls-key-file",
        "{folder}/server.key",
    ];
    Some(ReplicaFixture::with_redis(Server::start_in(
        folder,
        Some(PASSWORD),
        &options,
    )?))
}

/// A gateway that trusts this authority.
fn gateway(fixture: &ReplicaFixture, authority: &Path) -> TestGateway {
    fixture.lone_gateway(&[
        (
            "redis.url",
            &format!("rediss://localhost:{}", fixture.redis.port()),
        ),
        ("redis.password", PASSWORD),
        ("redis.ca_file", authority.to_str().expect("text")),
        AT_ONCE[0],
    ])
}

#[tokio::test]
async fn revocations_are_sent_over_tls() {
    let Some(fixture) = behind_tls("localhost") else {
        return;
    };
    let authority = fixture.redis.folder().join("ca.pem");
    let (one, other) = (gateway(&fixture, &authority), gateway(&fixture, &authority));
    for gateway in [&one, &other] {
        fixture.synchronized(gateway).await;
    }
    let session = fixture.known_session(&[&one, &other]).await;
    log_out(&one, &session).await;
    refuses(&other, &session).await;
}

#[tokio::test]
async fn redis_with_an_invalid_certificate_is_not_used() {
    let (Some(fixture), Some(misnamed)) = (behind_tls("localhost"), behind_tls("elsewhere.test"))
    else {
        return;
    };
    let other_certificates = tempfile::tempdir().expect("a folder");
    certificates(other_certificates.path(), "localhost");
    let unknown = gateway(&fixture, &other_certificates.path().join("ca.pem"));
    let other_name = gateway(&misnamed, &misnamed.redis.folder().join("ca.pem"));
    for gateway in [&unknown, &other_name] {
        let report = works_without_redis(gateway).await;
        assert!(report.contains("certificate"), "{report}");
    }
    works_without_redis(&fixture.gateway(&AT_ONCE)).await;
}
