//! The allowed hosts of `mock-iam`.

use std::sync::Arc;

use iam_adapters::clock::SystemClock;
use test_support::wire::fetch;

use super::{REALM, RunningMock};

#[test]
fn mock_iam_is_served_under_ip_addresses_localhost_its_own_and_allowed_hosts_only() {
    let mock = RunningMock::new(Arc::new(SystemClock::default()));
    let address = mock
        .url
        .trim_start_matches("http://")
        .parse()
        .expect("an address");
    let discovery = format!("/realms/{REALM}/.well-known/openid-configuration");
    for path in [discovery.as_str(), "/mock/v1/status", "/mock/"] {
        for (host, status) in [
            ("127.0.0.1:8180", 200),
            ("[::1]", 200),
            ("localhost:8180", 200),
            // The host of the URL in the settings, and the option `--allowed-hosts`.
            ("mock-iam:8180", 200),
            ("evil.test:8180", 403),
            ("mock-iam.evil.test", 403),
        ] {
            let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
            let answer = fetch(address, request);
            assert_eq!(answer.status, status, "{host} {path}: {answer:?}");
            if status == 403 {
                assert_eq!(answer.json()["error"], "forbidden");
                assert!(answer.header("x-request-id").is_some());
            }
        }
    }
}
