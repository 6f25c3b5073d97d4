//! Which address a login counts for behind a proxy, and which address the IAM receives.

use std::time::Duration;

use super::{ALICE, Scenario, is_stopped};

/// Values of `X-Forwarded-For` of a trusted proxy, and the client address. If the value cannot be
/// read, the address is that of the proxy.
const FORMS: [(&[&str], &str); 5] = [
    (&["1.1.1.1, 203.0.113.9"], "203.0.113.9"),
    (&["1.1.1.1", "203.0.113.9"], "203.0.113.9"),
    (&["203.0.113.9, 10.0.0.1"], "203.0.113.9"),
    (&[], "127.0.0.1"),
    (&["unknown"], "127.0.0.1"),
];

const WINDOW: Duration = Duration::from_secs(900);

/// One refusal for each address, and ten for the network around it.
fn fixture(trusted: &str) -> Scenario {
    Scenario::new(&[
        ("http.trusted_proxies", trusted),
        ("login_limits.address_failures", "1"),
        ("login_limits.account_failures", "0"),
    ])
}

fn headers<'a>(lines: &[&'a str]) -> Vec<(&'static str, &'a str)> {
    lines
        .iter()
        .map(|line| ("X-Forwarded-For", *line))
        .collect()
}

#[tokio::test]
async fn login_counts_for_the_client_address_of_a_trusted_proxy_which_the_iam_receives() {
    let fixture = fixture("127.0.0.1,10.0.0.0/8");
    for (lines, client) in FORMS {
        let answer = fixture.log_in_with(&headers(lines), ALICE, "wrong").await;
        answer.is_error(401, "invalid_grant");
        let [received] = &fixture.take_logins()[..] else {
            panic!("{lines:?} asked the IAM once");
        };
        assert_eq!(received.as_deref(), Some(client), "{lines:?}");
        let itself = [client];
        let again = headers(if client == "127.0.0.1" { &[] } else { &itself });
        is_stopped(&fixture.log_in_with(&again, ALICE, "wrong").await, "900");
        let other = headers(&["198.51.100.200"]);
        let answer = fixture.log_in_with(&other, ALICE, "wrong").await;
        answer.is_error(401, "invalid_grant");
        fixture.take_logins();
        fixture.clock.advance(WINDOW);
    }
}
