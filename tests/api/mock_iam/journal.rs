//! Faults of one user, and the journal, over the wire.

use iam_adapters::ClientContext;
use iam_adapters::resilient::Operation;
use mock_iam::journal::Filter;

use super::faults::{FaultFixture, proven};
use super::{CLIENT, SECRET};

#[tokio::test]
async fn journal_has_caller_and_operation_and_no_secret() {
    let fixture = FaultFixture::new().await;
    let (iam, session) = proven(&fixture).await;
    let client = ClientContext {
        address: Some(std::net::IpAddr::from([203, 0, 113, 9]).into()),
        request_id: "a-request".to_owned(),
    };
    let begun = iam.authenticate(&fixture.credentials(), &client).await;
    let begun = begun.expect("a login").session;
    iam.end_session(&session).await.expect("a logout");
    let namespace = fixture.running_mock().namespace();
    let all = namespace
        .mock
        .journal()
        .select(&Filter::default(), 1000)
        .entries;
    let calls: Vec<_> = all.iter().map(|entry| &entry.call).collect();
    let of = |operation: Operation| calls.iter().filter(move |call| call.operation == operation);
    // Discovery, an invalid token, and a grant without a user.
    assert_eq!(of(Operation::Probe).count(), 3, "{calls:#?}");
    let login = of(Operation::Login).next_back().expect("a login");
    assert_eq!(login.user.as_deref(), Some("alice@example.test"));
    assert_eq!(login.request_id.as_deref(), Some("a-request"));
    assert_eq!(login.client_address.map(Into::into), client.address);
    assert_eq!(login.session.as_deref(), Some(begun.id.as_str()));
    assert_eq!(login.subject.as_ref(), Some(&fixture.user.subject));
    let logout = of(Operation::Logout).next().expect("a logout");
    assert_eq!(logout.session.as_deref(), Some(session.id.as_str()));
    assert_eq!(logout.user.as_deref(), Some("alice@example.test"));
    let message = format!("{all:?}");
    for secret in ["alice-pass", SECRET, "eyJ"] {
        assert!(!message.contains(secret), "{secret}: {message}");
    }
    assert!(
        calls.iter().all(|call| call.outcome.name() == "ok"),
        "{calls:#?}"
    );
    assert!(!message.contains(CLIENT), "{message}");
}
