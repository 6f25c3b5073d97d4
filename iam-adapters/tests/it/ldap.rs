//! The adapter of a directory that cannot be reached.

use std::sync::Arc;
use std::time::Duration;

use iam_adapters::clock::SystemClock;
use iam_adapters::ldap::LdapSettings;
use iam_adapters::settings::AdapterSettings as _;
use iam_adapters::{Subject, UpstreamSession};
use serde_json::json;
use tokio::net::TcpListener;

use super::calls::{SECRET, kind};

/// A proxy of TCP accepts connections also while its server is down.
#[tokio::test]
async fn connection_that_ends_in_the_tls_handshake_is_an_outage() {
    let proxy = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("ldaps://{}", proxy.local_addr().expect("an address"));
    tokio::spawn(async move { while proxy.accept().await.is_ok() {} });
    let section = json!({
        "urls": [url],
        "issuer": "ldap.example.test",
        "bind_dn": "cn=gateway,dc=example,dc=test",
        "bind_password": SECRET,
        "users_base": "ou=people,dc=example,dc=test",
    });
    let settings: LdapSettings = serde_json::from_value(section).expect("settings");
    let clock = Arc::new(SystemClock::default());
    let adapter = settings.connect("iam.ldap", clock, Duration::from_secs(5), None);
    let adapter = adapter.expect("an adapter");
    let session = UpstreamSession {
        subject: Subject::new("alice").expect("a subject"),
        id: String::new(),
        secret: "20260101000000Z".into(),
    };
    assert_eq!(kind(&adapter.introspect(&session).await), "unreachable");
    assert_eq!(kind(&adapter.probe().await), "unreachable");
}
