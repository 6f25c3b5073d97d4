//! Somebody who reads the logout tokens that a realm sends.

use reqwest::Url;

use crate::scripted_upstream::{Answer, ScriptedUpstream};

const PATH: &str = "/logout-tokens";

/// A server that accepts every logout token.
#[derive(Debug)]
pub struct LogoutInbox(ScriptedUpstream);

impl LogoutInbox {
    /// Starts the server.
    pub async fn open() -> Self {
        let server = ScriptedUpstream::start().await;
        server.on(PATH, Answer::empty(200));
        Self(server)
    }

    /// Where a realm is to send them.
    pub fn url(&self) -> String {
        format!("{}{PATH}", self.0.url())
    }

    /// All that came so far. Keycloak waits until one was taken, so those of an end are here once
    /// Keycloak has ended something.
    pub fn tokens(&self) -> Vec<String> {
        let requests = self.0.requests_to(PATH);
        requests
            .iter()
            .map(|request| token(&request.text()))
            .collect()
    }
}

fn token(form: &str) -> String {
    let url = Url::parse(&format!("http://form.test/?{form}")).expect("a form");
    let mut pairs = url.query_pairs();
    let found = pairs.find(|(name, _)| name == "logout_token");
    found.expect("a logout token").1.into_owned()
}
