//! Invalid and ended sessions.

use super::{IamFixture, READ, session_of};
use crate::client::Session;

pub async fn every_invalid_session_has_the_same_response(fixture: &IamFixture) {
    let gateway = fixture.gateway_with(&[("session.max_lifetime", "1h")]);
    let user = fixture.user(&[READ]).await;
    let expired = session_of(&gateway, &user).await;
    fixture.advance(3600);
    let logged_out = session_of(&gateway, &user).await;
    assert_eq!(gateway.log_out(&logged_out).await.status, 200);
    let leaver = fixture.user(&[READ]).await;
    let ended = session_of(&gateway, &leaver).await;
    fixture.administrator.end_sessions_of(&leaver).await;
    fixture.advance(60);
    let session = session_of(&gateway, &user).await;
    let elsewhere = session_of(&fixture.gateway(), &user).await;

    let answer = gateway.exchange(&logged_out, READ).await;
    answer.is_error(401, "invalid_grant");
    assert_eq!(
        answer.header("www-authenticate"),
        r#"Bearer realm="auth", error="invalid_token""#
    );
    let expected = answer.text();
    let bad = [expired, ended, elsewhere].into_iter();
    for bad in bad.chain(forged(&session)) {
        let answer = gateway.exchange(&bad, READ).await;
        assert_eq!(answer.text(), expected, "{bad:?}");
    }
    assert_eq!(gateway.exchange(&session, READ).await.status, 200);
}

pub async fn logout_of_an_invalid_session_ends_nothing(fixture: &IamFixture) {
    let (gateway, user) = (fixture.gateway(), fixture.user(&[READ]).await);
    let session = session_of(&gateway, &user).await;
    let elsewhere = session_of(&fixture.gateway(), &user).await;
    let answer = gateway.log_out(&elsewhere).await;
    answer.is_error(400, "invalid_request");
    // A reason would help a client that guesses sessions.
    assert_eq!(
        answer.json()["error_description"],
        "The members `session_id` and `session_token` are not those of a session."
    );
    let expected = answer.text();
    for bad in forged(&session) {
        let answer = gateway.log_out(&bad).await;
        assert_eq!(answer.text(), expected, "{bad:?}");
    }
    // Active at the gateway and at the IAM.
    fixture.advance(30);
    assert_eq!(gateway.exchange(&session, READ).await.token().scope, READ);
}

/// Pairs that differ slightly from the session.
fn forged(session: &Session) -> Vec<Session> {
    let token = &session.session_token;
    let parts: Vec<_> = token.split('.').collect();
    let mut tokens = vec![
        String::new(),
        "....".to_owned(),
        "garbage".to_owned(),
        token[..token.len() - 1].to_owned(),
        format!("{token}A"),
        format!("{token}="),
        format!(" {token}"),
        format!("{token}.{}", parts[4]),
        parts[..4].join("."),
    ];
    // A changed character at the beginning and in the middle of each part. The last character of a
    // part may have bits without meaning.
    for (at, part) in parts
        .iter()
        .enumerate()
        .filter(|(_, part)| !part.is_empty())
    {
        for position in [0, part.len() / 2] {
            let mut parts = parts.clone();
            let other = if part.as_bytes()[position] == b'A' {
                "B"
            } else {
                "A"
            };
            let altered = [&part[..position], other, &part[position + 1..]].concat();
            parts[at] = &altered;
            tokens.push(parts.join("."));
        }
    }
    let ids = [
        String::new(),
        "A".repeat(22),
        session.session_id[..21].to_owned(),
        format!("{}=", session.session_id),
        session.session_id.to_lowercase() + "x",
    ];
    let tokens = tokens.into_iter().map(|session_token| Session {
        session_token,
        ..session.clone()
    });
    let ids = ids.into_iter().map(|session_id| Session {
        session_id,
        ..session.clone()
    });
    tokens.chain(ids).collect()
}
